package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

const rackAware = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"

// newRacks starts a broker in rack a that leads t, which broker 2 in rack b and broker 3 in rack c follow. Only broker 2 is
// reachable by the consumers' listener. All of them have one record.
func newRacks(t *testing.T, overrides ...string) *fixture {
	f := newFixture(t, append(overrides, "broker.rack=a")...)
	f.addBrokerIn("b", follower, metadata.Endpoint{Name: listener, Host: "b", Port: 9092})
	f.addBrokerIn("c", 3, metadata.Endpoint{Name: "INTERNAL", Host: "c", Port: 9092})
	id := f.createTopicOn("t", [][]kafka.BrokerID{{self, follower, 3}})
	f.client().start(9, produceRequestTo(replica.AcksLeader, topicRecords{"t", 0, records(t, 1, 100)}))
	for _, broker := range []kafka.BrokerID{follower, 3} {
		req := f.followerFetch(id, 1, 0, 0, 0)
		b, _ := f.node.Image().Brokers.ByID(broker)
		req.ReplicaState.ID, req.ReplicaState.Epoch = int32(broker), int64(b.Epoch)
		f.client().call(followerVersion, req)
	}
	return f
}

func consumerIn(rack string, minBytes, maxWaitMs int32) *kmsg.FetchRequest {
	req := fetchRequest(minBytes, maxWaitMs, fetchPartitionOf{topic: "t"})
	req.Rack = rack
	return req
}

func TestLeadersSendConsumersToTheirRack(t *testing.T) {
	aware, unaware := newRacks(t, rackAware), newRacks(t)
	for name, test := range map[string]struct {
		f       *fixture
		rack    string
		version int16
		want    int32
	}{
		"a follower's rack":        {aware, "b", 12, 2},
		"the leader's rack":        {aware, "a", 12, -1},
		"nobody's rack":            {aware, "d", 12, -1},
		"no rack":                  {aware, "", 12, -1},
		"not reachable":            {aware, "c", 12, -1},
		"before KIP-392":           {aware, "b", 10, -1},
		"no selector":              {unaware, "b", 12, -1},
		"the first version of all": {aware, "b", 11, 2},
	} {
		t.Run(name, func(t *testing.T) {
			row := fetchRows(test.f.client().call(test.version, consumerIn(test.rack, 1, 0)).(*kmsg.FetchResponse))[0]
			if row.PreferredReadReplica != test.want || row.ErrorCode != 0 || row.HighWatermark != 1 {
				t.Errorf("replica %d, %v, high watermark %d; want replica %d", row.PreferredReadReplica, kafka.Code(row.ErrorCode), row.HighWatermark, test.want)
			}
			if got := len(row.RecordBatches) > 0; got != (test.want == -1) {
				t.Errorf("%d bytes", len(row.RecordBatches))
			}
		})
	}
}

func TestSessionsNameThePreferredReplicaEveryTime(t *testing.T) {
	f := newRacks(t, rackAware)
	c := f.client()
	req := consumerIn("b", 1<<20, 1000) // it does not wait for bytes that it will not get here
	req.SessionEpoch = 0
	id := c.fetch(req).SessionID
	for epoch := int32(1); epoch < 3; epoch++ {
		req := consumerIn("b", 1<<20, 1000)
		req.SessionID, req.SessionEpoch, req.Topics = id, epoch, nil
		if rows := fetchRows(c.fetch(req)); len(rows) != 1 || rows[0].PreferredReadReplica != int32(follower) {
			t.Fatalf("%+v", rows)
		}
	}
}

func TestFollowersAnswerConsumersOfNewVersions(t *testing.T) {
	f := newFixture(t)
	f.addBroker(follower)
	f.createTopicOn("t", [][]kafka.BrokerID{{follower, self}})
	epoch := int32(byName(f.node.Image(), "t").Partition(0).LeaderEpoch)
	for name, test := range map[string]struct {
		version int16
		change  func(*kmsg.FetchRequestTopicPartition)
		want    kafka.Code
	}{
		"version 11":       {11, func(*kmsg.FetchRequestTopicPartition) {}, kafka.None},
		"version 10":       {10, func(*kmsg.FetchRequestTopicPartition) {}, kafka.NotLeaderOrFollower},
		"its leader epoch": {11, func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = epoch }, kafka.None},
		"a newer epoch":    {11, func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = epoch + 1 }, kafka.UnknownLeaderEpoch},
		"above its end":    {11, func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 1 }, kafka.OffsetOutOfRange},
	} {
		req := fetchRequest(1, 0, fetchPartitionOf{topic: "t"})
		test.change(&req.Topics[0].Partitions[0])
		if row := fetchRows(f.client().call(test.version, req).(*kmsg.FetchResponse))[0]; kafka.Code(row.ErrorCode) != test.want {
			t.Errorf("%s: %v, want %v", name, kafka.Code(row.ErrorCode), test.want)
		}
	}
}

// Tools that compare replicas ask each of them, by Kafka's id for debugging.
func TestFollowersListTheirOwnOffsetsForTools(t *testing.T) {
	f := newFixture(t)
	f.addBroker(follower)
	f.createTopicOn("t", [][]kafka.BrokerID{{follower, self}})
	for id, want := range map[int32]kafka.Code{-2: kafka.None, -1: kafka.NotLeaderOrFollower, int32(follower): kafka.NotLeaderOrFollower} {
		req := kmsg.NewPtrListOffsetsRequest()
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = replica.TimestampLatest
		req.ReplicaID, req.Topics = id, []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		if row := f.client().call(7, req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; kafka.Code(row.ErrorCode) != want {
			t.Errorf("replica %d: %v, want %v", id, kafka.Code(row.ErrorCode), want)
		}
	}
}
