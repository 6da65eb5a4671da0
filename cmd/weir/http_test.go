package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"weir/broker"
	"weir/broker/config"
	"weir/internal/clock"
	"weir/internal/metrics"
	"weir/internal/vfs"
)

// scraped returns the samples of a handler's answer, by name and labels as they stand there.
func scraped(t testing.TB, h http.Handler) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body.String())
	}
	samples := make(map[string]float64)
	for s := bufio.NewScanner(w.Body); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		i := strings.LastIndexByte(s.Text(), ' ')
		v, err := strconv.ParseFloat(s.Text()[i+1:], 64)
		if _, twice := samples[s.Text()[:i]]; err != nil || twice {
			t.Fatalf("%q: %v, seen before: %v", s.Text(), err, twice)
		}
		samples[s.Text()[:i]] = v
	}
	return samples
}

// openBroker opens a broker that nobody serves.
func openBroker(t testing.TB, registry *metrics.Registry) *broker.Broker {
	t.Helper()
	settings, _, err := config.Load(config.Inputs{Listen: "127.0.0.1:0", DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(t.Context(), broker.Options{Config: settings, FS: vfs.OS(), Clock: clock.System(), Logger: quiet, Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

var quiet = slog.New(slog.DiscardHandler)

// exampleStats are of a broker that leads a of two partitions, and controls the cluster.
func exampleStats() *broker.Stats {
	s := &broker.Stats{
		Self: 1,
		Controller: &broker.ControllerStats{
			Brokers: []broker.BrokerAddress{{ID: 1, Address: "one.test:9092"}, {ID: 2, Address: "two.test:9092"}},
			Topics:  []broker.TopicStats{{Name: "a", Partitions: 2}}, Partitions: 2, Leaderless: 1, NotPreferred: 1,
			Fenced: 3, Unclean: 4,
		},
		Partitions: []broker.PartitionStats{
			{Topic: "a", Partition: 0, Leader: 1, Preferred: true, Moving: true, Replicas: 3, InSync: 2, MinInSync: 2, Start: 5, End: 25},
			{Topic: "a", Partition: 1, Leader: -1, Replicas: 1, Start: -1, End: -1},
		},
		Logs:     []broker.LogStats{{Topic: "a", Partition: 0, Start: 5, End: 27, Size: 1000, Segments: 2}},
		Replicas: 2, Offline: 1,
		Traffic:    map[string]broker.TrafficCounts{"a": {MessagesIn: 7, BytesIn: 70}},
		AllTraffic: broker.TrafficCounts{MessagesIn: 9, BytesIn: 90, CopiedIn: 11, CopiedOut: 12},
	}
	s.ISR.Expands, s.ISR.Shrinks, s.ISR.Failed = 5, 6, 7
	s.Fetchers.MaxLag, s.Fetchers.Failed = 8, 9
	s.Quorum.Leader, s.Quorum.LeaderEpoch, s.Quorum.HighWatermark = 1, 4, 40
	return s
}

func TestMetricsHaveKafkasNames(t *testing.T) {
	registry := metrics.NewRegistry()
	registry.Counter("weir_requests_total", "Requests.", metrics.Label{Name: "api", Value: "Fetch"}, metrics.Label{Name: "version", Value: "11"}).Add(3)
	registry.Counter("weir_requests_total", "Requests.", metrics.Label{Name: "api", Value: "ApiVersions"}, metrics.Label{Name: "version", Value: "unsupported"}).Add(1)
	registry.Gauge("weir_connections", "Connections.", metrics.Label{Name: "listener", Value: "PLAINTEXT"}).Set(2)
	h := registry.Histogram("weir_request_seconds", "Times.", []time.Duration{time.Millisecond, time.Second}, metrics.Label{Name: "api", Value: "Fetch"})
	h.Observe(time.Millisecond)
	h.Observe(time.Minute)

	got := scraped(t, metricsHandler(registry, exampleStats, quiet))
	for name, want := range map[string]float64{
		`weir_requests_total{api="Fetch",version="11"}`:                             3,
		`weir_requests_total{api="ApiVersions",version="unsupported"}`:              1,
		`weir_connections{listener="PLAINTEXT"}`:                                    2,
		`weir_request_seconds_bucket{api="Fetch",le="0.001"}`:                       1,
		`weir_request_seconds_bucket{api="Fetch",le="1"}`:                           1,
		`weir_request_seconds_bucket{api="Fetch",le="+Inf"}`:                        2,
		`weir_request_seconds_count{api="Fetch"}`:                                   2,
		`weir_request_seconds_sum{api="Fetch"}`:                                     60.001,
		`kafka_network_requestmetrics_requests_total{request="Fetch",version="11"}`: 3,
		`kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"}`: 2,

		`kafka_brokers`: 2,
		`kafka_broker_info{address="two.test:9092",id="2"}`:                         1,
		`kafka_topic_partitions{topic="a"}`:                                         2,
		`kafka_topic_partition_current_offset{partition="0",topic="a"}`:             25,
		`kafka_topic_partition_oldest_offset{partition="0",topic="a"}`:              5,
		`kafka_topic_partition_in_sync_replica{partition="0",topic="a"}`:            2,
		`kafka_topic_partition_leader{partition="0",topic="a"}`:                     1,
		`kafka_topic_partition_leader{partition="1",topic="a"}`:                     -1,
		`kafka_topic_partition_leader_is_preferred{partition="0",topic="a"}`:        1,
		`kafka_topic_partition_leader_is_preferred{partition="1",topic="a"}`:        0,
		`kafka_topic_partition_replicas{partition="0",topic="a"}`:                   3,
		`kafka_topic_partition_under_replicated_partition{partition="0",topic="a"}`: 1,

		`kafka_server_brokertopicmetrics_messagesin_total`:                             9,
		`kafka_server_brokertopicmetrics_messagesin_total{topic="a"}`:                  7,
		`kafka_server_brokertopicmetrics_bytesin_total{topic="a"}`:                     70,
		`kafka_server_replicamanager_partitioncount`:                                   2,
		`kafka_server_replicamanager_leadercount`:                                      1,
		`kafka_server_replicamanager_underreplicatedpartitions`:                        1,
		`kafka_server_replicamanager_underminisrpartitioncount`:                        0,
		`kafka_server_replicamanager_offlinereplicacount`:                              1,
		`kafka_server_replicamanager_atminisrpartitioncount`:                           1,
		`kafka_server_replicamanager_reassigningpartitions`:                            1,
		`kafka_server_replicamanager_isrexpands_total`:                                 5,
		`kafka_server_replicamanager_isrshrinks_total`:                                 6,
		`kafka_server_replicamanager_failedisrupdates_total`:                           7,
		`kafka_server_replicafetchermanager_maxlag{clientId="Replica"}`:                8,
		`kafka_server_replicafetchermanager_failedpartitionscount{clientId="Replica"}`: 9,
		`kafka_server_brokertopicmetrics_replicationbytesin_total`:                     11,
		`kafka_server_brokertopicmetrics_replicationbytesout_total`:                    12,
		`kafka_cluster_partition_replicascount{partition="0",topic="a"}`:               3,
		`kafka_cluster_partition_insyncreplicascount{partition="0",topic="a"}`:         2,
		`kafka_cluster_partition_atminisr{partition="0",topic="a"}`:                    1,
		`kafka_cluster_partition_underminisr{partition="0",topic="a"}`:                 0,
		`kafka_log_log_size{partition="0",topic="a"}`:                                  1000,
		`kafka_log_log_logstartoffset{partition="0",topic="a"}`:                        5,
		`kafka_log_log_logendoffset{partition="0",topic="a"}`:                          27,
		`kafka_log_log_numlogsegments{partition="0",topic="a"}`:                        2,

		`kafka_controller_kafkacontroller_activecontrollercount`:          1,
		`kafka_controller_kafkacontroller_activebrokercount`:              2,
		`kafka_controller_kafkacontroller_fencedbrokercount`:              3,
		`kafka_controller_controllerstats_uncleanleaderelections_total`:   4,
		`kafka_controller_kafkacontroller_globaltopiccount`:               1,
		`kafka_controller_kafkacontroller_globalpartitioncount`:           2,
		`kafka_controller_kafkacontroller_offlinepartitionscount`:         1,
		`kafka_controller_kafkacontroller_preferredreplicaimbalancecount`: 1,
		`kafka_server_raftmetrics_current_leader`:                         1,
		`kafka_server_raftmetrics_current_epoch`:                          4,
		`kafka_server_raftmetrics_high_watermark`:                         40,
		`kafka_server_raftmetrics_current_state{current_state="leader"}`:  1,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	for _, absent := range []string{
		`kafka_topic_partition_current_offset{partition="1",topic="a"}`, // nobody leads it
		`kafka_cluster_partition_replicascount{partition="1",topic="a"}`,
		`kafka_network_requestmetrics_requests_total{request="ApiVersions",version="unsupported"}`,
	} {
		if v, ok := got[absent]; ok {
			t.Errorf("%s is %v, and should not be there", absent, v)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "kafka_consumergroup") || strings.HasPrefix(name, "weir_groups") {
			t.Errorf("%s is there without groups", name)
		}
	}
	if got["go_goroutines"] == 0 || got["process_start_time_seconds"] == 0 {
		t.Error("nothing is told of the process")
	}
}

func TestGroupsAreToldWithTheirLag(t *testing.T) {
	stats := exampleStats()
	stats.Groups = []broker.GroupStats{
		{ID: "g", State: "Stable", Members: 2, Offsets: []broker.GroupOffset{
			{Topic: "a", Partition: 0, Offset: 21}, {Topic: "a", Partition: 1, Offset: 3}, {Topic: "gone", Partition: 0, Offset: 8}}},
		{ID: "ahead", State: "Empty", Offsets: []broker.GroupOffset{{Topic: "a", Partition: 0, Offset: 99}}},
		// A client may call it so, and the rest must be told all the same, without a word in the log.
		{ID: "not \xff text", State: "Empty"}, {ID: "not \xfe text", State: "Empty"}, {ID: `not \xfe text`, State: "Empty"},
	}
	var logged bytes.Buffer
	got := scraped(t, metricsHandler(metrics.NewRegistry(), func() *broker.Stats { return stats }, slog.New(slog.NewTextHandler(&logged, nil))))
	if logged.Len() > 0 {
		t.Errorf("logged: %s", logged.String())
	}
	maps.DeleteFunc(got, func(name string, _ float64) bool {
		return !strings.HasPrefix(name, "kafka_consumergroup") && !strings.HasPrefix(name, "weir_groups")
	})
	want := map[string]float64{
		`kafka_consumergroup_members{consumergroup="g"}`:                                    2,
		`kafka_consumergroup_members{consumergroup="ahead"}`:                                0,
		`kafka_consumergroup_current_offset{consumergroup="g",partition="0",topic="a"}`:     21,
		`kafka_consumergroup_current_offset{consumergroup="g",partition="1",topic="a"}`:     3,
		`kafka_consumergroup_current_offset{consumergroup="g",partition="0",topic="gone"}`:  8,
		`kafka_consumergroup_current_offset{consumergroup="ahead",partition="0",topic="a"}`: 99,
		`kafka_consumergroup_lag{consumergroup="g",partition="0",topic="a"}`:                4,
		`kafka_consumergroup_lag{consumergroup="ahead",partition="0",topic="a"}`:            0,
		`kafka_consumergroup_current_offset_sum{consumergroup="g",topic="a"}`:               24,
		`kafka_consumergroup_current_offset_sum{consumergroup="g",topic="gone"}`:            8,
		`kafka_consumergroup_current_offset_sum{consumergroup="ahead",topic="a"}`:           99,
		`kafka_consumergroup_lag_sum{consumergroup="g",topic="a"}`:                          4,
		`kafka_consumergroup_members{consumergroup="not \\xff text"}`:                       0,
		`kafka_consumergroup_members{consumergroup="not \\xfe text"}`:                       0,
		`kafka_consumergroup_lag_sum{consumergroup="ahead",topic="a"}`:                      0,
		`weir_groups{state="Stable"}`:                                                       1,
		`weir_groups{state="Empty"}`:                                                        4,
	}
	if !maps.Equal(got, want) {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got[name] != want[name] {
				t.Errorf("%s is %v, want %v", name, got[name], want[name])
			}
			delete(got, name)
		}
		t.Errorf("besides: %v", got)
	}
}

// Weir's own names follow Prometheus' rules; Kafka's are what they are.
func TestWeirsMetricsAreNamedWell(t *testing.T) {
	registry := metrics.NewRegistry()
	b := openBroker(t, registry)
	w := httptest.NewRecorder()
	metricsHandler(registry, b.Stats, quiet).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var own strings.Builder
	families := 0
	for line := range strings.Lines(w.Body.String()) {
		if name, comment := strings.CutPrefix(line, "# HELP "); strings.HasPrefix(line, "weir_") || comment && strings.HasPrefix(name, "weir_") || strings.HasPrefix(line, "# TYPE weir_") {
			own.WriteString(line)
			if comment {
				families++
			}
		}
	}
	problems, err := promlint.New(strings.NewReader(own.String())).Lint()
	if err != nil || families < 8 {
		t.Fatalf("%d families: %v", families, err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func get(t *testing.T, address, path string) (code int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestHealthAndReadiness(t *testing.T) {
	registry := metrics.NewRegistry()
	s, err := listenHTTP([]string{"127.0.0.1:0", "127.0.0.1:0"}, httpMaxConnections, registry, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	addresses := s.bound()
	if len(addresses) != 2 || addresses[0] == addresses[1] {
		t.Fatalf("bound %q", addresses)
	}
	want := func(state string, ready int) {
		t.Helper()
		for _, a := range addresses {
			if code, body := get(t, a, "/readyz"); code != ready || body != state+"\n" {
				t.Errorf("%s: readyz is %d %q, want %d %s", a, code, body, ready, state)
			}
			if code, _ := get(t, a, "/healthz"); code != 200 {
				t.Errorf("%s: healthz is %d", a, code)
			}
		}
	}
	want("starting", 503)
	if code, body := get(t, addresses[0], "/metrics"); code != 200 || strings.Contains(body, "kafka_brokers") || !strings.Contains(body, "weir_build_info") {
		t.Errorf("metrics before the broker is open: %d\n%s", code, body)
	}
	b := openBroker(t, registry)
	s.opened(b)
	want("ready", 200)
	if code, body := get(t, addresses[0], "/metrics"); code != 200 || !strings.Contains(body, "\nkafka_brokers 1\n") {
		t.Errorf("metrics: %d\n%s", code, body)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	want("stopping", 503)

	for path, code := range map[string]int{"/debug/pprof/": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/cmdline": 404, "/": 404} {
		if got, _ := get(t, addresses[0], path); got != code {
			t.Errorf("%s is answered %d, want %d", path, got, code)
		}
	}
	s.close()
	if socket, err := net.Listen("tcp", addresses[1]); err != nil {
		t.Errorf("the address is not free after the end: %v", err)
	} else {
		_ = socket.Close()
	}
}

// Who scrapes more often than the broker can collect is turned away, and does not pile up work.
func TestScrapesAreBounded(t *testing.T) {
	goOn := make(chan struct{})
	h := metricsHandler(metrics.NewRegistry(), func() *broker.Stats {
		<-goOn
		return nil
	}, quiet)
	scrape := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Code
	}
	codes := make(chan int)
	for range maxScrapes + 1 {
		go func() { codes <- scrape() }()
	}
	if code := <-codes; code != http.StatusServiceUnavailable { // the only one that is answered while they collect
		t.Errorf("answered %d, want %d", code, http.StatusServiceUnavailable)
	}
	close(goOn)
	for range maxScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("answered %d", code)
		}
	}
}

// Connections take descriptors that logs need, so there are only so many; those that are too many wait.
func TestHTTPConnectionsAreBounded(t *testing.T) {
	s, err := listenHTTP([]string{"127.0.0.1:0", "127.0.0.1:0"}, 2, metrics.NewRegistry(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(i int) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", s.bound()[i])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	answered := func(c net.Conn, within time.Duration) bool {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		n, _ := c.Read(make([]byte, 1))
		return n == 1
	}
	first, second := ask(0), ask(1)
	if !answered(first, time.Minute) || !answered(second, time.Minute) {
		t.Fatal("the first two are not answered")
	}
	third := ask(0)
	if answered(third, 50*time.Millisecond) {
		t.Error("a third one is answered while two are open")
	}
	_ = second.Close()
	if !answered(third, time.Minute) {
		t.Error("there is no room after one has gone")
	}
	_ = first.Close()
	if !answered(ask(0), time.Minute) {
		t.Error("the slot is kept for the other address")
	}
	ask(1)
	s.close() // though accepting waits for a slot
}

func TestAnHTTPAddressThatCannotBeHadEndsTheStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{
		taken.Addr().String(): taken.Addr().String() + ": the port is in use; choose another with --http",
		"192.0.2.1:0":         "weir: 192.0.2.1:0: ", // of no interface (RFC 5737)
		"nonsense":            "nonsense is no address (allowed: host:port, ...)",
	} {
		dataDir := filepath.Join(t.TempDir(), "data")
		code, stdout, stderr := weir(t, "", "serve", "--listen", "127.0.0.1:0", "--data-dir", dataDir, "--http", "127.0.0.1:0,"+address)
		lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
		last := lines[len(lines)-1] // before it the log may warn of the address
		if code != exitUsage || stdout != "" || !strings.Contains(last, want) || strings.Count(stderr, "weir: ") != 1 {
			t.Errorf("--http %s: exit %d, %q, want %d and one line: %s", address, code, stderr, exitUsage, want)
		}
		if _, err := os.Stat(dataDir); err == nil {
			t.Errorf("--http %s: the data directory was touched", address)
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	for _, partitions := range []int{10, 10_000} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			stats := &broker.Stats{Self: 1}
			for i := range partitions {
				topic := fmt.Sprintf("topic-%d", i/10)
				stats.Partitions = append(stats.Partitions, broker.PartitionStats{Topic: topic, Partition: int32(i % 10), Leader: 1})
				stats.Logs = append(stats.Logs, broker.LogStats{Topic: topic, Partition: int32(i % 10)})
			}
			h := metricsHandler(metrics.NewRegistry(), func() *broker.Stats { return stats }, quiet)
			b.ReportAllocs()
			for b.Loop() {
				w := &discard{}
				h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
				b.ReportMetric(float64(w.n), "bytes")
			}
		})
	}
}

// discard is a client that reads quickly.
type discard struct {
	http.ResponseWriter
	n int
}

func (d *discard) Header() http.Header { return http.Header{} }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(b []byte) (int, error) {
	d.n += len(b)
	return len(b), nil
}
