package metrics

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestAMetricIsFoundAgainByNameAndLabels(t *testing.T) {
	r := NewRegistry()
	a := r.Counter("requests", "Requests.", Label{"api", "Fetch"})
	b := r.Counter("requests", "Requests.", Label{"api", "Produce"})
	a.Inc()
	r.Counter("requests", "Requests.", Label{"api", "Fetch"}).Add(2)
	if a.Value() != 3 || b.Value() != 0 {
		t.Errorf("counted %d and %d, want 3 and 0", a.Value(), b.Value())
	}
	g := r.Gauge("open", "Open connections.")
	g.Set(5)
	g.Add(-2)
	families := r.Families()
	if len(families) != 2 || families[0].Name != "open" || families[1].Name != "requests" {
		t.Fatalf("families %+v, want open and requests", families)
	}
	if got := families[0].Metrics[0].Gauge.Value(); got != 3 {
		t.Errorf("gauge %d, want 3", got)
	}
	if m := families[1].Metrics; len(m) != 2 || m[0].Counter.Value() != 3 || m[0].Labels[0].Value != "Fetch" {
		t.Errorf("metrics %+v, want Fetch with 3 first of two", m)
	}
}

func TestHistogramCountsByUpperBounds(t *testing.T) {
	h := NewRegistry().Histogram("latency", "Latency.", []time.Duration{time.Millisecond, time.Second})
	for _, d := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond, time.Minute} {
		h.Observe(d)
	}
	upper, cumulative := h.Buckets()
	if want := []float64{0.001, 1, math.Inf(1)}; !slices.Equal(upper, want) {
		t.Errorf("upper bounds %v, want %v", upper, want)
	}
	if want := []int64{2, 3, 4}; !slices.Equal(cumulative, want) {
		t.Errorf("cumulative counts %v, want %v", cumulative, want)
	}
	if want := time.Minute + 3*time.Millisecond; h.Sum() != want {
		t.Errorf("sum %v, want %v", h.Sum(), want)
	}
}

func TestOneNameHasOneKind(t *testing.T) {
	r := NewRegistry()
	r.Counter("x", "")
	defer func() {
		if recover() == nil {
			t.Error("a counter was handed out as a gauge")
		}
	}()
	r.Gauge("x", "")
}

func TestCountingWhileOthersLook(t *testing.T) {
	r := NewRegistry()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				r.Counter("n", "").Inc()
				r.Families()
			}
		})
	}
	wg.Wait()
	if got := r.Counter("n", "").Value(); got != 4000 {
		t.Errorf("counted %d, want 4000", got)
	}
	if n := testing.AllocsPerRun(100, r.Counter("n", "").Inc); n != 0 {
		t.Errorf("counting allocates %v times", n)
	}
}
