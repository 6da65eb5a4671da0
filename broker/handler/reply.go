package handler

import (
	"sync"

	"weir/protocol"
)

// Reply is what a handler answers: a body now, a body later, nothing at all (acks=0), or the end of the connection.
type Reply struct {
	body    protocol.Body
	pending *Pending
	err     error
}

// Now answers with body.
func Now(body protocol.Body) Reply { return Reply{body: body} }

// Later answers when p is completed. Only the keys that the API table marks as pipelined let the connection's next
// request start meanwhile.
func Later(p *Pending) Reply { return Reply{pending: p} }

// Silent sends nothing: Produce with acks=0.
func Silent() Reply { return Reply{} }

// Close ends the connection without an answer, where the protocol has none. Replies to earlier requests still leave.
func Close(err error) Reply { return Reply{err: err} }

// Body returns the body of a Now reply, else nil.
func (r Reply) Body() protocol.Body { return r.body }

// Pending returns the reply to wait for, else nil.
func (r Reply) Pending() *Pending { return r.pending }

// Err returns the reason to close the connection, else nil.
func (r Reply) Err() error { return r.err }

// Pending is a reply that is completed once, later, by whoever knows the answer. Completing never blocks. Safe for
// concurrent use.
type Pending struct {
	done chan struct{}
	mu   struct {
		sync.Mutex
		body      protocol.Body
		completed bool
		abandoned bool
		onAbandon func()
	}
}

// NewPending returns a reply that waits.
func NewPending() *Pending { return &Pending{done: make(chan struct{})} }

// Complete gives the answer; only the first call counts. A nil body sends nothing. What is not sent any more is
// released.
func (p *Pending) Complete(body protocol.Body) {
	p.mu.Lock()
	counts := !p.mu.completed
	if counts {
		p.mu.completed = true
		if !p.mu.abandoned {
			p.mu.body, body = body, nil
		}
	}
	p.mu.Unlock()
	release(body)
	if counts {
		close(p.done)
	}
}

// OnAbandon has f called if p is abandoned before it is complete: what was going to complete it need not.
func (p *Pending) OnAbandon(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.onAbandon = f
}

// Abandon says that nobody sends the answer any more: the connection is gone. Whoever took the Body does not abandon.
func (p *Pending) Abandon() {
	p.mu.Lock()
	p.mu.abandoned = true
	body, tell := p.mu.body, p.mu.onAbandon
	p.mu.body, p.mu.onAbandon = nil, nil
	if p.mu.completed {
		tell = nil
	}
	p.mu.Unlock()
	release(body)
	if tell != nil {
		tell()
	}
}

func release(body protocol.Body) {
	if parts, ok := body.(protocol.PartsBody); ok {
		parts.Release()
	}
}

// Done is closed when the reply is complete.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Body returns the answer, after Done; nil where nothing is sent.
func (p *Pending) Body() protocol.Body {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.body
}
