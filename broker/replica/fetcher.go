package replica

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/kafka"
	"weir/internal/metrics"
)

// Fetcher fetches for the partitions that this broker follows at one leader's broker (or for a share of them, where there
// are several fetchers for it). It is a state machine: step takes what happened and returns what is to be done; it appends
// and truncates in place. One goroutine calls it, and nothing in it depends on the order of a map.
//
// One request is under way for all partitions: a long poll while there is nothing to fetch, so that idle partitions cost
// nothing, on either side, where the leader keeps a session. A partition that becomes ready meanwhile, as in an election,
// does not wait until the poll is over: it is fetched by express requests, which wait shortly, until it joins the others.
type Fetcher struct {
	o      *FetcherOptions
	leader kafka.BrokerID
	number int // among the fetchers at this leader
	counts fetcherCounts

	partitions map[TopicIDPartition]*followed
	order      list.List   // of *followed: those that were given records go to the end, as in Kafka
	changed    []*followed // what the next request may have to say something about
	delayed    []*followed
	release    time.Time          // when the first of delayed is to be tried again
	forgotten  []TopicIDPartition // what the leader's session has and this fetcher does not follow any more

	session  bool // the leader remembers what was asked
	asked    int  // partitions that it remembers
	inFlight bool
	full     bool // the request under way, or the last one

	express         []*followed // ready, and not named by the request under way
	expressInFlight bool
	expressFailed   bool // these wait for the request under way after all

	// A request is held back while records are being made durable, and while the leader is asked for its offsets: else
	// these partitions would wait until the others' long poll is over. But not for longer than such a poll lasts.
	pending   int
	holdUntil time.Time

	failures int // of requests, in a row
	retryAt  time.Time

	effects effects // of the step under way
}

// fetcherCounts may be read while the fetcher works.
type fetcherCounts struct{ requests, bytes metrics.Counter }

// followState says what a followed partition waits for.
type followState int8

const (
	fetching   followState = iota // for records
	committing                    // until what it has is durable: before, it does not count
	asking                        // for the offsets of the leader's log
	delaying                      // until it is time to try again
	stopped                       // for the metadata: only a change of the leader or of the replica helps
)

// followed is a partition's following of one leader in one leader epoch. It belongs to the fetcher's goroutine, but for
// what is said otherwise.
type followed struct {
	p     *Partition
	id    TopicIDPartition
	epoch kafka.LeaderEpoch

	// guard is held over what the fetcher does to the partition's log, syncs of truncations included, and by whoever ends
	// the following: after that the log is left alone (KAFKA-13207).
	guard sync.Mutex
	ended bool // guarded by guard

	state    followState
	sent     FetchPartition // what the leader was last asked, while asked
	asked    bool
	noted    bool // it is in changed
	express  bool // it is in express
	named    bool // by the express request under way
	fresh    bool // it was not named in a request yet
	inSync   bool // it had all that the leader's consumers see when it was last told
	gone     bool // the fetcher has let go of it
	attempts int  // in vain, in a row
	until    time.Time
	position *list.Element

	lag    atomic.Int64 // records that the leader's consumers see and this log does not have
	failed atomic.Bool
}

// end has the fetcher leave the partition's log alone from now on.
func (st *followed) end() {
	st.guard.Lock()
	st.ended = true
	st.guard.Unlock()
}

// owning runs f on the partition unless the following has ended, and lets it end only afterwards.
func (st *followed) owning(f func() error) error {
	st.guard.Lock()
	defer st.guard.Unlock()
	if st.ended {
		return errNotFollowing
	}
	return f()
}

// fetcherEvent is what a Fetcher is told.
type fetcherEvent struct {
	kind       fetcherEventKind
	of         *followed     // of follow, unfollow, resume, offsets, committed
	response   FetchResponse // of fetched
	express    bool          // of fetched
	start, end int64         // of offsets
	err        error         // of fetched, offsets, committed
}

type fetcherEventKind int8

const (
	eventFollow    fetcherEventKind = iota
	eventUnfollow                   // the following has ended
	eventResume                     // the metadata named the leader again
	eventRetry                      // the leader may be reached again
	eventFetched                    // the answer to one of effects.fetches
	eventOffsets                    // the answer to one of effects.offsets
	eventCommitted                  // the end of one of effects.commit
)

// effects are what a step of a Fetcher wants done. What it asks for comes back as an event, once.
type effects struct {
	fetches []*FetchRequest // to be sent
	offsets []*followed     // of which the leader is to be asked for its offsets, by sent
	commit  []*followed     // of which the log is to be made durable
	// wake is when the Fetcher wants to be stepped again if nothing happens before; zero if it does not.
	wake time.Time
}

func newFetcher(o *FetcherOptions, leader kafka.BrokerID, number int) *Fetcher {
	return &Fetcher{o: o, leader: leader, number: number, partitions: make(map[TopicIDPartition]*followed)}
}

// step takes events in their order and returns what is to be done. now never goes back.
func (f *Fetcher) step(now time.Time, events []fetcherEvent) effects {
	f.effects = effects{}
	for i := range events {
		f.take(now, &events[i])
	}
	f.releaseDelayed(now)
	if r := f.request(now); r != nil {
		f.effects.fetches = append(f.effects.fetches, r)
	}
	if r := f.expressRequest(now); r != nil {
		f.effects.fetches = append(f.effects.fetches, r)
	}
	f.effects.wake = f.wakeAt(now)
	return f.effects
}

func (f *Fetcher) take(now time.Time, e *fetcherEvent) {
	switch e.kind {
	case eventFollow:
		f.follow(now, e.of)
	case eventUnfollow:
		f.unfollow(e.of)
	case eventResume:
		if !e.of.gone && (e.of.state == stopped || e.of.state == delaying) {
			e.of.failed.Store(false)
			f.settle(now, e.of)
		}
	case eventRetry:
		f.failures, f.retryAt = 0, time.Time{}
	case eventFetched:
		if e.express {
			f.expressFetched(now, e.response, e.err)
		} else {
			f.fetched(now, e.response, e.err)
		}
	case eventOffsets:
		f.offsets(now, e)
	case eventCommitted:
		f.committed(now, e)
	}
}

// follow begins to fetch, at the log's end.
func (f *Fetcher) follow(now time.Time, st *followed) {
	f.failures, f.retryAt = 0, time.Time{} // the metadata says that the leader is there
	f.partitions[st.id] = st
	st.position = f.order.PushBack(st)
	st.fresh = true
	if err := st.owning(st.p.beginFollowing); err != nil {
		f.stop(st, err)
		return
	}
	f.settle(now, st)
}

func (f *Fetcher) unfollow(st *followed) {
	if st.gone {
		return
	}
	st.gone = true
	f.leave(st)
	f.forget(st)
	f.order.Remove(st.position)
	delete(f.partitions, st.id)
}

// settle has the partition fetched, as soon as all that its log has counts.
func (f *Fetcher) settle(now time.Time, st *followed) {
	if st.p.counts() {
		f.enter(st, fetching)
		return
	}
	f.hold(now, st, committing)
	f.effects.commit = append(f.effects.commit, st)
}

// hold puts the partition into a state that requests are held back for.
func (f *Fetcher) hold(now time.Time, st *followed, state followState) {
	f.enter(st, state)
	if f.pending++; f.pending == 1 {
		f.holdUntil = now.Add(f.o.WaitMax)
	}
}

// delay has the partition tried again later. quick is for what ends as soon as the leader has the same metadata as this
// broker: it begins with a short time, so that an election is not felt for a second, and comes to replica.fetch.backoff.ms.
func (f *Fetcher) delay(now time.Time, st *followed, quick bool) {
	d := f.o.Backoff
	if quick {
		d = min(d, minQuickBackoff<<min(st.attempts, 10))
	}
	st.attempts++
	f.postpone(now, st, d)
}

// postpone has the partition fetched again after some time.
func (f *Fetcher) postpone(now time.Time, st *followed, d time.Duration) {
	st.until = now.Add(d)
	f.enter(st, delaying)
	f.delayed = append(f.delayed, st)
	if f.release.IsZero() || st.until.Before(f.release) {
		f.release = st.until
	}
}

// minQuickBackoff is how long another broker takes at most, as a rule, to apply metadata after this one.
const minQuickBackoff = 20 * time.Millisecond

// stop leaves the partition until the metadata changes: fenced by the leader, it waits for the epoch that the leader has
// already; with a log that failed, it is for the manager to act.
func (f *Fetcher) stop(st *followed, err error) {
	f.enter(st, stopped)
	if errors.Is(err, errNotFollowing) {
		return // the metadata has changed, and the news is on its way
	}
	st.failed.Store(true)
	level := slog.LevelError
	if kafka.CodeOf(err) == kafka.FencedLeaderEpoch {
		level = slog.LevelInfo // as when the leader was the first to know of its election
	}
	f.o.Logger.Log(context.Background(), level, "a partition is not fetched until its metadata changes", f.attrs(st, "error", err)...)
}

// enter changes the state and has the next request say what follows from that.
func (f *Fetcher) enter(st *followed, state followState) {
	f.leave(st)
	st.state = state
	f.note(st)
	if state == fetching && f.inFlight && !st.asked && !st.express {
		st.express = true
		f.express = append(f.express, st)
	}
}

func (f *Fetcher) leave(st *followed) {
	if st.state == committing || st.state == asking {
		f.pending--
		st.state = stopped
	}
}

func (f *Fetcher) note(st *followed) {
	if !st.noted {
		st.noted = true
		f.changed = append(f.changed, st)
	}
}

func (f *Fetcher) forget(st *followed) {
	if st.asked {
		st.asked = false
		f.asked--
		f.forgotten = append(f.forgotten, st.id)
	}
}

func (f *Fetcher) releaseDelayed(now time.Time) {
	if f.release.IsZero() || now.Before(f.release) {
		return
	}
	kept := f.delayed[:0]
	f.release = time.Time{}
	for _, st := range f.delayed {
		switch {
		case st.gone || st.state != delaying:
		case now.Before(st.until):
			kept = append(kept, st)
			if f.release.IsZero() || st.until.Before(f.release) {
				f.release = st.until
			}
		default:
			f.settle(now, st)
		}
	}
	clear(f.delayed[len(kept):])
	f.delayed = kept
}

func (f *Fetcher) attrs(st *followed, more ...any) []any {
	return append([]any{slog.Any("partition", st.p.tp), slog.Any("leader", f.leader), slog.Any("leader_epoch", st.epoch)}, more...)
}
