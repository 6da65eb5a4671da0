package handler

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// reassign asks for partitions of t to have those replicas, null for what they had, and returns the answer.
func (c *client) reassign(version int16, change func(*kmsg.AlterPartitionAssignmentsRequest), replicas ...[]int32) *kmsg.AlterPartitionAssignmentsResponse {
	c.f.t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	topic := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	topic.Topic = "t"
	for i, r := range replicas {
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = int32(i), r
		topic.Partitions = append(topic.Partitions, p)
	}
	if req.Topics = append(req.Topics, topic); change != nil {
		change(req)
	}
	return c.call(version, req).(*kmsg.AlterPartitionAssignmentsResponse)
}

// moving are the partitions that are being reassigned.
func (c *client) moving() []kmsg.ListPartitionReassignmentsResponseTopic {
	c.f.t.Helper()
	return c.call(0, kmsg.NewPtrListPartitionReassignmentsRequest()).(*kmsg.ListPartitionReassignmentsResponse).Topics
}

func TestReassignments(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two.test", Port: 9093})
	f.createTopicOn("t", [][]kafka.BrokerID{{self}, {self}, {self}})
	c := f.client()
	resp := c.reassign(0, nil, []int32{2}, []int32{2, int32(self)}, nil, []int32{2})
	rows := resp.Topics[0].Partitions
	var codes []kafka.Code
	for _, row := range rows {
		codes = append(codes, kafka.Code(row.ErrorCode))
	}
	if want := []kafka.Code{kafka.None, kafka.None, kafka.NoReassignmentInProgress, kafka.UnknownTopicOrPartition}; resp.ErrorCode != 0 || resp.ErrorMessage != nil || !slices.Equal(codes, want) {
		t.Fatalf("%+v", resp)
	}
	if rows[0].ErrorMessage != nil || rows[2].ErrorMessage != nil || *rows[3].ErrorMessage != "Unable to find partition t:3." {
		t.Errorf("%+v", rows)
	}
	list := c.moving()
	if len(list) != 1 || list[0].Topic != "t" || len(list[0].Partitions) != 2 {
		t.Fatalf("%+v", list)
	}
	if p := list[0].Partitions[0]; !slices.Equal(p.Replicas, []int32{2, int32(self)}) || !slices.Equal(p.AddingReplicas, []int32{2}) || !slices.Equal(p.RemovingReplicas, []int32{int32(self)}) {
		t.Errorf("%+v", p)
	}
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr("t")
	req.Topics = append(req.Topics, topic)
	if p := c.call(12, req).(*kmsg.MetadataResponse).Topics[0].Partitions[0]; !slices.Equal(p.Replicas, []int32{2, int32(self)}) || !slices.Equal(p.ISR, []int32{int32(self)}) {
		t.Errorf("%+v", p)
	}

	f.join("t", 1, 2)
	if list = c.moving(); len(list) != 1 || len(list[0].Partitions) != 1 || list[0].Partitions[0].Partition != 0 {
		t.Errorf("%+v", list)
	}
	if resp = c.reassign(1, nil, nil, nil); resp.Topics[0].Partitions[0].ErrorCode != 0 || kafka.Code(resp.Topics[0].Partitions[1].ErrorCode) != kafka.NoReassignmentInProgress {
		t.Errorf("%+v", resp)
	}
	if p, q := f.registration("t", 0), f.registration("t", 1); p.HasReplica(2) || !q.HasReplica(2) {
		t.Errorf("%+v and %+v", p, q)
	}
	if list = c.moving(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestReassignmentsThatAreRefused(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two.test", Port: 9093})
	f.createTopicOn("t", [][]kafka.BrokerID{{self}})
	c := f.client()
	resp := c.reassign(1, func(req *kmsg.AlterPartitionAssignmentsRequest) { req.AllowReplicationFactorChange = false }, []int32{int32(self), 2}, []int32{2})
	if row := resp.Topics[0].Partitions[0]; resp.AllowReplicationFactorChange || kafka.Code(row.ErrorCode) != kafka.InvalidReplicationFactor {
		t.Errorf("another replication factor: %+v", resp)
	}
	if resp = c.reassign(1, nil, []int32{}); kafka.Code(resp.Topics[0].Partitions[0].ErrorCode) != kafka.InvalidReplicaAssignment { // which is not null
		t.Errorf("nobody: %+v", resp)
	}
	resp = c.reassign(1, func(req *kmsg.AlterPartitionAssignmentsRequest) { req.TimeoutMillis = 0 }, []int32{2})
	if row := resp.Topics[0].Partitions[0]; kafka.Code(resp.ErrorCode) != kafka.RequestTimedOut || row.ErrorCode != resp.ErrorCode {
		t.Errorf("no time: %+v", resp)
	}
	resp = c.reassign(1, func(req *kmsg.AlterPartitionAssignmentsRequest) { req.TimeoutMillis, req.Topics = 0, nil }, []int32{2})
	if resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("nothing: %+v", resp)
	}
}

func TestUnregisterBroker(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two.test", Port: 9093})
	f.createTopicOn("t", [][]kafka.BrokerID{{2, self}})
	c := f.client()
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = 2
	if resp := c.call(0, req).(*kmsg.UnregisterBrokerResponse); resp.ErrorCode != 0 || resp.ErrorMessage != nil {
		t.Fatalf("%+v", resp)
	}
	if p := f.registration("t", 0); p.Leader != self || p.InISR(2) || !p.HasReplica(2) {
		t.Errorf("%+v", p)
	}
	if resp := c.call(0, req).(*kmsg.UnregisterBrokerResponse); kafka.Code(resp.ErrorCode) != kafka.BrokerIDNotRegistered || *resp.ErrorMessage != "Broker ID 2 is not currently registered" {
		t.Errorf("%+v", resp)
	}
}

func TestRemoveRaftVoter(t *testing.T) {
	f := newFixture(t)
	directory := kafka.NewUUID()
	if _, err := f.node.Submit(t.Context(), controller.RegisterMember{ClusterID: f.store.ClusterID(),
		Member: metadata.QuorumMember{RaftID: 77, Node: 2, Directory: directory, Host: "two.test", Port: 9094}}); err != nil {
		t.Fatal(err)
	}
	c := f.client()
	remove := func(cluster *string, node int32, directory kafka.DirectoryID) *kmsg.RemoveRaftVoterResponse {
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.ClusterID, req.VoterID, req.VoterDirectoryID = cluster, node, directory
		return c.call(0, req).(*kmsg.RemoveRaftVoterResponse)
	}
	for name, c := range map[string]struct {
		cluster   *string
		node      int32
		directory kafka.DirectoryID
		want      kafka.Code
	}{
		"another cluster":   {kmsg.StringPtr("other"), 2, directory, kafka.InconsistentClusterID},
		"no node":           {nil, -1, directory, kafka.InvalidRequest},
		"no directory":      {nil, 2, kafka.DirectoryID{}, kafka.InvalidRequest},
		"another directory": {nil, 2, kafka.NewUUID(), kafka.VoterNotFound},
		"another node":      {nil, 3, directory, kafka.VoterNotFound},
	} {
		if resp := remove(c.cluster, c.node, c.directory); kafka.Code(resp.ErrorCode) != c.want || resp.ErrorMessage == nil {
			t.Errorf("%s: %v", name, kafka.Code(resp.ErrorCode))
		}
	}
	if resp := remove(kmsg.StringPtr(f.store.ClusterID()), 2, directory); resp.ErrorCode != 0 || resp.ErrorMessage != nil {
		t.Fatalf("%+v", resp)
	}
	for m := range f.node.Image().Quorum.All() {
		if m.Node == 2 {
			t.Errorf("%+v is still there", m)
		}
	}
}
