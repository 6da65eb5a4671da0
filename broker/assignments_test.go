package broker

import (
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

// Where a broker has several directories only it knows which one a new replica went to, and it tells the controller.
func TestTheControllerIsToldWhereReplicasAre(t *testing.T) {
	b := start(t, vfs.NewMem(), load(t, anyPort, "", "log.dirs=/data/a,/data/b"))
	b.dial().createTopic("t")
	tp := kafka.TopicPartition{Topic: "t"}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		topic, _ := b.node.Image().Topics.ByName("t")
		p := topic.Partition(0)
		if p.Directory(b.Config.NodeID) == b.store.DirectoryOf(b.store.Log(tp)) {
			if p.Leader != b.Config.NodeID {
				t.Errorf("the leader is %d", p.Leader)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the controller believes that the replica is in %v; the directories are %v", p.Directory(b.Config.NodeID), b.store.DirectoryIDs())
		}
	}
}
