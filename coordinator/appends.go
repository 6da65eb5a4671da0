package coordinator

import (
	"fmt"
	"time"

	"weir/internal/invariant"
	"weir/internal/kafka"
	"weir/protocol/batch"
)

// appends is what a shard decided, on its way to being committed: first in the builder with those who wait for it, then
// in the log.
type appends struct {
	builder   *batch.Builder
	codec     batch.Codec
	unapplied []Record // of the last output in the builder; those before are applied
	ahead     bool     // records in the builder were applied
	open      waiters  // for what is in the builder

	// Appends are counted, through all lives of the actor.
	written, committed uint64
	waiting            []waiters // for a commitment, in its order and that of deadlines
}

// waiters are those who are told when what was appended is committed.
type waiters struct {
	replies  []Reply
	afters   []Input
	sequence uint64 // of the append that they wait for
	deadline time.Time
}

// commitment is what a Partition says of an append.
type commitment struct {
	sequence uint64
	err      error
}

const (
	// maxRecordOverhead bounds what a record takes beside key and value, without headers.
	maxRecordOverhead = 32
	// maxKeptBuilder is how much memory is kept for the next batch.
	maxKeptBuilder = 64 << 10
)

func (s *appends) begin(codec batch.Codec) {
	*s = appends{builder: batch.NewBuilder(codec, 0), codec: codec, written: s.written, committed: s.committed}
}

// add takes what a step put out. Replies that need no records are parked before records come that may fail: so whenever
// an append fails without being ahead, those who wait for it are the ones of its own output.
func (a *actor) add(out *Output) error {
	s := &a.appends
	if n := sizeOf(out.Records); n > 0 && (s.builder.Len() == 0 || s.builder.Size()+n > a.partition.MaxBatchBytes()) {
		if err := a.flush(); err != nil {
			return err
		}
	}
	for _, r := range out.Replies {
		if r.To == a.current {
			a.current = nil
		} else {
			_, ok := a.held[r.To]
			invariant.Assert(ok, "%v: a reply to a call that has one", a.tp)
			delete(a.held, r.To)
		}
		s.open.replies = append(s.open.replies, r)
	}
	if a.current != nil {
		a.holds++
		a.held[a.current] = a.holds
		a.current = nil
	}
	for _, r := range out.Records {
		s.builder.Append(r.Timestamp, r.Key, r.Value)
	}
	s.unapplied = out.Records
	if out.After != nil {
		s.open.afters = append(s.open.afters, out.After)
	}
	return nil
}

func sizeOf(records []Record) (n int) {
	for _, r := range records {
		n += len(r.Key) + len(r.Value) + maxRecordOverhead
	}
	return n
}

// settle makes hard state say what was decided, before the shard decides anew. As another input is there already, the
// records are applied and appended later, together with its own, unless it can be told that they would not be taken.
func (a *actor) settle() error {
	s := &a.appends
	if len(s.unapplied) == 0 {
		return nil
	}
	if s.builder.Size() > a.partition.MaxBatchBytes() || a.partition.Check(a.epoch) != nil {
		return a.flush()
	}
	a.apply()
	s.ahead = true
	return nil
}

// settleAll appends all that was decided, and gives the shard the outcomes that are known.
func (a *actor) settleAll() error {
	for {
		if err := a.flush(); err != nil {
			return err
		}
		if len(a.outcomes) == 0 {
			return nil
		}
		if err := a.giveOutcomes(); err != nil {
			return err
		}
	}
}

// flush appends what is in the builder, applies what is not applied, and parks who waits for it. An error ends the
// shard's life; an append that fails and leaves the shard as it was is none.
func (a *actor) flush() error {
	s := &a.appends
	if s.builder.Len() > 0 {
		isCommitted, err := a.append()
		if err != nil {
			return a.appendFailed(err)
		}
		if isCommitted {
			a.commit(s.written)
		}
	}
	a.apply()
	s.ahead = false
	a.park()
	return nil
}

func (a *actor) append() (isCommitted bool, err error) {
	s := &a.appends
	n, size := s.builder.Len(), s.builder.Size()
	b, err := s.builder.Build()
	if err != nil {
		return false, err
	}
	if limit := a.partition.MaxBatchBytes(); len(b) > limit {
		return false, kafka.Errorf(kafka.MessageTooLarge, "Message batch size is %d bytes in append to partition %v, which exceeds the maximum configured size of %d.", len(b), a.tp, limit)
	}
	isCommitted, err = a.partition.Append(a.epoch, b, a.onCommitted(s.written+1))
	if err != nil {
		return false, err
	}
	s.written++
	a.runtime.metrics.appends.Inc()
	a.runtime.metrics.records.Add(int64(n))
	s.builder.Reset()
	if size > maxKeptBuilder {
		s.builder = batch.NewBuilder(s.codec, 0)
	}
	return isCommitted, nil
}

// onCommitted is what the partition calls when an append is committed.
func (a *actor) onCommitted(sequence uint64) func(error) {
	return func(err error) { _ = a.mailbox.put(commitment{sequence, err}) } // refused where nobody waits
}

func (a *actor) appendFailed(err error) error {
	s := &a.appends
	s.builder.Reset()
	s.unapplied = nil
	failed := s.open
	s.open = waiters{}
	a.release(&failed, answerTo(err))
	switch {
	case deposes(err):
		return fmt.Errorf("%w: %w", errDeposed, err)
	case s.ahead:
		return fmt.Errorf("%w: append: %w", errStartOver, err)
	}
	a.runtime.Logger.Warn("a coordinator's records could not be appended", "partition", a.tp, "error", err)
	return nil
}

func (a *actor) apply() {
	for _, r := range a.appends.unapplied {
		if err := a.shard.Apply(r); err != nil {
			invariant.Assert(false, "%v: a shard does not understand its own record: %v", a.tp, err)
		}
	}
	a.appends.unapplied = nil
}

// park has the open waiters wait for the last append, if that is not committed.
func (a *actor) park() {
	s := &a.appends
	if len(s.open.replies)+len(s.open.afters) == 0 {
		return
	}
	w := s.open
	s.open = waiters{}
	if s.committed == s.written {
		a.release(&w, nil)
		return
	}
	w.sequence, w.deadline = s.written, a.runtime.Clock.Now().Add(a.runtime.CommitTimeout)
	s.waiting = append(s.waiting, w)
}

// commit releases those who wait for an append, or for one before it.
func (a *actor) commit(sequence uint64) {
	s := &a.appends
	s.committed = max(s.committed, sequence)
	for len(s.waiting) > 0 && s.waiting[0].sequence <= sequence {
		a.releaseFirst(nil)
	}
}

// expire answers those who have waited for longer than offsets.commit.timeout.ms. What they wait for is applied and stays in
// the log, as in Kafka; it may be committed yet.
func (a *actor) expire() {
	s := &a.appends
	for len(s.waiting) > 0 && !s.waiting[0].deadline.After(a.runtime.Clock.Now()) {
		a.releaseFirst(errNotAvailable)
	}
}

func (a *actor) releaseFirst(err error) {
	s := &a.appends
	w := s.waiting[0]
	s.waiting[0] = waiters{}
	if s.waiting = s.waiting[1:]; len(s.waiting) == 0 {
		s.waiting = nil
	}
	a.release(&w, err)
}

func (a *actor) release(w *waiters, err error) {
	w.answer(err)
	for _, in := range w.afters {
		a.outcomes = append(a.outcomes, Outcome{Of: in, Err: err})
	}
}

// abandon tells everybody who waits that the shard's life is over.
func (s *appends) abandon(err error) {
	s.open.answer(err)
	for i := range s.waiting {
		s.waiting[i].answer(err)
	}
	s.open, s.waiting = waiters{}, nil
}

func (w *waiters) answer(err error) {
	for _, r := range w.replies {
		failure := err
		if failure == nil {
			failure, _ = r.Body.(error)
		}
		if failure != nil {
			r.To.Done(nil, failure)
		} else {
			r.To.Done(r.Body, nil)
		}
	}
}
