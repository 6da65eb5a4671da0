package broker

import (
	"reflect"
	"testing"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/internal/kafka"
)

type alterAnswer struct {
	results []replica.ISRResult
	err     error
}

func alter(c isrController, proposals ...replica.ISRProposal) <-chan alterAnswer {
	answers := make(chan alterAnswer, 1)
	c.AlterISR(proposals, func(results []replica.ISRResult, err error) { answers <- alterAnswer{results, err} })
	return answers
}

func epochNine() kafka.BrokerEpoch { return 9 }

func TestProposalsReachTheController(t *testing.T) {
	proposals := []replica.ISRProposal{
		{TopicPartition: kafka.TopicPartition{Topic: "a", Partition: 1}, TopicID: kafka.TopicID{1}, LeaderEpoch: 2, PartitionEpoch: 3, ISR: []replica.ISRMember{{Broker: 4, Epoch: 5}, {Broker: 6, Epoch: -1}}},
		{TopicPartition: kafka.TopicPartition{Topic: "b"}, TopicID: kafka.TopicID{2}, RecoveryState: 1},
	}
	want := controller.AlterPartition{Broker: 8, Epoch: 9, Partitions: []controller.ISRChange{
		{TopicID: kafka.TopicID{1}, Partition: 1, LeaderEpoch: 2, PartitionEpoch: 3, ISR: []controller.ISRMember{{Broker: 4, Epoch: 5}, {Broker: 6, Epoch: -1}}},
		{TopicID: kafka.TopicID{2}, RecoveryState: 1},
	}}
	rows := []controller.AlteredPartition{
		{TopicID: kafka.TopicID{1}, Partition: 1, Leader: 4, LeaderEpoch: 2, PartitionEpoch: 4, ISR: []kafka.BrokerID{4, 6}},
		{TopicID: kafka.TopicID{2}, Code: kafka.FencedLeaderEpoch, RecoveryState: 1},
	}
	var reply controller.Reply
	var fails error
	c := isrController{8, epochNine, func(cmd controller.Command, done func(controller.Reply, error)) {
		if !reflect.DeepEqual(cmd, controller.Command(want)) {
			t.Errorf("submitted %+v", cmd)
		}
		done(reply, fails)
	}}
	reply = controller.AlterPartitionReply{Partitions: rows}
	got := soon(t, alter(c, proposals...))
	if want := []replica.ISRResult{{Leader: 4, LeaderEpoch: 2, PartitionEpoch: 4, ISR: []kafka.BrokerID{4, 6}}, {Code: kafka.FencedLeaderEpoch, RecoveryState: 1}}; got.err != nil || !reflect.DeepEqual(got.results, want) {
		t.Errorf("%+v", got)
	}
	for name, wrong := range map[string]controller.Reply{
		"one row":       controller.AlterPartitionReply{Partitions: rows[:1]},
		"another order": controller.AlterPartitionReply{Partitions: []controller.AlteredPartition{rows[1], rows[0]}},
		"another reply": controller.InitializeReply{},
	} {
		reply = wrong
		if got := soon(t, alter(c, proposals...)); got.err == nil {
			t.Errorf("%s: %+v", name, got.results)
		}
	}
	reply, fails = nil, kafka.Errorf(kafka.StaleBrokerEpoch, "")
	if got := soon(t, alter(c, proposals...)); kafka.CodeOf(got.err) != kafka.StaleBrokerEpoch {
		t.Errorf("%+v", got)
	}
}
