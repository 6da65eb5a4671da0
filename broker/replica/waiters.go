package replica

import "sync/atomic"

// Waiter is a fetch that waits until enough bytes can be read, or until something changes that it must know of. One
// waiter stands at every partition of its request. Register first, then look once more, then wait: what comes between
// the look and the wait is not missed.
type Waiter struct {
	missing atomic.Int64 // bytes until it is worth waking
	c       chan struct{}
}

// NewWaiter returns a waiter that is woken once about minBytes have become readable.
func NewWaiter(minBytes int) *Waiter {
	w := &Waiter{c: make(chan struct{}, 1)}
	w.missing.Store(int64(minBytes))
	return w
}

// C receives when it is time to look again.
func (w *Waiter) C() <-chan struct{} { return w.c }

// Rearm sets how many bytes are missing before the next wait.
func (w *Waiter) Rearm(missing int) { w.missing.Store(int64(missing)) }

// got counts bytes that became readable and says whether that is enough.
func (w *Waiter) got(n int) bool { return w.missing.Add(-int64(n)) <= 0 }

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
	p.mu.waiters[w] = struct{}{}
}

// Unregister forgets w; it does nothing if w was woken already.
func (p *Partition) Unregister(w *Waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.waiters, w)
}

func (p *Partition) takeWaitersLocked() []*Waiter {
	woken := make([]*Waiter, 0, len(p.mu.waiters))
	for w := range p.mu.waiters {
		woken = append(woken, w)
	}
	clear(p.mu.waiters)
	return woken
}
