package broker

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/internal/clock"
	"weir/internal/kafka"
)

type alterAnswer struct {
	results []replica.ISRResult
	err     error
}

func alter(c *isrController, proposals ...replica.ISRProposal) <-chan alterAnswer {
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
	c := newISRController(8, epochNine, clock.NewManual(time.Unix(0, 0)), func(_ context.Context, cmd controller.Command) (controller.Reply, error) {
		if !reflect.DeepEqual(cmd, controller.Command(want)) {
			t.Errorf("submitted %+v", cmd)
		}
		return reply, fails
	})
	defer c.Close()
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

func TestProposalsAreNotWaitedForWithoutEnd(t *testing.T) {
	waits := clock.NewManual(time.Unix(0, 0))
	asked := make(chan struct{}, 1)
	c := newISRController(8, epochNine, waits, func(ctx context.Context, _ controller.Command) (controller.Reply, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	answer := alter(c)
	soon(t, asked)
	waits.Advance(isrTimeout)
	if got := soon(t, answer); !errors.Is(got.err, context.Canceled) {
		t.Errorf("%+v", got)
	}
	answer = alter(c)
	soon(t, asked)
	c.Close()
	select {
	case got := <-answer:
		if got.err == nil {
			t.Errorf("%+v", got)
		}
	default:
		t.Error("not told when Close returns")
	}
	if got := soon(t, alter(c)); got.err == nil {
		t.Error("asked after Close")
	}
}
