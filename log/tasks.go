package log

import (
	"context"
	"sync"
	"time"
)

// Defaults of the intervals; the ones with a name of Kafka's are Kafka's.
const (
	defaultFlushInterval         = time.Second
	defaultCheckpointInterval    = time.Minute
	defaultHighWatermarkInterval = 5 * time.Second
	defaultRetentionInterval     = 5 * time.Minute
	producerExpirationInterval   = 10 * time.Minute // producer.id.expiration.check.interval.ms
	// shortestFlushInterval bounds what a topic's flush.ms can ask of the whole store.
	shortestFlushInterval = 10 * time.Millisecond
)

// Event is what the tasks are told. The zero value says that time has passed.
type Event struct {
	Flush   *Log   // has much unsynced
	Deleted string // a directory that was renamed because its log was deleted
	Delay   time.Duration
}

// Tasks is the work in a store's background: flushes, checkpoints, retention, deletion of what was deleted. It is driven
// by Step from one goroutine: that of Store.Run, or a simulation's. It starts no goroutine that outlives a Step.
type Tasks struct {
	store *Store

	nextFlush, nextCheckpoint, nextHighWatermarks, nextRetention, nextExpiration time.Time

	deletions []deletion
}

type deletion struct {
	path string
	at   time.Time
}

// Tasks returns the store's tasks, for who drives them without Run.
func (s *Store) Tasks() *Tasks { return s.tasks }

func newTasks(s *Store, now time.Time) *Tasks {
	t := &Tasks{store: s}
	t.nextFlush = now.Add(s.opts.FlushInterval)
	t.nextCheckpoint = now.Add(s.opts.CheckpointInterval)
	t.nextHighWatermarks = now.Add(s.opts.HighWatermarkInterval)
	t.nextRetention = now.Add(s.opts.RetentionCheckInterval)
	t.nextExpiration = now.Add(producerExpirationInterval)
	return t
}

// Step takes note of an event, does what is due at now, and returns when it wants to be called next at the latest. What
// fails takes its log or directory offline and is logged there.
func (t *Tasks) Step(now time.Time, e Event) (next time.Time) {
	for _, e := range append(t.store.takeDeleted(), e) {
		if e.Deleted != "" {
			t.deletions = append(t.deletions, deletion{e.Deleted, now.Add(e.Delay)})
		}
	}
	if e.Flush != nil {
		t.store.flush([]*Log{e.Flush})
	}
	if !now.Before(t.nextFlush) {
		t.nextFlush = t.flush(now)
	}
	if !now.Before(t.nextHighWatermarks) {
		t.store.checkpointHighWatermarks()
		t.nextHighWatermarks = now.Add(t.store.opts.HighWatermarkInterval)
	}
	if !now.Before(t.nextRetention) {
		t.retain(now)
		t.nextRetention = now.Add(t.store.opts.RetentionCheckInterval)
	}
	if !now.Before(t.nextExpiration) {
		for _, l := range t.store.all() {
			l.expireProducers(now)
		}
		t.nextExpiration = now.Add(producerExpirationInterval)
	}
	force := !now.Before(t.nextCheckpoint)
	if force {
		t.nextCheckpoint = now.Add(t.store.opts.CheckpointInterval)
	}
	for _, d := range t.store.dirs {
		t.store.checkpoint(d, force)
	}
	t.remove(now)

	next = t.nextFlush
	for _, at := range []time.Time{t.nextCheckpoint, t.nextHighWatermarks, t.nextRetention, t.nextExpiration} {
		next = earlier(next, at)
	}
	for _, d := range t.deletions {
		next = earlier(next, d.at)
	}
	return next
}

// flush makes durable what has waited long enough, and returns when the next flush is due: a topic's flush.ms may ask for
// it earlier than the store's interval.
func (t *Tasks) flush(now time.Time) (next time.Time) {
	shortest := t.store.opts.FlushInterval
	if t.store.opts.FsyncPolicy == FsyncNever {
		return now.Add(shortest)
	}
	var due []*Log
	for _, l := range t.store.all() {
		wait := min(t.store.opts.FlushInterval, max(l.Config().flushInterval(), shortestFlushInterval))
		shortest = min(shortest, wait)
		// Half of it: a sync that ended a moment after its tick must not make the next tick pass the log over.
		if l.unsynced() && now.UnixMilli()-l.lastSyncMs.Load() >= wait.Milliseconds()/2 {
			due = append(due, l)
		}
	}
	t.store.flush(due)
	return now.Add(shortest)
}

// retain deletes old segments of all logs.
func (t *Tasks) retain(now time.Time) {
	for _, l := range t.store.Logs() {
		n, err := l.DeleteOldSegments(now)
		if f := t.store.Future(l.tp); f != nil {
			_, _ = f.deleteBelowStart(now) // it goes by the log that it is a copy of; whoever copies meets the error
		}
		switch {
		case err != nil && l.Offline() == nil && !l.closed.Load():
			t.store.logger.Warn("old segments cannot be deleted", "partition", l.tp, "err", err)
		case n > 0:
			t.store.logger.Info("old segments deleted", "partition", l.tp, "segments", n, "start", l.StartOffset())
		}
	}
}

// remove removes the directories of deleted logs whose delay is over. What cannot be removed is tried again at the next
// start.
func (t *Tasks) remove(now time.Time) {
	kept := t.deletions[:0]
	for _, d := range t.deletions {
		if now.Before(d.at) {
			kept = append(kept, d)
			continue
		}
		if err := t.store.fs.RemoveAll(d.path); err != nil {
			t.store.logger.Warn("deleted log cannot be removed", "dir", d.path, "err", err)
		}
	}
	t.deletions = kept
}

// Run does the background work until ctx ends: one goroutine for the tasks, and one for the commits of each data
// directory. It returns when all have ended; what is pending then is left to Close.
func (s *Store) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for i, d := range s.dirs {
		round := func() {
			s.stalls[1+i].begin(s.clock.Now())
			d.committer.round()
			s.stalls[1+i].end()
		}
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					round() // nobody who asked is left without an answer
					return
				case <-d.committer.wake:
					round()
				}
			}
		})
	}
	s.runTasks(ctx)
	wg.Wait()
	return nil
}

func (s *Store) runTasks(ctx context.Context) {
	step := func(e Event) (next time.Time) {
		now := s.clock.Now()
		s.stalls[0].begin(now)
		defer s.stalls[0].end()
		return s.tasks.Step(now, e)
	}
	next := step(Event{})
	for {
		timer := s.clock.NewTimer(next.Sub(s.clock.Now()))
		e := Event{}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		case e = <-s.events:
			timer.Stop()
		}
		next = step(e)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
