package cluster

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// measured is a cluster to measure: one of the case's own, or another product's that runs already, by the addresses in
// WEIR_COMPAT_CLUSTER and the process ids in WEIR_COMPAT_CLUSTER_PIDS, both separated by commas.
type measured struct {
	own       *harness.Cluster // nil for another's
	bootstrap []string
	cpu       func() time.Duration // of all processes together, so far
}

func startMeasured(t *testing.T) *measured {
	t.Helper()
	if !harness.Soak() {
		t.Skip("measures: only in `make soak`")
	}
	if addresses := os.Getenv("WEIR_COMPAT_CLUSTER"); addresses != "" {
		var pids []int
		for _, text := range strings.Split(os.Getenv("WEIR_COMPAT_CLUSTER_PIDS"), ",") {
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("WEIR_COMPAT_CLUSTER_PIDS: %v", err)
			}
			pids = append(pids, pid)
		}
		return &measured{bootstrap: strings.Split(addresses, ","), cpu: func() time.Duration { return cpu(t, pids...) }}
	}
	c := harness.StartCluster(t, harness.ClusterOptions{})
	return &measured{own: c, bootstrap: c.Bootstrap(), cpu: func() (sum time.Duration) {
		for _, n := range c.Nodes() {
			sum += cpu(t, c.PID(n.ID))
		}
		return sum
	}}
}

func (m *measured) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(m.bootstrap...), kgo.DisableClientMetrics(), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// cpu is the processor time that processes have used together.
func cpu(t *testing.T, pids ...int) (sum time.Duration) {
	t.Helper()
	for _, pid := range pids {
		used, err := harness.CPU(pid)
		if err != nil {
			t.Fatal(err)
		}
		sum += used
	}
	return sum
}

func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("figure: %s: %s", t.Name(), fmt.Sprintf(format, args...))
}

// What a cluster costs that nobody uses: three nodes, a few topics with all replicas.
func TestIdleCPU(t *testing.T) {
	m := startMeasured(t)
	topic := fmt.Sprint("idle", time.Now().UnixNano())
	if _, err := kadm.NewClient(m.client(t)).CreateTopics(harness.Context(t), 30, 3, nil, topic); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	const during = 30 * time.Second
	before := m.cpu()
	time.Sleep(during)
	figure(t, "%.2f %% of a core", 100*float64(m.cpu()-before)/float64(during))
}

// What three replicas of a gigabyte cost all brokers together: 1 KiB records, acks=all.
func TestCPUPerGB(t *testing.T) {
	m := startMeasured(t)
	topic := fmt.Sprint("load", time.Now().UnixNano())
	client := m.client(t, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	two := "2"
	if _, err := kadm.NewClient(client).CreateTopics(harness.Context(t), 6, 3, map[string]*string{"min.insync.replicas": &two}, topic); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 1024)
	for i := range value {
		value[i] = byte(i * 131)
	}
	produce := func(records int) {
		var failed atomic.Pointer[error]
		for range records {
			client.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(&err)
				}
			})
		}
		if err := client.Flush(harness.Context(t)); err != nil {
			t.Fatal(err)
		}
		if err := failed.Load(); err != nil {
			t.Fatal(*err)
		}
	}
	produce(100_000)
	const records = 1_000_000
	before, began := m.cpu(), time.Now()
	produce(records)
	took, used := time.Since(began), m.cpu()-before
	gb := float64(records) * 1024 / 1e9
	figure(t, "%.2f CPU seconds a GB, %.0f MB/s", used.Seconds()/gb, gb*1000/took.Seconds())
}

func TestCreateTenThousandPartitions(t *testing.T) {
	m := startMeasured(t)
	topic := fmt.Sprint("wide", time.Now().UnixNano())
	began := time.Now()
	if _, err := kadm.NewClient(m.client(t)).CreateTopics(harness.Context(t), 10_000, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	figure(t, "10,000 partitions created in %v", time.Since(began).Round(10*time.Millisecond))
}

// How long it takes until all is led again that a broker led that dies.
func TestLeaderOfTwoThousandDies(t *testing.T) {
	m := startMeasured(t)
	if m.own == nil {
		t.Skip("kills a node, and the cluster is another's")
	}
	const count = 2000
	admin := kadm.NewClient(m.client(t))
	assignment := make([][]int32, count)
	for i := range assignment {
		assignment[i] = []int32{3, 1, 2}
	}
	createAssigned(t, m.client(t), "led", assignment)
	m.own.AwaitISRs(t, "led")
	began := time.Now()
	m.own.Kill(3)
	for {
		metadata, err := admin.Metadata(harness.Context(t), "led")
		led := 0
		if err == nil {
			for _, p := range metadata.Topics["led"].Partitions {
				if p.Leader >= 0 && p.Leader != 3 {
					led++
				}
			}
		}
		if led == count {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	figure(t, "%d partitions led elsewhere %v after their leader was killed", count, time.Since(began).Round(10*time.Millisecond))
}

func createAssigned(t *testing.T, client *kgo.Client, topic string, replicas [][]int32) {
	t.Helper()
	r := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	for p := range replicas {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(p), replicas[p]
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, a)
	}
	r.Topics = append(r.Topics, rt)
	r.TimeoutMillis = 60_000
	response, err := r.RequestWith(harness.Context(t), client)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(response.Topics[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}
