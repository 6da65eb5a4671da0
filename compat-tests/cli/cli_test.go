// Package cli runs weir's own client verbs against the broker.
package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// cli runs the verbs of the binary against one broker.
type cli struct{ binary, bootstrap string }

func newCLI(t *testing.T) (*harness.Broker, cli) {
	t.Helper()
	broker := harness.Shared(t)
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return broker, cli{binary, broker.Bootstrap}
}

func (c cli) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	return harness.MustRun(t, stdin, c.binary, append(args, "-b", c.bootstrap)...)
}

// fails expects exit code 1 and a message on standard error.
func (c cli) fails(t *testing.T, stdin, want string, args ...string) {
	t.Helper()
	r := harness.Run(t, stdin, c.binary, append(args, "-b", c.bootstrap)...)
	if r.Code != 1 || !strings.Contains(r.Stderr, want) {
		t.Errorf("weir %q: exit %d, %s; want exit 1 and %q", args, r.Code, r.Stderr, want)
	}
}

func TestTopicVerbs(t *testing.T) {
	_, weir := newCLI(t)
	topic := harness.TopicName(t)
	if got, want := weir.must(t, "", "topic", "create", topic, "-p", "2"), "Created topic "+topic+".\n"; got != want {
		t.Errorf("create: %q, want %q", got, want)
	}
	weir.fails(t, "", fmt.Sprintf("Topic '%s' already exists.", topic), "topic", "create", topic)
	if got := weir.must(t, "", "topic", "create", topic, "--if-not-exists"); got != "" {
		t.Errorf("create --if-not-exists: %q", got)
	}
	if got := weir.must(t, "", "topic", "list"); !strings.Contains("\n"+got, "\n"+topic+"\n") {
		t.Errorf("list lacks %s:\n%s", topic, got)
	}
	described := weir.must(t, "", "topic", "describe", topic)
	for _, want := range []string{
		"Topic: " + topic + "\tTopicId: ", "\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: ",
		"\tTopic: " + topic + "\tPartition: 1\tLeader: ", "\tStart: 0\tEnd: 0\n",
	} {
		if !strings.Contains(described, want) {
			t.Errorf("describe lacks %q:\n%s", want, described)
		}
	}
	weir.must(t, "", "topic", "add-partitions", topic, "--total", "3")
	weir.must(t, "", "topic", "add-partitions", topic, "--add", "1")
	weir.fails(t, "", "currently has 4 partition(s); 2 would not be an increase", "topic", "add-partitions", topic, "--total", "2")
	if got, want := weir.must(t, "", "topic", "delete", topic), "Deleted topic "+topic+".\n"; got != want {
		t.Errorf("delete: %q, want %q", got, want)
	}
	weir.fails(t, "", "there is no such topic", "topic", "delete", topic)
	weir.must(t, "", "topic", "delete", topic, "--if-exists")
	weir.fails(t, "", "there is no such topic", "topic", "describe", topic)
	weir.fails(t, "", "there is no such topic", "consume", topic)
}

func TestDescribePrintsSettings(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, kmsg.DescribeConfigs)
	topic := broker.Topic(t, 1, "retention.ms", "60000")
	if got := weir.must(t, "", "topic", "describe", topic); !strings.Contains(got, "retention.ms=60000") {
		t.Errorf("describe lacks the topic's setting:\n%s", got)
	}
	if got := weir.must(t, "", "topic", "describe", topic, "-o", "json"); !strings.Contains(got, `"retention.ms":"60000"`) {
		t.Errorf("describe -o json lacks the topic's setting:\n%s", got)
	}
}

func TestProduceAndConsume(t *testing.T) {
	broker, weir := newCLI(t)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := broker.Topic(t, 1)
			var lines strings.Builder
			for i := range 5000 {
				fmt.Fprintf(&lines, "line %d\n", i)
			}
			weir.must(t, lines.String(), "produce", topic, "-z", codec)
			if got := weir.must(t, "", "consume", topic, "-e"); got != lines.String() {
				t.Errorf("%d bytes came back, want %d", len(got), lines.Len())
			}
		})
	}
}

func TestConsumeOffsetsAndFormats(t *testing.T) {
	broker, weir := newCLI(t)
	topic := broker.Topic(t, 1)
	placed := weir.must(t, "a:1\nb:2\nc:3\nd:4\n", "produce", topic, "-K", ":", "-H", "from=cli", "-v")
	if want := fmt.Sprintf("%[1]s[0]@0\n%[1]s[0]@1\n%[1]s[0]@2\n%[1]s[0]@3\n", topic); placed != want {
		t.Errorf("produce -v: %q, want %q", placed, want)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-e"}, "1\n2\n3\n4\n"},
		{[]string{"-n", "2"}, "1\n2\n"},
		{[]string{"-e", "--offset", "2"}, "3\n4\n"},
		{[]string{"-e", "--offset", "-1"}, "4\n"},
		{[]string{"-e", "--offset", "+3"}, "4\n"},
		{[]string{"-e", "--offset", "end"}, ""},
		{[]string{"-e", "--offset", "@-1h"}, "1\n2\n3\n4\n"},
		{[]string{"-e", "--offset", "@2000-01-01", "-p", "0", "-n", "1"}, "1\n"},
		{[]string{"-e", "--isolation-level", "read_committed", "-f", `%p/%o %k=%v %h{%k:%v};`}, "0/0 a=1 from:cli;0/1 b=2 from:cli;0/2 c=3 from:cli;0/3 d=4 from:cli;"},
	} {
		if got := weir.must(t, "", append([]string{"consume", topic}, c.args...)...); got != c.want {
			t.Errorf("consume %q: %q, want %q", c.args, got, c.want)
		}
	}
	weir.fails(t, "", "has no partition 7", "consume", topic, "-p", "7")
}

// A topic copied through JSON lines is the same topic: nulls, bytes that are no text, headers and timestamps included.
func TestJSONLinesRoundTrip(t *testing.T) {
	broker, weir := newCLI(t)
	from, to := broker.Topic(t, 3), broker.Topic(t, 3)
	input := strings.Join([]string{
		`{"partition":0,"timestamp":1767323045678,"key":"k","value":"v","headers":[{"key":"h","value":null},{"key":"h","value":{"base64":"/w=="}}]}`,
		`{"partition":0,"timestamp":1767323045679,"key":null,"value":null}`,
		`{"partition":1,"timestamp":1767323045680,"key":"","value":""}`,
		`{"partition":2,"timestamp":1767323045681,"key":{"base64":"gIA="},"value":"<ü>"}`,
	}, "\n") + "\n"
	weir.must(t, input, "produce", from, "-i", "json", "--keep-partition", "-z", "zstd")
	sorted := func(topic string) string {
		var all strings.Builder
		for p := range 3 {
			all.WriteString(weir.must(t, "", "consume", topic, "-e", "-o", "json", "-p", fmt.Sprint(p)))
		}
		return all.String()
	}
	first := sorted(from)
	weir.must(t, first, "produce", to, "-i", "json", "--keep-partition")
	if second := strings.ReplaceAll(sorted(to), to, from); second != first || strings.Count(first, "\n") != 4 {
		t.Errorf("first:\n%ssecond:\n%s", first, second)
	}
}

// Layouts are franz-go's, in both directions.
func TestLayouts(t *testing.T) {
	broker, weir := newCLI(t)
	topic := broker.Topic(t, 1)
	weir.must(t, "k1\tv1\nk2\tv2\n", "produce", topic, "-f", `%k\t%v\n`)
	weir.must(t, `{"timestamp":1767323045678,"key":{"base64":"/wA="},"value":"v3","headers":[{"key":"h","value":"x"},{"key":"n","value":null}]}`+"\n", "produce", topic, "-i", "json")
	for layout, want := range map[string]string{
		`%t[%p]@%o %k=%v|`: topic + "[0]@0 k1=v1|" + topic + "[0]@1 k2=v2|" + topic + "[0]@2 \xff\x00=v3|",
		`%v\n`:             "v1\nv2\nv3\n",
	} {
		if got := weir.must(t, "", "consume", topic, "-e", "-f", layout); got != want {
			t.Errorf("%s: %q, want %q", layout, got, want)
		}
	}
	got := weir.must(t, "", "consume", topic, "-O", "2", "-e", "-f", `%k{hex} %v{base64} %d{strftime[%F %T]} %d %H %h{%k=%v;}`)
	if want := "ff00 djM= 2026-01-02 03:04:05 1767323045678 2 h=x;n=;"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTopicDeleteRecords(t *testing.T) {
	broker, weir := newCLI(t)
	topic := broker.Topic(t, 2)
	weir.must(t, "1\n2\n3\n4\n", "produce", topic, "-p", "0")
	weir.must(t, "5\n", "produce", topic, "-p", "1")
	trim := func(args ...string) string {
		return squeeze(weir.must(t, "", append([]string{"topic", "delete-records", topic}, args...)...))
	}
	header := "TOPIC PARTITION START-OFFSET OLD-START-OFFSET\n"
	for _, step := range []struct {
		args       []string
		want, left string
	}{
		{[]string{"--before", "end", "--dry-run"}, topic + " 0 4 0\n" + topic + " 1 1 0\n", "1\n2\n3\n4\n"},
		{[]string{"--before", "-2", "-p", "0"}, topic + " 0 2 0\n", "3\n4\n"},
		{[]string{"--before", "@2001-01-01"}, topic + " 0 2 2\n" + topic + " 1 0 0\n", "3\n4\n"},
		{[]string{"--before", "3"}, topic + " 0 3 2\n" + topic + " 1 1 0\n", "4\n"},
	} {
		if got := trim(step.args...); got != header+step.want {
			t.Errorf("delete-records %q:\n%s", step.args, got)
		}
		if got := weir.must(t, "", "consume", topic, "-p", "0", "-e"); got != step.left {
			t.Errorf("after delete-records %q: %q, want %q", step.args, got, step.left)
		}
	}
	weir.fails(t, "", "there is no such topic", "topic", "delete-records", harness.TopicName(t), "--before", "end")
	weir.fails(t, "", "has no partition 7", "topic", "trim", topic, "-p", "7", "--before", "end")
	compacted := broker.Topic(t, 1, "cleanup.policy", "compact")
	weir.must(t, "k:v\n", "produce", compacted, "-K", ":")
	weir.fails(t, "", "POLICY_VIOLATION", "topic", "delete-records", compacted, "--before", "end")
}

func TestProduceErrors(t *testing.T) {
	broker, weir := newCLI(t)
	topic := broker.Topic(t, 1, "max.message.bytes", "1000")
	weir.fails(t, strings.Repeat("x", 2000), "max.message.bytes", "produce", topic)
	weir.fails(t, "x\n", "there is no topic", "produce", harness.TopicName(t), "--auto-create=false")
	weir.fails(t, "x\n", "invalid record partitioning choice of 5 from 1 available", "produce", topic, "-p", "5")
	weir.fails(t, "a:b\nc\n", "line 2 of the input: no key separator", "produce", topic, "-K", ":")
	for _, acks := range []string{"1", "0", "all"} {
		weir.must(t, "x\n", "produce", topic, "--acks", acks)
	}
}
