package replica

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/kafka"
)

// Throttle limits the bytes of throttled replicas that this broker copies in one direction (KIP-73): those that it sends as a
// leader, or those that it fetches as a follower. What is copied is counted afterwards, and may go beyond the rate, which then
// is exceeded until the time has made up for it. A nil Throttle limits nothing. Safe for concurrent use.
type Throttle struct {
	rate atomic.Int64 // bytes a second; unlimitedRate costs no lock
	mu   struct {
		sync.Mutex
		left float64   // bytes that may be copied at that time; negative where too many were
		at   time.Time // zero before the first
	}
}

// unlimitedRate is the default of both rates.
const unlimitedRate = math.MaxInt64

// throttleBurst is for how long what is not copied can be made up for.
const throttleBurst = time.Second

// NewThrottle returns one of so many bytes a second.
func NewThrottle(rate int64) *Throttle {
	t := &Throttle{}
	t.rate.Store(rate)
	return t
}

// SetRate changes the rate to so many bytes a second. What was copied too much so far counts on.
func (t *Throttle) SetRate(now time.Time, rate int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refillLocked(now)
	t.rate.Store(rate)
	t.mu.left = min(t.mu.left, t.burst())
}

// Wait returns for how long the rate is exceeded; 0 where it is not.
func (t *Throttle) Wait(now time.Time) time.Duration {
	if t.unlimited() {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refillLocked(now)
	if t.mu.left > 0 {
		return 0
	}
	wait := time.Duration(min((1-t.mu.left)/float64(max(t.rate.Load(), 1))*float64(time.Second), float64(maxThrottleWait)))
	return max(wait, time.Millisecond)
}

// maxThrottleWait is when to ask again at the latest: the rate may have been changed.
const maxThrottleWait = time.Second

// Add counts bytes that were copied.
func (t *Throttle) Add(now time.Time, bytes int) {
	if t.unlimited() || bytes == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refillLocked(now)
	t.mu.left -= float64(bytes)
}

func (t *Throttle) unlimited() bool { return t == nil || t.rate.Load() == unlimitedRate }

func (t *Throttle) burst() float64 { return float64(t.rate.Load()) * throttleBurst.Seconds() }

func (t *Throttle) refillLocked(now time.Time) {
	switch {
	case t.mu.at.IsZero():
		t.mu.left, t.mu.at = t.burst(), now
	case now.After(t.mu.at):
		t.mu.left = min(t.mu.left+float64(t.rate.Load())*now.Sub(t.mu.at).Seconds(), t.burst())
		t.mu.at = now
	}
}

// Throttled are the partitions of a topic whose replicas on this broker are throttled. The zero value has none.
type Throttled struct {
	all        bool
	partitions []int32 // sorted
}

// ThrottledOn reads what leader.replication.throttled.replicas or the follower's says of a broker: its elements are
// partition:broker, or there is one that is *. What is neither is left out.
func ThrottledOn(self kafka.BrokerID, replicas []string) Throttled {
	var t Throttled
	for _, r := range replicas {
		if r == "*" {
			return Throttled{all: true}
		}
		partition, broker, _ := strings.Cut(r, ":")
		p, err := strconv.ParseInt(partition, 10, 32)
		if b, brokerErr := strconv.ParseInt(broker, 10, 32); err == nil && brokerErr == nil && kafka.BrokerID(b) == self {
			t.partitions = append(t.partitions, int32(p))
		}
	}
	slices.Sort(t.partitions)
	return t
}

// Has reports whether a partition is among them.
func (t Throttled) Has(partition int32) bool {
	if t.all || len(t.partitions) == 0 {
		return t.all
	}
	_, found := slices.BinarySearch(t.partitions, partition)
	return found
}

// Throttles reports whether a follower is to be given no records now: it is not in sync, the rate is exceeded, and the replica
// here is one of those that count. Who is in sync is never throttled, or it would fall out (KIP-73).
func (p *Partition) Throttles(follower kafka.BrokerID) bool {
	if p.sending.unlimited() || !p.config.Load().LeaderThrottled.Has(p.tp.Partition) || p.sending.Wait(p.clock.Now()) == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.tracker != nil && !slices.Contains(p.mu.tracker.ISR(), follower)
}

// CountSent counts the bytes of an answer to a follower.
func (p *Partition) CountSent(bytes int) {
	p.traffic.copiedOut.Add(int64(bytes))
	if !p.sending.unlimited() && p.config.Load().LeaderThrottled.Has(p.tp.Partition) {
		p.sending.Add(p.clock.Now(), bytes)
	}
}

// countFetched counts bytes that a follower has appended.
func (f *Fetcher) countFetched(now time.Time, st *followed, bytes int) {
	f.counts.bytes.Add(int64(bytes))
	st.p.traffic.copiedIn.Add(int64(bytes))
	if st.throttled() {
		f.o.Throttle.Add(now, bytes)
	}
}

// throttled reports whether what is fetched for the replica counts by the follower's rate.
func (st *followed) throttled() bool {
	return st.p.config.Load().FollowerThrottled.Has(st.id.Partition)
}

// throttle postpones the partition if the follower's rate is exceeded. Whoever is known to have all that the leader's consumers
// see is not throttled, nor who is in sync by the metadata: after an election nothing is known yet, and what others are to
// catch up with must not keep it from the leader. It must not be named by a request under way, whose answer would come in vain.
func (f *Fetcher) throttle(now time.Time, st *followed) {
	if f.o.Throttle.unlimited() || st.state != fetching || st.inSync || !st.throttled() {
		return
	}
	if wait := f.o.Throttle.Wait(now); wait > 0 && !st.p.inSync() {
		f.postpone(now, st, wait)
	}
}

// inSync reports whether the metadata has this replica in the ISR.
func (p *Partition) inSync() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.mu.registration.ISR, p.self)
}
