package cluster

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// fetched counts the bytes of a client's fetches by the node that they came from.
type fetched struct {
	mu    sync.Mutex
	bytes map[int]int
}

// OnBrokerRead implements kgo.HookBrokerRead.
func (f *fetched) OnBrokerRead(from kgo.BrokerMetadata, key int16, n int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.Fetch) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.bytes[int(from.NodeID)] += n
	}
}

func (f *fetched) from(node int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes[node]
}

// A consumer reads from the replica in its rack (KIP-392), and from the leader when that one dies: every record once, in order.
func TestConsumersReadFromTheirRack(t *testing.T) {
	c := harness.StartCluster(t, harness.ClusterOptions{Racks: true,
		Args: []string{"--override", "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"}})
	const topic, records, size = "racks", 300, 1000
	c.CreateTopic(t, topic, 1, 3, "min.insync.replicas", "2")
	leader := c.Leader(t, topic, 0)
	near := c.Others(leader)[0]
	producer := c.ClusterClient(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	produce := func() {
		t.Helper()
		var batch []*kgo.Record
		for range records {
			batch = append(batch, &kgo.Record{Topic: topic, Value: bytes.Repeat([]byte("x"), size)})
		}
		if err := producer.ProduceSync(harness.Context(t), batch...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce() // all replicas are in sync and have them
	count := &fetched{bytes: make(map[int]int)}
	consumer := c.ClusterClient(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Rack(harness.Rack(near)), kgo.WithHooks(count),
		kgo.RecheckPreferredReplicaInterval(500*time.Millisecond)) // it asks the leader again only then, also where the replica is gone
	next := int64(0)
	read := func(end int64) {
		t.Helper()
		ctx, cancel := context.WithTimeout(harness.Context(t), 30*time.Second)
		defer cancel()
		for next < end {
			fetches := consumer.PollFetches(ctx)
			if ctx.Err() != nil {
				t.Fatalf("read up to offset %d, and there are %d; %d bytes came from the replica in the rack", next, end, count.from(near))
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if r.Offset != next {
					t.Errorf("offset %d follows on %d", r.Offset, next-1)
				}
				next = r.Offset + 1
			})
		}
	}
	read(records)
	if n, of := count.from(near), count.from(leader); n < records*size || of >= records*size/2 {
		t.Errorf("%d bytes came from the replica in the rack, %d from the leader", n, of)
	}
	c.Kill(near)
	produce()
	began := time.Now()
	read(2 * records)
	figure(t, "node %d, which a consumer read from, killed; it read on %v after the next records were acknowledged", near, time.Since(began).Round(10*time.Millisecond))
}
