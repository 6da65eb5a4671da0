package sim

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestEventsHappenInOrder(t *testing.T) {
	w := newWorld(1, nil)
	rng := w.rng("test")
	var got []time.Duration
	for range 500 {
		d := time.Duration(rng.Int64N(int64(time.Second)))
		w.after(d, func() {
			if w.now != d {
				t.Fatalf("what was planned for %v happened at %v", d, w.now)
			}
			got = append(got, d)
		})
	}
	w.run(2 * time.Second)
	if len(got) != 500 || !slices.IsSorted(got) || w.now != 2*time.Second {
		t.Fatalf("%d events until %v: %v", len(got), w.now, got)
	}
}

func TestEventsOfOneMomentKeepTheirOrder(t *testing.T) {
	w := newWorld(1, nil)
	var got []int
	for i := range 100 {
		w.after(time.Second, func() { got = append(got, i) })
	}
	w.run(time.Second)
	if len(got) != 100 || !slices.IsSorted(got) {
		t.Fatal(got)
	}
}

func TestStreamsOfRandomNumbersAreIndependent(t *testing.T) {
	a, b := newWorld(1, nil), newWorld(1, nil)
	a.rng("one").Uint64()
	if a.rng("two").Uint64() != b.rng("two").Uint64() {
		t.Fatal("what another stream drew made a difference")
	}
	if a.rng("one").Uint64() == newWorld(2, nil).rng("one").Uint64() {
		t.Fatal("another seed draws the same")
	}
}

// pair is two hosts with running processes on a network that does as it is told.
func pair(c netConfig) (w *world, n *network, a, b *host) {
	w = newWorld(1, nil)
	n = newNetwork(w, c)
	a, b = newHost(w, 1, nil), newHost(w, 2, nil)
	for _, h := range []*host{a, b} {
		n.add(h)
		h.begin()
		h.listen()
	}
	return w, n, a, b
}

// outcome is what a caller was told.
type outcome struct {
	value int
	err   error
	times int
}

func (o *outcome) done(v int, err error) { o.value, o.err, o.times = v, err, o.times+1 }

func echo(served *int) func(func(int)) {
	return func(reply func(int)) {
		*served++
		reply(7)
	}
}

func TestCalls(t *testing.T) {
	quick := netConfig{base: time.Millisecond, ordered: true}
	for name, c := range map[string]struct {
		net    netConfig
		before func(n *network, a, b *host)
		during func(n *network, a, b *host) // after 1.5 ms: the request has arrived
		slow   bool                         // the answer comes late
		want   outcome
		served int
	}{
		"answered":                {net: quick, want: outcome{7, nil, 1}, served: 1},
		"answered late":           {net: quick, slow: true, want: outcome{7, nil, 1}, served: 1},
		"cut":                     {net: quick, before: func(n *network, _, _ *host) { n.cut(both(1, 2), 1) }, want: outcome{0, errTimeout, 1}},
		"cut on the way back":     {net: quick, before: func(n *network, _, _ *host) { n.cut([]link{{2, 1}}, 1) }, want: outcome{0, errTimeout, 1}, served: 1},
		"no process":              {net: quick, before: func(_ *network, _, b *host) { b.end(true) }, want: outcome{0, errRefused, 1}},
		"no power":                {net: quick, before: func(_ *network, _, b *host) { b.end(false) }, want: outcome{0, errTimeout, 1}},
		"killed while serving":    {net: quick, slow: true, during: func(_ *network, _, b *host) { b.end(true) }, want: outcome{0, errReset, 1}},
		"power cut while serving": {net: quick, slow: true, during: func(_ *network, _, b *host) { b.end(false) }, want: outcome{0, errTimeout, 1}},
		"the caller dies":         {net: quick, slow: true, during: func(_ *network, a, _ *host) { a.end(true) }, served: 1},
		"the caller begins anew":  {net: quick, slow: true, during: func(_ *network, a, _ *host) { a.end(true); a.begin() }, served: 1},
		"paused for too long":     {net: quick, before: func(_ *network, _, b *host) { b.pause() }, want: outcome{0, errTimeout, 1}},
		"not listening yet":       {net: quick, before: func(_ *network, _, b *host) { b.end(true); b.begin() }, want: outcome{0, errRefused, 1}},
		"lost":                    {net: netConfig{base: time.Millisecond, loss: 1}, want: outcome{0, errReset, 1}},
		"the request comes twice": {net: netConfig{base: time.Millisecond, duplicate: 1}, want: outcome{7, nil, 1}, served: 2},
		"another process by then": {net: quick, before: func(_ *network, _, b *host) { b.end(true); b.begin(); b.listen() }, want: outcome{7, nil, 1}, served: 1},
		"paused and resumed in time": {net: quick, before: func(n *network, _, b *host) { b.pause(); n.w.after(100*time.Millisecond, b.resume) },
			want: outcome{7, nil, 1}, served: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, n, a, b := pair(c.net)
			if c.before != nil {
				c.before(n, a, b)
			}
			var got outcome
			served := 0
			serve := echo(&served)
			if c.slow {
				serve = func(reply func(int)) { b.after(50*time.Millisecond, func() { echo(&served)(reply) }) }
			}
			call(n, 1, 2, time.Second, serve, got.done)
			if c.during != nil {
				w.after(1500*time.Microsecond, func() { c.during(n, a, b) })
			}
			w.run(10 * time.Second)
			if got.value != c.want.value || !errors.Is(got.err, c.want.err) || got.times != c.want.times || served != c.served {
				t.Errorf("got %+v, served %d times; want %+v, %d", got, served, c.want, c.served)
			}
		})
	}
}

func TestOrderedLinksKeepTheirOrder(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		w, n, _, _ := pair(netConfig{base: time.Millisecond, jitter: 20 * time.Millisecond, ordered: ordered})
		var got []int
		for i := range 200 {
			w.after(time.Duration(i)*time.Millisecond, func() {
				n.send(1, 2, func() { got = append(got, i) })
			})
		}
		w.run(time.Minute)
		if len(got) != 200 || slices.IsSorted(got) != ordered {
			t.Errorf("ordered %v: %d messages came as %v", ordered, len(got), got)
		}
	}
}

// On one connection a request that comes later is never served without the one before it.
func TestConnectionsKeepTheOrderOfRequests(t *testing.T) {
	w, n, _, _ := pair(netConfig{base: time.Millisecond, jitter: 20 * time.Millisecond, loss: 0.01})
	var served []int
	answered, failed, broken := 0, 0, 0
	c := n.dial(1, 2)
	first := 0 // of the connection
	for i := range 2000 {
		w.after(time.Duration(i)*time.Millisecond, func() {
			if c.broken {
				for j, v := range served {
					if v != first+j {
						t.Fatalf("a connection that began with %d served %v", first, served)
					}
				}
				c, first, served = n.dial(1, 2), i, nil
				broken++
			}
			on := c
			callOn(c, time.Second, func(reply func(int)) {
				if on == c {
					served = append(served, i)
				}
				reply(i)
			}, func(_ int, err error) {
				if err != nil {
					failed++
				} else {
					answered++
				}
			})
		})
	}
	w.run(time.Minute)
	if answered+failed != 2000 || broken < 5 || answered < 500 {
		t.Fatalf("%d answers, %d failures, %d connections broke", answered, failed, broken)
	}
}

func TestHealedNetworkLosesNothing(t *testing.T) {
	w, n, _, _ := pair(netConfig{base: time.Millisecond, loss: 0.5, duplicate: 0.5})
	n.cut(both(1, 2), 1)
	n.heal()
	got := 0
	for range 100 {
		n.send(1, 2, func() { got++ })
	}
	w.run(time.Minute)
	if got != 100 {
		t.Fatalf("%d of 100 messages came", got)
	}
}
