package broker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"weir/broker/handler"
	"weir/internal/clock"
	"weir/internal/metrics"
	"weir/protocol"
)

// ServerOptions are what the network edge needs. Zero fields but Handle have defaults.
type ServerOptions struct {
	// Handle answers one request. It runs in the connection's reader goroutine, in request order; a panic in it closes
	// that connection only. Required.
	Handle  func(*handler.Request) handler.Reply
	Clock   clock.Clock
	Logger  *slog.Logger
	Limits  Limits // the zero value stands for DefaultLimits(0)
	Metrics *metrics.Registry
}

// Server is the network edge: it accepts connections, reads requests, has them handled and writes the replies in
// request order. Safe for concurrent use.
//
// Goroutines: one reader for each connection, which also handles and writes; a writer for a connection only while a
// pipelined reply waits; a watcher only while a handler that asked for Closed waits for long; one sweeper, from the
// first Serve on; the caller of each Serve. Shutdown waits for all of them. Lock order: none of the server's, a connection's, the
// budgets' and the admission's locks is held while another is taken, or across a call of the network.
type Server struct {
	handle    func(*handler.Request) handler.Reply
	clock     clock.Clock
	logger    *slog.Logger
	limits    Limits
	metrics   *edgeMetrics
	admission *admission
	frames    *budget // bytes of frames in flight
	decoding  *budget // and of what they decode to
	logLimit  logLimit
	lastID    atomic.Uint64
	sweeps    atomic.Uint64 // done so far

	closing    chan struct{} // closed when Shutdown begins
	goroutines sync.WaitGroup
	mu         struct {
		sync.Mutex
		sweeping  bool
		closing   bool
		listeners map[net.Listener]struct{}
		conns     map[*conn]struct{}
	}
}

// NewServer returns a server that serves nothing yet.
func NewServer(o ServerOptions) *Server {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits(0)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewRegistry()
	}
	// A frame that could never have its memory must be refused, not waited for.
	o.Limits.MaxRequestBytes = int32(min(int64(o.Limits.MaxRequestBytes), o.Limits.InFlightBytes))
	s := &Server{
		handle:    o.Handle,
		clock:     o.Clock,
		logger:    o.Logger,
		limits:    o.Limits,
		metrics:   newEdgeMetrics(o.Metrics),
		admission: newAdmission(o.Limits),
		frames:    newBudget(o.Limits.InFlightBytes),
		decoding:  newBudget(o.Limits.InFlightBytes),
		closing:   make(chan struct{}),
	}
	s.mu.listeners = make(map[net.Listener]struct{})
	s.mu.conns = make(map[*conn]struct{})
	return s
}

// SetConnectionLimits changes how many connections there may be.
func (s *Server) SetConnectionLimits(l ConnectionLimits) { s.admission.setLimits(l) }

// Serve accepts clients on l, which it closes, until Shutdown; then it returns nil. The error is net.ErrClosed when
// somebody else closed l; every other error of accept, such as too many open files, is logged and waited out. name is
// what handlers get as the connection's listener.
func (s *Server) Serve(l net.Listener, name string) error {
	return s.serve(l, name, protocol.ClientListener)
}

// ServePeers is Serve for a listener of the cluster's own brokers: the limits on connections and on memory do not hold
// there, since they are what clients could shut brokers out by, and frames may have 32 MiB at most.
func (s *Server) ServePeers(l net.Listener, name string) error {
	return s.serve(l, name, protocol.PeerListener)
}

// ServeShared is Serve for a listener that clients and the cluster's own brokers share: what holds for clients holds there.
func (s *Server) ServeShared(l net.Listener, name string) error {
	return s.serve(l, name, protocol.ClientListener|protocol.PeerListener)
}

func (s *Server) serve(l net.Listener, name string, kind protocol.Listeners) error {
	if !s.track(l) {
		_ = l.Close()
		return nil
	}
	defer s.untrack(l)
	pause := time.Duration(0)
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.accept(nc, name, kind)
			continue
		case s.isClosing():
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		}
		// Too many open files, most likely. The loop must neither end nor spin: connections close in time.
		if pause == 0 {
			s.logger.Error("accepting connections fails; trying again", "listener", name, "error", err)
		}
		pause = min(max(2*pause, acceptPauseMin), acceptPauseMax)
		if !clock.Sleep(s.clock, pause, s.closing) {
			return nil
		}
	}
}

// accept begins to serve nc, unless a limit is reached.
func (s *Server) accept(nc net.Conn, name string, kind protocol.Listeners) {
	remote := addrPort(nc.RemoteAddr())
	delay, why := time.Duration(0), admitted
	if kind != protocol.PeerListener {
		delay, why = s.admission.admit(remote.Addr(), name, s.clock.Now())
	}
	if why != admitted {
		_ = nc.Close()
		s.metrics.refused[why].Inc()
		s.logRefused("a connection was refused: the limit is reached", "limit", string(why), "listener", name, "peer", remote.String())
		return
	}
	c := newConn(s, nc, remote, name, kind)
	if !s.add(c) {
		_ = nc.Close()
		s.left(c)
		return
	}
	s.metrics.opened(name)
	go func() {
		defer s.goroutines.Done()
		defer s.remove(c)
		c.serve(delay)
	}()
}

// left takes c out of the count of connections.
func (s *Server) left(c *conn) {
	if c.kind != protocol.PeerListener {
		s.admission.leave(c.info.Remote.Addr(), c.info.Listener)
	}
}

// add counts c and its goroutine, unless the server is closing.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closing {
		return false
	}
	s.mu.conns[c] = struct{}{}
	s.goroutines.Add(1)
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	delete(s.mu.conns, c)
	s.mu.Unlock()
	s.metrics.closed(c.info.Listener)
	s.left(c)
}

// track counts a listener, unless the server is closing, and starts the sweeper with the first one.
func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closing {
		return false
	}
	s.mu.listeners[l] = struct{}{}
	s.goroutines.Add(1)
	if !s.mu.sweeping {
		s.mu.sweeping = true
		s.goroutines.Add(1)
		go s.sweep()
	}
	return true
}

func (s *Server) untrack(l net.Listener) {
	_ = l.Close()
	s.mu.Lock()
	delete(s.mu.listeners, l)
	s.mu.Unlock()
	s.goroutines.Done()
}

func (s *Server) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Shutdown stops accepting, closes idle connections and waits until the others have answered what they were asked. When
// ctx ends first it closes them, which Closed tells the handlers that wait. It returns when every goroutine has ended:
// ctx's error if it had to close connections, else nil.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, l := range s.beginClosing() {
		_ = l.Close()
	}
	for _, c := range s.connections() {
		c.drain()
	}
	done := make(chan struct{})
	go func() {
		s.goroutines.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.connections() {
		c.close(errShutdown)
	}
	<-done
	return ctx.Err()
}

func (s *Server) beginClosing() []net.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.closing {
		s.mu.closing = true
		close(s.closing)
	}
	listeners := make([]net.Listener, 0, len(s.mu.listeners))
	for l := range s.mu.listeners {
		listeners = append(listeners, l)
	}
	return listeners
}

func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := make([]*conn, 0, len(s.mu.conns))
	for c := range s.mu.conns {
		conns = append(conns, c)
	}
	return conns
}

// logRefused writes a line about what a client did wrong, as long as there are not too many of them.
func (s *Server) logRefused(msg string, args ...any) {
	dropped, ok := s.logLimit.allow(s.clock.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		args = append(args, "lines_dropped", dropped)
	}
	s.logger.Warn(msg, args...)
}

// addrPort is the peer's address; the zero value where the transport has none of that kind.
func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
