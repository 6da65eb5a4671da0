package main

import (
	"net"
	"sync"
)

// slotListener hands out a connection when there is a slot for it, and takes no other meanwhile. Several listeners may share slots.
type slotListener struct {
	net.Listener
	slots  chan struct{} // one element for each connection that is open
	closed chan struct{}
	close  func() error
}

func newSlotListener(l net.Listener, slots chan struct{}) *slotListener {
	s := &slotListener{Listener: l, slots: slots, closed: make(chan struct{})}
	s.close = sync.OnceValue(func() error {
		close(s.closed)
		return l.Close()
	})
	return s
}

// Accept implements net.Listener.
func (s *slotListener) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select { // not before: a listener that nobody connects to would keep the slot from others
	case s.slots <- struct{}{}:
		return &slotConn{c, sync.OnceFunc(func() { <-s.slots })}, nil
	case <-s.closed:
		_ = c.Close()
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *slotListener) Close() error { return s.close() }

type slotConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *slotConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
