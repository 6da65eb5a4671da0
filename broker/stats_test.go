package broker

import (
	"reflect"
	"testing"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

func TestStatsOfASingleBroker(t *testing.T) {
	r := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	c := r.dial()
	c.createTopic("a")
	c.createTopic("empty")
	for range 3 {
		c.produce("a", "value")
	}
	read := int64(len(c.fetch("a").RecordBatches))
	s := r.Stats()

	if s.Self != 1 || s.Replicas != 2 || s.Offline != 0 || s.Groups == nil || len(s.Groups) != 0 {
		t.Errorf("%+v", s)
	}
	want := &ControllerStats{Brokers: []BrokerAddress{{1, r.Bound()["PLAINTEXT"]}}, Topics: []TopicStats{{"a", 1}, {"empty", 1}}, Partitions: 2}
	if !reflect.DeepEqual(s.Controller, want) {
		t.Errorf("controller %+v, want %+v", s.Controller, want)
	}
	partitions := []PartitionStats{
		{Topic: "a", Leader: 1, Preferred: true, Replicas: 1, InSync: 1, MinInSync: 1, End: 3},
		{Topic: "empty", Leader: 1, Preferred: true, Replicas: 1, InSync: 1, MinInSync: 1},
	}
	if !reflect.DeepEqual(s.Partitions, partitions) {
		t.Errorf("partitions %+v, want %+v", s.Partitions, partitions)
	}
	if logs := []LogStats{{Topic: "a", End: 3, Size: read, Segments: 1}, {Topic: "empty", Segments: 1}}; !reflect.DeepEqual(s.Logs, logs) {
		t.Errorf("logs %+v, want %+v", s.Logs, logs)
	}
	traffic := replica.TrafficCounts{MessagesIn: 3, BytesIn: read, BytesOut: read, ProduceRequests: 3, FetchRequests: 1}
	if s.Traffic["a"] != traffic || s.AllTraffic != traffic || len(s.Traffic) != 2 {
		t.Errorf("traffic %+v, %+v in all, want %+v", s.Traffic, s.AllTraffic, traffic)
	}
	if q := s.Quorum; q.Leader != 1 || q.LeaderEpoch != 1 || len(q.Voters) != 1 || q.Voters[0].Node != 1 || q.Voters[0].LogEndOffset != q.HighWatermark {
		t.Errorf("quorum %+v", q)
	}
	r.mustStop()
	if s := r.Stats(); len(s.Partitions) != 2 {
		t.Errorf("after the stop: %+v", s)
	}
}

func TestStatsTellOfAPartitionWhereItIsLed(t *testing.T) {
	r := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	submit := func(cmd controller.Command) controller.Reply {
		t.Helper()
		reply, err := r.node.Submit(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	epoch := submit(controller.RegisterBroker{ClusterID: r.ClusterID(), Broker: 2, Incarnation: kafka.NewUUID(), PreviousEpoch: -1,
		Listeners: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "two.test", Port: 9092}}, Directories: []kafka.DirectoryID{kafka.NewUUID()}}).(controller.RegisterBrokerReply).Epoch
	if c := r.Stats().Controller; len(c.Brokers) != 1 || c.Fenced != 1 {
		t.Errorf("while the second broker is fenced: %+v", c)
	}
	submit(controller.BrokerHeartbeat{Broker: 2, Epoch: epoch, MetadataOffset: r.node.Image().Index})
	topic := func(name string, replicas ...kafka.BrokerID) controller.NewTopic {
		return controller.NewTopic{Name: name, ID: kafka.NewUUID(), NumPartitions: -1, ReplicationFactor: -1, Assignments: []controller.Assignment{{Replicas: replicas}}}
	}
	submit(controller.CreateTopics{Topics: []controller.NewTopic{topic("both", 2, 1), topic("other", 2)}})

	s := r.Stats()
	if len(s.Partitions) != 0 || len(s.Logs) != 1 || s.Logs[0].Topic != "both" || len(s.Controller.Topics) != 2 || s.Controller.Leaderless+s.Controller.NotPreferred != 0 {
		t.Errorf("while broker 2 leads: %+v, %+v", s, s.Controller)
	}
	if b := s.Controller.Brokers; len(b) != 2 || b[1] != (BrokerAddress{2, "two.test:9092"}) {
		t.Errorf("brokers %+v", b)
	}

	submit(controller.BrokerHeartbeat{Broker: 2, Epoch: epoch, MetadataOffset: r.node.Image().Index, WantFence: true})
	s = r.Stats()
	want := []PartitionStats{
		{Topic: "both", Leader: 1, Replicas: 2, InSync: 1, MinInSync: 1},
		{Topic: "other", Leader: kafka.NoBroker, Replicas: 1, Start: -1, End: -1},
	}
	if !reflect.DeepEqual(s.Partitions, want) {
		t.Errorf("after broker 2 is fenced: %+v, want %+v", s.Partitions, want)
	}
	if c := s.Controller; c.Leaderless != 1 || c.NotPreferred != 2 || len(c.Brokers) != 1 {
		t.Errorf("after broker 2 is fenced: %+v", c)
	}
}

func TestUncleanElectionsAreCounted(t *testing.T) {
	r := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	submit := func(cmd controller.Command) controller.Reply {
		t.Helper()
		reply, err := r.node.Submit(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	epochs := make(map[kafka.BrokerID]kafka.BrokerEpoch)
	heartbeat := func(id kafka.BrokerID, fence bool) {
		t.Helper()
		submit(controller.BrokerHeartbeat{Broker: id, Epoch: epochs[id], MetadataOffset: r.node.Image().Index, WantFence: fence})
	}
	for id := kafka.BrokerID(2); id <= 3; id++ {
		epochs[id] = submit(controller.RegisterBroker{ClusterID: r.ClusterID(), Broker: id, Incarnation: kafka.NewUUID(), PreviousEpoch: -1,
			Directories: []kafka.DirectoryID{kafka.NewUUID()}}).(controller.RegisterBrokerReply).Epoch
		heartbeat(id, false)
	}
	submit(controller.CreateTopics{Topics: []controller.NewTopic{{Name: "t", ID: kafka.NewUUID(), NumPartitions: -1, ReplicationFactor: -1,
		Assignments: []controller.Assignment{{Replicas: []kafka.BrokerID{2, 3}}}}}})
	heartbeat(3, true)
	heartbeat(2, true)
	heartbeat(3, false)
	if c := r.Stats().Controller; c.Leaderless != 1 || c.Unclean != 0 {
		t.Fatalf("before the election: %+v", c)
	}
	submit(controller.ElectLeaders{Type: controller.UncleanElection, All: true})
	if c := r.Stats().Controller; c.Leaderless != 0 || c.Unclean != 1 {
		t.Errorf("after the election: %+v", c)
	}
	heartbeat(2, false)
	if c := r.Stats().Controller; c.Unclean != 1 {
		t.Errorf("after another change: %+v", c)
	}
}
