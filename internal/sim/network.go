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
		target.do(target.life, deliver)
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
// calls reply once, now or later; with duplicates it may run twice.
func call[T any](n *network, from, to hostID, timeout time.Duration, serve func(reply func(T)), done func(T, error)) {
	c := &pendingCall[T]{n: n, from: n.hosts[from], to: n.hosts[to], done: done}
	c.life = c.from.life
	n.w.after(timeout, func() { c.finish(*new(T), errTimeout) })
	c.request(serve)
	if from != to && n.rng.Float64() < n.c.duplicate {
		c.request(serve)
	}
}

type pendingCall[T any] struct {
	n        *network
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

func (c *pendingCall[T]) request(serve func(reply func(T))) {
	n := c.n
	if n.isCut(c.from.id, c.to.id) {
		return // until the timeout
	}
	if n.lost(c.from.id, c.to.id) {
		c.fail(errReset)
		return
	}
	n.w.after(n.delay(c.from.id, c.to.id), func() {
		n.w.mix(uint64(c.from.id), uint64(c.to.id))
		if !c.to.running {
			if c.to.powered {
				c.fail(errRefused)
			}
			return
		}
		request := c.to.serve(func() { c.fail(errReset) })
		c.to.do(c.to.life, func() {
			serve(func(v T) {
				c.to.served(request)
				c.response(v)
			})
		})
	})
}

// response carries the reply back.
func (c *pendingCall[T]) response(v T) {
	n := c.n
	switch {
	case c.finished || n.isCut(c.to.id, c.from.id):
	case n.lost(c.to.id, c.from.id):
		c.fail(errReset)
	default:
		n.w.after(n.delay(c.to.id, c.from.id), func() { c.finish(v, nil) })
	}
}
