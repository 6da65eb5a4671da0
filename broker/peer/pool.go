package peer

import (
	"net"
	"strconv"
	"sync"
)

// Pool has the clients of a set of brokers, made when they are first asked for. ID tells the brokers apart. Safe for
// concurrent use.
type Pool[ID comparable] struct {
	o     Options
	loops sync.WaitGroup
	mu    struct {
		sync.Mutex
		closed  bool
		brokers map[ID]*pooled
	}
}

// pooled is one broker's part of a Pool.
type pooled struct {
	address string
	clients map[Purpose]*Client
}

// NewPool returns a pool that knows no broker yet.
func NewPool[ID comparable](o Options) *Pool[ID] {
	o.fill()
	p := &Pool[ID]{o: o}
	p.mu.brokers = make(map[ID]*pooled)
	return p
}

// SetAddress says where a broker is. Connections to where it was are closed; those to where it is now are tried at once.
func (p *Pool[ID]) SetAddress(id ID, host string, port uint16) {
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	var aborts []func()
	defer func() { callAll(aborts) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.mu.brokers[id]
	if b == nil {
		b = &pooled{clients: make(map[Purpose]*Client)}
		p.mu.brokers[id] = b
	}
	if b.address == address {
		return
	}
	b.address = address
	for _, c := range b.clients { // under the lock: of two addresses the later one counts
		aborts = append(aborts, c.setAddress(address))
	}
}

// Remove forgets a broker. Requests to it that wait fail with ErrClosed.
func (p *Pool[ID]) Remove(id ID) {
	p.mu.Lock()
	b := p.mu.brokers[id]
	delete(p.mu.brokers, id)
	p.mu.Unlock()
	if b != nil {
		callAll(b.stop())
	}
}

// IDs are the brokers that the pool knows, in no order.
func (p *Pool[ID]) IDs() []ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := make([]ID, 0, len(p.mu.brokers))
	for id := range p.mu.brokers {
		ids = append(ids, id)
	}
	return ids
}

// Send sends a request to a broker; see Client.Send. ErrNoAddress is one error more.
func (p *Pool[ID]) Send(id ID, purpose Purpose, r Call) error {
	c, err := p.client(id, purpose)
	if err != nil {
		return err
	}
	return c.Send(r)
}

func (p *Pool[ID]) client(id ID, purpose Purpose) (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.mu.brokers[id]
	switch {
	case p.mu.closed:
		return nil, ErrClosed
	case b == nil:
		return nil, ErrNoAddress
	}
	c := b.clients[purpose]
	if c == nil {
		c = newClient(p.o, b.address, purpose, &p.loops)
		b.clients[purpose] = c
	}
	return c, nil
}

// Close closes all connections and returns when their goroutines have ended; whoever waits for an answer is told ErrClosed
// before. A second call does nothing.
func (p *Pool[ID]) Close() {
	var aborts []func()
	p.mu.Lock()
	p.mu.closed = true
	for _, b := range p.mu.brokers {
		aborts = append(aborts, b.stop()...)
	}
	clear(p.mu.brokers)
	p.mu.Unlock()
	callAll(aborts)
	p.loops.Wait()
}

// stop stops the clients, and returns what is to be called for that without a lock. Nobody makes clients any more.
func (b *pooled) stop() (aborts []func()) {
	for _, c := range b.clients {
		aborts = append(aborts, c.stop())
	}
	return aborts
}

func callAll(fs []func()) {
	for _, f := range fs {
		if f != nil {
			f()
		}
	}
}
