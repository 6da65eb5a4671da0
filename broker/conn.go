package broker

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"weir/broker/handler"
	"weir/protocol"
)

// conn is one connection. Its reader goroutine owns it: it reads, has handled and, while no earlier reply waits,
// writes.
type conn struct {
	server *Server
	nc     net.Conn
	kind   protocol.Listeners
	info   handler.Conn
	frames *protocol.FrameReader
	header protocol.RequestHeader // of the last request: all of a connection's have one client id
	charge int64                  // what the frame being read has of the budget, in bytes

	activity activity
	swept    swept // the sweeper's
	watch    watch
	replies  replyQueue
	out      transport
	writer   sync.WaitGroup // the writer goroutine

	draining  chan struct{} // closed: answer what was asked, and no more
	drainOnce sync.Once
	gone      chan struct{} // closed: the peer has left, or the connection is closed
	goneOnce  sync.Once
	closeOnce sync.Once
	cause     error // why it was closed; set under closeOnce
}

var (
	errShutdown = errors.New("the server shuts down")
	errPeerGone = errors.New("the peer left while its reply was waited for")
)

func newConn(s *Server, nc net.Conn, remote netip.AddrPort, listener string, kind protocol.Listeners) *conn {
	maxBytes := s.limits.MaxRequestBytes
	if kind == protocol.PeerListener {
		maxBytes = peerFrameBytes
	}
	c := &conn{
		server:   s,
		nc:       nc,
		kind:     kind,
		frames:   protocol.NewFrameReader(nc, maxBytes),
		draining: make(chan struct{}),
		gone:     make(chan struct{}),
	}
	c.out = transport{nc: nc, activity: &c.activity}
	c.replies.left = make(chan struct{}, 1)
	c.watch.done = make(chan error, 1)
	c.info = handler.Conn{
		ID:        s.lastID.Add(1),
		Listener:  listener,
		Remote:    remote,
		Principal: "User:ANONYMOUS",
		Closed:    c.watched,
	}
	return c
}

// serve is the reader goroutine. When it returns the connection is closed and its other goroutines have ended.
func (c *conn) serve(delay time.Duration) {
	defer c.end()
	if delay > 0 && !c.sleep(delay) {
		c.close(errShutdown)
		return
	}
	for {
		err := c.serveOne()
		if err == nil && c.isDraining() {
			c.waitForReplies()
			err = errShutdown
		}
		if err != nil {
			c.close(err)
			return
		}
	}
}

// sleep holds a new connection back, and reports whether it is to be served then.
func (c *conn) sleep(d time.Duration) bool {
	t := c.server.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-c.draining:
	case <-c.gone:
	}
	return false
}

// serveOne reads a request and answers it. An error ends the connection.
func (c *conn) serveOne() error {
	if err := c.await(); err != nil {
		return err
	}
	c.activity.received.Store(0)
	c.activity.frame.Add(1)
	r, err := c.readFrame()
	if err != nil {
		c.server.frames.release(c.charge)
		c.charge = 0
		return err
	}
	c.activity.inFlight.Add(1) // before the frame ends, so that the connection is never idle between
	c.activity.frame.Add(1)
	if err := c.decode(r); err != nil {
		c.letGo(r, !errors.Is(err, errPanicked))
		return err
	}
	c.hold()
	defer c.unhold()
	return c.answer(r)
}

// readFrame reads one frame. The table judges key, version and size before any memory is taken.
func (c *conn) readFrame() (*request, error) {
	head, err := c.frames.Head()
	if err != nil {
		return nil, err
	}
	api := protocol.Lookup(head.Key, c.kind)
	if api == nil || !api.Accepts(head.Version) && !protocol.IsApiVersions(head.Key) {
		c.noteClientID()
		return nil, &protocol.UnsupportedError{Key: head.Key, Version: head.Version, API: api}
	}
	if head.Size > api.MaxBytes {
		c.noteClientID()
		return nil, &protocol.SizeError{Size: head.Size, Limit: api.MaxBytes, API: api}
	}
	frame, err := c.frames.Body(head, c)
	if err != nil {
		return nil, err
	}
	c.server.metrics.bytesIn.Add(int64(len(frame.B)))
	r := newRequest()
	r.api, r.version, r.frame = api, head.Version, frame
	r.frameCharge, c.charge = c.charge, 0
	r.Received = c.server.clock.Now()
	r.Conn = &c.info
	return r, nil
}

// noteClientID learns for the log who sent a request that will not be read.
func (c *conn) noteClientID() {
	if id := c.frames.PeekClientID(); id != "" {
		c.header.ClientID = &id
	}
}

// Grow implements protocol.Meter: memory is taken from the budget as the frame grows.
func (c *conn) Grow(have, want int) error {
	if want <= freeFrameBytes || c.kind == protocol.PeerListener {
		return nil
	}
	c.activity.waitsForMemory.Store(true)
	n, err := c.server.frames.acquire(int64(want)-c.charge, have > 0, c.gone)
	c.activity.waitsForMemory.Store(false)
	c.charge += n
	return err
}

// Progress implements protocol.Meter.
func (c *conn) Progress(n int) { c.activity.received.Add(int64(n)) }

func (c *conn) isDraining() bool {
	select {
	case <-c.draining:
		return true
	default:
		return false
	}
}

// drain lets the connection answer what it was asked and then close. The order of the two steps is what a finishing
// reply relies on: it counts itself out before it looks at draining, so that one of the two sees the other.
func (c *conn) drain() {
	c.drainOnce.Do(func() { close(c.draining) })
	if c.activity.inFlight.Load() == 0 && c.activity.frame.Load()%2 == 0 {
		c.close(errShutdown)
	}
}

// peerGone tells whoever waits that nobody will read the reply.
func (c *conn) peerGone() { c.goneOnce.Do(func() { close(c.gone) }) }

// close ends the connection; the first cause counts. Safe for concurrent use.
func (c *conn) close(cause error) {
	c.closeOnce.Do(func() {
		c.cause = cause
		c.peerGone()
		_ = c.nc.Close()
	})
}

// end waits for the connection's goroutines and drops the replies that cannot be sent any more.
func (c *conn) end() {
	c.unwatch()
	c.writer.Wait()
	c.dropReplies()
	c.logEnd()
}

// logEnd says why the connection ended: aloud where the peer did something wrong.
func (c *conn) logEnd() {
	var (
		size        *protocol.SizeError
		unsupported *protocol.UnsupportedError
		decode      *protocol.DecodeError
		slow        *slowFrameError
		refusal     *closedByHandlerError
		disk        *recordsError
	)
	m := c.server.metrics
	switch {
	case errors.Is(c.cause, errPanicked): // logged where it happened
		return
	case errors.As(c.cause, &size):
		m.badFrames.Inc()
	case errors.As(c.cause, &unsupported):
		m.unsupported.Inc()
	case errors.As(c.cause, &decode):
		m.badRequests.Inc()
	case errors.As(c.cause, &slow), errors.Is(c.cause, errMemoryShort), errors.Is(c.cause, errSlowReader):
		m.tooSlow.Inc()
	case errors.As(c.cause, &refusal):
	case errors.As(c.cause, &disk):
		c.server.logger.Error("a reply could not be read from disk", append(c.logArgs(), "error", c.cause)...)
		return
	default: // the peer left, was idle, or the server shuts down
		c.server.logger.Debug("a connection ended", append(c.logArgs(), "error", c.cause)...)
		return
	}
	c.server.logRefused("a connection was closed", append(c.logArgs(), "error", c.cause)...)
}

// logArgs say whose connection it is.

func (c *conn) logArgs() []any {
	clientID := ""
	if c.header.ClientID != nil {
		clientID = *c.header.ClientID
	}
	return []any{"listener", c.info.Listener, "peer", c.info.Remote.String(), "client_id", clientID}
}
