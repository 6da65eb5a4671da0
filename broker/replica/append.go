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
	result, commit, due, err := p.append(r, v)
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
func (p *Partition) append(r *AppendRequest, v batch.Validated) (result AppendResult, commit bool, due due, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leader := p.leadership.Load()
	if leader == nil {
		return result, false, due, p.notLeaderLocked()
	}
	if r.Acks == AcksAll && p.mu.tracker.UnderMinISR() {
		return result, false, due, &Error{code: kafka.NotEnoughReplicas, TP: p.tp, Leader: p.self, LeaderEpoch: leader.epoch,
			detail: "The size of the current ISR is insufficient to satisfy the min.isr requirement"}
	}
	result.AppendResult, err = p.log.AppendAsLeader(leader.epoch, v)
	if err != nil {
		return result, false, due, err
	}
	if !result.Duplicate {
		p.mu.hiddenBytes += len(v.Bytes)
	}
	commit = p.store.NeedsCommit(p.log)
	due = p.advanceLocked()
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

// Forget drops the parked acknowledgements of a request that no longer waits: it timed out, or its client is gone.
func (p *Partition) Forget(to Acker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	drop := func(a ack) bool { return a.to == to }
	p.mu.byHW.Remove(drop)
	p.mu.byDurable.Remove(drop)
}
