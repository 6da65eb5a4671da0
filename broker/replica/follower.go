package replica

import (
	"errors"

	"weir/broker/replica/tracker"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/mutant"
	"weir/log"
	"weir/protocol/batch"
)

// following is what a partition knows while another broker leads it, or none; the zero value while this one does, and once
// the replica is gone. Guarded by the partition's lock.
type following struct {
	is       bool // there is a leader
	readable bool // by consumers, up to the high watermark (KIP-392); without a leader, too
	leader   kafka.BrokerID
	epoch    kafka.LeaderEpoch
}

// errNotFollowing refuses what was fetched for a role that the partition no longer has.
var errNotFollowing = kafka.Errorf(kafka.FencedLeaderEpoch, "the partition does not follow in that leader epoch any more")

// followLocked has the partition follow whoever leads it. Partition.apply calls it, with the partition's lock, for every
// registration that does not name this broker as the leader, after what this broker may have led is resigned; the leader
// may be kafka.NoBroker.
func (p *Partition) followLocked(r metadata.PartitionRegistration) {
	p.mu.following = following{is: r.Leader != kafka.NoBroker, readable: true, leader: r.Leader, epoch: r.LeaderEpoch}
	p.mu.hidden = uncounted(p.log.HighWatermark(), p.log.EndOffset())
}

// What follows is called by the fetcher that owns the partition, and by nothing else while it does (see followed.guard):
// so the log's end does not move between the calls, and a truncation, which syncs, needs no lock of the partition.

// requireFollowing is the first thing that whatever was fetched meets.
func (p *Partition) requireFollowing(epoch kafka.LeaderEpoch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.mu.following; !f.is || f.epoch != epoch {
		return errNotFollowing
	}
	return nil
}

// fetchPartition is what the follower asks for next: what comes after its log's end, if the leader's log has the same epoch
// there. The log's high watermark plays no part (KIP-101), nor how many epochs passed unseen (KAFKA-7164).
func (p *Partition) fetchPartition(epoch kafka.LeaderEpoch, maxBytes int32) FetchPartition {
	return FetchPartition{TopicPartition: p.tp, TopicID: p.id, LeaderEpoch: epoch, Offset: p.log.EndOffset(), LastFetchedEpoch: p.log.LatestEpoch(),
		LogStartOffset: p.log.StartOffset(), MaxBytes: maxBytes}
}

// counts reports whether all that the log has counts under the fsync policy. Only then it is fetched for: the offset that
// a follower asks for tells the leader what it has.
func (p *Partition) counts() bool { return p.countedEnd() >= p.log.EndOffset() }

// appendFetched appends what the leader sent as it is, and then takes over its high watermark, as far as this log goes,
// and its log start. It returns how many bytes were appended.
//
// Errors: errNotFollowing; CORRUPT_MESSAGE, with nothing appended, for records that are damaged or do not go on where the
// log ends; those of the disk.
func (p *Partition) appendFetched(epoch kafka.LeaderEpoch, d *FetchedPartition) (int, error) {
	if err := p.requireFollowing(epoch); err != nil {
		return 0, err
	}
	records := upToEpoch(d.Records, epoch)
	before := p.log.EndOffset()
	if len(records) > 0 {
		if err := p.appendRecords(records, d.LogStartOffset); err != nil {
			return 0, err
		}
	}
	visible := p.log.HighWatermark()
	hw := p.log.SetHighWatermark(d.HighWatermark)
	p.followedTo(len(records), hw > visible)
	if start := min(d.LogStartOffset, hw); start > p.log.StartOffset() {
		if err := p.log.AdvanceStartOffset(start); err != nil {
			return 0, err
		}
	}
	if p.log.EndOffset() == before {
		return 0, nil // a torn batch at most
	}
	return len(records), nil
}

// followedTo wakes the consumers that wait here for what lies below the high watermark, after n more bytes were appended and, if
// it moved, it did (KIP-392).
func (p *Partition) followedTo(n int, moved bool) {
	if n == 0 && !moved {
		return
	}
	var awake []*Waiter
	p.mu.Lock()
	p.mu.hidden.add(n)
	if moved {
		awake = got(p.mu.consumers, p.mu.hidden.shown(p.log.HighWatermark(), p.log.EndOffset()))
	}
	p.mu.Unlock()
	due{waiters: awake}.release()
}

// appendRecords appends, and where this log has nothing that the leader's still has it lets the log begin lower if it must: after
// DeleteRecords the leader's log begins in the middle of a batch, which it sends as a whole (KAFKA-6975). What lies below the
// leader's beginning may be the rest of another epoch, since of what was deleted nobody can say any more whose it was.
func (p *Partition) appendRecords(records []byte, leaderStart int64) error {
	_, err := p.log.AppendAsFollower(records)
	var unexpected log.ErrUnexpectedOffset
	if !errors.As(err, &unexpected) {
		return err
	}
	end := p.log.EndOffset()
	first, parseErr := batch.ParseHeader(records)
	if parseErr != nil || first.BaseOffset >= end || first.LastOffset() < end || p.log.StartOffset() != end && leaderStart < end {
		return err
	}
	if err := p.log.TruncateFullyAndStartAt(unexpected.Offset); err != nil {
		return err
	}
	_, err = p.log.AppendAsFollower(records)
	return err
}

// upToEpoch cuts off what was written in a later epoch than the fetch's. A leader that is deposed, truncates and appends
// while its answer is still being sent from the file sends such batches (KAFKA-18723); the next leader has to tell first
// whether the logs agree up to there.
func upToEpoch(records []byte, epoch kafka.LeaderEpoch) []byte {
	n := 0
	for b, err := range batch.Batches(records) {
		if err != nil {
			return records // torn or corrupt: for the log to tell
		}
		if h, _ := batch.ParseHeader(b); kafka.LeaderEpoch(h.LeaderEpoch) > epoch {
			return records[:n]
		}
		n += len(b)
	}
	return records
}

// truncation is what became of a follower's log.
type truncation struct {
	from, to      int64 // log ends
	highWatermark int64 // before
	changed       bool  // the next fetch asks for something else
}

// truncateDiverged cuts the log where it left the leader's. What the leader said of its high watermark does not
// count: it is about another log (KAFKA-14704).
func (p *Partition) truncateDiverged(epoch kafka.LeaderEpoch, d *FetchedPartition) (truncation, error) {
	if err := p.requireFollowing(epoch); err != nil {
		return truncation{}, err
	}
	if hw := p.log.HighWatermark(); mutant.Is("hwBeforeTruncation") && p.log.SetHighWatermark(d.HighWatermark) > hw {
		return truncation{}, nil // the same answer comes again, soon
	}
	own, ownEnd := p.log.EndOffsetForEpoch(d.Diverging.Epoch)
	offset, _ := tracker.TruncationPoint(tracker.EpochEnd(*d.Diverging), tracker.EpochEnd{Epoch: own, End: ownEnd}, p.log.EndOffset())
	return p.truncating(func() error { return p.log.TruncateTo(offset) })
}

// outOfRange does what it takes when the leader has nothing at the follower's offset: a log that ends beyond the
// leader's is cut there, and one that ends before the leader's begins is given up, with its high watermark (KAFKA-9491).
// Else the leader has moved on meanwhile, and nothing changes.
func (p *Partition) outOfRange(epoch kafka.LeaderEpoch, leaderStart, leaderEnd int64) (truncation, error) {
	if err := p.requireFollowing(epoch); err != nil {
		return truncation{}, err
	}
	return p.truncating(func() error {
		switch end := p.log.EndOffset(); {
		case leaderEnd < end:
			return p.log.TruncateTo(leaderEnd)
		case leaderStart > end:
			return p.log.TruncateFullyAndStartAt(leaderStart)
		}
		return nil
	})
}

func (p *Partition) truncating(truncate func() error) (truncation, error) {
	t := truncation{from: p.log.EndOffset(), highWatermark: p.log.HighWatermark()}
	epoch := p.log.LatestEpoch()
	err := truncate()
	t.to = p.log.EndOffset()
	t.changed = t.to != t.from || p.log.LatestEpoch() != epoch
	return t, err
}

// beginFollowing is called before the first fetch in a leader epoch.
func (p *Partition) beginFollowing() error {
	if mutant.Is("truncateToHW") {
		return p.log.TruncateTo(p.log.HighWatermark())
	}
	return nil
}
