package replica

import (
	"slices"

	"weir/broker/replica/tracker"
	"weir/internal/kafka"
	"weir/internal/mutant"
	"weir/log"
)

// readAsFollower reads up to the log's end, and takes note of what the follower has. It has that only if its log does not
// differ from the leader's below its offset: nothing is noted before that is known (KAFKA-13141).
func (p *Partition) readAsFollower(r *ReadRequest) (ReadResult, error) {
	leader, err := p.requireLeader(r.CurrentLeaderEpoch)
	if err != nil {
		return ReadResult{}, err
	}
	if !slices.Contains(leader.followers, r.Replica) {
		return ReadResult{}, p.unknownReplica(r, leader)
	}
	end := p.log.EndOffset() // before the read: what is appended meanwhile does not put the follower out of sync
	diverging, err := p.divergence(r)
	if err != nil || diverging != nil {
		if mutant.Is("updateOnDivergence") && diverging != nil {
			_ = p.fetched(r, leader, end)
		}
		result := p.offsets(leader.epoch)
		result.Diverging = diverging
		return result, err
	}
	var result ReadResult
	if err := p.readToSend(end, r, &result); err != nil {
		return p.offsets(leader.epoch), err
	}
	if !r.Fetched.IsZero() {
		if err := p.fetched(r, leader, end); err != nil {
			result.Records.Release()
			return ReadResult{}, err
		}
	}
	// The fetch may have moved the high watermark: the follower is told now, not with its next fetch.
	records := result.Records
	result = p.offsets(leader.epoch)
	result.Records = records
	return result, nil
}

// readToSend adds the records up to the log's end, none where the follower is throttled.
func (p *Partition) readToSend(end int64, r *ReadRequest, result *ReadResult) error {
	if !p.Throttles(r.Replica) {
		return p.readUpTo(end, r, result)
	}
	nothing := *r
	nothing.MaxBytes, nothing.AtLeastOne = 0, false
	return p.readUpTo(end, &nothing, result)
}

// fetched takes note of a follower's progress, which may move the high watermark and may put it into the ISR.
func (p *Partition) fetched(r *ReadRequest, leader *leadership, leaderEnd int64) error {
	p.mu.Lock()
	if now := p.leadership.Load(); now == nil || now.epoch != leader.epoch {
		defer p.mu.Unlock()
		return p.notLeaderLocked()
	}
	t := p.mu.tracker
	if !t.Fetched(tracker.Fetch{Replica: r.Replica, BrokerEpoch: r.ReplicaEpoch, Offset: r.Offset, LogStart: r.LogStart, LeaderEnd: leaderEnd, Time: r.Fetched}) {
		p.mu.Unlock()
		return &Error{code: kafka.NotLeaderOrFollower, TP: p.tp, Leader: p.self, LeaderEpoch: leader.epoch,
			detail: "the fetch comes from an incarnation of the broker that is over, or from none that is registered"}
	}
	joins := t.TryExpand(r.Replica)
	due := p.advanceLocked(r.Fetched)
	p.mu.Unlock()
	due.release()
	if joins {
		p.propose(p)
	}
	return nil
}

// unknownReplica refuses a follower that the leader does not know, so that it asks again: with a leader epoch, which was
// found to be right, the pair of both is not known yet.
func (p *Partition) unknownReplica(r *ReadRequest, leader *leadership) error {
	code := kafka.NotLeaderOrFollower
	if r.CurrentLeaderEpoch != kafka.NoLeaderEpoch {
		code = kafka.UnknownLeaderEpoch
	}
	return &Error{code: code, TP: p.tp, Leader: p.self, LeaderEpoch: leader.epoch, detail: "the fetcher is not a replica of this partition"}
}

// divergence compares the fetcher's last epoch with the log's own (KIP-595). An offset below the log's start is out of
// range even where the logs differ (KAFKA-12996): the follower has to begin anew in any case.
func (p *Partition) divergence(r *ReadRequest) (*EpochEnd, error) {
	if r.LastFetchedEpoch == kafka.NoLeaderEpoch || mutant.Is("noDivergeCheck") {
		return nil, nil
	}
	if r.Offset < p.log.StartOffset() {
		return nil, log.ErrOffsetOutOfRange{TP: p.tp, Offset: r.Offset, Start: p.log.StartOffset(), End: p.log.EndOffset()}
	}
	epoch, end := p.log.EndOffsetForEpoch(r.LastFetchedEpoch)
	if epoch == kafka.NoLeaderEpoch {
		return nil, log.ErrOffsetOutOfRange{TP: p.tp, Offset: r.Offset, Start: p.log.StartOffset(), End: p.log.EndOffset()}
	}
	if epoch < r.LastFetchedEpoch || end < r.Offset {
		return &EpochEnd{Epoch: epoch, End: end}, nil
	}
	return nil, nil
}
