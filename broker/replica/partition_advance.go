package replica

import (
	"time"

	"weir/internal/kafka"
	"weir/log"
)

// due is what became true under the lock and is told after unlocking.
type due struct {
	acks    []ack
	err     error // for acks; nil where they succeeded
	done    []ack // that succeeded in any case
	waiters []*Waiter
}

func (d due) release() {
	for _, a := range d.acks {
		a.to.Acked(a.index, d.err)
	}
	for _, a := range d.done {
		a.to.Acked(a.index, nil)
	}
	for _, w := range d.waiters {
		w.wake()
	}
}

// countedEnd is how far this replica's own records count: all that are written, or, where every acknowledgement promises
// more, those that are durable.
func (p *Partition) countedEnd() int64 {
	if p.policy == log.FsyncAck || p.policy != log.FsyncNever && p.config.Load().Log.FlushMessages == 1 {
		return p.log.DurableEndOffset()
	}
	return p.log.EndOffset()
}

// advanceLocked moves the high watermark to where the in-sync replicas are and collects who waited for it, or for the disk,
// or for the low watermark.
func (p *Partition) advanceLocked(now time.Time) due {
	var d due
	t := p.mu.tracker
	if t == nil {
		return d
	}
	if err := p.log.Offline(); err != nil {
		// What is on a directory that failed is acknowledged no more, though this broker leads until the controller has heard
		// of it: if the ISR were to shrink to this replica, only the failed disk would have it (KAFKA-10778).
		return due{acks: append(p.mu.byHW.FailAll(), p.mu.byDurable.FailAll()...), err: err}
	}
	before := p.log.HighWatermark()
	hw := p.log.SetHighWatermark(t.Advance(now, p.countedEnd()))
	if p.mu.byHW.Len() > 0 {
		d.acks = p.mu.byHW.CompleteUpTo(hw)
		// The high watermark does not move below the minimum. It is asked all the same: a producer must not be told that as
		// many replicas have its records as it was promised when they have not.
		if len(d.acks) > 0 && len(t.MaximalISR()) < t.MinISR() {
			d.err = &Error{code: kafka.NotEnoughReplicasAfterAppend, TP: p.tp, Leader: p.self, LeaderEpoch: t.LeaderEpoch(),
				detail: "Messages are written to the log, but to fewer in-sync replicas than required."}
		}
	}
	if p.mu.byDurable.Len() > 0 {
		d.done = p.mu.byDurable.CompleteUpTo(p.log.DurableEndOffset())
	}
	if p.mu.byLow.Len() > 0 {
		d.done = append(d.done, p.mu.byLow.CompleteUpTo(t.LowWatermark(p.log.StartOffset()))...)
	}
	if hw > before {
		d.waiters = got(p.mu.consumers, p.mu.hidden.shown(hw, p.log.EndOffset()))
	}
	return d
}

// recheck looks again at what depends on the brokers: one that was fenced is not waited for any more.
func (p *Partition) recheck(now time.Time) {
	if l := p.leadership.Load(); l == nil || len(l.followers) == 0 {
		return
	}
	p.mu.Lock()
	due := p.advanceLocked(now)
	p.mu.Unlock()
	due.release()
}

// commitRest makes durable what does not count before: after a crash the log may end above what is known to be on the
// disk, and no append would ask for it, so that consumers could not see what was acknowledged.
func (p *Partition) commitRest() {
	if p.leadership.Load() != nil && p.countedEnd() < p.log.EndOffset() {
		p.store.Commit(p.log, p.durable)
	}
}

// durable is called by the log's group commit.
func (p *Partition) durable(err error) {
	now := p.clock.Now()
	p.mu.Lock()
	var d due
	if err != nil {
		d = due{acks: append(p.mu.byHW.FailAll(), p.mu.byDurable.FailAll()...), err: err}
	} else {
		d = p.advanceLocked(now)
	}
	p.mu.Unlock()
	d.release()
}
