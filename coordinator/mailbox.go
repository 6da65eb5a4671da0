package coordinator

import "sync"

// mailbox is what others have to say to an actor. Putting never blocks; what bounds it is what bounds its users: requests
// on connections.
type mailbox struct {
	wake    chan struct{} // has one element whenever there may be something
	settled chan struct{} // closed when loading has ended once
	mu      struct {
		sync.Mutex
		items []any // Inputs, and commitments of the partition
		state state
	}
}

// state says what becomes of calls.
type state int

const (
	loading state = iota // refused; other inputs wait
	active
	over // everything is refused
)

func newMailbox() *mailbox {
	return &mailbox{wake: make(chan struct{}, 1), settled: make(chan struct{})}
}

// put adds an item. The error says why it was refused: a call while loading, and everything once it is over.
func (m *mailbox) put(item any) error {
	_, isCall := item.(*Call)
	m.mu.Lock()
	s := m.mu.state
	refused := s == over || s == loading && isCall
	if !refused {
		m.mu.items = append(m.mu.items, item)
	}
	m.mu.Unlock()
	switch {
	case !refused:
		m.notify()
		return nil
	case s == loading:
		return errLoading
	}
	return errNotCoordinator
}

func (m *mailbox) notify() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take returns all there is, and lends the mailbox the memory of what was taken before.
func (m *mailbox) take(used []any) (items []any, isOver bool) {
	clear(used)
	m.mu.Lock()
	defer m.mu.Unlock()
	items = m.mu.items
	m.mu.items = used[:0]
	return items, m.mu.state == over
}

// waits reports whether there is something to take, or to take note of.
func (m *mailbox) waits() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.items) > 0 || m.mu.state == over
}

// set changes the state, but never from over to another.
func (m *mailbox) set(s state) {
	m.mu.Lock()
	if m.mu.state != over {
		m.mu.state = s
	}
	if s != loading {
		m.settleLocked()
	}
	m.mu.Unlock()
	m.notify()
}

// settle says that loading has ended once, although it begins again.
func (m *mailbox) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settleLocked()
}

func (m *mailbox) settleLocked() {
	if !m.isSettled() {
		close(m.settled)
	}
}

func (m *mailbox) isSettled() bool {
	select {
	case <-m.settled:
		return true
	default:
		return false
	}
}

func (m *mailbox) isOver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.state == over
}
