package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/protocol"
)

const patience = 20 * time.Second // a test that fails may take it; one that passes waits for events

// noGoroutineIsLeft fails when a goroutine of the package is left after the test. It is to be called first.
func noGoroutineIsLeft(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		var stacks string
		for range 10_000 {
			buf := make([]byte, 1<<20)
			stacks = string(buf[:runtime.Stack(buf, true)])
			if !strings.Contains(stacks, "peer.(*Client).") && !strings.Contains(stacks, "peer.(*connection).") && !strings.Contains(stacks, "peer.(*watch).") {
				return
			}
			runtime.Gosched() // the last of them are only returning
		}
		t.Errorf("goroutines are left:\n%s", stacks)
	})
}

// fakeBroker answers on loopback as a test wants.
type fakeBroker struct {
	t       *testing.T
	port    uint16
	handled sync.WaitGroup
	mu      struct {
		sync.Mutex
		closed bool
		listen net.Listener
		conns  []net.Conn
	}
}

// startBroker has serve run for every connection, which is closed after that.
func startBroker(t *testing.T, serve func(c *fakeConn)) *fakeBroker {
	t.Helper()
	b := &fakeBroker{t: t}
	b.listen("127.0.0.1:0", serve)
	t.Cleanup(b.stop)
	return b
}

func (b *fakeBroker) listen(address string, serve func(c *fakeConn)) {
	b.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.port = uint16(l.Addr().(*net.TCPAddr).Port)
	b.mu.Lock()
	b.mu.listen, b.mu.closed = l, false
	b.mu.Unlock()
	b.handled.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			closed := b.mu.closed
			b.mu.conns = append(b.mu.conns, nc)
			b.mu.Unlock()
			if closed {
				_ = nc.Close()
				continue
			}
			b.handled.Go(func() {
				defer func() { _ = nc.Close() }()
				serve(&fakeConn{Conn: nc, r: bufio.NewReader(nc)})
			})
		}
	})
}

// stop ends the broker as the end of a process does.
func (b *fakeBroker) stop() {
	b.mu.Lock()
	b.mu.closed = true
	_ = b.mu.listen.Close()
	for _, nc := range b.mu.conns {
		_ = nc.Close()
	}
	b.mu.conns = nil
	b.mu.Unlock()
	b.handled.Wait()
}

func (b *fakeBroker) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(b.port)))
}

// fakeConn is the broker's end of a connection.
type fakeConn struct {
	net.Conn
	r *bufio.Reader
}

// request reads one request.
func (c *fakeConn) request() (id int32, r *protocol.PeerRequest, err error) {
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return 0, nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.r, frame); err != nil {
		return 0, nil, err
	}
	var h protocol.RequestHeader
	body, err := h.ReadFrom(frame, true)
	if err != nil {
		return 0, nil, err
	}
	r = new(protocol.PeerRequest)
	return h.CorrelationID, r, r.ReadFrom(body)
}

func (c *fakeConn) answer(id int32, body []byte) {
	_, _ = c.Write(protocol.AppendResponse(nil, id, &protocol.PeerResponse{Body: body}))
}

// untilClosed reads until the other end has closed the connection.
func (c *fakeConn) untilClosed() { _, _ = io.Copy(io.Discard, c.r) }

// echo answers every request with its own body.
func echo(c *fakeConn) {
	for {
		id, r, err := c.request()
		if err != nil {
			return
		}
		c.answer(id, r.Body)
	}
}

type result struct {
	body []byte
	err  error
}

// send sends body and returns where its answer will be.
func send(t *testing.T, p *Pool[int], id int, purpose Purpose, body []byte) <-chan result {
	t.Helper()
	done := make(chan result, 1)
	err := p.Send(id, purpose, Call{Request: &protocol.PeerRequest{Kind: protocol.PeerCommand, Body: body}, Done: func(body []byte, err error) {
		done <- result{append([]byte(nil), body...), err}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("it does not come")
		panic("unreachable")
	}
}

// expectAnswer fails unless the answer is body.
func expectAnswer(t *testing.T, c <-chan result, want string) {
	t.Helper()
	r := await(t, c)
	if r.err != nil {
		t.Fatal(r.err)
	}
	body, err := Answer(r.body)
	if err != nil || string(body) != want {
		t.Fatalf("answered %q, %v; want %q", body, err, want)
	}
}

// expectLost fails unless the answer never comes, and returns why.
func expectLost(t *testing.T, c <-chan result) *ConnectionError {
	t.Helper()
	r := await(t, c)
	var e *ConnectionError
	if !errors.As(r.err, &e) {
		t.Fatalf("answered %q, %v", r.body, r.err)
	}
	return e
}

// newPool is a pool with one broker, number 1.
func newPool(t *testing.T, o Options, port uint16) *Pool[int] {
	t.Helper()
	p := NewPool[int](o)
	t.Cleanup(p.Close)
	p.SetAddress(1, "127.0.0.1", port)
	return p
}

// pipeDialer connects to brokers in memory, for tests of time.
type pipeDialer struct {
	dials chan string
	serve func(c *fakeConn) // nil: nobody answers
	fail  error
}

func (d *pipeDialer) dial(_ context.Context, address string) (net.Conn, error) {
	if d.dials != nil {
		d.dials <- address
	}
	if d.fail != nil {
		return nil, d.fail
	}
	ours, theirs := net.Pipe()
	go func() {
		defer func() { _ = theirs.Close() }()
		d.serve(&fakeConn{Conn: theirs, r: bufio.NewReader(theirs)})
	}()
	return ours, nil
}
