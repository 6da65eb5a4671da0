package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// epoch is when every run begins.
var epoch = time.Unix(1_700_000_000, 0)

// world is virtual time: what is going to happen, in order. Nothing happens outside its events, and what happens at the
// same time happens in the order in which it was planned. One goroutine uses it.
type world struct {
	seed   uint64
	now    time.Duration // since epoch
	queue  eventQueue
	seq    uint64
	digest uint64 // of all that was mixed in: equal for equal runs
	trace  *trace // nil where nobody reads it
}

func newWorld(seed uint64, t *trace) *world {
	return &world{seed: seed, digest: 14695981039346656037, trace: t}
}

// rng returns a stream of random numbers of its own, so that one part of a run may be changed and the others draw the same.
func (w *world) rng(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// time is what an exact clock shows.
func (w *world) time() time.Time { return epoch.Add(w.now) }

// after plans f.
func (w *world) after(d time.Duration, f func()) {
	w.seq++
	w.queue.push(event{at: w.now + max(d, 0), seq: w.seq, do: f})
}

// run lets things happen up to a time.
func (w *world) run(until time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := w.queue.pop()
		w.now = e.at
		w.mix(uint64(e.at), e.seq)
		e.do()
	}
	w.now = until
}

// mix makes the digest depend on numbers.
func (w *world) mix(numbers ...uint64) {
	for _, n := range numbers {
		w.digest = (w.digest ^ n) * 1099511628211
		w.digest ^= w.digest >> 29
	}
}

// tracing reports whether a trace is kept: arguments of tracef need not be computed otherwise.
func (w *world) tracing() bool { return w.trace != nil }

func (w *world) tracef(format string, args ...any) {
	if w.trace != nil {
		w.trace.add(fmt.Sprintf("%9.3fms  ", float64(w.now)/1e6) + fmt.Sprintf(format, args...))
	}
}

// trace is a run's story: its lines, all of them or the last ones.
type trace struct {
	lines []string
	keep  int // 0: all
}

func (t *trace) add(line string) {
	t.lines = append(t.lines, line)
	if t.keep > 0 && len(t.lines) > 2*t.keep {
		t.lines = append([]string(nil), t.lines[len(t.lines)-t.keep:]...)
	}
}

// event is something that is going to happen.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// eventQueue is a heap, the earliest event first.
type eventQueue []event

func (q *eventQueue) push(e event) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	*q = h
}

func (q *eventQueue) pop() event {
	h := *q
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = event{}
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = last
	return first
}
