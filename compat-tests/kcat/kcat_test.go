// Package kcat runs the broker under kcat (librdkafka).
package kcat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// kcat runs the program against one broker.
type kcat struct{ program, bootstrap string }

func newKcat(t *testing.T) (*harness.Broker, kcat) {
	t.Helper()
	program := harness.Tool(t, "kcat", "kcat")
	broker := harness.Shared(t)
	return broker, kcat{program, broker.Bootstrap}
}

func (k kcat) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	return harness.MustRun(t, stdin, k.program, append([]string{"-b", k.bootstrap, "-m", "30"}, args...)...)
}

func TestProduceAndConsume(t *testing.T) {
	broker, kcat := newKcat(t)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := broker.Topic(t, 1)
			var lines strings.Builder
			for i := range 5000 {
				fmt.Fprintf(&lines, "line %d\n", i)
			}
			kcat.must(t, lines.String(), "-P", "-t", topic, "-z", codec)
			if got := kcat.must(t, "", "-C", "-t", topic, "-o", "beginning", "-e", "-q"); got != lines.String() {
				t.Errorf("%d bytes came back, want %d", len(got), lines.Len())
			}
		})
	}
}

// With idempotence librdkafka asks for a producer id and numbers its batches.
func TestIdempotentProducer(t *testing.T) {
	broker, kcat := newKcat(t)
	topic := broker.Topic(t, 3)
	var want []string
	for i := range 2000 {
		want = append(want, fmt.Sprintf("k%d:%d", i%50, i))
	}
	kcat.must(t, strings.Join(want, "\n")+"\n", "-P", "-t", topic, "-K", ":", "-X", "enable.idempotence=true")
	got := strings.Split(strings.TrimSpace(kcat.must(t, "", "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", `%k:%s\n`)), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d records came back, want %d", len(got), len(want))
	}
}

func TestKeysHeadersAndNulls(t *testing.T) {
	broker, kcat := newKcat(t)
	topic := broker.Topic(t, 1)
	kcat.must(t, "a:1\nb:\n:3\n", "-P", "-t", topic, "-K", ":", "-Z", "-H", "h=x", "-H", "h=y", "-H", "none")
	got := kcat.must(t, "", "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", `%o key %K value %S headers %h\n`)
	want := "0 key 1 value 1 headers h=x,h=y,none=NULL\n1 key 1 value -1 headers h=x,h=y,none=NULL\n2 key -1 value 1 headers h=x,h=y,none=NULL\n"
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestOffsets(t *testing.T) {
	broker, kcat := newKcat(t)
	topic := broker.Topic(t, 1)
	for _, line := range []string{"a\n", "b\n", "c\n", "d\n"} {
		kcat.must(t, line, "-P", "-t", topic)
	}
	stamps := strings.Fields(kcat.must(t, "", "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", `%T `))
	for _, c := range []struct{ offset, want string }{
		{"beginning", "a\nb\nc\nd\n"}, {"2", "c\nd\n"}, {"-1", "d\n"}, {"end", ""}, {"s@" + stamps[0], "a\nb\nc\nd\n"},
	} {
		if got := kcat.must(t, "", "-C", "-t", topic, "-p", "0", "-o", c.offset, "-e", "-q"); got != c.want {
			t.Errorf("from %s: %q, want %q", c.offset, got, c.want)
		}
	}
	for when, offset := range map[string]int{"-1": 4, "-2": 0, stamps[0]: 0} {
		want := fmt.Sprintf("%s [0] offset %d\n", topic, offset)
		if got := kcat.must(t, "", "-Q", "-t", topic+":0:"+when); got != want {
			t.Errorf("query %s: %q, want %q", when, got, want)
		}
	}
}

func TestMetadata(t *testing.T) {
	broker, kcat := newKcat(t)
	topic := broker.Topic(t, 3)
	var metadata struct {
		Brokers []struct {
			ID   int
			Name string
		}
		Topics []struct {
			Topic      string
			Error      string
			Partitions []struct {
				Partition, Leader int
				Replicas, ISRs    []struct{ ID int }
			}
		}
	}
	out := kcat.must(t, "", "-L", "-J", "-t", topic)
	if err := json.Unmarshal([]byte(out), &metadata); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(metadata.Brokers) == 0 || len(metadata.Topics) != 1 || metadata.Topics[0].Error != "" || len(metadata.Topics[0].Partitions) != 3 {
		t.Fatalf("%s", out)
	}
	for _, p := range metadata.Topics[0].Partitions {
		if !slices.ContainsFunc(metadata.Brokers, func(b struct {
			ID   int
			Name string
		}) bool {
			return b.ID == p.Leader
		}) || len(p.Replicas) == 0 || len(p.ISRs) == 0 {
			t.Errorf("partition %+v has no leader among the brokers %+v", p, metadata.Brokers)
		}
	}
}
