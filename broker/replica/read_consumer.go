package replica

import "weir/internal/kafka"

// requireReadable returns the leader epoch that a consumer may read in: this replica's, which must lead unless the request
// takes any replica.
func (p *Partition) requireReadable(r *ReadRequest) (kafka.LeaderEpoch, error) {
	if leader := p.leadership.Load(); leader == nil && r.AnyReplica {
		return p.requireReplica(r.CurrentLeaderEpoch)
	}
	leader, err := p.requireLeader(r.CurrentLeaderEpoch)
	if err != nil {
		return kafka.NoLeaderEpoch, err
	}
	return leader.epoch, nil
}

// requireReplica is requireLeader for who may read from any replica. A replica without a leader answers, too: what lies below
// its high watermark does not change.
func (p *Partition) requireReplica(current kafka.LeaderEpoch) (kafka.LeaderEpoch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leader, epoch := p.mu.registration.Leader, p.mu.registration.LeaderEpoch
	switch {
	case current != kafka.NoLeaderEpoch && current != epoch:
		return kafka.NoLeaderEpoch, p.otherEpoch(current, leader, epoch)
	case !p.mu.following.readable && p.leadership.Load() == nil: // it is gone
		return kafka.NoLeaderEpoch, p.notLeader(leader, epoch)
	}
	return epoch, nil
}

// preferredReplica picks the follower that a consumer shall read from instead of this leader (KIP-392): one of those that are
// near to it and in sync. NoBroker: there is none, or this broker does not lead.
func (p *Partition) preferredReplica(r *ReadRequest) kafka.BrokerID {
	if l := p.leadership.Load(); l == nil || len(l.followers) == 0 {
		return kafka.NoBroker
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.tracker == nil {
		return kafka.NoBroker
	}
	return p.mu.tracker.ReadReplica(r.Offset, r.Near)
}
