package sim

import (
	"math/rand/v2"
	"time"
)

// link is one direction between two hosts.
type link struct{ from, to hostID }

// both are the two directions between hosts.
func both(a, b hostID) []link { return []link{{a, b}, {b, a}} }

// netConfig says how bad the network is.
type netConfig struct {
	base      time.Duration // that every message takes at least
	jitter    time.Duration // mean of what is added
	tail      float64       // probability of a long delay
	tailMax   time.Duration
	loss      float64 // of messages that are not resent; a connection breaks where one is
	duplicate float64 // of messages that may come twice
	ordered   bool    // each link keeps its order, as one connection does
}

// network carries messages between hosts.
type network struct {
	w     *world
	rng   *rand.Rand
	c     netConfig
	hosts map[hostID]*host
	cuts  map[link]int // how many faults cut a link
	slow  map[link]time.Duration
	last  map[link]time.Duration // of ordered links: when the message before arrives
}

func newNetwork(w *world, c netConfig) *network {
	return &network{
		w: w, rng: w.rng("network"), c: c, hosts: map[hostID]*host{}, cuts: map[link]int{}, slow: map[link]time.Duration{},
		last: map[link]time.Duration{},
	}
}

func (n *network) add(h *host) { n.hosts[h.id] = h }

// cut adds delta to the number of faults that cut the links; -1 takes one back.
func (n *network) cut(links []link, delta int) {
	for _, l := range links {
		n.cuts[l] += delta
	}
}

func (n *network) isCut(from, to hostID) bool { return from != to && n.cuts[link{from, to}] > 0 }

// heal makes the network good, for ever.
func (n *network) heal() {
	clear(n.cuts)
	clear(n.slow)
	n.c.loss, n.c.duplicate, n.c.tail = 0, 0, 0
}

// delay draws how long a message is on its way.
func (n *network) delay(from, to hostID) time.Duration {
	if from == to {
		return 10 * time.Microsecond
	}
	l := link{from, to}
	d := n.c.base + time.Duration(n.rng.ExpFloat64()*float64(n.c.jitter)) + n.slow[l]
	if n.rng.Float64() < n.c.tail {
		d += time.Duration(n.rng.Float64() * float64(n.c.tailMax))
	}
	if n.c.ordered {
		at := max(n.w.now+d, n.last[l]+time.Microsecond)
		n.last[l] = at
		d = at - n.w.now
	}
	return d
}

// lost reports whether a message does not arrive.
func (n *network) lost(from, to hostID) bool {
	return from != to && (n.isCut(from, to) || n.rng.Float64() < n.c.loss)
}

// send delivers a message of which nobody hears whether it arrived: deliver runs in the process that is there when it
// arrives, if any. It may run twice.
func (n *network) send(from, to hostID, deliver func()) {
	if n.lost(from, to) {
		return
	}
	n.deliver(from, to, deliver)
	if from != to && n.rng.Float64() < n.c.duplicate {
		n.deliver(from, to, deliver)
	}
}

func (n *network) deliver(from, to hostID, deliver func()) {
	target := n.hosts[to]
	n.w.after(n.delay(from, to), func() {
		n.w.mix(uint64(from), uint64(to))
		if target.listening {
			target.do(target.life, deliver)
		}
	})
}

// Errors of calls. What became of the request is known only where it was refused.
type callError string

func (e callError) Error() string { return string(e) }

const (
	errRefused callError = "connection refused" // no process listens, and its host says so
	errReset   callError = "connection reset"
	errTimeout callError = "request timed out"
)

// call asks the process on another host and tells done, once, in the process that asked, if that still lives: the reply,
// or an error after which the request may have been served nevertheless. serve runs in the process that is asked, and
// calls reply once, now or later; where the network duplicates it may run twice.
func call[T any](n *network, from, to hostID, timeout time.Duration, serve func(reply func(T)), done func(T, error)) {
	again := from != to && n.rng.Float64() < n.c.duplicate
	c := newCall(n, from, to, timeout, done)
	c.request(serve)
	if again {
		c.request(serve)
	}
}

// callOnce is call without duplicates.
func callOnce[T any](n *network, from, to hostID, timeout time.Duration, serve func(reply func(T)), done func(T, error)) {
	newCall(n, from, to, timeout, done).request(serve)
}

// conn is a connection on which requests and replies keep their order: where one is lost, so are all that follow.
type conn struct {
	n        *network
	from, to hostID
	life     int           // of the process that it leads to
	lost     bool          // a request was, and what follows is, too
	broken   bool          // the caller knows
	last     time.Duration // when the last request arrives
	replies  []*connReply  // that are due, in the order of the requests
	replied  time.Duration // when the last reply arrives
}

// connReply is the place of a reply.
type connReply struct{ send func() } // nil while there is none

// place keeps the place of the next reply; the result is to be called with the reply.
func (c *conn) place() func(send func()) {
	r := &connReply{}
	c.replies = append(c.replies, r)
	return func(send func()) {
		r.send = send
		for len(c.replies) > 0 && c.replies[0].send != nil {
			first := c.replies[0]
			c.replies = c.replies[1:]
			first.send()
		}
	}
}

func (n *network) dial(from, to hostID) *conn {
	return &conn{n: n, from: from, to: to, life: n.hosts[to].life}
}

// reaches reports whether a request that arrives meets the process that the connection leads to.
func (c *conn) reaches(h *host) bool {
	c.lost = c.lost || !h.listening || h.life != c.life
	return !c.lost
}

// callOn is call on a connection.
func callOn[T any](c *conn, timeout time.Duration, serve func(reply func(T)), done func(T, error)) {
	call := newCall(c.n, c.from, c.to, timeout, func(v T, err error) {
		c.broken = c.broken || err != nil
		done(v, err)
	})
	call.conn = c
	call.request(serve)
}

func newCall[T any](n *network, from, to hostID, timeout time.Duration, done func(T, error)) *pendingCall[T] {
	c := &pendingCall[T]{n: n, from: n.hosts[from], to: n.hosts[to], done: done}
	c.life = c.from.life
	n.w.after(timeout, func() { c.finish(*new(T), errTimeout) })
	return c
}

type pendingCall[T any] struct {
	n        *network
	conn     *conn // nil: one of its own
	from, to *host
	life     int // of the caller
	done     func(T, error)
	finished bool
}

func (c *pendingCall[T]) finish(v T, err error) {
	if !c.finished {
		c.finished = true
		c.from.do(c.life, func() { c.done(v, err) })
	}
}

// fail tells the caller, after the time that a packet takes, if one reaches it.
func (c *pendingCall[T]) fail(err error) {
	if !c.n.isCut(c.to.id, c.from.id) {
		var none T
		c.n.w.after(c.n.delay(c.to.id, c.from.id), func() { c.finish(none, err) })
	}
}

// arrival is how long the request is on its way, unless it gets lost.
func (c *pendingCall[T]) arrival() (d time.Duration, lost bool) {
	lost = c.n.lost(c.from.id, c.to.id)
	if c.conn == nil {
		return c.n.delay(c.from.id, c.to.id), lost
	}
	c.conn.lost = c.conn.lost || lost
	at := max(c.n.w.now+c.n.delay(c.from.id, c.to.id), c.conn.last)
	c.conn.last = at
	return at - c.n.w.now, c.conn.lost
}

func (c *pendingCall[T]) request(serve func(reply func(T))) {
	n := c.n
	d, lost := c.arrival()
	if lost {
		if !n.isCut(c.from.id, c.to.id) { // else nothing tells the caller before its patience ends
			c.fail(errReset)
		}
		return
	}
	n.w.after(d, func() {
		n.w.mix(uint64(c.from.id), uint64(c.to.id))
		if !c.to.listening {
			if c.conn != nil {
				c.conn.lost = true
			}
			if c.to.powered {
				c.fail(errRefused)
			}
			return
		}
		if c.conn != nil && !c.conn.reaches(c.to) {
			c.fail(errReset)
			return
		}
		request := c.to.serve(func() { c.fail(errReset) })
		c.to.do(c.to.life, func() {
			send := func(reply func()) { reply() }
			if c.conn != nil {
				send = c.conn.place()
			}
			serve(func(v T) {
				c.to.served(request)
				send(func() { c.response(v) })
			})
		})
	})
}

// response carries the reply back.
func (c *pendingCall[T]) response(v T) {
	n := c.n
	cut, lost := n.isCut(c.to.id, c.from.id), n.lost(c.to.id, c.from.id)
	at := n.w.now + n.delay(c.to.id, c.from.id)
	if c.conn != nil {
		c.conn.lost = c.conn.lost || lost
		lost = c.conn.lost
		at = max(at, c.conn.replied)
		c.conn.replied = at
	}
	switch {
	case c.finished || cut:
	case lost:
		c.fail(errReset)
	default:
		n.w.after(at-n.w.now, func() { c.finish(v, nil) })
	}
}
