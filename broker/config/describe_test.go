package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/kafka"
)

// The layers that the recordings in testdata were made with.
func recordedLayers(t *testing.T) (s *Server, brokerDefault, broker map[string]string) {
	s = load(t, "log.retention.hours=24", "log.retention.minutes=77", "log.roll.hours=3", "log.flush.scheduler.interval.ms=5000",
		"log.roll.jitter.hours=1", "message.max.bytes=2000000", "log.cleaner.max.compaction.lag.ms=500", "compression.type=zstd",
		"my.own.key=5", "ssl.keystore.password=secret", "log.cleaner.min.cleanable.ratio=.25", "log.cleanup.policy=delete,delete",
		"min.insync.replicas=2")
	broker = map[string]string{
		"message.max.bytes": "3000000", "log.retention.ms": "600000", "log.cleaner.threads": "2",
		"listener.name.plaintext.max.connections": "7", "sasl.jaas.config": "zzz", "log.preallocate": " TRUE ",
	}
	brokerDefault = map[string]string{
		"message.max.bytes": "2500000", "compression.type": "gzip", "log.retention.bytes": "7", "nope": "x", "min.insync.replicas": "2",
	}
	return s, brokerDefault, broker
}

func recordedLines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	return slices.DeleteFunc(lines, func(s string) bool { return strings.HasPrefix(s, "#") })
}

// line writes an entry as the recordings do.
func line(e Entry) string {
	var synonyms []string
	for _, s := range e.Synonyms {
		synonyms = append(synonyms, fmt.Sprintf("%d:%s=%s", s.Source, s.Name, orNull(s.Value)))
	}
	return fmt.Sprintf("%s\t%s\tsrc=%d\ttype=%d\tsens=%v\tro=%v\t{%s}", e.Name, orNull(e.Value), e.Source, e.Type, e.Sensitive, e.ReadOnly,
		strings.Join(synonyms, ", "))
}

func orNull(s *string) string {
	if s == nil {
		return "<null>"
	}
	return *s
}

func compareLines(t *testing.T, got, want []string) {
	t.Helper()
	for _, l := range want {
		if !slices.Contains(got, l) {
			t.Errorf("missing %s", l)
			for _, g := range got {
				if name, _, _ := strings.Cut(l, "\t"); strings.HasPrefix(g, name+"\t") {
					t.Logf("    got %s", g)
				}
			}
		}
	}
}

func TestDescribeTopicThroughAllLayers(t *testing.T) {
	s, brokerDefault, broker := recordedLayers(t)
	var got []string
	for _, e := range s.DescribeTopic(map[string]string{"retention.ms": "5", "segment.bytes": "2000000"}, brokerDefault, broker) {
		got = append(got, line(e))
	}
	want := recordedLines(t, "testdata/describe_topic.txt")
	compareLines(t, got, want)
	if len(got) != len(want) {
		t.Errorf("%d configs, Kafka has %d", len(got), len(want))
	}
}

func TestDescribeBrokerThroughAllLayers(t *testing.T) {
	s, brokerDefault, broker := recordedLayers(t)
	var got []string
	for _, e := range s.DescribeBroker(brokerDefault, broker) {
		got = append(got, line(e))
	}
	want := recordedLines(t, "testdata/describe_broker.txt")
	if len(want) < 320 {
		t.Fatalf("only %d lines recorded", len(want))
	}
	compareLines(t, got, want)
	if !slices.IsSorted(got) {
		t.Error("not in alphabetical order")
	}
}

func TestDescribeBrokerDefault(t *testing.T) {
	_, brokerDefault, _ := recordedLayers(t)
	var got []string
	for _, e := range DescribeBrokerDefault(brokerDefault) {
		got = append(got, line(e))
	}
	equal(t, got, recordedLines(t, "testdata/describe_broker_default.txt"))
}

func TestDescribeCreatedTopic(t *testing.T) {
	s, brokerDefault, broker := recordedLayers(t)
	overrides := map[string]string{
		"retention.ms": "5", "segment.bytes": "2000000", "cleanup.policy": " compact , delete ", "min.compaction.lag.ms": "7",
	}
	var got []string
	for _, e := range s.DescribeCreatedTopic(overrides, brokerDefault, broker) {
		got = append(got, fmt.Sprintf("%s\t%s\tsrc=%d\tsens=%v\tro=%v", e.Name, orNull(e.Value), e.Source, e.Sensitive, e.ReadOnly))
	}
	equal(t, got, recordedLines(t, "testdata/create_topic.txt"))
}

func TestInternalConfigsAreReportedOnlyWhenSet(t *testing.T) {
	has := func(entries []Entry, name string) bool {
		return slices.ContainsFunc(entries, func(e Entry) bool { return e.Name == name })
	}
	if has(load(t).DescribeTopic(nil, nil, nil), "internal.segment.bytes") || has(load(t).DescribeBroker(nil, nil), "log.initial.task.delay.ms") {
		t.Error("an internal config is reported though nobody set it")
	}
	set := map[string]string{"internal.segment.bytes": "100"}
	if !has(load(t).DescribeTopic(set, nil, nil), "internal.segment.bytes") || !has(load(t).DescribeCreatedTopic(set, nil, nil), "internal.segment.bytes") {
		t.Error("internal.segment.bytes is set and not reported")
	}
	if !has(load(t, "log.initial.task.delay.ms=1").DescribeBroker(nil, nil), "log.initial.task.delay.ms") {
		t.Error("log.initial.task.delay.ms is set and not reported")
	}
}

func TestDescribeReportsWhatIsInForce(t *testing.T) {
	got := make(map[string]Entry)
	for _, e := range load(t).DescribeBroker(nil, nil) {
		got[e.Name] = e
	}
	for name, want := range map[string]string{
		"listeners":            "PLAINTEXT://127.0.0.1:9092,PLAINTEXT://[::1]:9092",
		"advertised.listeners": "PLAINTEXT://localhost:9092",
		"node.id":              "1",
		"broker.id":            "1",
		"process.roles":        "broker,controller",
	} {
		if e := got[name]; orNull(e.Value) != want || e.Source != SourceDefault {
			t.Errorf("%s: %s", name, line(e))
		}
	}
	if e := got["log.dirs"]; orNull(e.Value) != "/data" || e.Source != SourceStaticBroker {
		t.Errorf("log.dirs: %s", line(e))
	}
}

func TestADynamicValueThatDoesNotParseIsPassedOver(t *testing.T) {
	s := load(t, "log.cleaner.threads=3")
	if got := s.Dynamic(map[string]string{"log.cleaner.threads": "x"}, nil).CleanerThreads; got != 3 {
		t.Errorf("got %d threads", got)
	}
}

func TestCheckBrokerResource(t *testing.T) {
	s := load(t, "node.id=3")
	if all, err := s.CheckBrokerResource(""); !all || err != nil {
		t.Error(all, err)
	}
	if all, err := s.CheckBrokerResource("3"); all || err != nil {
		t.Error(all, err)
	}
	for name, want := range map[string]string{
		"x": "Broker id must be an integer, but it is: x",
		"7": "Unexpected broker id, expected 3 or empty string, but received 7",
	} {
		if _, err := s.CheckBrokerResource(name); err == nil || err.Error() != want || kafka.CodeOf(err) != kafka.InvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}
