package replica

import (
	"runtime"
	"time"

	"weir/internal/kafka"
	"weir/log"
	"weir/protocol/batch"
)

// Acks values of Produce.
const (
	AcksNone   int16 = 0
	AcksLeader int16 = 1
	AcksAll    int16 = -1
)

// Acker is told when a parked append is acknowledged, or that it will not be. It is called once for each index, never
// under a lock, and must not block.
type Acker interface{ Acked(index int, err error) }

type ack struct {
	to    Acker
	index int
}

// AppendRequest is one partition's part of a Produce. It may be used for another one after Append.
type AppendRequest struct {
	Records []byte // one record batch; re-stamped in place
	Version int16  // of the Produce request: old ones may not carry zstd
	Acks    int16
	Now     time.Time
	// Acker and Index are told of the acknowledgement where the result says Parked.
	Acker Acker
	Index int

	rules batch.Rules // of the partition and the version; here, where it costs no memory of its own
}

// AppendResult is where the records are.
type AppendResult struct {
	log.AppendResult
	// Parked says that the acknowledgement is still to come, by the request's Acker.
	Parked bool
}

// Append validates and appends a batch as leader. Validation and checksum run without a lock; the lock is held from the
// leadership check to the write, so that a deposed leader cannot append.
func (p *Partition) Append(r *AppendRequest) (AppendResult, error) {
	r.rules = p.config.Load().Rules
	r.rules.ProduceVersion, r.rules.TopicPartition = r.Version, p.tp
	v, err := r.validate()
	if err != nil {
		p.traffic.appended(len(r.Records), 0, err)
		return AppendResult{}, err
	}
	return p.appendValidated(r, v, kafka.NoLeaderEpoch)
}

// AppendOwn appends a batch that this broker built itself, with AcksAll, if it leads in that epoch. What clients are
// bound by (the topic's rules, its sizes, that some topics are internal) does not count.
func (p *Partition) AppendOwn(epoch kafka.LeaderEpoch, b []byte, to Acker, index int) (AppendResult, error) {
	return p.appendValidated(&AppendRequest{Records: b, Acks: AcksAll, Now: p.clock.Now(), Acker: to, Index: index}, batch.Trusted(b), epoch)
}

func (p *Partition) appendValidated(r *AppendRequest, v batch.Validated, epoch kafka.LeaderEpoch) (AppendResult, error) {
	result, commit, due, err := p.append(r, v, epoch)
	p.traffic.appended(len(r.Records), result.LastOffset-result.BaseOffset+1, err)
	if err != nil {
		return AppendResult{}, err
	}
	due.release()
	if commit {
		p.store.Commit(p.log, p.durable)
	}
	return result, nil
}

// CheckAppend says why AppendOwn would be refused now, so far as that has to do with this broker's role.
func (p *Partition) CheckAppend(epoch kafka.LeaderEpoch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.mayAppendLocked(AcksAll, epoch)
	return err
}

// Await waits as AcksAll does for what lies below endOffset already: parked says that the acknowledgement is still to
// come, by to.
func (p *Partition) Await(epoch kafka.LeaderEpoch, endOffset int64, to Acker, index int) (parked bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if leader := p.serving(); leader == nil || leader.epoch != epoch {
		return false, p.notLeaderLocked()
	}
	if p.log.HighWatermark() >= endOffset {
		return false, nil
	}
	p.mu.byHW.Park(endOffset, ack{to, index})
	return true, nil
}

// decompressing has a slot for each processor. Decompressing is work for a processor, so that more at a time would be no
// faster; but each may take 128 MiB for a batch of a few kilobytes, and many clients at a time would take all memory.
var decompressing = make(chan struct{}, runtime.GOMAXPROCS(0))

func (r *AppendRequest) validate() (batch.Validated, error) {
	if attributes, ok, err := batch.FirstAttributes(r.Records); err == nil && ok && attributes.Codec() != batch.None {
		decompressing <- struct{}{}
		defer func() { <-decompressing }()
	}
	return batch.Validate(r.Records, &r.rules, r.Now.UnixMilli())
}

// append does what needs the lock. commit says that the caller must have the log made durable.
func (p *Partition) append(r *AppendRequest, v batch.Validated, epoch kafka.LeaderEpoch) (result AppendResult, commit bool, due due, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leader, err := p.mayAppendLocked(r.Acks, epoch)
	if err != nil {
		return result, false, due, err
	}
	result.AppendResult, err = p.log.AppendAsLeader(leader.epoch, v)
	if err != nil {
		return result, false, due, err
	}
	var followers []*Waiter
	if !result.Duplicate {
		p.mu.hidden.add(len(v.Bytes))
		followers = got(p.mu.followers, len(v.Bytes))
	}
	commit = p.store.NeedsCommit(p.log)
	due = p.advanceLocked(r.Now)
	due.waiters = append(due.waiters, followers...)
	end := result.LastOffset + 1
	switch {
	case r.Acks == AcksAll && p.log.HighWatermark() < end:
		p.mu.byHW.Park(end, ack{r.Acker, r.Index})
		result.Parked = true
	case r.Acks != AcksNone && commit && p.log.DurableEndOffset() < end:
		p.mu.byDurable.Park(end, ack{r.Acker, r.Index})
		result.Parked = true
	}
	return result, commit, due, nil
}

// mayAppendLocked checks role, epoch, unless that is NoLeaderEpoch, and the number of in-sync replicas.
func (p *Partition) mayAppendLocked(acks int16, epoch kafka.LeaderEpoch) (*leadership, error) {
	leader := p.serving()
	if leader == nil || epoch != kafka.NoLeaderEpoch && epoch != leader.epoch {
		return nil, p.notLeaderLocked()
	}
	if acks == AcksAll && p.mu.tracker.UnderMinISR() {
		return nil, &Error{code: kafka.NotEnoughReplicas, TP: p.tp, Leader: p.self, LeaderEpoch: leader.epoch,
			detail: "The size of the current ISR is insufficient to satisfy the min.isr requirement"}
	}
	return leader, nil
}

// Forget drops what a request has parked that no longer waits: it timed out, or its client is gone.
func (p *Partition) Forget(to Acker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	drop := func(a ack) bool { return a.to == to }
	p.mu.byHW.Remove(drop)
	p.mu.byDurable.Remove(drop)
	p.mu.byLow.Remove(drop)
}
