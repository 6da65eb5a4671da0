package java

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// operated is a cluster of three with a topic of one partition, which Kafka's tools are to change.
type operated struct {
	*testing.T
	tools
	cluster  *harness.Cluster
	client   *kgo.Client
	admin    *kadm.Client
	topic    string
	replicas []int // in order, the preferred one first; they are two
	third    int   // the broker that has none
}

const (
	movedRecords = 20_000
	movedBytes   = 1000 // of a record: all of them are too much for the least throttle, and nothing for the other
	noPace       = 1000 // bytes a second
	anyPace      = 1_000_000_000
)

func newOperated(t *testing.T) *operated {
	t.Helper()
	o := &operated{T: t, tools: newTools(t), cluster: harness.StartCluster(t, harness.ClusterOptions{}), topic: harness.TopicName(t)}
	o.client = o.cluster.ClusterClient(t, kgo.DefaultProduceTopic(o.topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	o.admin = kadm.NewClient(o.client)
	o.cluster.CreateTopic(t, o.topic, 1, 2)
	var records []*kgo.Record
	for range movedRecords {
		records = append(records, &kgo.Record{Value: make([]byte, movedBytes)})
	}
	if err := o.client.ProduceSync(harness.Context(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for _, id := range o.partition().Replicas {
		o.replicas = append(o.replicas, int(id))
	}
	o.third = 6 - o.replicas[0] - o.replicas[1]
	return o
}

func (o *operated) partition() kadm.PartitionDetail {
	o.Helper()
	metadata, err := o.admin.Metadata(harness.Context(o.T), o.topic)
	if err != nil {
		o.Fatal(err)
	}
	return metadata.Topics[o.topic].Partitions[0]
}

// tool runs a tool against the cluster, logs what it prints, and holds it against an exit code and patterns.
func (o *operated) tool(code int, class string, args []string, patterns ...string) string {
	o.Helper()
	args = append([]string{"--bootstrap-server", strings.Join(o.cluster.Bootstrap(), ",")}, args...)
	if class == "ClusterTool" {
		args = append([]string{args[2]}, append(args[:2:2], args[3:]...)...) // its verb comes first
	}
	r := o.run(o.T, "", class, args...)
	out := r.Stdout + r.Stderr
	o.Logf("%s %s: exit %d\n%.4000s", class, args, r.Code, out)
	if r.Code != code {
		o.Errorf("%s %s: exit %d, want %d", class, args, r.Code, code)
	}
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)^" + p + "$").MatchString(out) {
			o.Errorf("%s %s prints no line %q:\n%.4000s", class, args, p, out)
		}
	}
	return out
}

// plan writes a file as the tool takes it, that moves the partition to other replicas.
func (o *operated) plan(replicas ...int) string {
	o.Helper()
	return o.file("plan.json", map[string]any{"version": 1, "partitions": []any{map[string]any{"topic": o.topic, "partition": 0, "replicas": replicas}}})
}

func (o *operated) file(name string, content any) string {
	o.Helper()
	path := filepath.Join(o.TempDir(), name)
	text, err := json.Marshal(content)
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		o.Fatal(err)
	}
	return path
}

// throttles are the settings that slow copying down, of the topic and of all brokers: "name=value", without the values' order.
func (o *operated) throttles() []string {
	o.Helper()
	topics, err := o.admin.DescribeTopicConfigs(harness.Context(o.T), o.topic)
	if err != nil {
		o.Fatal(err)
	}
	brokers, err := o.admin.DescribeBrokerConfigs(harness.Context(o.T), 1, 2, 3)
	if err != nil {
		o.Fatal(err)
	}
	set := make(map[string]bool)
	for _, r := range append(topics, brokers...) {
		for _, c := range r.Configs {
			if strings.Contains(c.Key, ".replication.throttled.") && c.Source != kmsg.ConfigSourceDefaultConfig && c.MaybeValue() != "" {
				values := strings.Split(c.MaybeValue(), ",")
				slices.Sort(values)
				set[c.Key+"="+strings.Join(values, ",")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// moved returns when the partition has those replicas only, and all are in sync.
func (o *operated) moved(replicas ...int) {
	o.Helper()
	o.await(func() string {
		if p := o.partition(); fmt.Sprint(p.Replicas) != fmt.Sprint(replicas) || len(p.ISR) != len(replicas) {
			return fmt.Sprintf("replicas %v, ISR %v; want %v", p.Replicas, p.ISR, replicas)
		}
		return ""
	})
}

// await returns when nothing is missing any more.
func (o *operated) await(missing func() string) {
	o.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		what := missing()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			o.Fatal(what)
		}
	}
}

const reassignTool = "reassign.ReassignPartitionsCommand"

// Kafka's tools add a replica at a pace, have the preferred leader elected, look where the records are, and take out a broker
// that is gone.
func TestReplicaIsAdded(t *testing.T) {
	o := newOperated(t)
	first, second, third := o.replicas[0], o.replicas[1], o.third
	partition := regexp.QuoteMeta(o.topic) + "-0"
	plan := []string{"--reassignment-json-file", o.plan(second, first, third)}
	execute := slices.Concat([]string{"--execute"}, plan, []string{"--throttle"})

	o.tool(0, reassignTool, append(execute, fmt.Sprint(noPace)), `Current partition replica assignment`,
		fmt.Sprintf(`\{"version":1,"partitions":\[\{"topic":"%s","partition":0,"replicas":\[%d,%d\],.*`, o.topic, first, second),
		fmt.Sprintf("The inter-broker throttle limit was set to %d B/s", noPace), "Successfully started partition reassignment for "+partition)
	throttled := o.throttles()
	for _, want := range []string{
		fmt.Sprint("leader.replication.throttled.rate=", noPace), fmt.Sprint("follower.replication.throttled.rate=", noPace),
		fmt.Sprintf("leader.replication.throttled.replicas=0:%d,0:%d", min(first, second), max(first, second)),
		fmt.Sprintf("follower.replication.throttled.replicas=0:%d", third),
	} {
		if !slices.Contains(throttled, want) {
			t.Errorf("there is no %s among %q", want, throttled)
		}
	}
	o.tool(0, reassignTool, append([]string{"--verify"}, plan...), "Reassignment of partition "+partition+" is still in progress.")
	if got := o.throttles(); !slices.Equal(got, throttled) {
		t.Errorf("what is under way is throttled by %q, and was by %q", got, throttled)
	}
	o.tool(0, reassignTool, append(execute, fmt.Sprint(anyPace), "--additional"), "Successfully started partition reassignment for "+partition)
	o.moved(second, first, third)
	o.tool(0, reassignTool, append([]string{"--verify"}, plan...), "Reassignment of partition "+partition+" is completed.",
		"Clearing broker-level throttles on brokers 1,2,3", "Clearing topic-level throttles on topic "+regexp.QuoteMeta(o.topic))
	if got := o.throttles(); len(got) > 0 {
		t.Errorf("when it is over it is throttled by %q", got)
	}

	o.tool(0, "LeaderElectionCommand", []string{"--election-type", "preferred", "--all-topic-partitions"},
		`Successfully completed leader election \(PREFERRED\) for partitions `+partition)
	if got := int(o.partition().Leader); got != second {
		t.Errorf("%d leads, and %d is the first replica", got, second)
	}
	o.logDirs(1, 2, 3)

	cluster, err := o.admin.BrokerMetadata(harness.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	o.tool(0, "ClusterTool", []string{"cluster-id"}, "Cluster ID: "+regexp.QuoteMeta(cluster.Cluster))
	o.brokers(1, 2, 3)
	o.cluster.Kill(third)
	o.tool(0, "ClusterTool", []string{"unregister", "--id", fmt.Sprint(third)}, fmt.Sprintf("Broker %d is no longer registered.", third))
	o.brokers(first, second)
	o.cluster.Restart(third)
	o.brokers(1, 2, 3)
	o.cluster.AwaitISRs(t, o.topic)
}

// brokers returns when the cluster has those registered, up or not.
func (o *operated) brokers(ids ...int) {
	o.Helper()
	slices.Sort(ids)
	ask := kmsg.NewPtrDescribeClusterRequest()
	ask.IncludeFencedBrokers = true
	o.await(func() string {
		cluster, err := ask.RequestWith(harness.Context(o.T), o.client)
		if err != nil {
			return err.Error()
		}
		var got []int
		for _, b := range cluster.Brokers {
			got = append(got, int(b.NodeID))
		}
		if slices.Sort(got); !slices.Equal(got, ids) {
			return fmt.Sprintf("there are the brokers %v, want %v", got, ids)
		}
		return ""
	})
}

// logDirs has brokers say where they have the topic's records, and how many bytes they are.
func (o *operated) logDirs(brokers ...int) {
	o.Helper()
	var said struct {
		Brokers []struct {
			Broker  int
			LogDirs []struct {
				Error      *string
				Partitions []struct {
					Partition       string
					Size, OffsetLag int64
					IsFuture        bool
				}
			}
		}
	}
	for line := range strings.Lines(o.tool(0, "LogDirsCommand", []string{"--describe", "--topic-list", o.topic})) {
		if strings.HasPrefix(line, "{") {
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				o.Fatal(err)
			}
		}
	}
	var have []int
	for _, b := range said.Brokers {
		for _, dir := range b.LogDirs {
			if dir.Error != nil {
				o.Errorf("broker %d: %s", b.Broker, *dir.Error)
			}
			for _, p := range dir.Partitions {
				if p.Partition == o.topic+"-0" && p.Size > movedRecords*movedBytes && p.OffsetLag == 0 && !p.IsFuture {
					have = append(have, b.Broker)
				}
			}
		}
	}
	if slices.Sort(have); !slices.Equal(have, brokers) {
		o.Errorf("brokers %v have all records, want %v: %+v", have, brokers, said)
	}
}

// What Kafka's tools began they take back, and they remove a voter that is gone.
func TestReplicaStaysAfterAll(t *testing.T) {
	if !harness.Soak() {
		t.Skip("takes long: only in `make soak`")
	}
	o := newOperated(t)
	first, second, third := o.replicas[0], o.replicas[1], o.third
	partition := regexp.QuoteMeta(o.topic) + "-0"
	topics := o.file("topics.json", map[string]any{"version": 1, "topics": []any{map[string]any{"topic": o.topic}}})
	o.tool(0, reassignTool, []string{"--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2,3"},
		"Current partition replica assignment", "Proposed partition reassignment configuration", `\{"version":1,"partitions":\[.*"replicas":\[\d,\d\].*`)

	plan := []string{"--reassignment-json-file", o.plan(second, third)}
	o.tool(0, reassignTool, slices.Concat([]string{"--execute"}, plan, []string{"--throttle", fmt.Sprint(noPace)}),
		"Successfully started partition reassignment for "+partition)
	o.tool(0, reassignTool, []string{"--list"}, "Current partition reassignments:",
		fmt.Sprintf("%s: replicas: %d,%d,%d. adding: %d. removing: %d.", partition, second, third, first, third, first))
	o.tool(1, reassignTool, append([]string{"--execute"}, plan...), "Cannot execute because there is an existing partition assignment. .*")
	o.tool(0, reassignTool, append([]string{"--cancel"}, plan...), "Successfully cancelled partition reassignment for: "+partition)
	if got := o.throttles(); len(got) > 0 {
		t.Errorf("when it is taken back it is throttled by %q", got)
	}
	o.moved(second, first) // in the order that the plan had brought
	o.tool(0, reassignTool, append([]string{"--verify"}, plan...),
		fmt.Sprintf("There is no active reassignment of partition %s, but replica set is %d,%d rather than %d,%d.", partition, second, first, second, third))

	o.cluster.Kill(third)
	status := o.tool(0, "MetadataQuorumCommand", []string{"describe", "--status"}, `CurrentObservers: +\[\]`)
	directory := regexp.MustCompile(fmt.Sprintf(`"id": %d, "directoryId": "([^"]+)"`, third)).FindStringSubmatch(status)
	if directory == nil {
		t.Fatalf("node %d is no voter", third)
	}
	o.tool(0, "MetadataQuorumCommand", []string{"remove-controller", "--controller-id", fmt.Sprint(third), "--controller-directory-id", directory[1]},
		fmt.Sprintf("Removed +KRaft controller %d with directory id %s", third, regexp.QuoteMeta(directory[1])))
	o.brokers(first, second)
}
