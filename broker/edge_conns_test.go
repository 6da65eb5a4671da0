package broker

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/broker/handler"
	"weir/protocol"
)

// pipeListener accepts in-memory connections that claim any address.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

type pipeConn struct {
	net.Conn
	remote string
}

func (c pipeConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.remote), Port: 4242}
}

func (l *pipeListener) dial(t *testing.T, from string) *client {
	near, far := net.Pipe()
	l.conns <- pipeConn{far, from}
	t.Cleanup(func() { _ = near.Close() })
	return &client{near, t}
}

// served reports whether the connection is served; net.Pipe has no buffers, so it is asked in the background.
func (c *client) served() bool {
	go func() { _, _ = c.Write(metadataRequest(1)) }()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, err := io.ReadFull(c, make([]byte, 8))
	return err == nil
}

func TestConnectionLimits(t *testing.T) {
	l := DefaultLimits(0)
	l.Connections, l.ConnectionsPerAddress, l.ConnectionRate = 5, 2, 1000
	e := newEdge(t, l, emptyReply)
	pipes := newPipeListener()
	e.serve(pipes)
	first := pipes.dial(t, "192.0.2.1")
	for i, c := range []struct {
		from   string
		served bool
	}{
		{"192.0.2.1", true},
		{"192.0.2.1", false}, // the third of that address
		{"192.0.2.2", true},
		{"127.0.0.1", true},
		{"127.0.0.1", true},
		{"127.0.0.1", false}, // loopback counts for the total
		{"192.0.2.3", false},
	} {
		if got := pipes.dial(t, c.from).served(); got != c.served {
			t.Errorf("connection %d from %s served: %v", i+2, c.from, got)
		}
	}
	_ = first.Close()
	eventually(t, "it is not counted any more", func() bool { return e.counter("weir_connections") == 4 })
	if !pipes.dial(t, "192.0.2.1").served() {
		t.Error("a connection that ended is still counted for its address")
	}
	if n := e.counter("weir_connections_refused_total"); n != 3 {
		t.Errorf("%d refusals counted, want 3", n)
	}
	for _, want := range []string{"limit=address", "limit=total"} {
		if !strings.Contains(e.log.String(), want) {
			t.Errorf("no line with %s", want)
		}
	}
}

func TestPeersAreNotLimited(t *testing.T) {
	l := DefaultLimits(0)
	l.Connections, l.ConnectionsPerAddress, l.ConnectionRate = 1, 1, 1
	e := newEdge(t, l, emptyReply)
	pipes := newPipeListener()
	go func() { _ = e.ServePeers(pipes, "PEER") }()
	for range 3 {
		if !pipes.dial(t, "192.0.2.1").served() {
			t.Fatal("a peer is refused")
		}
	}
}

func TestTooManyNewConnectionsAreHeldBack(t *testing.T) {
	l := DefaultLimits(0)
	l.ConnectionRate = 10
	e := newEdge(t, l, emptyReply)
	pipes := newPipeListener()
	e.serve(pipes)
	for range 10 { // one second's worth
		if !pipes.dial(t, "192.0.2.1").served() {
			t.Fatal("refused below the rate")
		}
	}
	late := make(chan bool, 10)
	for range 10 { // the next second's, 100 ms apart
		c := pipes.dial(t, "192.0.2.1")
		go func() { late <- c.served() }()
	}
	if pipes.dial(t, "192.0.2.1").served() {
		t.Error("a connection that would wait for more than a second is served")
	}
	if !pipes.dial(t, "127.0.0.1").served() {
		t.Error("the rate counts loopback")
	}
	select {
	case <-late:
		t.Error("a connection above the rate is served at once")
	default:
	}
	served := 0
	eventually(t, "all are served as time passes", func() bool {
		e.clock.Advance(50 * time.Millisecond)
		select {
		case ok := <-late:
			if served++; !ok {
				t.Error("held back, and then closed")
			}
		default:
		}
		return served == 10
	})
}

// tiredListener fails a number of times before it accepts.
type tiredListener struct {
	net.Listener
	err   error
	times atomic.Int32
	asked atomic.Int32
}

func (l *tiredListener) Accept() (net.Conn, error) {
	l.asked.Add(1)
	if l.times.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: l.err}
	}
	return l.Listener.Accept()
}

func TestAcceptSurvivesWithoutSpinning(t *testing.T) {
	e := newEdge(t, Limits{}, emptyReply)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &tiredListener{Listener: inner, err: syscall.EMFILE}
	l.times.Store(12)
	e.addr = inner.Addr().String()
	e.serve(l)
	eventually(t, "it tries", func() bool { return l.asked.Load() > 0 })
	if n := l.asked.Load(); n != 1 {
		t.Errorf("accept was tried %d times while the clock stood still", n)
	}
	c := e.dial() // waits in the backlog
	c.send(metadataRequest(1))
	eventually(t, "it accepts", func() bool {
		e.clock.Advance(acceptPauseMax)
		return l.asked.Load() > 12
	})
	c.expect(1)
	if n := strings.Count(e.log.String(), "accepting connections fails"); n != 1 {
		t.Errorf("%d log lines about it, want 1", n)
	}
}

func TestServeEndsWhenSomebodyElseClosesTheListener(t *testing.T) {
	e := newEdge(t, Limits{}, emptyReply)
	l := newPipeListener()
	done := make(chan error)
	go func() { done <- e.Serve(l, "PLAINTEXT") }()
	_ = l.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve returns %v", err)
	}
}

func TestShutdownAnswersWhatWasAsked(t *testing.T) {
	p := newPendings()
	held, release := make(chan struct{}), make(chan struct{})
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		if r.Header.Key == 1 {
			close(held)
			hold(r, release)
		}
		return p.handle(r)
	})
	idle, fetching, producing := e.dial(), e.dial(), e.dial()
	idle.send(metadataRequest(1))
	idle.expect(1)
	fetching.send(fetchRequestFrame(1), metadataRequest(2))
	producing.send(produceFrame(1, -1, 10), produceFrame(2, -1, 10))
	p.wait(t, 1, 2)
	<-held

	done := make(chan error)
	go func() { done <- e.Shutdown(context.Background()) }()
	idle.expectClosed()
	if _, err := net.Dial("tcp", e.addr); err == nil {
		t.Error("connections are still accepted")
	}
	eventually(t, "all connections know", func() bool {
		return !slices.ContainsFunc(e.connections(), func(c *conn) bool { return !c.isDraining() })
	})
	close(release)
	fetching.expect(1)
	fetching.expectClosed() // what it had sent behind is not begun
	p.complete(1)
	producing.expect(1)
	select {
	case err := <-done:
		t.Errorf("Shutdown returned %v while a reply waits", err)
	default:
	}
	p.complete(2)
	producing.expect(2)
	producing.expectClosed()
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := e.Serve(newPipeListener(), "PLAINTEXT"); err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

func TestShutdownClosesWhatTakesTooLong(t *testing.T) {
	held := make(chan struct{})
	p := newPendings()
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		if r.Header.Key == 1 {
			close(held)
			<-r.Conn.Closed()
			return handler.Silent()
		}
		return p.handle(r)
	})
	fetching, producing := e.dial(), e.dial()
	fetching.send(fetchRequestFrame(1))
	producing.send(produceFrame(1, -1, 10))
	p.wait(t, 1)
	<-held
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- e.Shutdown(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	fetching.expectClosed()
	producing.expectClosed()
	p.complete(1) // nobody is there to read it
}

func TestAHeldReaderNoticesThatThePeerLeft(t *testing.T) {
	noticed := make(chan struct{})
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		if r.Header.Key != 1 {
			return emptyReply(r)
		}
		<-r.Conn.Closed()
		close(noticed)
		return handler.Silent()
	})
	c := e.dial()
	c.send(metadataRequest(1))
	c.expect(1)
	c.send(fetchRequestFrame(2))
	eventually(t, "the fetch waits", func() bool { return e.counter("weir_requests_total") == 2 })
	_ = c.Close()
	e.passTime(2 * time.Second)
	<-noticed
}

func TestARequestBehindAHeldOneIsNotLost(t *testing.T) {
	var watched atomic.Int32
	release := make(chan struct{})
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		if r.Header.Key == 1 {
			closed := r.Conn.Closed()
			r.Conn.Closed() // again, which watches no more
			watched.Add(1)
			select {
			case <-release:
			case <-closed:
				t.Error("the peer is there")
			}
		}
		return emptyReply(r)
	})
	c := e.dial()
	for round := range int32(9) {
		c.send(fetchRequestFrame(2 * round))
		eventually(t, "the fetch waits", func() bool { return watched.Load() == round+1 })
		if round%3 > 0 {
			e.passTime(2 * time.Second)
			if state := e.connections()[0].watch.state.Load(); state != watching {
				t.Fatalf("state %d: not watched", state)
			}
		}
		if round%2 == 0 { // half of them with the next request there while the watcher reads
			c.send(metadataRequest(2*round + 1))
		}
		release <- struct{}{}
		c.expect(2 * round)
		if round%2 == 1 {
			c.send(metadataRequest(2*round + 1))
		}
		c.expect(2*round + 1)
	}
}

// countedBody is a response in files that counts its releases.
type countedBody struct {
	*protocol.FetchResponse
	released *atomic.Int32
}

func (b countedBody) Release() { b.released.Add(1) }

func TestAReplyThatNobodyReadsIsReleased(t *testing.T) {
	pending := make(chan *handler.Pending, 1)
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		p := handler.NewPending()
		pending <- p
		return handler.Later(p)
	})
	c := e.dial()
	c.send(fetchRequestFrame(1))
	p := <-pending
	_ = c.Close()
	e.passTime(2 * time.Second)
	eventually(t, "the connection ends", func() bool { return e.counter("weir_connections") == 0 })
	var released atomic.Int32
	p.Complete(countedBody{&protocol.FetchResponse{Version: 11}, &released})
	p.Complete(countedBody{&protocol.FetchResponse{Version: 11}, &released}) // one too many
	if n := released.Load(); n != 2 {
		t.Errorf("%d of 2 bodies released", n)
	}
}
