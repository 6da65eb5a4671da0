package coordinator

import (
	"time"

	"weir/internal/metrics"
)

type runtimeMetrics struct {
	owned    *metrics.Gauge
	loads    *metrics.Histogram
	failures *metrics.Counter
	restarts *metrics.Counter
	appends  *metrics.Counter
	records  *metrics.Counter
}

// loadTimes go from an empty partition to one that was never compacted.
var loadTimes = []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute}

func newMetrics(r *metrics.Registry, topic string) runtimeMetrics {
	label := metrics.Label{Name: "topic", Value: topic}
	return runtimeMetrics{
		owned:    r.Gauge("weir_coordinator_partitions", "Partitions of a coordinator's topic that this broker coordinates, loading and failed ones included.", label),
		loads:    r.Histogram("weir_coordinator_load_seconds", "Time to load a coordinator's partition.", loadTimes, label),
		failures: r.Counter("weir_coordinator_load_failures_total", "Partitions of a coordinator that could not be loaded.", label),
		restarts: r.Counter("weir_coordinator_restarts_total", "Coordinator partitions loaded anew because their state could not be trusted.", label),
		appends:  r.Counter("weir_coordinator_appends_total", "Batches that coordinators appended.", label),
		records:  r.Counter("weir_coordinator_records_total", "Records that coordinators appended.", label),
	}
}
