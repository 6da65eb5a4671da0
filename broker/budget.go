package broker

import (
	"net"
	"sync"
	"sync/atomic"
)

// budget is a weighted semaphore of bytes. Who waits is served in order, but who holds something already comes first:
// what has begun shall end, and free what it holds.
type budget struct {
	total   int64
	waiters atomic.Int32 // read by the sweeper without the lock

	mu struct {
		sync.Mutex
		free    int64
		growing []*budgetWaiter
		fresh   []*budgetWaiter
	}
}

type budgetWaiter struct {
	n       int64
	granted chan struct{}
}

func newBudget(total int64) *budget {
	b := &budget{total: total}
	b.mu.free = total
	return b
}

// acquire takes n bytes, at most all there are, and returns how many it took. It waits until they are free; the error is
// net.ErrClosed when closed comes first.
func (b *budget) acquire(n int64, growing bool, closed <-chan struct{}) (int64, error) {
	n = min(n, b.total)
	b.mu.Lock()
	queue, first := &b.mu.growing, len(b.mu.growing) == 0
	if !growing {
		queue, first = &b.mu.fresh, first && len(b.mu.fresh) == 0
	}
	if first && b.mu.free >= n {
		b.mu.free -= n
		b.mu.Unlock()
		return n, nil
	}
	w := &budgetWaiter{n: n, granted: make(chan struct{})}
	*queue = append(*queue, w)
	b.mu.Unlock()

	b.waiters.Add(1)
	defer b.waiters.Add(-1)
	select {
	case <-w.granted:
		return n, nil
	case <-closed:
		b.withdraw(queue, w)
		return 0, net.ErrClosed
	}
}

// withdraw takes w out of its queue, or gives back what was granted meanwhile.
func (b *budget) withdraw(queue *[]*budgetWaiter, w *budgetWaiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range *queue {
		if other == w {
			*queue = append((*queue)[:i], (*queue)[i+1:]...)
			b.grantLocked() // w may have stood before smaller ones
			return
		}
	}
	b.mu.free += w.n
	b.grantLocked()
}

// release gives n bytes back.
func (b *budget) release(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	b.mu.free += n
	b.grantLocked()
	b.mu.Unlock()
}

func (b *budget) grantLocked() {
	for _, queue := range []*[]*budgetWaiter{&b.mu.growing, &b.mu.fresh} {
		for len(*queue) > 0 {
			w := (*queue)[0]
			if w.n > b.mu.free {
				return // no one overtakes: a large one would wait for ever
			}
			b.mu.free -= w.n
			*queue = (*queue)[1:]
			close(w.granted) // never blocks
		}
	}
}
