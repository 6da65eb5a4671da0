package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"weir/internal/clock"
	"weir/internal/metrics"
)

const (
	// maxStreams is how many connections others may have open to this node at a time, before or after they showed that they have
	// the key. A node needs one for a moment, every half minute.
	maxStreams = 32
	// maxPacketBytes is more than memberlist sends. The rest of a larger packet is cut off, and so it is refused.
	maxPacketBytes = 4 << 10
	// bindAttempts is how often a port is looked for that both protocols have free.
	bindAttempts = 32
	// errorPause keeps a socket that fails from being asked in a circle.
	errorPause = 100 * time.Millisecond
)

// transport is the sockets. memberlist has one of its own that neither bounds the connections which others open nor ends
// those that it has itself.
//
// Goroutines: those of receive and accept, which Shutdown ends and awaits.
type transport struct {
	tcp        net.Listener
	udp        net.PacketConn
	advertised net.IP
	clock      clock.Clock
	refused    *metrics.Counter
	warner     *warner

	packets chan *memberlist.Packet
	streams chan net.Conn
	loops   sync.WaitGroup
	closed  chan struct{}
	dials   context.Context
	stop    context.CancelFunc // of the dials

	shutdown func() error // close, once
	mu       struct {
		sync.Mutex
		hungUp bool
		taken  int // of the open streams those that others opened
		open   map[*stream]struct{}
	}
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// stream is a connection that the transport ends if nobody else does.
type stream struct {
	net.Conn
	t     *transport
	taken bool
}

// Close is safe to be called again.
func (s *stream) Close() error {
	s.t.mu.Lock()
	if _, open := s.t.mu.open[s]; open {
		delete(s.t.mu.open, s)
		if s.taken {
			s.t.mu.taken--
		}
	}
	s.t.mu.Unlock()
	return s.Conn.Close()
}

// listen binds TCP and UDP to the same port.
func listen(host string, port uint16) (tcp net.Listener, udp net.PacketConn, err error) {
	for range bindAttempts {
		if tcp, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(int(port)))); err != nil {
			return nil, nil, err
		}
		bound := strconv.Itoa(tcp.Addr().(*net.TCPAddr).Port)
		if udp, err = net.ListenPacket("udp", net.JoinHostPort(host, bound)); err == nil {
			return tcp, udp, nil
		}
		_ = tcp.Close()
		if port != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("no port was found that TCP and UDP both have free: %w", err)
}

// run begins to take packets and streams.
func (t *transport) run() {
	t.packets, t.streams, t.closed = make(chan *memberlist.Packet), make(chan net.Conn), make(chan struct{})
	t.dials, t.stop = context.WithCancel(context.Background())
	t.mu.open = make(map[*stream]struct{})
	t.shutdown = sync.OnceValue(t.close)
	t.loops.Go(t.receive)
	t.loops.Go(t.accept)
}

func (t *transport) receive() {
	buffer := make([]byte, maxPacketBytes)
	for {
		n, from, err := t.udp.ReadFrom(buffer)
		now := t.clock.Now()
		if err != nil {
			if !t.pause("gossip's packets cannot be read", err) {
				return
			}
			continue
		}
		if n == 0 {
			continue
		}
		packet := &memberlist.Packet{Buf: append([]byte(nil), buffer[:n]...), From: from, Timestamp: now}
		select {
		case t.packets <- packet:
		case <-t.closed:
			return
		}
	}
}

func (t *transport) accept() {
	for {
		c, err := t.tcp.Accept()
		if err != nil {
			if !t.pause("connections of gossip cannot be accepted", err) {
				return
			}
			continue
		}
		s := t.track(c, true)
		if s == nil {
			t.refused.Inc()
			t.warner.warn("a connection of gossip is refused: there are too many", "from", c.RemoteAddr().String(), "limit", maxStreams)
			_ = c.Close()
			continue
		}
		select {
		case t.streams <- s:
		case <-t.closed:
			_ = s.Close()
			return
		}
	}
}

// pause reports false when the transport is closed.
func (t *transport) pause(what string, err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	t.warner.warn(what, "error", err)
	return clock.Sleep(t.clock, errorPause, t.closed)
}

// track takes a connection into account; nil where there are too many of others, or none are wanted any more.
func (t *transport) track(c net.Conn, taken bool) *stream {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.hungUp || taken && t.mu.taken >= maxStreams {
		return nil
	}
	s := &stream{Conn: c, t: t, taken: taken}
	t.mu.open[s] = struct{}{}
	if taken {
		t.mu.taken++
	}
	return s
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.advertised, t.tcp.Addr().(*net.TCPAddr).Port, nil
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(b []byte, address string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", address) // always an IP address: memberlist knows no names
	if err == nil {
		_, err = t.udp.WriteTo(b, to)
	}
	return t.clock.Now(), err
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *transport) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, to.Addr)
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: timeout}).DialContext(t.dials, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := t.track(c, false)
	if s == nil {
		_ = c.Close()
		return nil, net.ErrClosed
	}
	return s, nil
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(to.Addr, timeout)
}

// hangUp ends all streams and dials, those to come included. Packets go on.
func (t *transport) hangUp() {
	t.stop()
	t.mu.Lock()
	t.mu.hungUp = true
	var open []*stream
	for s := range t.mu.open {
		open = append(open, s)
	}
	t.mu.Unlock()
	for _, s := range open {
		_ = s.Close()
	}
}

// Shutdown implements memberlist.Transport.
func (t *transport) Shutdown() error {
	return t.shutdown()
}

func (t *transport) close() error {
	close(t.closed)
	t.hangUp()
	err := errors.Join(t.tcp.Close(), t.udp.Close())
	t.loops.Wait()
	return err
}
