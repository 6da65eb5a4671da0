package broker

import (
	"errors"
	"runtime/debug"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/handler"
	"weir/protocol"
)

// request is a request from its frame to its reply. It is used again when the reply is written.
type request struct {
	handler.Request
	api          *protocol.API
	version      int16 // as asked; above the table's only for ApiVersions
	frame        *protocol.Buffer
	frameCharge  int64 // what it has of the budgets, in bytes
	decodeCharge int64
	produce      kmsg.ProduceRequest // decoded into again and again
}

var requests = sync.Pool{New: func() any { return new(request) }}

func newRequest() *request { return requests.Get().(*request) }

// closedByHandlerError is the reason of a handler to end the connection without an answer.
type closedByHandlerError struct {
	api *protocol.API
	err error
}

func (e *closedByHandlerError) Error() string { return e.api.Name + ": " + e.err.Error() }
func (e *closedByHandlerError) Unwrap() error { return e.err }

var errPanicked = errors.New("handling a request panicked")

// decode reads header and body of r, whose frame is complete.
func (c *conn) decode(r *request) error {
	body, err := c.header.ReadFrom(r.frame.B, r.api.Flexible(r.version))
	if err != nil {
		return &protocol.DecodeError{API: r.api, Version: r.version, Size: len(r.frame.B), Err: err}
	}
	r.Header = c.header
	if !r.api.Accepts(r.version) {
		return nil // ApiVersions, which is answered without a look at the body
	}
	if cost := r.api.DecodeCost(r.version, body); cost > freeDecodeBytes && c.kind != protocol.PeerListener {
		if r.decodeCharge, err = c.server.decoding.acquire(int64(cost), false, c.gone); err != nil {
			return err
		}
	}
	if r.api.Key == kmsg.Produce.Int16() {
		r.produce.SetVersion(r.version)
		r.Body = &r.produce
	} else {
		r.Body = r.api.NewRequest(r.version)
	}
	return c.guard(r, func() error { return r.api.Decode(r.Body, body) })
}

// dispatch has r handled.
func (c *conn) dispatch(r *request) (reply handler.Reply) {
	c.server.metrics.request(r.api, r.version)
	if !r.api.Accepts(r.version) {
		return handler.Now(protocol.UnsupportedApiVersions())
	}
	err := c.guard(r, func() error {
		reply = c.server.handle(&r.Request)
		return nil
	})
	if err != nil {
		return handler.Close(err)
	}
	return reply
}

// answer has r handled, and sends its reply or leaves it to the writer. An error ends the connection.
func (c *conn) answer(r *request) error {
	reply := c.dispatch(r)
	body, pending := reply.Body(), reply.Pending()
	switch {
	case reply.Err() != nil:
		err := &closedByHandlerError{r.api, reply.Err()}
		c.finish(r, !errors.Is(err, errPanicked))
		c.waitForReplies() // to what was asked before
		return err
	case body == nil && pending == nil:
		c.finish(r, true)
		return nil
	case r.api.Pipelined && (isWaiting(pending) || c.replies.len() > 0):
		c.park(r, reply)
		return nil
	}
	return c.answerInTurn(r, body, pending)
}

func isWaiting(p *handler.Pending) bool {
	if p == nil {
		return false
	}
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// answerInTurn sends r's reply from the reader, which it holds until then.
func (c *conn) answerInTurn(r *request, body protocol.Body, pending *handler.Pending) error {
	if !c.waitForReplies() {
		drop(body, pending)
		c.finish(r, pending == nil)
		return errPeerGone
	}
	if pending != nil {
		if isWaiting(pending) {
			select {
			case <-pending.Done():
			case <-c.watched():
				pending.Abandon()
				c.finish(r, false)
				return errPeerGone
			}
		}
		body = pending.Body()
	}
	err := c.send(r, body)
	c.finish(r, !errors.Is(err, errPanicked))
	return err
}

// drop lets go of a reply that is not sent.
func drop(body protocol.Body, pending *handler.Pending) {
	if pending != nil {
		pending.Abandon()
	}
	if parts, ok := body.(protocol.PartsBody); ok {
		parts.Release()
	}
}

// finish ends r, which was handled; see letGo.
func (c *conn) finish(r *request, reuse bool) {
	c.server.metrics.answered(r.api, c.server.clock.Now().Sub(r.Received))
	c.letGo(r, reuse)
}

// maxKeptTopics is how many topics' memory a request keeps for its next use.
const maxKeptTopics = 256

// letGo gives r's memory back. Where somebody may still hold it (a reply that was abandoned, a panic) it is not used
// again, and the garbage collector takes its frame.
func (c *conn) letGo(r *request, reuse bool) {
	c.server.frames.release(r.frameCharge)
	c.server.decoding.release(r.decodeCharge)
	if reuse {
		r.frame.Free()
		topics := r.produce.Topics
		if cap(topics) > maxKeptTopics {
			topics = nil
		}
		clear(topics) // they alias the frame
		*r = request{produce: kmsg.ProduceRequest{Topics: topics[:0]}}
		requests.Put(r)
	}
	c.activity.inFlight.Add(-1)
}

// guard turns a panic into the end of this connection, and of nothing else.
func (c *conn) guard(r *request, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.server.metrics.panics.Inc()
			args := append(c.logArgs(), "api", r.api.Name, "version", r.version, "bytes", len(r.frame.B), "panic", p, "stack", string(debug.Stack()))
			c.server.logger.Error("a request panicked; its connection closes", args...)
			err = errPanicked
		}
	}()
	return f()
}
