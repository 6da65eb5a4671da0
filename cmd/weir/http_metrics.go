package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"weir/broker"
	"weir/internal/metrics"
)

// maxScrapes bounds the scrapes at a time; those that come while one collects share what it finds.
const maxScrapes = 8

// metricsHandler serves Weir's own metrics, the families that Kafka's dashboards ask for, and those of the process.
func metricsHandler(registry *metrics.Registry, stats func() *broker.Stats, logger *slog.Logger) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &collector{registry, stats})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes, CoalesceGather: true,
	})
}

// collector makes metrics of what a broker counted and of its state at the time of the scrape.
type collector struct {
	registry *metrics.Registry
	stats    func() *broker.Stats // nil while there is no broker
}

// Describe names nothing: which families there are depends on the broker's state.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := scrape{out}
	s.build()
	s.counted(c.registry.Families())
	if stats := c.stats(); stats != nil {
		s.exporter(stats)
		s.groups(stats)
		s.jmx(stats)
	}
}

// build tells what runs.
func (s scrape) build() {
	info, _ := debug.ReadBuildInfo()
	s.gauge("weir_build_info", "The version of Weir and of Go that it was built with; always 1.").
		add(1, "go_version", runtime.Version(), "version", moduleVersion(info))
}

// counted passes on what the broker counts, with Kafka's names for some of it.
func (s scrape) counted(families []metrics.Family) {
	for _, f := range families {
		out := s.family(f.Name, f.Help, f.Kind)
		for _, m := range f.Metrics {
			var labels []string
			for _, l := range m.Labels {
				labels = append(labels, l.Name, l.Value)
			}
			switch f.Kind {
			case metrics.KindHistogram:
				out.addHistogram(m.Histogram, labels...)
			case metrics.KindCounter:
				out.add(float64(m.Counter.Value()), labels...)
			default:
				out.add(float64(m.Gauge.Value()), labels...)
			}
		}
		switch f.Name {
		case "weir_requests_total":
			s.requestMetrics(f.Metrics)
		case "weir_connections":
			s.socketMetrics(f.Metrics)
		}
	}
}

func (s scrape) requestMetrics(requests []metrics.Metric) {
	out := s.counter("kafka_network_requestmetrics_requests_total", "Requests by API and version.")
	for _, m := range requests {
		if version := labelOf(m, "version"); version != "unsupported" { // Kafka counts only what it serves
			out.add(float64(m.Counter.Value()), "request", labelOf(m, "api"), "version", version)
		}
	}
}

func (s scrape) socketMetrics(connections []metrics.Metric) {
	out := s.gauge("kafka_server_socket_server_metrics_connection_count", "Open connections by listener.")
	for _, m := range connections {
		out.add(float64(m.Gauge.Value()), "listener", labelOf(m, "listener"))
	}
}

func labelOf(m metrics.Metric, name string) string {
	for _, l := range m.Labels {
		if l.Name == name {
			return l.Value
		}
	}
	return ""
}

// scrape sends the metrics of one scrape.
type scrape struct{ out chan<- prometheus.Metric }

// family is a family that metrics are added to.
type family struct {
	out  chan<- prometheus.Metric
	desc *prometheus.Desc
	kind metrics.Kind
}

func (s scrape) family(name, help string, kind metrics.Kind) family {
	return family{s.out, prometheus.NewDesc(name, help, nil, nil), kind}
}

func (s scrape) gauge(name, help string) family   { return s.family(name, help, metrics.KindGauge) }
func (s scrape) counter(name, help string) family { return s.family(name, help, metrics.KindCounter) }

// add adds a metric with labels as name, value, in the order of names.
func (f family) add(value float64, labels ...string) { f.addLabelled(value, pairs(labels...)) }

// addLabelled is add for labels that several metrics share.
func (f family) addLabelled(value float64, labels []*dto.LabelPair) {
	f.out <- &metric{f.desc, f.kind, value, labels}
}

func (f family) addHistogram(h *metrics.Histogram, labels ...string) {
	upper, cumulative := h.Buckets()
	last := len(upper) - 1 // +Inf, which is the count
	out := &dto.Histogram{SampleCount: new(uint64(cumulative[last])), SampleSum: new(h.Sum().Seconds())}
	for i := range last {
		out.Bucket = append(out.Bucket, &dto.Bucket{UpperBound: &upper[i], CumulativeCount: new(uint64(cumulative[i]))})
	}
	f.out <- &histogram{f.desc, out, pairs(labels...)}
}

func pairs(labels ...string) []*dto.LabelPair {
	out := make([]*dto.LabelPair, 0, len(labels)/2)
	for i := 0; i < len(labels); i += 2 {
		out = append(out, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
	}
	return out
}

// metric is a counter or a gauge. The library's own constant metrics would copy the labels for each of a partition's
// families, which is a third of what a scrape of many partitions costs.
type metric struct {
	desc   *prometheus.Desc
	kind   metrics.Kind
	value  float64
	labels []*dto.LabelPair
}

// Desc implements prometheus.Metric.
func (m *metric) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m *metric) Write(out *dto.Metric) error {
	out.Label = m.labels
	switch m.kind {
	case metrics.KindCounter:
		out.Counter = &dto.Counter{Value: &m.value}
	case metrics.KindGauge:
		out.Gauge = &dto.Gauge{Value: &m.value}
	default:
		return fmt.Errorf("%s is no value of one number", m.kind)
	}
	return nil
}

type histogram struct {
	desc   *prometheus.Desc
	value  *dto.Histogram
	labels []*dto.LabelPair
}

// Desc implements prometheus.Metric.
func (h *histogram) Desc() *prometheus.Desc { return h.desc }

// Write implements prometheus.Metric.
func (h *histogram) Write(out *dto.Metric) error {
	out.Label, out.Histogram = h.labels, h.value
	return nil
}
