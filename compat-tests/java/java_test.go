// Package java runs Apache Kafka's own command line tools (Java clients) against the broker, and its log inspector over
// the files that the broker writes. pom.xml says which release.
package java

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// tools runs Kafka's tools by their class names below org.apache.kafka.tools.
type tools struct{ java, classpath string }

// newTools resolves the jars once and again when pom.xml changes.
func newTools(t *testing.T) tools {
	t.Helper()
	java := harness.Tool(t, "java", "default-jre-headless")
	pom, err := os.ReadFile("pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(pom)
	dir, err := harness.BuildDir("java")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "classpath-"+hex.EncodeToString(sum[:4]))
	if _, err := os.Stat(file); err != nil {
		mvn := harness.Tool(t, "mvn", "maven")
		r := harness.Run(t, "", mvn, "-q", "-B", "-f", "pom.xml", "dependency:build-classpath", "-Dmdep.outputFile="+file+".new")
		if r.Code != 0 {
			t.Skipf("Maven could not resolve Kafka's tools:\n%.2000s", r.Stdout)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	classpath, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return tools{java, string(classpath)}
}

func (k tools) args(class string, args []string) []string {
	// A tool lives for a second: no time to pay for the better compiler.
	return append([]string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", k.classpath, "org.apache.kafka.tools." + class}, args...)
}

func (k tools) run(t *testing.T, stdin, class string, args ...string) harness.Result {
	t.Helper()
	return harness.Run(t, stdin, k.java, k.args(class, args)...)
}

func (k tools) must(t *testing.T, stdin, class string, args ...string) string {
	t.Helper()
	r := k.run(t, stdin, class, args...)
	if r.Code != 0 {
		t.Fatalf("%s %q: exit %d\nstdout: %.2000s\nstderr: %.4000s", class, args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// toolCase is a run of kafka-topics and what it has to say.
type toolCase struct {
	args   []string
	code   int
	stdout string
}

func checkTopicsTool(t *testing.T, kafka tools, broker *harness.Broker, cases []toolCase) {
	t.Helper()
	for _, c := range cases {
		r := kafka.run(t, "", "TopicCommand", append([]string{"--bootstrap-server", broker.Bootstrap}, c.args...)...)
		if r.Code != c.code || !strings.Contains(r.Stdout, c.stdout) {
			t.Errorf("kafka-topics %q: exit %d, want %d\nstdout: %s\nwant: %s\nstderr: %.2000s", c.args, r.Code, c.code, r.Stdout, c.stdout, r.Stderr)
		}
	}
}

func TestTopicsTool(t *testing.T) {
	kafka := newTools(t)
	broker := harness.Shared(t)
	topic := harness.TopicName(t)
	checkTopicsTool(t, kafka, broker, []toolCase{
		{[]string{"--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1"}, 0, "Created topic " + topic + "."},
		{[]string{"--create", "--topic", topic}, 1, "Error while executing topic command : Topic '" + topic + "' already exists."},
		{[]string{"--list"}, 0, topic + "\n"},
		{[]string{"--alter", "--topic", topic, "--partitions", "3"}, 0, ""},
		{[]string{"--alter", "--topic", topic, "--partitions", "2"}, 1, "The topic " + topic + " currently has 3 partition(s); 2 would not be an increase."},
		{[]string{"--delete", "--topic", topic}, 0, ""},
		{[]string{"--delete", "--topic", topic}, 1, "Topic '" + topic + "' does not exist as expected"},
	})
}

func TestTopicsToolDescribes(t *testing.T) {
	kafka := newTools(t)
	broker := harness.Shared(t)
	broker.Require(t, kmsg.DescribeConfigs)
	topic := broker.Topic(t, 2, "retention.ms", "4711")
	describe := []string{"--describe", "--topic", topic}
	checkTopicsTool(t, kafka, broker, []toolCase{
		{describe, 0, "Topic: " + topic + "\tTopicId: "},
		{describe, 0, "\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: "},
		{describe, 0, "retention.ms=4711"},
		{describe, 0, "\tTopic: " + topic + "\tPartition: 1\tLeader: "},
	})
}

func TestConsoleProducerAndConsumer(t *testing.T) {
	kafka := newTools(t)
	broker := harness.Shared(t)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := broker.Topic(t, 1)
			var lines, want strings.Builder
			for i := range 1000 {
				fmt.Fprintf(&lines, "a=%d,b=2\tkey%d:value %d\n", i, i%10, i)
				fmt.Fprintf(&want, "a:%d,b:2\tkey%d\tvalue %d\n", i, i%10, i)
			}
			kafka.must(t, lines.String(), "ConsoleProducer", "--bootstrap-server", broker.Bootstrap, "--topic", topic, "--compression-codec", codec,
				"--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
				"--reader-property", "parse.headers=true", "--reader-property", "headers.key.separator==")
			got := kafka.must(t, "", "consumer.ConsoleConsumer", "--bootstrap-server", broker.Bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest",
				"--max-messages", "1000", "--timeout-ms", "60000", "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
			if got != want.String() {
				t.Errorf("got %d bytes, want %d; the first line is %.80q, want %.80q", len(got), want.Len(), got, want.String())
			}
		})
	}
}

func TestPerformanceToolAndOffsets(t *testing.T) {
	kafka := newTools(t)
	broker := harness.Shared(t)
	topic := broker.Topic(t, 3)
	out := kafka.must(t, "", "ProducerPerformance", "--bootstrap-server", broker.Bootstrap, "--topic", topic, "--num-records", "50000", "--record-size", "200",
		"--throughput", "-1", "--command-property", "acks=all", "compression.type=lz4")
	if !strings.Contains(out, "50000 records sent") {
		t.Errorf("the tool says:\n%s", out)
	}
	offsets := func(when string) (total int) {
		for _, line := range strings.Fields(kafka.must(t, "", "GetOffsetShell", "--bootstrap-server", broker.Bootstrap, "--topic", topic, "--time", when)) {
			var partition, offset int
			if _, err := fmt.Sscanf(strings.TrimPrefix(line, topic+":"), "%d:%d", &partition, &offset); err != nil {
				t.Fatalf("kafka-get-offsets says %q", line)
			}
			total += offset
		}
		return total
	}
	if latest, earliest := offsets("latest"), offsets("earliest"); latest != 50000 || earliest != 0 {
		t.Errorf("latest offsets add up to %d, want 50000; earliest to %d, want 0", latest, earliest)
	}
}

func TestBrokerAPIVersionsTool(t *testing.T) {
	kafka := newTools(t)
	broker := harness.Shared(t)
	out := kafka.must(t, "", "BrokerApiVersionsCommand", "--bootstrap-server", broker.Bootstrap)
	for _, want := range []string{"Produce(0): 0 to 13 [usable: 13]", "Fetch(1): 4 to 18 [usable: 18]", "Metadata(3): 0 to 13 [usable: 13]", "ApiVersions(18): 0 to "} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}
