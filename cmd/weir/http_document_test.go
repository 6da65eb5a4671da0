package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/internal/metrics"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

//go:generate go test . -run DocumentIsCurrent -update

func TestMetricsDocumentIsCurrent(t *testing.T) {
	const path = "../../docs/metrics.md"
	want := metricsDocument(allFamilies(t))
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what a broker tells (%v): go generate ./cmd/weir", path, err)
	}
}

// allFamilies is what a broker tells after a topic was made and a group has committed: all there is.
func allFamilies(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	registry := metrics.NewRegistry()
	newGossip(slog.New(slog.DiscardHandler), registry) // it counts, though there is nobody
	b := openBroker(t, registry)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Bound()["PLAINTEXT"]))
	if err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	var offsets kadm.Offsets
	offsets.AddOffset("orders", 0, 0, -1)
	if err := admin.CommitAllOffsets(ctx, "billing", offsets); err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{registry, b.Stats})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return families
}

// metricsDocument lists the families for people.
func metricsDocument(families []*dto.MetricFamily) []byte {
	var b bytes.Buffer
	b.WriteString("# Metrics\n\nMade from what a broker tells by `go generate ./cmd/weir`: do not edit.\n\n" +
		"`weir serve --http host:port` serves these at `/metrics`, beside `go_*` and `process_*` of the process itself. A family without anything\n" +
		"to tell, such as those of groups where there are none, is not there. What stands for something that Weir does not have is not\n" +
		"told.\n\n" +
		"Worth an alarm: `kafka_server_replicamanager_offlinereplicacount` (a data directory failed), `weir_coordinator_load_failures_total` (the\n" +
		"groups of a partition are not served), `weir_request_panics_total` (a fault of Weir); `kafka_consumergroup_lag_sum` for whoever\n" +
		"runs the group. Of a cluster also `kafka_controller_kafkacontroller_offlinepartitionscount` (nobody serves a partition),\n" +
		"`kafka_controller_controllerstats_uncleanleaderelections_total` (records may be lost),\n" +
		"`kafka_server_replicamanager_underminisrpartitioncount` (acks=all is refused) and, for longer than a restart takes,\n" +
		"`kafka_server_replicamanager_underreplicatedpartitions`.\n")
	for _, section := range []struct {
		title string
		holds func(name string) bool
	}{
		{"Weir's own", func(name string) bool { return strings.HasPrefix(name, "weir_") }},
		{"With the names of kafka_exporter", ofExporter},
		{"With the names that the usual rules of the JMX exporter give", func(name string) bool { return strings.HasPrefix(name, "kafka_") && !ofExporter(name) }},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| name | type | labels | what it is |\n|--|--|--|--|\n", section.title)
		for _, f := range families {
			if section.holds(f.GetName()) {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labelsOf(f), ", "), f.GetHelp())
			}
		}
	}
	return b.Bytes()
}

func ofExporter(name string) bool {
	for _, prefix := range []string{"kafka_broker", "kafka_consumergroup_", "kafka_topic_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// labelsOf names the labels that metrics of a family have, some of them perhaps.
func labelsOf(f *dto.MetricFamily) (names []string) {
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if !slices.Contains(names, l.GetName()) {
				names = append(names, l.GetName())
			}
		}
	}
	return names
}
