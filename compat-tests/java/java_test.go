// Package java runs Apache Kafka's own command line tools (Java clients) against the broker, and its log inspector over
// the files that the broker writes. pom.xml says which release.
package java

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// tools runs Kafka's tools by their class names below org.apache.kafka.tools.
type tools struct{ java, classpath, archive string }

// newTools resolves the jars and makes the class archive, once and again when pom.xml or Java changes.
func newTools(t *testing.T) tools {
	t.Helper()
	java := harness.Tool(t, "java", "default-jre-headless")
	harness.Tool(t, "mvn", "maven")
	pom, err := os.ReadFile("pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	version := harness.Run(t, "", java, "-version").Stderr
	sum := sha256.Sum256(append(pom, version...))
	id := hex.EncodeToString(sum[:4])
	dir, err := harness.BuildDir("java")
	if err != nil {
		t.Fatal(err)
	}
	classpath, err := harness.Classpath("pom.xml", "java")
	if err != nil {
		t.Skipf("Kafka's tools: %v", err)
	}
	k := tools{java: java, classpath: classpath, archive: filepath.Join(dir, "classes-"+id+".jsa")}
	if _, err := os.Stat(k.archive); err != nil {
		// Classes that are loaded from an archive halve the time that a tool takes. This one has those of the admin client.
		args := k.args("consumer.group.ConsumerGroupCommand", []string{"--bootstrap-server", harness.Shared(t).Bootstrap, "--describe", "--group", "nosuch"})
		harness.Run(t, "", java, append([]string{"-XX:ArchiveClassesAtExit=" + k.archive}, args...)...)
	}
	return k
}

func (k tools) args(class string, args []string) []string {
	// A tool lives for a second: no time to pay for the better compiler.
	jvm := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Xlog:disable", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}
	if _, err := os.Stat(k.archive); err == nil {
		jvm = append(jvm, "-XX:SharedArchiveFile="+k.archive)
	}
	return append(append(jvm, "-cp", k.classpath, "org.apache.kafka.tools."+class), args...)
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

// toolClasses are the classes below org.apache.kafka.tools, by the names of Kafka's scripts.
var toolClasses = map[string]string{
	"kafka-topics":           "TopicCommand",
	"kafka-configs":          "ConfigCommand",
	"kafka-console-producer": "ConsoleProducer",
	"kafka-console-consumer": "consumer.ConsoleConsumer",
	"kafka-consumer-groups":  "consumer.group.ConsumerGroupCommand",
	"kafka-groups":           "GroupsCommand",
	"kafka-get-offsets":      "GetOffsetShell",
	"kafka-delete-records":   "DeleteRecordsCommand",
	"kafka-log-dirs":         "LogDirsCommand",
}

// consoleMember has the arguments of a console consumer that is a member of a group whose session is short.
func consoleMember(bootstrap, topic, group string, args ...string) []string {
	return append([]string{"--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning",
		"--command-property", "session.timeout.ms=6000", "--command-property", "heartbeat.interval.ms=300"}, args...)
}

func TestCrossRead(t *testing.T) {
	kafka := newTools(t)
	broker := harness.Shared(t)
	harness.CrossRead(t, broker, func(topic, codec string, values []string) {
		kafka.must(t, strings.Join(values, "\n")+"\n", "ConsoleProducer", "--bootstrap-server", broker.Bootstrap, "--topic", topic,
			"--compression-codec", codec)
	}, func(topic string, records int) []string {
		return strings.Fields(kafka.must(t, "", "consumer.ConsoleConsumer", "--bootstrap-server", broker.Bootstrap, "--topic", topic,
			"--partition", "0", "--offset", "earliest", "--max-messages", fmt.Sprint(records), "--timeout-ms", "30000"))
	})
}

func TestHeaders(t *testing.T) {
	kafka := newTools(t)
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1)
	kafka.must(t, "a=1,b=2\tkey:value\n", "ConsoleProducer", "--bootstrap-server", broker.Bootstrap, "--topic", topic,
		"--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
		"--reader-property", "parse.headers=true", "--reader-property", "headers.key.separator==")
	got := kafka.must(t, "", "consumer.ConsoleConsumer", "--bootstrap-server", broker.Bootstrap, "--topic", topic, "--partition", "0",
		"--offset", "earliest", "--max-messages", "1", "--timeout-ms", "30000",
		"--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
	if want := "a:1,b:2\tkey\tvalue\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A batch of one record has 72 bytes around a value of this size.
func TestLimit(t *testing.T) {
	const limit, around = 10_000, 72
	kafka := newTools(t)
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1, "max.message.bytes", fmt.Sprint(limit))
	fits := strings.Repeat("x", limit-around)
	// Each line is sent before the next is read.
	r := kafka.run(t, fits+"\n"+fits+"x\n", "ConsoleProducer", "--bootstrap-server", broker.Bootstrap, "--topic", topic,
		"--compression-codec", "none", "--sync")
	if !strings.Contains(r.Stderr+r.Stdout, "RecordTooLargeException") {
		t.Errorf("of a batch above the limit it says:\n%.2000s%.4000s", r.Stdout, r.Stderr)
	}
	records := broker.ReadAll(t, topic)
	if len(records) != 1 || string(records[0].Value) != fits {
		t.Errorf("%d records are kept, want the one that fits", len(records))
	}
}

func TestGroupTakesOver(t *testing.T) {
	kafka := newTools(t)
	broker := harness.Shared(t)
	harness.TakeOver(t, broker, func(topic, group string) *harness.Member {
		args := consoleMember(broker.Bootstrap, topic, group,
			"--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true")
		return harness.StartMember(t, kafka.java, kafka.args("consumer.ConsoleConsumer", args)...)
	})
}

func TestGroupResumes(t *testing.T) {
	kafka := newTools(t)
	harness.Resume(t, func(broker *harness.Broker, topic, group string, records int) []string {
		return strings.Fields(kafka.must(t, "", "consumer.ConsoleConsumer",
			consoleMember(broker.Bootstrap, topic, group, "--max-messages", fmt.Sprint(records), "--timeout-ms", "30000")...))
	})
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
	if broker.Offers(t, kmsg.JoinGroup) {
		out := kafka.must(t, "", "ConsumerPerformance", "--bootstrap-server", broker.Bootstrap, "--topic", topic, "--num-records", "50000",
			"--group", "group-"+topic)
		if fields := strings.Split(out, ", "); len(fields) < 5 || !strings.Contains(out, ", 50000, ") {
			t.Errorf("kafka-consumer-perf-test says:\n%s", out)
		}
	}
	if latest, earliest := offsets("latest"), offsets("earliest"); latest != 50000 || earliest != 0 {
		t.Errorf("latest offsets add up to %d, want 50000; earliest to %d, want 0", latest, earliest)
	}
}

// The tools that look at the cluster print what is the cluster's own; what they must find is looked for.
func TestClusterTools(t *testing.T) {
	kafka := newTools(t)
	broker := harness.Shared(t)
	cluster, err := broker.Admin(t).BrokerMetadata(harness.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	leader := fmt.Sprint(cluster.Controller)
	for _, c := range []struct {
		name, class string
		args        []string
		needs       kmsg.Key
		want        *regexp.Regexp
	}{
		{"cluster id", "ClusterTool", []string{"cluster-id", "--bootstrap-server", broker.Bootstrap}, kmsg.DescribeCluster,
			regexp.MustCompile(`^Cluster ID: ` + regexp.QuoteMeta(cluster.Cluster) + `\n$`)},
		{"metadata quorum status", "MetadataQuorumCommand", []string{"--bootstrap-server", broker.Bootstrap, "describe", "--status"}, kmsg.DescribeQuorum,
			regexp.MustCompile(`(?s)^ClusterId: +` + regexp.QuoteMeta(cluster.Cluster) + `\nLeaderId: +` + leader + `\nLeaderEpoch: +\d+\nHighWatermark: +\d+\n` +
				`MaxFollowerLag: +0\nMaxFollowerLagTimeMs: +0\nCurrentVoters: +\[\{"id": ` + leader + `, .*\}\]\nCurrentObservers: +\[\]\n$`)},
		{"metadata quorum replication", "MetadataQuorumCommand", []string{"--bootstrap-server", broker.Bootstrap, "describe", "--replication"}, kmsg.DescribeQuorum,
			regexp.MustCompile(`(?s)^NodeId\s+DirectoryId\s+LogEndOffset\s+Lag\s+LastFetchTimestamp\s+LastCaughtUpTimestamp\s+Status\s*\n` +
				leader + `\s+[\w-]{22}\s+\d+\s+0\s+\d{13}\s+\d{13}\s+Leader\s*\n$`)},
		{"features", "FeatureCommand", []string{"--bootstrap-server", broker.Bootstrap, "describe"}, kmsg.ApiVersions,
			regexp.MustCompile(`(?m)^Feature: metadata\.version\s+SupportedMinVersion: 3\.3-IV3\s+SupportedMaxVersion: 4\.\d-IV\d\s+FinalizedVersionLevel: 4\.\d-IV\d\s+Epoch: \d+$`)},
		{"API versions", "BrokerApiVersionsCommand", []string{"--bootstrap-server", broker.Bootstrap}, kmsg.ApiVersions,
			regexp.MustCompile(`(?s)Produce\(0\): 0 to 13 \[usable: 13\].*Fetch\(1\): 4 to 18 \[usable: 18\].*Metadata\(3\): 0 to 13 \[usable: 13\].*ApiVersions\(18\): 0 to `)},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker.Require(t, c.needs)
			if out := kafka.must(t, "", c.class, c.args...); !c.want.MatchString(out) {
				t.Errorf("it says\n%s\nand not %s", out, c.want)
			}
		})
	}
}
