package replica

import (
	"cmp"
	"encoding/binary"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
)

// FetcherOptions are what Fetchers work with. All fields are required, but those that say something else.
type FetcherOptions struct {
	Endpoint  LeaderEndpoint
	Clock     clock.Clock // used by Start only
	Logger    *slog.Logger
	PerLeader int           // num.replica.fetchers, until SetPerLeader
	WaitMax   time.Duration // replica.fetch.wait.max.ms
	Backoff   time.Duration // replica.fetch.backoff.ms
	MinBytes  int32         // replica.fetch.min.bytes
	MaxBytes  int32         // replica.fetch.max.bytes, of one partition

	ResponseMaxBytes int32     // replica.fetch.response.max.bytes
	Throttle         *Throttle // follower.replication.throttled.rate; nil: none
}

// Fetchers fetch for all partitions that this broker follows: num.replica.fetchers for each leader's broker. It is
// Manager's FollowerSet. In production Start gives each fetcher a goroutine, which Close ends and waits for. A simulation
// calls Step instead, after everything that it has happen to this broker and when the time comes that Step returned; then
// nothing runs in between, and the same events in the same order do the same.
//
// Lock order: Manager's caller, then Fetchers.mu; followed.guard is taken without it. Neither is held over a call of the
// endpoint.
type Fetchers struct {
	options FetcherOptions
	wg      sync.WaitGroup
	stop    chan struct{}

	mu struct {
		sync.Mutex
		perLeader int
		fetchers  []*runningFetcher // by leader and number
		followed  map[kafka.TopicPartition]followedAt
		started   bool
		closed    bool
	}
}

// followedAt is a partition's following, and where it takes place.
type followedAt struct {
	*followed
	fetcher *runningFetcher
}

var _ FollowerSet = (*Fetchers)(nil)

// NewFetchers returns a set that follows nothing.
func NewFetchers(o FetcherOptions) *Fetchers {
	s := &Fetchers{options: o, stop: make(chan struct{})}
	s.mu.perLeader = o.PerLeader
	s.mu.followed = make(map[kafka.TopicPartition]followedAt)
	return s
}

// Follow has p fetched from its leader in that epoch, beginning at its log's end. The same leader and epoch once more
// changes nothing, but what waited for the metadata to change is tried again.
func (s *Fetchers) Follow(p *Partition, leader kafka.BrokerID, epoch kafka.LeaderEpoch) {
	s.mu.Lock()
	at := s.mu.followed[p.tp]
	s.mu.Unlock()
	if at.followed != nil && at.p == p && at.epoch == epoch && at.fetcher.leader == leader {
		at.fetcher.tell(fetcherEvent{kind: eventResume, of: at.followed})
		return
	}
	s.Unfollow(p.tp)
	if leader == kafka.NoBroker {
		return
	}
	st := &followed{p: p, id: TopicIDPartition{p.id, p.tp.Partition}, epoch: epoch}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.closed {
		s.followLocked(st, leader)
	}
}

// Unfollow ends the fetching of a partition. When it returns, the partition's log is left alone.
func (s *Fetchers) Unfollow(tp kafka.TopicPartition) {
	s.mu.Lock()
	at := s.mu.followed[tp]
	delete(s.mu.followed, tp)
	s.mu.Unlock()
	if at.followed != nil {
		at.end()
		at.fetcher.tell(fetcherEvent{kind: eventUnfollow, of: at.followed})
	}
}

func (s *Fetchers) followLocked(st *followed, leader kafka.BrokerID) {
	f := s.fetcherLocked(leader, shard(st.id, s.mu.perLeader))
	s.mu.followed[st.p.tp] = followedAt{st, f}
	f.tell(fetcherEvent{kind: eventFollow, of: st})
}

// shard spreads partitions over fetchers: those of a topic over all of them.
func shard(id TopicIDPartition, n int) int {
	return int((binary.BigEndian.Uint32(id.TopicID[12:]) + uint32(id.Partition)) % uint32(n))
}

func (s *Fetchers) fetcherLocked(leader kafka.BrokerID, number int) *runningFetcher {
	i, found := slices.BinarySearchFunc(s.mu.fetchers, leader, func(f *runningFetcher, leader kafka.BrokerID) int {
		return cmp.Or(cmp.Compare(f.leader, leader), cmp.Compare(f.number, number))
	})
	if !found {
		f := &runningFetcher{Fetcher: newFetcher(&s.options, leader, number), wake: make(chan struct{}, 1)}
		s.mu.fetchers = slices.Insert(s.mu.fetchers, i, f)
		if s.mu.started {
			s.wg.Go(func() { f.run(s.stop) })
		}
	}
	return s.mu.fetchers[i]
}

// SetPerLeader changes num.replica.fetchers: partitions go to the fetchers that they belong to from now on.
func (s *Fetchers) SetPerLeader(n int) {
	s.mu.Lock()
	if n == s.mu.perLeader || s.mu.closed {
		s.mu.Unlock()
		return
	}
	s.mu.perLeader = n
	var moving []followedAt
	for _, at := range s.mu.followed {
		if shard(at.id, n) != at.fetcher.number {
			moving = append(moving, at)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(moving, func(a, b followedAt) int {
		return cmp.Or(cmp.Compare(a.p.tp.Topic, b.p.tp.Topic), cmp.Compare(a.p.tp.Partition, b.p.tp.Partition))
	})
	for _, at := range moving {
		s.move(at)
	}
}

// SetRate changes follower.replication.throttled.rate, in bytes a second.
func (s *Fetchers) SetRate(now time.Time, rate int64) { s.options.Throttle.SetRate(now, rate) }

// move has a partition fetched by another fetcher, unless it is not followed so any more.
func (s *Fetchers) move(at followedAt) {
	at.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.followed[at.p.tp].followed != at.followed {
		return
	}
	at.fetcher.tell(fetcherEvent{kind: eventUnfollow, of: at.followed})
	s.followLocked(&followed{p: at.p, id: at.id, epoch: at.epoch}, at.fetcher.leader)
}

// Retry has a leader that could not be reached tried again at once: its registration in the metadata is new.
func (s *Fetchers) Retry(leader kafka.BrokerID) {
	for _, f := range s.all() {
		if f.leader == leader {
			f.tell(fetcherEvent{kind: eventRetry})
		}
	}
}

func (s *Fetchers) all() []*runningFetcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.fetchers)
}

// Start gives the fetchers their goroutines, those that are there and those to come.
func (s *Fetchers) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.started = true
	for _, f := range s.mu.fetchers {
		s.wg.Go(func() { f.run(s.stop) })
	}
}

// Close ends the fetchers' goroutines and waits for them. Nothing is followed any more.
func (s *Fetchers) Close() {
	s.mu.Lock()
	if !s.mu.closed {
		s.mu.closed = true
		close(s.stop)
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// Step has every fetcher take what came for it, in a fixed order, and returns when it is to be called again if nothing
// happens before; zero if it need not be. It is for simulations, without Start. What the endpoint tells within a call of it
// is taken at once, so that an endpoint which always has an answer ready must not tell it there.
func (s *Fetchers) Step(now time.Time) (wake time.Time) {
	for _, f := range s.all() {
		at := f.work(now)
		for f.hasMail() {
			at = f.work(now)
		}
		if !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
	}
	return wake
}

// runningFetcher is a Fetcher with its mailbox.
type runningFetcher struct {
	*Fetcher
	wake chan struct{} // has a token when there is mail
	mail struct {
		sync.Mutex
		events []fetcherEvent
	}
}

// tell may be called from anywhere; it does not block.
func (f *runningFetcher) tell(e fetcherEvent) {
	f.mail.Lock()
	f.mail.events = append(f.mail.events, e)
	f.mail.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *runningFetcher) take() []fetcherEvent {
	f.mail.Lock()
	defer f.mail.Unlock()
	events := f.mail.events
	f.mail.events = nil
	return events
}

func (f *runningFetcher) hasMail() bool {
	f.mail.Lock()
	defer f.mail.Unlock()
	return len(f.mail.events) > 0
}

// work steps the fetcher with the mail that there is, and does what it wants done.
func (f *runningFetcher) work(now time.Time) (wake time.Time) {
	e := f.step(now, f.take())
	for _, st := range e.commit {
		st.p.store.Commit(st.p.log, func(err error) { f.tell(fetcherEvent{kind: eventCommitted, of: st, err: err}) })
	}
	for _, st := range e.offsets {
		f.o.Endpoint.Offsets(f.leader, st.sent, func(start, end int64, err error) {
			f.tell(fetcherEvent{kind: eventOffsets, of: st, start: start, end: end, err: err})
		})
	}
	for _, r := range e.fetches {
		express := r.Fetcher >= expressNumbers
		f.o.Endpoint.Fetch(f.leader, r, func(r FetchResponse, err error) {
			f.tell(fetcherEvent{kind: eventFetched, response: r, express: express, err: err})
		})
	}
	return e.wake
}

// run is the fetcher's goroutine.
func (f *runningFetcher) run(stop <-chan struct{}) {
	for {
		now := f.o.Clock.Now()
		wake := f.work(now)
		var due <-chan time.Time
		var timer clock.Timer
		if !wake.IsZero() {
			timer = f.o.Clock.NewTimer(wake.Sub(now))
			due = timer.C()
		}
		stopped := false
		select {
		case <-f.wake: // mail, perhaps of work itself
		case <-due:
		case <-stop:
			stopped = true
		}
		if timer != nil {
			timer.Stop()
		}
		if stopped {
			return
		}
	}
}

// FetcherStats is the state of the fetchers at one moment.
type FetcherStats struct {
	Fetchers   []FetcherCounts // by leader and number
	MaxLag     int64           // records that some partition is behind its leader's high watermark (MaxLag)
	Partitions int             // that are followed
	Failed     int             // of these, that wait for a change of the metadata (FailedPartitionsCount)
}

// FetcherCounts are one fetcher's counts since the broker started.
type FetcherCounts struct {
	Leader   kafka.BrokerID
	Number   int
	Requests int64 // Fetch requests (RequestsPerSec, MinFetchRate)
	Bytes    int64 // of batches appended (BytesPerSec)
}

// Stats tells how the fetchers are.
func (s *Fetchers) Stats() FetcherStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := FetcherStats{Partitions: len(s.mu.followed)}
	for _, f := range s.mu.fetchers {
		stats.Fetchers = append(stats.Fetchers, FetcherCounts{Leader: f.leader, Number: f.number, Requests: f.counts.requests.Value(), Bytes: f.counts.bytes.Value()})
	}
	for _, at := range s.mu.followed {
		stats.MaxLag = max(stats.MaxLag, at.lag.Load())
		if at.failed.Load() {
			stats.Failed++
		}
	}
	return stats
}
