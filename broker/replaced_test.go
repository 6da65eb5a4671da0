package broker

import (
	"testing"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// What the metadata gives to another process with this broker's id is not taken for this one's.
func TestABrokerLeadsNothingForAnotherProcess(t *testing.T) {
	r := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	c := r.dial()
	id := c.createTopic("t")
	if row := c.produce("t", "value"); row.ErrorCode != 0 {
		t.Fatalf("produce: %v", kafka.Code(row.ErrorCode))
	}
	img := r.node.Image()
	own, _ := img.Brokers.ByID(1)
	other := *own
	other.Incarnation, other.Epoch = kafka.NewUUID(), own.Epoch+1000
	topic, _ := img.Topics.ByName("t")
	led := topic.Partitions[0]
	led.LeaderEpoch++
	led.PartitionEpoch++
	next, delta, err := img.With([]metadata.Record{
		metadata.RegisterBrokerRecord{BrokerRegistration: other}, metadata.PartitionRecord{TopicID: id, PartitionRegistration: led},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.replicas.Apply(delta, next)
	if row := c.produce("t", "value"); kafka.Code(row.ErrorCode) != kafka.NotLeaderOrFollower {
		t.Fatalf("produce where another process leads: %v", kafka.Code(row.ErrorCode))
	}
}
