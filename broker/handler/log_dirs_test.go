package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

// Each partition is answered once, by the last directory that is named for it.
func TestReplicasAreMovedOnce(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 1000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "a", 2, 1
	create.Topics = append(create.Topics, topic)
	if row := c.call(7, create).(*kmsg.CreateTopicsResponse).Topics[0]; row.ErrorCode != 0 {
		t.Fatal(kafka.Code(row.ErrorCode))
	}
	move := kmsg.NewPtrAlterReplicaLogDirsRequest()
	for _, to := range []struct {
		dir, topic string
		partitions []int32
	}{{"/nowhere", "a", []int32{0, 1}}, {dataDir, "a", []int32{0, 0}}, {dataDir, "b", []int32{0}}} {
		d := kmsg.NewAlterReplicaLogDirsRequestDir()
		d.Dir, d.Topics = to.dir, []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: to.topic, Partitions: to.partitions}}
		move.Dirs = append(move.Dirs, d)
	}
	got := make(map[kafka.TopicPartition]kafka.Code)
	for _, row := range c.call(2, move).(*kmsg.AlterReplicaLogDirsResponse).Topics {
		for _, p := range row.Partitions {
			tp := kafka.TopicPartition{Topic: row.Topic, Partition: p.Partition}
			if _, twice := got[tp]; twice {
				t.Errorf("%v is answered twice", tp)
			}
			got[tp] = kafka.Code(p.ErrorCode)
		}
	}
	want := map[kafka.TopicPartition]kafka.Code{{Topic: "a"}: kafka.None, {Topic: "a", Partition: 1}: kafka.LogDirNotFound, {Topic: "b"}: kafka.ReplicaNotAvailable}
	for tp, code := range want {
		if have, ok := got[tp]; !ok || have != code {
			t.Errorf("%v: %v, want %v", tp, have, code)
		}
	}
	if len(got) != len(want) {
		t.Errorf("answered are %v", got)
	}
}
