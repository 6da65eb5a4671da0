package wire

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// httpGet asks the broker's HTTP server.
func (s *server) httpGet(t *testing.T, path string) (code int, body string) {
	t.Helper()
	if len(s.HTTP) == 0 {
		t.Fatal("the ports file names no HTTP address")
	}
	client := http.Client{Timeout: replyWithin}
	resp, err := client.Get("http://" + s.HTTP[0] + path)
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

// scrape reads the metrics as Prometheus does: by name and labels, each once, and with a type.
func (s *server) scrape(t *testing.T) map[string]float64 {
	t.Helper()
	code, body := s.httpGet(t, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("/metrics is answered %d: %s", code, body)
	}
	samples, types := make(map[string]float64), make(map[string]string)
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			types[name] = kind
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if _, twice := samples[line[:i]]; twice {
			t.Errorf("%s stands twice", line[:i])
		}
		samples[line[:i]] = value
		name, _, _ := strings.Cut(line[:i], "{")
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if cut, ok := strings.CutSuffix(name, suffix); ok && types[cut] != "" {
				base = cut
			}
		}
		if types[base] == "" {
			t.Errorf("%s has no type", name)
		}
	}
	return samples
}

// Dashboards of Kafka draw what kafka_exporter and the JMX exporter name; both come from the broker itself, without either.
func TestMetricsTellWhatClientsDid(t *testing.T) {
	s := start(t, "--http", "127.0.0.1:0", "--override", "segment.bytes=1048576", "--override", "offsets.topic.num.partitions=1")
	topic := newTopic(t, s.Address, 2).name
	before := s.scrape(t)
	c := dial(t, s.Address)
	batch := textBatch("a", "b", "c")
	for range 4 {
		mustProduce(t, c, topic, 1, batch)
	}
	read := len(fetch(t, c, topic, 1, 0).RecordBatches)
	deleteRecords(t, c, topic, 0) // nothing there, as an API that was not asked before
	ask(t, c, findCoordinator(0, "readers"))
	mustCommit(t, c, "readers", topic, 1, 5)
	after := s.scrape(t)

	size := float64(len(batch.bytes()))
	partition := func(p int) string { return fmt.Sprintf("{partition=\"%d\",topic=\"%s\"}", p, topic) }
	for name, want := range map[string]float64{
		"kafka_brokers": 1,
		"kafka_topic_partitions{topic=\"" + topic + "\"}":                                                       2,
		"kafka_topic_partition_current_offset" + partition(1):                                                   12,
		"kafka_topic_partition_current_offset" + partition(0):                                                   0,
		"kafka_topic_partition_oldest_offset" + partition(1):                                                    0,
		"kafka_topic_partition_leader" + partition(1):                                                           1,
		"kafka_topic_partition_in_sync_replica" + partition(1):                                                  1,
		"kafka_topic_partition_under_replicated_partition" + partition(1):                                       0,
		"kafka_log_log_size" + partition(1):                                                                     4 * size,
		"kafka_log_log_logendoffset" + partition(1):                                                             12,
		"kafka_consumergroup_current_offset{consumergroup=\"readers\",partition=\"1\",topic=\"" + topic + "\"}": 5,
		"kafka_consumergroup_lag{consumergroup=\"readers\",partition=\"1\",topic=\"" + topic + "\"}":            7,
		"kafka_consumergroup_members{consumergroup=\"readers\"}":                                                0,
		"weir_groups{state=\"Empty\"}":                                                                          1,
		"kafka_server_replicamanager_leadercount":                                                               3,
		"kafka_controller_kafkacontroller_activecontrollercount":                                                1,
		"kafka_controller_kafkacontroller_globalpartitioncount":                                                 3,
		"weir_connections{listener=\"PLAINTEXT\"}":                                                              2, // that which made the topic is open still
		"kafka_server_socket_server_metrics_connection_count{listener=\"PLAINTEXT\"}":                           2,
	} {
		if got, ok := after[name]; !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
		}
	}
	// What is counted has moved by what was done.
	traffic := func(name string) string { return "kafka_server_brokertopicmetrics_" + name + "_total" }
	ofTopic := "{topic=\"" + topic + "\"}"
	for name, want := range map[string]float64{
		traffic("messagesin"):                     13, // with the offset that was committed
		traffic("messagesin") + ofTopic:           12,
		traffic("bytesin") + ofTopic:              4 * size,
		traffic("bytesout") + ofTopic:             float64(read),
		traffic("totalproducerequests") + ofTopic: 4,
		traffic("totalfetchrequests") + ofTopic:   1,
		traffic("failedproducerequests"):          0,
		traffic("bytesrejected"):                  0,
		fmt.Sprintf("kafka_network_requestmetrics_requests_total{request=\"Produce\",version=\"%d\"}", produceRequest(topic, 0, nil).Version): 4,
		"weir_request_seconds_count{api=\"Produce\"}":              4,
		"weir_request_seconds_bucket{api=\"Produce\",le=\"+Inf\"}": 4,
		"weir_requests_total{api=\"DeleteRecords\",version=\"2\"}": 1,
	} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("%s rose by %v, want %v", name, got, want)
		}
	}
	if read != 4*len(batch.bytes()) {
		t.Errorf("%d bytes were fetched", read)
	}
	for _, name := range []string{"go_goroutines", "process_open_fds", "process_resident_memory_bytes", "weir_request_bytes_total"} {
		if after[name] <= 0 {
			t.Errorf("%s is %v", name, after[name])
		}
	}
}

// Probes of containers ask whether the process is alive and whether it may be sent clients.
func TestHealthIsServedBesideTheBroker(t *testing.T) {
	s := start(t, "--http", "127.0.0.1:0")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/heap": 200, "/nothing": 404} {
		if code, body := s.httpGet(t, path); code != want {
			t.Errorf("%s is answered %d, want %d: %s", path, code, want, body)
		}
	}
	s.stop(t)
	if strings.Contains(s.log(t), "\"level\":\"ERROR\"") {
		t.Errorf("the stop is not quiet:\n%s", s.log(t))
	}
	if _, err := http.Get("http://" + s.HTTP[0] + "/healthz"); err == nil {
		t.Error("it is answered after the end")
	}
	s.options.Args = nil
	s.restart(t)
	if len(s.HTTP) != 0 {
		t.Errorf("without --http it is served on %q", s.HTTP)
	}
}

// A taken port is a mistake of the operator's, told in one line before anything is done.
func TestATakenHTTPPortEndsTheStart(t *testing.T) {
	s := start(t, "--http", "127.0.0.1:0")
	data := filepath.Join(t.TempDir(), "data")
	got := serveFails(t, nil, syscall.SysProcAttr{}, "--data-dir", data, "--listen", "127.0.0.1:0", "--http", s.HTTP[0])
	if want := "weir: " + s.HTTP[0] + ": the port is in use; choose another with --http\n"; got.code != 2 || !strings.HasSuffix("\n"+got.output, "\n"+want) {
		t.Errorf("exit %d, %q, want 2 and at the end %q", got.code, got.output, want)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data directory was touched")
	}
}
