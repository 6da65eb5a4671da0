package broker

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/clock"
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

// notedCommands is a controller that notes what it is told.
type notedCommands struct {
	epoch kafka.BrokerEpoch
	cmds  chan controller.Command
}

func (c notedCommands) Registered() (kafka.BrokerEpoch, bool) { return c.epoch, true }

func (c notedCommands) Submit(_ context.Context, cmd controller.Command) (controller.Reply, error) {
	c.cmds <- cmd
	return controller.AssignReplicasToDirsReply{}, nil
}

// It is told of a topic that the broker itself does not tell anybody of yet: subscribers come before the image.
func TestTheControllerIsToldOfWhatIsPublishedJustNow(t *testing.T) {
	b := start(t, vfs.NewMem(), load(t, anyPort, "", "log.dirs=/data/a,/data/b"))
	id := b.dial().createTopic("t")
	img := b.node.Image()
	topic, _ := img.Topics.ByID(id)
	registration := topic.Partitions[0]
	registration.Directories = []kafka.DirectoryID{kafka.UnassignedDirectory}
	before, _, err := img.With([]metadata.Record{metadata.RemoveTopicRecord{ID: id}})
	if err != nil {
		t.Fatal(err)
	}
	now, delta, err := before.With([]metadata.Record{metadata.TopicRecord{ID: id, Name: "t"}, metadata.PartitionRecord{TopicID: id, PartitionRegistration: registration}})
	if err != nil {
		t.Fatal(err)
	}
	c := notedCommands{epoch: 7, cmds: make(chan controller.Command, 1)}
	a := newAssignments(1, b.replicas, func() commander { return c }, clock.System(), slog.New(slog.DiscardHandler))
	defer a.close()
	a.Apply(delta, now)
	cmd := (<-c.cmds).(controller.AssignReplicasToDirs)
	want := controller.DirAssignment{TopicID: id, Directory: b.store.DirectoryOf(b.store.Log(kafka.TopicPartition{Topic: "t"}))}
	if cmd.Epoch != 7 || len(cmd.Assignments) != 1 || cmd.Assignments[0] != want {
		t.Errorf("%+v, want %+v", cmd, want)
	}
}
