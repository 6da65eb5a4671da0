package broker

import (
	"strconv"
	"sync/atomic"
	"time"

	"weir/internal/metrics"
	"weir/protocol"
)

// edgeMetrics are what the network edge counts.
type edgeMetrics struct {
	registry    *metrics.Registry
	apis        map[int16]*apiMetrics // read only
	bytesIn     *metrics.Counter
	bytesOut    *metrics.Counter
	refused     map[refusal]*metrics.Counter // read only
	panics      *metrics.Counter
	badFrames   *metrics.Counter
	unsupported *metrics.Counter
	badRequests *metrics.Counter
	tooSlow     *metrics.Counter
}

// apiMetrics are made when they first count: most versions, and many APIs, are never asked for.
type apiMetrics struct {
	// requests are counted by version, from the API's lowest one on; behind the highest comes one for versions that are
	// not served.
	requests []atomic.Pointer[metrics.Counter]
	seconds  atomic.Pointer[metrics.Histogram]
}

// requestTimes go from a produce into the page cache to a long poll's end.
var requestTimes = []time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond,
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second,
}

func newEdgeMetrics(r *metrics.Registry) *edgeMetrics {
	m := &edgeMetrics{
		registry:    r,
		apis:        make(map[int16]*apiMetrics),
		bytesIn:     r.Counter("weir_request_bytes_total", "Bytes of request frames read."),
		bytesOut:    r.Counter("weir_response_bytes_total", "Bytes of responses written."),
		refused:     make(map[refusal]*metrics.Counter),
		panics:      r.Counter("weir_request_panics_total", "Requests whose handling panicked; each closed its connection."),
		badFrames:   r.Counter("weir_frame_errors_total", "Frames of an impossible size, such as another protocol's bytes."),
		unsupported: r.Counter("weir_unsupported_requests_total", "Requests of a key or version that is not served."),
		badRequests: r.Counter("weir_decode_errors_total", "Requests that could not be decoded."),
		tooSlow:     r.Counter("weir_connections_too_slow_total", "Connections closed because the peer sent or read too slowly."),
	}
	for _, why := range refusals {
		m.refused[why] = r.Counter("weir_connections_refused_total", "Connections closed at once because of a limit.",
			metrics.Label{Name: "limit", Value: string(why)})
	}
	for api := range protocol.APIs(protocol.ClientListener | protocol.PeerListener) {
		m.apis[api.Key] = &apiMetrics{requests: make([]atomic.Pointer[metrics.Counter], api.Max-api.Min+2)}
	}
	return m
}

// request counts a request that was decoded.
func (m *edgeMetrics) request(api *protocol.API, version int16) {
	slot, label := version-api.Min, version
	if !api.Accepts(version) { // ApiVersions alone comes so far
		slot, label = api.Max-api.Min+1, -1
	}
	p := &m.apis[api.Key].requests[slot]
	if p.Load() == nil {
		p.Store(m.requestsOf(api, label))
	}
	p.Load().Inc()
}

// requestsOf finds or makes the counter of a version; -1 stands for all that are not served.
func (m *edgeMetrics) requestsOf(api *protocol.API, version int16) *metrics.Counter {
	label := "unsupported"
	if version >= 0 {
		label = strconv.Itoa(int(version))
	}
	return m.registry.Counter("weir_requests_total", "Requests decoded.", metrics.Label{Name: "api", Value: api.Name}, metrics.Label{Name: "version", Value: label})
}

// answered counts a request that was answered, after d.
func (m *edgeMetrics) answered(api *protocol.API, d time.Duration) {
	p := &m.apis[api.Key].seconds
	if p.Load() == nil {
		p.Store(m.registry.Histogram("weir_request_seconds", "From the request's last byte to the reply's.", requestTimes, metrics.Label{Name: "api", Value: api.Name}))
	}
	p.Load().Observe(d)
}

// opened counts a connection that is served from now on.
func (m *edgeMetrics) opened(listener string) {
	m.registry.Counter("weir_connections_accepted_total", "Connections accepted and served.", metrics.Label{Name: "listener", Value: listener}).Inc()
	m.connections(listener).Add(1)
}

func (m *edgeMetrics) closed(listener string) { m.connections(listener).Add(-1) }

// connections finds or makes the gauge of a listener.
func (m *edgeMetrics) connections(listener string) *metrics.Gauge {
	return m.registry.Gauge("weir_connections", "Open connections.", metrics.Label{Name: "listener", Value: listener})
}
