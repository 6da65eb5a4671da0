package replica

import (
	"math"
	"sync/atomic"
)

// Waiter is a fetch that waits until enough bytes can be read, or until something changes that it must know of. One
// waiter stands at every partition of its request. Its owner's round is: Look, Register, look what there is, Arm, wait.
// What comes between the look and the wait is counted, and what comes while it looks is counted twice at worst: then it
// wakes early and looks once more, but it never sleeps over bytes that it waits for.
type Waiter struct {
	follower bool
	arrived  atomic.Int64 // bytes that became readable since Look
	enough   atomic.Int64 // how many of them are worth waking
	c        chan struct{}
}

// NewWaiter returns a consumer's waiter that nothing wakes until it is armed, but a change of the leadership.
func NewWaiter() *Waiter { return newWaiter(false) }

// NewFollowerWaiter returns likewise one for a follower, which reads up to the log's end: an append is enough for it.
func NewFollowerWaiter() *Waiter { return newWaiter(true) }

func newWaiter(follower bool) *Waiter {
	w := &Waiter{follower: follower, c: make(chan struct{}, 1)}
	w.Look()
	return w
}

// C receives when it is time to look again.
func (w *Waiter) C() <-chan struct{} { return w.c }

// Look begins a round: bytes that become readable from here on are counted.
func (w *Waiter) Look() {
	w.enough.Store(math.MaxInt64)
	w.arrived.Store(0)
}

// Arm ends the look: w is woken when missing bytes have come since it began, at once if they have.
func (w *Waiter) Arm(missing int) {
	w.enough.Store(int64(missing))
	if w.arrived.Load() >= int64(missing) {
		w.wake()
	}
}

// got counts bytes that became readable and says whether that is enough.
func (w *Waiter) got(n int) bool { return w.arrived.Add(int64(n)) >= w.enough.Load() }

func (w *Waiter) wake() {
	select {
	case w.c <- struct{}{}:
	default: // it is awake already
	}
}

// Register lets w be woken by this partition; Unregister ends that. A woken waiter is no longer registered.
func (p *Partition) Register(w *Waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiters := p.waitersLikeLocked(w)
	if *waiters == nil {
		*waiters = make(map[*Waiter]struct{})
	}
	(*waiters)[w] = struct{}{}
}

// Unregister forgets w; it does nothing if w was woken already.
func (p *Partition) Unregister(w *Waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(*p.waitersLikeLocked(w), w)
}

func (p *Partition) waitersLikeLocked(w *Waiter) *map[*Waiter]struct{} {
	if w.follower {
		return &p.mu.followers
	}
	return &p.mu.consumers
}

// hiddenBytes counts what was appended and is not below the high watermark yet. Where in it the high watermark lies is not
// known, so that what it has passed stays counted for a while, but never less than what is hidden. Guarded by the partition's
// lock.
type hiddenBytes struct {
	older, newer int
	mark         int64 // the older ones lie below this offset
}

// unknownBytes wakes whoever waits for bytes, whatever their number.
const unknownBytes = math.MaxInt32

// uncounted are the bytes between a high watermark and a log's end that nobody counted.
func uncounted(highWatermark, end int64) hiddenBytes {
	if highWatermark == end {
		return hiddenBytes{mark: end}
	}
	return hiddenBytes{older: unknownBytes, mark: end}
}

func (h *hiddenBytes) add(n int) { h.newer += n }

// shown is told that the high watermark moved, and returns how many bytes became visible at most.
func (h *hiddenBytes) shown(highWatermark, end int64) int {
	n := h.older + h.newer
	switch {
	case highWatermark >= end:
		*h = hiddenBytes{mark: end}
	case highWatermark >= h.mark:
		*h = hiddenBytes{older: h.newer, mark: end}
	}
	return n
}

// got tells waiters that so many bytes became readable for them, and takes out those that have enough.
func got(waiters map[*Waiter]struct{}, bytes int) (enough []*Waiter) {
	for w := range waiters {
		if w.got(bytes) {
			delete(waiters, w)
			enough = append(enough, w)
		}
	}
	return enough
}

func (p *Partition) takeWaitersLocked() []*Waiter {
	woken := make([]*Waiter, 0, len(p.mu.consumers)+len(p.mu.followers))
	for _, waiters := range []map[*Waiter]struct{}{p.mu.consumers, p.mu.followers} {
		for w := range waiters {
			woken = append(woken, w)
		}
		clear(waiters)
	}
	return woken
}
