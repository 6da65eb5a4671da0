package broker

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/metrics"
	"weir/protocol"
)

// labelled returns the values of a family by its labels.
func (e *edge) labelled(name string) map[string]int64 {
	out := make(map[string]int64)
	for _, f := range e.metrics.Families() {
		if f.Name != name {
			continue
		}
		for _, m := range f.Metrics {
			var labels []string
			for _, l := range m.Labels {
				labels = append(labels, l.Name+"="+l.Value)
			}
			if m.Counter != nil {
				out[strings.Join(labels, " ")] = m.Counter.Value()
			} else {
				out[strings.Join(labels, " ")] = m.Gauge.Value()
			}
		}
	}
	return out
}

func TestRequestsAreCountedByVersionAndConnectionsByListener(t *testing.T) {
	e := startEdge(t, Limits{}, emptyReply)
	apiVersions := func(correlationID int32, version int16) []byte {
		r := kmsg.NewPtrApiVersionsRequest()
		r.Version = version
		return encodeRequest(r, correlationID)
	}
	c := e.dial()
	c.send(metadataRequest(1), metadataRequest(2), apiVersions(3, 3), apiVersions(4, 99), apiVersions(5, 98))
	c.expect(1, 2, 3, 4, 5)
	want := map[string]int64{"api=Metadata version=4": 2, "api=ApiVersions version=3": 1, "api=ApiVersions version=unsupported": 2}
	if got := e.labelled("weir_requests_total"); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := e.labelled("weir_connections"); !maps.Equal(got, map[string]int64{"listener=PLAINTEXT": 1}) {
		t.Errorf("connections %v", got)
	}
	_ = c.Close()
	eventually(t, "it is not counted any more", func() bool { return e.labelled("weir_connections")["listener=PLAINTEXT"] == 0 })
	if got := e.labelled("weir_connections_accepted_total"); !maps.Equal(got, map[string]int64{"listener=PLAINTEXT": 1}) {
		t.Errorf("accepted %v", got)
	}
}

func TestCountingRequestsAllocatesNothing(t *testing.T) {
	m := newEdgeMetrics(metrics.NewRegistry())
	api := protocol.Lookup(0, protocol.ClientListener)
	count := func() {
		m.request(api, api.Max)
		m.answered(api, time.Millisecond)
	}
	count()
	if n := testing.AllocsPerRun(100, count); n != 0 {
		t.Errorf("counting a request allocates %v times", n)
	}
	for _, f := range m.registry.Families() {
		if f.Name != "weir_request_seconds" {
			continue
		}
		if _, cumulative := f.Metrics[0].Histogram.Buckets(); len(f.Metrics) != 1 || cumulative[len(cumulative)-1] != 102 {
			t.Errorf("%d histograms, the first has counted %v", len(f.Metrics), cumulative)
		}
		return
	}
	t.Error("no histogram")
}
