package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/compat-tests/harness"
)

// A group goes on when its coordinator dies: another broker has its members' offsets, none of which goes back, and the
// members find it by themselves.
func TestGroupOutlivesItsCoordinator(t *testing.T) {
	c := harness.StartCluster(t, harness.ClusterOptions{})
	const topic, name = "orders", "g"
	c.CreateTopic(t, topic, partitions, 3, "min.insync.replicas", "2")
	load := harness.StartKgo(t, c, topic, partitions)
	m := startMembers(t, c, topic, name, 2)
	m.awaitMore(t, 500)
	dead := coordinator(t, c, name)
	before := committed(t, c, name)
	began := time.Now()
	c.Kill(dead)
	m.awaitMore(t, 500)
	took := time.Since(began)
	after := committed(t, c, name)
	for p, offset := range before {
		if after[p] < offset {
			t.Errorf("partition %d: offset %d was committed, and now %d is", p, offset, after[p])
		}
	}
	if moved := coordinator(t, c, name); moved == dead {
		t.Errorf("the coordinator is said to be %d, which is dead", moved)
	}
	c.Restart(dead)
	c.AwaitISRs(t)
	m.awaitMore(t, 500)
	load.Finish(t, c)
	m.awaitAll(t, load.Acked())
	figure(t, "coordinator %d killed; 500 records more of each partition were read %v later", dead, took.Round(10*time.Millisecond))
}

// members are consumers of one group, which count the records that they have read, by partition and offset.
type members struct {
	mu   sync.Mutex
	read [partitions]map[int64]bool
}

func startMembers(t *testing.T, c *harness.Cluster, topic, group string, n int) *members {
	t.Helper()
	m := &members{}
	for p := range m.read {
		m.read[p] = make(map[int64]bool)
	}
	for i := range n {
		client := c.ClusterClient(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.AutoCommitInterval(200*time.Millisecond), kgo.ClientID(fmt.Sprint("member", i)))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				client.PollFetches(ctx).EachRecord(m.got)
			}
		}()
		t.Cleanup(func() {
			cancel()
			<-done
		})
	}
	return m
}

func (m *members) got(r *kgo.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read[r.Partition][r.Offset] = true
}

func (m *members) counts() (n [partitions]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.read {
		n[p] = len(m.read[p])
	}
	return n
}

// awaitMore returns when so many more records of every partition are read.
func (m *members) awaitMore(t *testing.T, more int) {
	t.Helper()
	before := m.counts()
	m.await(t, func(now [partitions]int) bool {
		for p := range now {
			if now[p] < before[p]+more {
				return false
			}
		}
		return true
	})
}

// awaitAll returns when so many different records are read in all.
func (m *members) awaitAll(t *testing.T, records int) {
	t.Helper()
	m.await(t, func(now [partitions]int) bool { return now[0]+now[1]+now[2] >= records })
}

func (m *members) await(t *testing.T, enough func([partitions]int) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !enough(m.counts()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute the group has read %v", m.counts())
		}
	}
}

// coordinator returns the node that coordinates a group.
func coordinator(t *testing.T, c *harness.Cluster, group string) (id int) {
	t.Helper()
	ask(t, c, func(ctx context.Context, admin *kadm.Client) error {
		found := admin.FindGroupCoordinators(ctx, group)[group]
		id = int(found.NodeID)
		return found.Err
	})
	return id
}

// committed returns a group's offsets by partition.
func committed(t *testing.T, c *harness.Cluster, group string) map[int32]int64 {
	t.Helper()
	offsets := make(map[int32]int64)
	ask(t, c, func(ctx context.Context, admin *kadm.Client) error {
		fetched, err := admin.FetchOffsets(ctx, group)
		fetched.Each(func(o kadm.OffsetResponse) { offsets[o.Partition] = o.At })
		return err
	})
	return offsets
}

// ask asks with a new client each time, since one keeps to a coordinator that it cannot connect to, until it gets an answer.
func ask(t *testing.T, c *harness.Cluster, question func(context.Context, *kadm.Client) error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		client := c.ClusterClient(t)
		err := question(harness.Context(t), kadm.NewClient(client))
		client.Close()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
