package peer

import (
	"context"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/clock"
	"weir/protocol"
)

// Options are what clients need. Zero fields have defaults.
type Options struct {
	Dial  Dialer // nil for Dial
	Clock clock.Clock
	Name  string // says in the other brokers' logs who this is
}

func (o *Options) fill() {
	if o.Dial == nil {
		o.Dial = Dial
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Name == "" {
		o.Name = "weir"
	}
}

// Call is a request with whoever waits for its answer.
type Call struct {
	// Request has the version that it is sent at. It is encoded before Send returns.
	Request kmsg.Request
	// Memory, if it is not nil, is where the answer is read to, and where memory is left that had to be larger. It belongs
	// to the client until Done.
	Memory *[]byte
	// MaxResponseBytes and Wait, where they are above those of the client's purpose, bound the answer's size, and are added
	// to the time that the broker has for it.
	MaxResponseBytes int
	Wait             time.Duration
	// Done is told the answer's body, once, or a *ConnectionError. Without Memory of the caller's own the body is valid
	// until Done returns. It must not block.
	Done func(body []byte, err error)
}

// call is a Call on its way.
type call struct {
	Call
	correlationID int32
	flexible      bool
	deadline      time.Time        // of the answer; set when it is written
	frame         *protocol.Buffer // until it is written
}

// Client is a connection to one broker for one purpose. Safe for concurrent use.
type Client struct {
	o         Options
	limits    limits
	formatter *kmsg.RequestFormatter
	lastID    atomic.Int32
	wake      chan struct{} // one slot: there may be something to send, or the address changed, or the client is closed
	loops     *sync.WaitGroup
	mu        struct {
		sync.Mutex
		address     string
		closed      bool
		queue       fifo[call] // not written yet
		queuedBytes int
		conn        *connection // that is open
		abort       func()      // breaks off what the client is connecting or connected to; nil for nothing
	}
}

// newClient starts a client whose goroutines count in loops.
func newClient(o Options, address string, p Purpose, loops *sync.WaitGroup) *Client {
	o.fill()
	l := trafficLimits[p.Traffic]
	c := &Client{
		o: o, limits: l, wake: make(chan struct{}, 1), loops: loops,
		formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(o.Name + "-" + l.name + "-" + strconv.Itoa(p.Shard))),
	}
	c.mu.address = address
	loops.Add(1)
	go c.run()
	return c
}

// Send has a request sent. It does not block. Where it returns an error (ErrQueueFull, ErrClosed) Done is not told.
func (c *Client) Send(r Call) error {
	k := call{Call: r, correlationID: c.lastID.Add(1), flexible: r.Request.IsFlexible(), frame: protocol.NewBuffer(0)}
	k.frame.B = c.formatter.AppendRequest(k.frame.B, r.Request, k.correlationID)
	if err := c.enqueue(k); err != nil {
		k.frame.Free()
		return err
	}
	c.signal()
	return nil
}

func (c *Client) enqueue(k call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, waiting := len(k.frame.B), c.mu.queue.len()
	if c.mu.conn != nil {
		waiting += c.mu.conn.inFlight.len()
	}
	switch {
	case c.mu.closed:
		return ErrClosed
	case waiting >= c.limits.maxRequests, c.mu.queuedBytes > 0 && c.mu.queuedBytes+size > c.limits.maxQueuedBytes:
		return ErrQueueFull
	}
	c.mu.queue.push(k)
	c.mu.queuedBytes += size
	return nil
}

func (c *Client) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// setAddress has the client connect elsewhere, at once. The caller calls what it returns, if that is not nil, when it holds
// no lock.
func (c *Client) setAddress(address string) (abort func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.address != address {
		abort = c.mu.abort
	}
	c.mu.address = address
	c.signal()
	return abort
}

// stop ends the client, without waiting for it; whoever waits for an answer is told ErrClosed. What it returns is to be
// called likewise.
func (c *Client) stop() (abort func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.closed = true
	c.signal()
	return c.mu.abort
}

// run connects when there is something to send, and sends, until the client is stopped.
func (c *Client) run() {
	defer c.loops.Done()
	failures := 0
	var notBefore time.Time
	for c.awaitRequest() {
		address := c.pause(notBefore)
		if c.connect(address) || c.leaves(address) {
			failures, notBefore = 0, time.Time{}
			continue
		}
		failures++
		notBefore = c.o.Clock.Now().Add(jittered(backoff(failures)))
	}
	c.failQueue(ErrClosed)
}

// awaitRequest returns when something is to be sent; false when the client is stopped.
func (c *Client) awaitRequest() bool {
	for {
		c.mu.Lock()
		closed, waiting := c.mu.closed, c.mu.queue.len()
		c.mu.Unlock()
		if closed || waiting > 0 {
			return !closed
		}
		<-c.wake
	}
}

// pause waits until t, but not when the address changes or the client is stopped. It returns the address to connect to.
func (c *Client) pause(t time.Time) string {
	c.mu.Lock()
	address := c.mu.address
	c.mu.Unlock()
	wait := t.Sub(c.o.Clock.Now())
	if t.IsZero() || wait <= 0 {
		return address
	}
	timer := c.o.Clock.NewTimer(wait)
	defer timer.Stop()
	for !c.leaves(address) {
		select {
		case <-timer.C():
			return address
		case <-c.wake:
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.address
}

// leaves reports whether the client has nothing to do at that address any more.
func (c *Client) leaves(address string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.closed || c.mu.address != address
}

// connect connects and sends until the connection ends. It reports whether that was of any use. Where there is no
// connection, whoever waits for one is told.
func (c *Client) connect(address string) bool {
	nc, err := c.dial(address)
	if err == nil {
		return c.serve(address, nc)
	}
	if !c.leaves(address) {
		c.failQueue(&ConnectionError{Address: address, Err: err})
	}
	return false
}

// dial connects, unless the client is stopped, moved, or out of patience.
func (c *Client) dial(address string) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if err := c.setAbort(address, func() { cancel(errMoved) }); err != nil {
		return nil, err
	}
	defer c.clearAbort()
	timer := c.o.Clock.AfterFunc(connectTimeout, func() { cancel(errOverdue) })
	defer timer.Stop()
	nc, err := c.o.Dial(ctx, address)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nc, err
}

// setAbort says how what is under way at that address is broken off; an error where it must not even begin.
func (c *Client) setAbort(address string, abort func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.mu.closed:
		return ErrClosed
	case c.mu.address != address:
		return errMoved
	}
	c.mu.abort = abort
	return nil
}

func (c *Client) clearAbort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.abort = nil
}

// failQueue tells whoever waits for something that was not sent.
func (c *Client) failQueue(err error) {
	c.mu.Lock()
	queue := c.mu.queue
	c.mu.queue, c.mu.queuedBytes = fifo[call]{}, 0
	if c.mu.closed {
		err = ErrClosed
	}
	c.mu.Unlock()
	for queue.len() > 0 {
		k := queue.pop()
		k.frame.Free()
		k.Done(nil, err)
	}
}

// serve sends what is queued over a new connection until that ends, and reports whether any answer came.
func (c *Client) serve(address string, nc net.Conn) bool {
	k := &connection{client: c, address: address, nc: nc}
	if err := c.setAbort(address, k.abort); err != nil {
		_ = nc.Close()
		return false
	}
	defer c.clearAbort()
	c.setConnection(k)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.read()
	}()
	for k.isOpen() {
		if sent, err := k.write(); err != nil {
			k.fail(err)
		} else if !sent {
			select {
			case <-c.wake:
			case <-ended:
			}
		}
	}
	<-ended
	c.setConnection(nil)
	return k.useful
}

func (c *Client) setConnection(k *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.conn = k
}
