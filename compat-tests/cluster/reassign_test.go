package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"weir/compat-tests/harness"
)

// moves are reassignments of one topic.
type moves struct {
	*testing.T
	admin *kadm.Client
	topic string
}

// to asks for all partitions to have those replicas, in that order; nobody cancels what is under way.
func (m moves) to(brokers ...int32) error {
	m.Helper()
	var req kadm.AlterPartitionAssignmentsReq
	for p := range int32(partitions) {
		if brokers == nil {
			req.CancelAssign(m.topic, p)
		} else {
			req.Assign(m.topic, p, brokers)
		}
	}
	resp, err := m.admin.AlterPartitionAssignments(harness.Context(m.T), req)
	if err != nil {
		m.Fatal(err)
	}
	return resp.Error()
}

// arrive has all partitions moved and returns when they are there: nothing is under way, the replicas lead and are in sync, and no
// other broker has a log of the topic.
func (m moves) arrive(brokers ...int32) {
	m.Helper()
	if err := m.to(brokers...); err != nil {
		m.Fatalf("to %v: %v", brokers, err)
	}
	m.await(func() bool {
		return len(m.underWay()) == 0 && m.complete(brokers) && slices.Equal(m.holders(), sorted(brokers))
	})
}

func (m moves) await(done func() bool) {
	m.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.Fatalf("not after half a minute; under way: %v; logs on %v", m.underWay(), m.holders())
		}
	}
}

func (m moves) underWay() map[int32]kadm.ListPartitionReassignmentsResponse {
	m.Helper()
	topics := kadm.TopicsSet{}
	for p := range int32(partitions) {
		topics.Add(m.topic, p)
	}
	list, err := m.admin.ListPartitionReassignments(harness.Context(m.T), topics)
	if err != nil {
		m.Fatal(err)
	}
	return list[m.topic]
}

func (m moves) complete(brokers []int32) bool {
	m.Helper()
	metadata, err := m.admin.Metadata(harness.Context(m.T), m.topic)
	if err != nil {
		m.Fatal(err)
	}
	for _, p := range metadata.Topics[m.topic].Partitions {
		if !slices.Equal(p.Replicas, brokers) || !slices.Equal(sorted(p.ISR), sorted(brokers)) || !slices.Contains(brokers, p.Leader) {
			return false
		}
	}
	return len(metadata.Topics[m.topic].Partitions) == partitions
}

// holders are the brokers that have logs of the topic; one that does not answer has none.
func (m moves) holders() (brokers []int32) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	all, _ := m.admin.DescribeAllLogDirs(ctx, nil)
	for _, dirs := range all {
		for _, dir := range dirs {
			if len(dir.Topics[m.topic]) > 0 {
				brokers = append(brokers, dir.Broker)
			}
		}
	}
	return sorted(brokers)
}

func sorted(ids []int32) []int32 { return slices.Sorted(slices.Values(ids)) }

// Partitions get another replica, move to a third broker and come back while they are written to. Nothing that was acknowledged is
// lost or there twice, and nothing is left where they have been.
func TestPartitionsMoveUnderLoad(t *testing.T) {
	c := harness.StartCluster(t, harness.ClusterOptions{})
	c.CreateTopic(t, "moved", partitions, 1, "min.insync.replicas", "2")
	load := harness.StartKgo(t, c, "moved", partitions)
	m := moves{t, kadm.NewClient(c.ClusterClient(t)), "moved"}
	for _, brokers := range [][]int32{{1}, {1, 2}, {3}, {2, 3}, {1}} {
		m.arrive(brokers...)
		load.AwaitAcks(t, someAcks)
	}
	load.Finish(t, c)
}

// Who is dead can be named, and waited for, and what is under way can be cancelled.
func TestReassignmentsWaitAndAreCancelled(t *testing.T) {
	c := harness.StartCluster(t, harness.ClusterOptions{})
	c.CreateTopic(t, "moved", partitions, 1)
	m := moves{t, kadm.NewClient(c.ClusterClient(t)), "moved"}
	m.arrive(1)
	c.Kill(3)
	if err := m.to(3, 2); err != nil {
		t.Fatal(err)
	}
	m.await(func() bool { return slices.Equal(m.holders(), []int32{1, 2}) })
	moving := m.underWay()
	if len(moving) != partitions {
		t.Errorf("under way: %v", moving)
	}
	for p, r := range moving {
		if !slices.Equal(r.Replicas, []int32{3, 2, 1}) || !slices.Equal(r.AddingReplicas, []int32{2, 3}) || !slices.Equal(r.RemovingReplicas, []int32{1}) {
			t.Errorf("partition %d: %+v", p, r)
		}
	}
	if err := m.to(); err != nil {
		t.Fatal(err)
	}
	m.await(func() bool {
		return len(m.underWay()) == 0 && m.complete([]int32{1}) && slices.Equal(m.holders(), []int32{1})
	})
	if err := m.to(); !errors.Is(err, kerr.NoReassignmentInProgress) {
		t.Errorf("nothing to cancel: %v", err)
	}
	if err := m.to(3); err != nil {
		t.Fatal(err)
	}
	c.Restart(3)
	m.arrive(3)
}
