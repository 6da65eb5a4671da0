package broker

import (
	"sync"

	"weir/broker/handler"
	"weir/protocol"
)

// replyQueue holds the replies of pipelined requests that have to wait, in request order: for their answer, or for an
// earlier one's. While it is not empty a writer goroutine works on it, and the reader writes nothing. Only the reader
// adds.
type replyQueue struct {
	left chan struct{} // one slot: a reply has left the queue
	mu   struct {
		sync.Mutex
		waiting []parked
		bytes   int64 // of their frames
	}
}

type parked struct {
	r       *request
	body    protocol.Body    // of a reply that is ready
	pending *handler.Pending // of one that is not
}

func (q *replyQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mu.waiting)
}

// push adds a reply and reports whether it is the only one: the caller then starts the writer.
func (q *replyQueue) push(p parked) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.waiting = append(q.mu.waiting, p)
	q.mu.bytes += int64(len(p.r.frame.B))
	return len(q.mu.waiting) == 1
}

// peek returns reply i, without taking it out.
func (q *replyQueue) peek(i int) (parked, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i >= len(q.mu.waiting) {
		return parked{}, false
	}
	return q.mu.waiting[i], true
}

// pop takes out the first n replies, which are sent, and reports whether any is left. Frames are freed after this.
func (q *replyQueue) pop(n int) (more bool) {
	q.mu.Lock()
	for _, p := range q.mu.waiting[:n] {
		q.mu.bytes -= int64(len(p.r.frame.B))
	}
	rest := copy(q.mu.waiting, q.mu.waiting[n:])
	clear(q.mu.waiting[rest:])
	q.mu.waiting = q.mu.waiting[:rest]
	q.mu.Unlock()
	select {
	case q.left <- struct{}{}:
	default:
	}
	return rest > 0
}

// full reports whether the reader has to wait before it takes the next request.
func (q *replyQueue) full(l *Limits) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mu.waiting) >= l.PipelinedReplies || q.mu.bytes >= l.PipelinedBytes
}

// park leaves r's reply to the writer, and returns when the next request may start.
func (c *conn) park(r *request, reply handler.Reply) {
	if c.replies.push(parked{r, reply.Body(), reply.Pending()}) {
		c.writer.Add(1)
		go c.writeReplies()
	}
	for c.replies.full(&c.server.limits) {
		select {
		case <-c.replies.left:
		case <-c.watched():
			return
		}
	}
}

// waitForReplies returns when every earlier reply is written; false when the peer is gone before.
func (c *conn) waitForReplies() bool {
	for c.replies.len() > 0 {
		select {
		case <-c.replies.left:
		case <-c.watched():
			return false
		}
	}
	return true
}

const maxTogether = 16 // replies that are written at once: what a group commit sets free of one connection

// writeReplies is the writer goroutine. It ends when no reply waits.
func (c *conn) writeReplies() {
	defer c.writer.Done()
	var together [maxTogether]parked
	for more := true; more; {
		first, _ := c.replies.peek(0)
		if first.pending != nil {
			select {
			case <-first.pending.Done():
			case <-c.gone:
				return // end drops what is left
			}
		}
		n := c.ready(&together)
		err := c.sendTogether(together[:n])
		more = c.replies.pop(n)
		for _, p := range together[:n] {
			c.finish(p.r, err == nil)
		}
		clear(together[:n])
		if err != nil {
			c.close(err)
			return
		}
	}
	if c.isDraining() && c.activity.inFlight.Load() == 0 {
		c.close(errShutdown)
	}
}

// ready collects the replies at the head of the queue that are there; the first one is. One that lies in files stands
// alone.
func (c *conn) ready(into *[maxTogether]parked) int {
	for i := range into {
		p, ok := c.replies.peek(i)
		if !ok || isWaiting(p.pending) {
			return i
		}
		if p.pending != nil {
			p.body = p.pending.Body()
		}
		if _, inFiles := p.body.(protocol.PartsBody); inFiles && i > 0 {
			return i
		} else if inFiles {
			into[0] = p
			return 1
		}
		into[i] = p
	}
	return len(into)
}

// dropReplies lets go of what was not sent when the connection ended.
func (c *conn) dropReplies() {
	for {
		p, ok := c.replies.peek(0)
		if !ok {
			return
		}
		drop(p.body, p.pending)
		c.replies.pop(1)
		c.finish(p.r, false)
	}
}
