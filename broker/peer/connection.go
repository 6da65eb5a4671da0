package peer

import (
	"bufio"
	"errors"
	"io"
	"net"

	"weir/internal/clock"
	"weir/protocol"
)

// connection is one open connection of a Client.
type connection struct {
	client  *Client
	address string
	nc      net.Conn

	// Guarded by the client's lock.
	inFlight fifo[call]  // written, or being written
	timer    clock.Timer // fires at the deadline of the oldest; nil where none is set
	cause    error       // why it ended; the first counts

	useful  bool   // an answer came; the reader's until it has ended
	scratch []byte // the reader's: of answers that nobody lent memory for

	taken []*protocol.Buffer // the writer's
	parts net.Buffers        //
}

const (
	readAheadBytes  = 4 << 10  // larger answers are read straight to their place
	keptScratchSize = 64 << 10 // a larger answer than that is rare, where no memory is lent for it
)

// fail ends the connection; the reader then tells those who wait.
func (k *connection) fail(err error) {
	c := k.client
	c.mu.Lock()
	if k.cause == nil {
		k.cause = err
	}
	c.mu.Unlock()
	_ = k.nc.Close()
}

// abort ends the connection because the client moves or stops.
func (k *connection) abort() {
	c := k.client
	c.mu.Lock()
	err := errMoved
	if c.mu.closed {
		err = ErrClosed
	}
	c.mu.Unlock()
	k.fail(err)
}

func (k *connection) isOpen() bool {
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return k.cause == nil
}

// write writes what is queued, and reports whether that was anything.
func (k *connection) write() (bool, error) {
	k.take()
	if len(k.taken) == 0 {
		return false, nil
	}
	var err error
	if len(k.taken) == 1 {
		_, err = k.nc.Write(k.taken[0].B)
	} else {
		k.parts = k.parts[:0]
		for _, b := range k.taken {
			k.parts = append(k.parts, b.B)
		}
		parts := k.parts // WriteTo consumes its receiver
		_, err = parts.WriteTo(k.nc)
		clear(k.parts)
	}
	for _, b := range k.taken {
		b.Free()
	}
	return true, err
}

// take moves the queue to what is in flight; what is to be written is left in taken.
func (k *connection) take() {
	clear(k.taken)
	k.taken = k.taken[:0]
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.cause != nil || c.mu.queue.len() == 0 {
		return
	}
	now := c.o.Clock.Now()
	for c.mu.queue.len() > 0 {
		r := c.mu.queue.pop()
		k.taken = append(k.taken, r.frame)
		r.frame, r.deadline = nil, now.Add(c.limits.timeout+r.Wait)
		k.inFlight.push(r)
	}
	c.mu.queuedBytes = 0
	if k.timer == nil {
		k.timer = c.o.Clock.AfterFunc(k.inFlight.first().deadline.Sub(now), k.expire)
	}
}

// expire looks whether the oldest request is overdue. There is one timer, set anew at most once per timeout, since nearly
// all requests are answered long before.
func (k *connection) expire() {
	c := k.client
	c.mu.Lock()
	overdue := false
	k.timer = nil
	if k.cause == nil && k.inFlight.len() > 0 {
		left := k.inFlight.first().deadline.Sub(c.o.Clock.Now())
		if overdue = left <= 0; !overdue {
			k.timer = c.o.Clock.AfterFunc(left, k.expire)
		}
	}
	c.mu.Unlock()
	if overdue {
		k.fail(errOverdue)
	}
}

// read is the reader: it tells answers to those who wait until the connection ends, and then tells the others why.
func (k *connection) read() {
	r := bufio.NewReaderSize(k.nc, readAheadBytes)
	var err error
	for err == nil {
		err = k.readAnswer(r)
	}
	if errors.Is(err, io.EOF) {
		err = errPeerClosed
	}
	k.fail(err)
	k.tellFailed()
}

// readAnswer reads one answer, and has its request told.
func (k *connection) readAnswer(r *bufio.Reader) error {
	if _, err := r.Peek(1); err != nil {
		return err
	}
	waiting, ok := k.oldest()
	if !ok {
		return errUnasked
	}
	memory := waiting.Memory
	if memory == nil {
		memory = &k.scratch
	}
	frame, err := readFrame(r, memory, max(k.client.limits.maxResponseBytes, waiting.MaxResponseBytes))
	if err != nil {
		return err
	}
	id, body, err := protocol.ReadResponseHead(frame, waiting.flexible)
	if err != nil {
		return err
	}
	if id != waiting.correlationID {
		return &orderError{got: id, want: waiting.correlationID}
	}
	k.answered()
	k.useful = true
	waiting.Done(body, nil)
	if cap(k.scratch) > keptScratchSize {
		k.scratch = nil
	}
	return nil
}

// oldest is the request whose answer is next. It stays in flight until that is there.
func (k *connection) oldest() (call, bool) {
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.inFlight.len() == 0 {
		return call{}, false
	}
	return *k.inFlight.first(), true
}

func (k *connection) answered() {
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	k.inFlight.pop()
}

// tellFailed tells those whose answer will not come. Nothing is added to what is in flight any more.
func (k *connection) tellFailed() {
	c := k.client
	c.mu.Lock()
	lost, err := k.inFlight, k.cause
	k.inFlight = fifo[call]{}
	if k.timer != nil {
		k.timer.Stop()
	}
	c.mu.Unlock()
	if !errors.Is(err, ErrClosed) {
		err = &ConnectionError{Address: k.address, Sent: true, Err: err}
	}
	for lost.len() > 0 {
		r := lost.pop()
		r.Done(nil, err)
	}
}
