package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/handler"
	"weir/internal/clock"
	"weir/internal/metrics"
	"weir/protocol"
)

// edge is a server under test with one listener on loopback.
type edge struct {
	*Server
	t       *testing.T
	addr    string
	log     *lockedBuffer
	clock   *clock.Manual
	metrics *metrics.Registry
}

type lockedBuffer struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.String()
}

// startEdge serves handle. Its clock stands still; when the test ends every goroutine of it must.
func startEdge(t *testing.T, limits Limits, handle func(*handler.Request) handler.Reply) *edge {
	t.Helper()
	e := newEdge(t, limits, handle)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.addr = l.Addr().String()
	e.serve(l)
	return e
}

func newEdge(t *testing.T, limits Limits, handle func(*handler.Request) handler.Reply) *edge {
	t.Helper()
	e := &edge{t: t, log: &lockedBuffer{}, clock: clock.NewManual(time.Unix(1_000_000, 0)), metrics: metrics.NewRegistry()}
	e.Server = NewServer(ServerOptions{
		Handle:  handle,
		Clock:   e.clock,
		Logger:  slog.New(slog.NewTextHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Limits:  limits,
		Metrics: e.metrics,
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Shutdown(ctx)
		noGoroutineOf(t, "weir/broker.(*conn)", "weir/broker.(*Server).sweep")
	})
	return e
}

func (e *edge) serve(l net.Listener) {
	go func() {
		if err := e.Serve(l, "PLAINTEXT"); err != nil {
			e.t.Errorf("Serve: %v", err)
		}
	}()
}

// noGoroutineOf fails when a goroutine stays in functions of those names.
func noGoroutineOf(t *testing.T, names ...string) {
	t.Helper()
	var stacks string
	for range 100 {
		buf := make([]byte, 1<<20)
		stacks = string(buf[:runtime.Stack(buf, true)])
		if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(stacks, name) }) {
			return
		}
		time.Sleep(10 * time.Millisecond) // the last of them are only returning
	}
	t.Errorf("goroutines are left:\n%s", stacks)
}

// eventually waits for what another goroutine does soon.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 2000 {
		if f() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("it does not happen: %s", what)
}

// passTime moves the clock by d, in steps in which the sweeper can follow, and then lets it look once more.
func (e *edge) passTime(d time.Duration) {
	e.t.Helper()
	const step = sweepInterval / 2
	for ; d > 0; d -= step {
		e.clock.Advance(step)
		time.Sleep(20 * time.Microsecond)
	}
	for before := e.sweeps.Load(); e.sweeps.Load() < before+2; { // the first may have begun before
		e.clock.Advance(sweepInterval / 100)
		time.Sleep(20 * time.Microsecond)
	}
}

// counter is the value of a counter or gauge.
func (e *edge) counter(name string) int64 {
	var n int64
	for _, f := range e.metrics.Families() {
		for _, m := range f.Metrics {
			if f.Name == name && m.Counter != nil {
				n += m.Counter.Value()
			} else if f.Name == name && m.Gauge != nil {
				n += m.Gauge.Value()
			}
		}
	}
	return n
}

// client is a raw client.
type client struct {
	net.Conn
	t *testing.T
}

const patience = 20 * time.Second // a test that fails may take it; one that passes waits for events

func (e *edge) dial() *client {
	e.t.Helper()
	nc, err := net.Dial("tcp", e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = nc.Close() })
	return &client{nc, e.t}
}

func (c *client) send(frames ...[]byte) {
	c.t.Helper()
	if _, err := c.Write(bytes.Join(frames, nil)); err != nil {
		c.t.Fatal(err)
	}
}

// reply reads one response without its size.
func (c *client) reply() []byte {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		c.t.Fatalf("no reply: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		c.t.Fatalf("reply cut off: %v", err)
	}
	return b
}

// expect reads replies and compares their correlation ids.
func (c *client) expect(correlationIDs ...int32) {
	c.t.Helper()
	for _, want := range correlationIDs {
		if got := int32(binary.BigEndian.Uint32(c.reply())); got != want {
			c.t.Fatalf("reply %d, want %d", got, want)
		}
	}
}

// expectClosed fails when anything comes but the end.
func (c *client) expectClosed() {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	n, err := c.Read(make([]byte, 1))
	if netErr, ok := err.(net.Error); n > 0 || ok && netErr.Timeout() {
		c.t.Fatalf("the connection is open: %d bytes, %v", n, err)
	}
}

// request encodes a request of client "probe".
func encodeRequest(r kmsg.Request, correlationID int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("probe")).AppendRequest(nil, r, correlationID)
}

func metadataRequest(correlationID int32) []byte {
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 4
	return encodeRequest(r, correlationID)
}

func fetchRequestFrame(correlationID int32) []byte {
	r := kmsg.NewPtrFetchRequest()
	r.Version = 11
	return encodeRequest(r, correlationID)
}

func produceFrame(correlationID int32, acks int16, recordBytes int) []byte {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks = 7, acks
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = bytes.Repeat([]byte{1}, recordBytes)
	r.Topics = []kmsg.ProduceRequestTopic{{Topic: "topic", Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
	return encodeRequest(r, correlationID)
}

// emptyReply answers with the defaults of the request's response.
func emptyReply(r *handler.Request) handler.Reply {
	return handler.Now(r.Body.ResponseKind().(protocol.Body))
}

// hold waits in a handler, as a long poll does.
func hold(r *handler.Request, release <-chan struct{}) {
	select {
	case <-release:
	case <-r.Conn.Closed():
	}
}
