package replica

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// since returns what was asked after the first n requests, as "full" or not, the wait, and the partitions.
func (c *cluster) since(n int) []string {
	var s []string
	for _, r := range c.fetches[n:] {
		text := fmt.Sprintf("wait %d", r.MaxWaitMs)
		if r.Full {
			text = "full, " + text
		}
		for _, p := range r.Partitions {
			text += fmt.Sprintf(", %v at %d", p.TopicPartition, p.Offset)
		}
		for _, p := range r.Forgotten {
			text += fmt.Sprintf(", without %d", p.Partition)
		}
		s = append(s, text)
	}
	return s
}

func (c *cluster) requireAsked(since int, want ...string) {
	c.t.Helper()
	if got := c.since(since); !slices.Equal(got, want) {
		c.t.Fatalf("asked\n%q, want\n%q", got, want)
	}
}

// KIP-227: a request names what changed, and the first one does not wait, for the sake of what comes while it is under
// way.
func TestARequestNamesWhatChanged(t *testing.T) {
	c := newCluster(t, 2, 3)
	c.sessions = true
	c.elect(1)
	c.applyAll()
	c.settle()
	c.requireAsked(0, "full, wait 0, t-0 at 0, t-1 at 0, t-2 at 0", "wait 500")
	c.node(1).produceTo(1, 1)
	c.settle()
	c.requireAsked(2, "wait 500, t-1 at 1", "wait 500") // the second time it is told of the high watermark
	c.wait(1200 * time.Millisecond)
	c.requireAsked(4, "wait 500", "wait 500")
	// One partition goes to another leader, which has all of its log.
	p := &c.parts[2]
	p.Leader, p.ISR, p.LeaderEpoch, p.PartitionEpoch = 2, []kafka.BrokerID{2}, p.LeaderEpoch+1, p.PartitionEpoch+1
	c.applyAll()
	n := len(c.fetches)
	c.wait(400 * time.Millisecond)
	c.requireAsked(n, "full, wait 0, t-2 at 0", "wait 500", "wait 500, without 2")
	c.node(1).sessions = map[[2]int][]FetchPartition{} // evicted
	c.node(1).produceTo(1, 1)
	n = len(c.fetches)
	c.settle()
	c.requireAsked(n, "full, wait 500, t-0 at 0, t-1 at 1", "wait 500, t-1 at 2", "wait 500")
}

// The in-sync replicas of what is followed change often, and that is no reason to begin anew.
func TestAChangeOfTheISRChangesNothing(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.sessions = true
	c.elect(1)
	c.applyAll()
	c.settle()
	n := len(c.fetches)
	c.parts[0].ISR = c.parts[0].Replicas
	c.parts[0].PartitionEpoch++
	c.applyAll()
	c.wait(500 * time.Millisecond)
	c.requireAsked(n, "wait 500")
}

// What was given records goes behind the others, so that none is served for ever while others wait.
func TestPartitionsTakeTurns(t *testing.T) {
	c := newCluster(t, 2, 3)
	c.elect(1)
	c.applyAll()
	c.settle()
	for _, i := range []int{0, 2} {
		c.node(1).produceTo(i, 1)
		c.settle()
	}
	c.requireAsked(len(c.fetches)-1, "full, wait 500, t-1 at 0, t-0 at 1, t-2 at 1")
}

// A leader that cannot be reached is tried after 50, 100, 200 … ms, at most a second, and at once on news of it.
func TestALeaderThatCannotBeReached(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.sessions = true
	c.elect(1)
	c.applyAll()
	c.settle()
	c.cutOff(1)
	begin, n := c.now, 2
	var after []time.Duration
	for range 13 {
		for c.settle(); len(c.fetches) == n; c.settle() {
			if c.node(2).wake.IsZero() {
				t.Fatal("it does not want to be woken")
			}
			c.pass(c.node(2).wake)
		}
		n = len(c.fetches)
		after = append(after, c.now.Sub(begin))
	}
	want := []time.Duration{50, 150, 350, 750, 1550, 2550, 3550, 4550, 5550, 6550, 7550, 8550, 9550}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if !slices.Equal(after, want) {
		t.Errorf("tried after %v, want %v", after, want)
	}
	c.node(2).fetchers.Retry(2)
	c.settle()
	if len(c.fetches) != n {
		t.Error("tried on news of another broker")
	}
	c.node(2).fetchers.Retry(1)
	c.settle()
	if len(c.fetches) != n+1 {
		t.Error("not tried at once on news of the broker")
	}
	c.elect(1)
	c.applyAll()
	c.settle()
	if len(c.fetches) != n+2 {
		t.Error("not tried at once on news of a partition")
	}
	c.heal()
	c.wait(100 * time.Millisecond)
	c.requireAsked(n+1, "full, wait 0, t-0 at 0", "full, wait 500, t-0 at 0")
	c.node(1).produce(1)
	c.settle()
	c.requireEqual()
}

// A disk that fails under one partition stops that one, until its replica is another.
func TestAFollowersDiskFails(t *testing.T) {
	c := newCluster(t, 2, 2)
	c.sessions = true
	c.elect(1)
	c.applyAll()
	c.settle()
	c.node(2).faulty.Inject(vfs.Fault{Op: vfs.OpWrite, Path: "/t-0/", Err: syscall.EIO})
	c.node(1).produceTo(0, 1)
	c.node(1).produceTo(1, 1)
	c.settle()
	if s := c.node(2).fetchers.Stats(); s.Failed != 1 || s.Partitions != 2 {
		t.Errorf("%+v", s)
	}
	if end := c.node(2).partition(1).Log().EndOffset(); end != 1 {
		t.Errorf("the other partition ends at %d", end)
	}
	n := len(c.fetches)
	c.wait(5 * time.Second)
	for _, s := range c.since(n) {
		if s != "wait 500" {
			t.Errorf("asked %q", s)
		}
	}
}

// An answer that has a partition twice is taken once.
func TestAPartitionTwiceInAnAnswer(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.settle()
	c.node(1).produce(1)
	c.node(2).step()
	q := c.asked[0]
	r, err := c.node(1).fetch(q)
	if err != nil || len(r.Partitions) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	c.asked = nil
	q.answered(FetchResponse{Partitions: append(r.Partitions, r.Partitions[0])}, nil)
	c.node(2).step()
	c.node(2).requireLog("[[0-0 e0]]")
	if len(c.asked) != 1 {
		t.Error("the partition is not asked for again at once")
	}
}

// num.replica.fetchers may change: each fetcher has its share, and none fetches what another does.
func TestFetchersShareALeader(t *testing.T) {
	c := newCluster(t, 2, 4)
	c.sessions = true
	c.elect(1)
	c.applyAll()
	c.settle()
	for _, n := range []int{3, 2, 1} {
		c.node(2).fetchers.SetPerLeader(n)
		c.wait(time.Second)
		shares := make(map[int]int)
		for _, s := range c.node(1).sessions[[2]int{2, 0}] {
			shares[int(s.Partition)]++
		}
		for i := 1; i < n; i++ {
			for _, s := range c.node(1).sessions[[2]int{2, i}] {
				shares[int(s.Partition)]++
			}
		}
		if len(shares) != 4 || shares[0]+shares[1]+shares[2]+shares[3] != 4 {
			t.Errorf("%d fetchers: asked for %v", n, c.node(1).sessions)
		}
		for i := range 4 {
			c.node(1).produceTo(i, 1)
		}
		c.settle()
		c.requireEqual()
	}
	if s := c.node(2).fetchers.Stats(); len(s.Fetchers) != 3 || s.Fetchers[0].Requests == 0 || s.Fetchers[0].Bytes == 0 || s.Fetchers[1].Bytes == 0 {
		t.Errorf("%+v", s)
	}
}

// What is followed without end is not touched after Unfollow.
func TestUnfollowWaitsForTheFetcher(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	s := c.node(2).fetchers
	st := s.mu.followed[testTP(0)].followed
	began, release, truncated := make(chan struct{}), make(chan struct{}), false
	go func() {
		_ = st.owning(func() error {
			close(began)
			<-release
			truncated = true
			return nil
		})
	}()
	<-began
	go close(release)
	s.Unfollow(testTP(0))
	if !truncated {
		t.Error("it returned while the log was being truncated")
	}
	if err := st.owning(func() error { return nil }); err != errNotFollowing {
		t.Errorf("the log is touched afterwards: %v", err)
	}
}

// A follower in production: goroutines, a clock that goes, and a leader that answers from others.
func TestFetchersRun(t *testing.T) {
	c := newCluster(t, 2, 8)
	c.elect(1)
	leader, follower := c.node(1), c.node(2)
	e := &liveEndpoint{leader: leader, stop: make(chan struct{}), caughtUp: make(chan struct{}), want: make(map[int32]int64)}
	e.cond = sync.NewCond(&e.mu)
	o := follower.fetchers.options
	o.Endpoint, o.Clock, o.PerLeader = e, clock.System(), 2
	follower.fetchers = NewFetchers(o)
	follower.manager.Followers = follower.fetchers
	for i := range 8 {
		e.want[int32(i)] = 20
	}
	leader.apply()
	follower.fetchers.Start()
	follower.apply()
	for i := range 8 {
		e.produce(i, 20)
	}
	<-e.caughtUp
	c.requireEqual()
	follower.fetchers.Stats()
	follower.fetchers.SetPerLeader(3)
	follower.fetchers.Retry(1)
	follower.fetchers.Close()
	e.close()
	follower.fetchers.Close() // once more does nothing
	c.requireEqual()
}

// liveEndpoint answers from a leader, in goroutines of its own.
type liveEndpoint struct {
	leader   *node
	stop     chan struct{}
	caughtUp chan struct{} // closed when the follower has asked beyond all that is there
	wg       sync.WaitGroup

	mu   sync.Mutex
	cond *sync.Cond // something was produced, or it is over
	over bool
	want map[int32]int64 // ends that the follower has not asked for yet
}

func (e *liveEndpoint) produce(partition, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range n {
		e.leader.produceTo(partition, 1)
	}
	e.cond.Broadcast()
}

func (e *liveEndpoint) Fetch(_ kafka.BrokerID, r *FetchRequest, done func(FetchResponse, error)) {
	e.wg.Go(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, p := range r.Partitions {
			if end, ok := e.want[p.Partition]; ok && p.Offset == end {
				if delete(e.want, p.Partition); len(e.want) == 0 {
					close(e.caughtUp)
				}
			}
		}
		for {
			var response FetchResponse
			for i := range r.Partitions {
				if row := e.leader.read(&question{from: 2, fetch: r}, &r.Partitions[i]); len(row.Records) > 0 || row.Code != kafka.None {
					response.Partitions = append(response.Partitions, row)
				}
			}
			if len(response.Partitions) > 0 || r.MaxWaitMs == 0 || e.over {
				done(response, nil)
				return
			}
			e.cond.Wait()
		}
	})
}

func (e *liveEndpoint) Offsets(_ kafka.BrokerID, _ FetchPartition, done func(start, end int64, err error)) {
	go done(-1, -1, errCut)
}

func (e *liveEndpoint) close() {
	e.mu.Lock()
	e.over = true
	e.cond.Broadcast()
	e.mu.Unlock()
	e.wg.Wait()
}
