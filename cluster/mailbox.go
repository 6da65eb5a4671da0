package cluster

import "sync"

// mailbox is a queue that anybody may put into and one goroutine empties. Putting never blocks: who puts may be the one
// whom the owner waits for. What bounds it is what bounds its users (requests on connections, messages of peers).
type mailbox[E any] struct {
	wake chan struct{} // has one element whenever there may be something
	mu   struct {
		sync.Mutex
		items  []E
		closed bool
	}
}

func newMailbox[E any]() *mailbox[E] { return &mailbox[E]{wake: make(chan struct{}, 1)} }

// put reports false when the mailbox is closed.
func (m *mailbox[E]) put(items ...E) bool {
	m.mu.Lock()
	closed := m.mu.closed
	if !closed {
		m.mu.items = append(m.mu.items, items...)
	}
	m.mu.Unlock()
	if closed {
		return false
	}
	m.notify()
	return true
}

func (m *mailbox[E]) notify() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns all there is. Nothing can be put any more once closed is true.
func (m *mailbox[E]) take() (items []E, closed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	items, m.mu.items = m.mu.items, nil
	return items, m.mu.closed
}

func (m *mailbox[E]) close() {
	m.mu.Lock()
	m.mu.closed = true
	m.mu.Unlock()
	m.notify()
}
