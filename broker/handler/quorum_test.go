package handler

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

func quorumRequest(topic string, partitions ...int32) *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.DescribeQuorumRequestTopic{Topic: topic}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.DescribeQuorumRequestTopicPartition{Partition: p})
	}
	req.Topics = append(req.Topics, t)
	return req
}

func TestDescribeQuorum(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two.test", Port: 9093})
	f.addBroker(3, metadata.Endpoint{Name: "OTHER", Host: "three.test", Port: 9094})
	f.quorum = controller.DescribeQuorumReply{Leader: 2, LeaderEpoch: 4, HighWatermark: 20,
		Voters:   []controller.QuorumReplica{{Node: self, Directory: kafka.UUID{1}, LogEndOffset: 19}, {Node: 2, Directory: kafka.UUID{2}, LogEndOffset: 21, LastFetchMs: 1002, LastCaughtUpMs: 1001}},
		Learners: []controller.QuorumReplica{{Node: 3, Directory: kafka.UUID{3}, LogEndOffset: -1}}}
	c := f.client()
	for version := int16(0); version <= 2; version++ {
		resp := c.call(version, quorumRequest(kafka.ClusterMetadataTopic, 0)).(*kmsg.DescribeQuorumResponse)
		row := resp.Topics[0].Partitions[0]
		if resp.ErrorCode != 0 || resp.Topics[0].Topic != kafka.ClusterMetadataTopic || row.LeaderID != 2 || row.LeaderEpoch != 4 || row.HighWatermark != 20 {
			t.Fatalf("v%d: %+v", version, resp)
		}
		if len(row.CurrentVoters) != 2 || len(row.Observers) != 1 || row.CurrentVoters[0].LogEndOffset != 19 || row.Observers[0].ReplicaID != 3 {
			t.Fatalf("v%d: %+v", version, row)
		}
		follower, leader := row.CurrentVoters[0], row.CurrentVoters[1]
		if version >= 1 && (leader.LastFetchTimestamp != 1002 || leader.LastCaughtUpTimestamp != 1001 || follower.LastFetchTimestamp != -1 || follower.LastCaughtUpTimestamp != -1) {
			t.Errorf("v%d: times %+v, %+v", version, leader, follower)
		}
		if version < 2 {
			continue
		}
		if leader.ReplicaDirectoryID != (kafka.UUID{2}) || resp.ErrorMessage == nil || row.ErrorMessage == nil {
			t.Errorf("v2: %+v", resp)
		}
		if len(resp.Nodes) != 2 || resp.Nodes[1].Listeners[0].Host != "two.test" || resp.Nodes[1].Listeners[0].Port != 9093 || resp.Nodes[1].Listeners[0].Name != listener {
			t.Errorf("v2: nodes %+v", resp.Nodes)
		}
	}
	f.handlers.Controller = silentController{}
	patient := f.client()
	replies := patient.later(2, quorumRequest(kafka.ClusterMetadataTopic, 0))
	<-patient.waits
	f.clock.Advance(quorumTimeoutMs * time.Millisecond)
	resp := answer(t, 2, quorumRequest(kafka.ClusterMetadataTopic, 0), <-replies).(*kmsg.DescribeQuorumResponse)
	if kafka.Code(resp.ErrorCode) != kafka.RequestTimedOut || len(resp.Topics) != 0 {
		t.Errorf("while nobody leads: %+v", resp)
	}
}

func TestDescribeQuorumKnowsOneLogOnly(t *testing.T) {
	f := newFixture(t)
	two := quorumRequest(kafka.ClusterMetadataTopic, 0)
	two.Topics = append(two.Topics, two.Topics[0])
	for name, req := range map[string]*kmsg.DescribeQuorumRequest{
		"another topic":     quorumRequest("a", 0),
		"another partition": quorumRequest(kafka.ClusterMetadataTopic, 1),
		"two partitions":    quorumRequest(kafka.ClusterMetadataTopic, 0, 0),
		"two topics":        two,
	} {
		resp := f.client().call(2, req).(*kmsg.DescribeQuorumResponse)
		if resp.ErrorCode != 0 || len(resp.Topics) != len(req.Topics) {
			t.Fatalf("%s: %+v", name, resp)
		}
		for i, topic := range resp.Topics {
			if topic.Topic != req.Topics[i].Topic || len(topic.Partitions) != len(req.Topics[i].Partitions) {
				t.Errorf("%s: %+v", name, topic)
			}
			for j, p := range topic.Partitions {
				if p.Partition != req.Topics[i].Partitions[j].Partition || kafka.Code(p.ErrorCode) != kafka.UnknownTopicOrPartition || p.ErrorMessage == nil || *p.ErrorMessage == "" {
					t.Errorf("%s: %+v", name, p)
				}
			}
		}
	}
}

func TestListPartitionReassignments(t *testing.T) {
	f := newFixture(t)
	f.createTopic("still", 2)
	id := f.createTopic("moving", 3)
	c := f.client()
	list := func(topics ...kmsg.ListPartitionReassignmentsRequestTopic) []kmsg.ListPartitionReassignmentsResponseTopic {
		t.Helper()
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.Topics = topics
		resp := c.call(0, req).(*kmsg.ListPartitionReassignmentsResponse)
		if resp.ErrorCode != 0 || resp.ErrorMessage != nil {
			t.Fatalf("%+v", resp)
		}
		return resp.Topics
	}
	if got := list(); len(got) != 0 {
		t.Errorf("nothing moves: %+v", got)
	}
	img, _, err := f.node.Image().With([]metadata.Record{metadata.PartitionRecord{TopicID: id, Partition: 1, PartitionRegistration: metadata.PartitionRegistration{
		Replicas: []kafka.BrokerID{1, 2}, ISR: []kafka.BrokerID{1}, Adding: []kafka.BrokerID{2}, Removing: []kafka.BrokerID{1}, Leader: 1, PartitionEpoch: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	f.handlers.Image = func() *metadata.Image { return img }
	for name, got := range map[string][]kmsg.ListPartitionReassignmentsResponseTopic{
		"all": list(),
		"named, with what is not there": list(kmsg.ListPartitionReassignmentsRequestTopic{Topic: "nowhere", Partitions: []int32{0}},
			kmsg.ListPartitionReassignmentsRequestTopic{Topic: "still", Partitions: []int32{0, 7}},
			kmsg.ListPartitionReassignmentsRequestTopic{Topic: "moving", Partitions: []int32{-1, 0, 1, 3}}),
	} {
		if len(got) != 1 || got[0].Topic != "moving" || len(got[0].Partitions) != 1 {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		p := got[0].Partitions[0]
		if p.Partition != 1 || !slices.Equal(p.Replicas, []int32{1, 2}) || !slices.Equal(p.AddingReplicas, []int32{2}) || !slices.Equal(p.RemovingReplicas, []int32{1}) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if got := list(kmsg.ListPartitionReassignmentsRequestTopic{Topic: "moving", Partitions: []int32{0}}); len(got) != 0 {
		t.Errorf("a partition that stands still: %+v", got)
	}
}
