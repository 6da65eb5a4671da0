package metrics

import (
	"math"
	"sync/atomic"
	"time"
)

// Counter only rises. The zero value is ready.
type Counter struct{ n atomic.Int64 }

// Inc adds one.
func (c *Counter) Inc() { c.n.Add(1) }

// Add adds n, which is not negative.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Value is the count.
func (c *Counter) Value() int64 { return c.n.Load() }

// Gauge rises and falls. The zero value is ready.
type Gauge struct{ n atomic.Int64 }

// Add adds n, which may be negative.
func (g *Gauge) Add(n int64) { g.n.Add(n) }

// Set replaces the value.
func (g *Gauge) Set(n int64) { g.n.Store(n) }

// Value is the value.
func (g *Gauge) Value() int64 { return g.n.Load() }

// Histogram counts durations by buckets of fixed upper bounds.
type Histogram struct {
	bounds []time.Duration // ascending
	counts []atomic.Int64  // one more than bounds: the last is what lies above all of them
	sum    atomic.Int64    // nanoseconds
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] { // a dozen bounds: walking them beats a search
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Buckets returns the upper bounds in seconds with how many observations were at or below each, ending with +Inf and
// all of them. The observations of one moment may be seen in part.
func (h *Histogram) Buckets() (upper []float64, cumulative []int64) {
	var n int64
	for i := range h.counts {
		n += h.counts[i].Load()
		bound := math.Inf(1)
		if i < len(h.bounds) {
			bound = h.bounds[i].Seconds()
		}
		upper, cumulative = append(upper, bound), append(cumulative, n)
	}
	return upper, cumulative
}

// Sum is the sum of all observations.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum.Load()) }
