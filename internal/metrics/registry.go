package metrics

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/invariant"
)

// Kind is the type of a family.
type Kind string

// The kinds, by Prometheus' names for them.
const (
	KindCounter   Kind = "counter"
	KindGauge     Kind = "gauge"
	KindHistogram Kind = "histogram"
)

// Label is one label of a metric.
type Label struct{ Name, Value string }

// Family is all metrics of one name.
type Family struct {
	Name, Help string
	Kind       Kind
	Metrics    []Metric
}

// Metric is one metric of a family; the field of the family's kind is set.
type Metric struct {
	Labels    []Label
	Counter   *Counter
	Gauge     *Gauge
	Histogram *Histogram
}

// Registry holds families by name. The zero value is not usable; see NewRegistry.
type Registry struct {
	mu struct {
		sync.Mutex
		families map[string]*Family
	}
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	r := &Registry{}
	r.mu.families = make(map[string]*Family)
	return r
}

// Counter returns the counter of that name and those labels, making it the first time.
func (r *Registry) Counter(name, help string, labels ...Label) *Counter {
	return r.metric(name, help, KindCounter, labels, func(m *Metric) { m.Counter = new(Counter) }).Counter
}

// Gauge returns the gauge of that name and those labels, making it the first time.
func (r *Registry) Gauge(name, help string, labels ...Label) *Gauge {
	return r.metric(name, help, KindGauge, labels, func(m *Metric) { m.Gauge = new(Gauge) }).Gauge
}

// Histogram returns the histogram of that name and those labels, making it the first time with the given upper bounds,
// which ascend.
func (r *Registry) Histogram(name, help string, bounds []time.Duration, labels ...Label) *Histogram {
	return r.metric(name, help, KindHistogram, labels, func(m *Metric) { m.Histogram = newHistogram(bounds) }).Histogram
}

func newHistogram(bounds []time.Duration) *Histogram {
	h := &Histogram{bounds: slices.Clone(bounds), counts: make([]atomic.Int64, len(bounds)+1)}
	invariant.Assert(slices.IsSorted(h.bounds), "histogram bounds %v do not ascend", bounds)
	return h
}

func (r *Registry) metric(name, help string, kind Kind, labels []Label, init func(*Metric)) Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.mu.families[name]
	if f == nil {
		f = &Family{Name: name, Help: help, Kind: kind}
		r.mu.families[name] = f
	}
	invariant.Assert(f.Kind == kind, "metric %s is a %s and asked for as a %s", name, f.Kind, kind)
	for _, m := range f.Metrics {
		if slices.Equal(m.Labels, labels) {
			return m
		}
	}
	m := Metric{Labels: slices.Clone(labels)}
	init(&m)
	f.Metrics = append(f.Metrics, m)
	return m
}

// Families returns all families in the order of their names, each with its metrics in the order in which they were made.
// The metrics in them go on counting.
func (r *Registry) Families() []Family {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Family, 0, len(r.mu.families))
	for _, f := range r.mu.families {
		c := *f
		c.Metrics = slices.Clone(f.Metrics)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
	return all
}
