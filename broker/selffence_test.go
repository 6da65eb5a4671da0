package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

func (c *kafkaClient) endOffset(topic string) kafka.Code {
	c.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = -1, -1
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return kafka.Code(c.request(7, req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode)
}

// until asks again while the answer is another one.
func until[T comparable](t *testing.T, what string, want T, ask func() T) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		got := ask()
		if got == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
}

func TestWithoutALeaseNothingThatIsLedIsServed(t *testing.T) {
	b := start(t, vfs.NewMem(), load(t, anyPort, "/data", atOnce, "weir.broker.self.fence=true"))
	c, waiting := b.dial(), b.dial()
	c.createTopic("t")
	c.produce("t", "one")
	m := c.join("g")
	if resp := c.request(8, m.commit("t", 1)).(*kmsg.OffsetCommitResponse); resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("commit: %+v", resp)
	}
	poll := fetchRequest("t", 1, 1) // waits for the next record, far longer than this test
	waiting.ask(11, poll)

	for range 2 {
		b.fence.leaseLost(true)
		b.fence.leaseLost(false)
		b.fence.leaseLost(true)
		for what, code := range map[string]kafka.Code{
			"produce":     kafka.Code(c.produce("t", "two").ErrorCode),
			"fetch":       kafka.Code(c.fetch("t").ErrorCode),
			"ListOffsets": c.endOffset("t"),
		} {
			if code != kafka.NotLeaderOrFollower {
				t.Errorf("%s is answered with %v", what, code)
			}
		}
		if poll != nil {
			row := waiting.answer(11, poll).(*kmsg.FetchResponse).Topics[0].Partitions[0]
			if code := kafka.Code(row.ErrorCode); code != kafka.NotLeaderOrFollower {
				t.Errorf("the fetch that waited is answered with %v", code)
			}
			poll = nil
		}
		until(t, "a heartbeat to the group", kafka.NotCoordinator, func() kafka.Code { return c.heartbeat(m) })

		b.fence.leaseLost(false)
		if row := c.produce("t", "three"); row.ErrorCode != 0 {
			t.Errorf("afterwards produce is answered with %v", kafka.Code(row.ErrorCode))
		}
		if code := kafka.Code(c.fetch("t").ErrorCode); code != kafka.None {
			t.Errorf("afterwards fetch is answered with %v", code)
		}
		until(t, "committed afterwards", "NONE t/0=1", func() string { return c.committed(m.group) })
		if code := c.heartbeat(m); code != kafka.None {
			t.Errorf("afterwards the member is told %v", code)
		}
	}
}

// The cluster's node tells the broker of its lease, where the settings want that.
func TestABrokerThatNoControllerHearsFencesItself(t *testing.T) {
	disk := vfs.NewMem()
	quick := []string{"broker.heartbeat.interval.ms=100", "broker.session.timeout.ms=500"}
	first := start(t, disk, load(t, anyPort, "/data", quick...))
	second := start(t, vfs.NewMem(), loadJoin(t, first.clients(), append(quick, "weir.broker.self.fence=true")...))
	second.mustKnow(1, 2)
	c := second.dial()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 60_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", -1, -1
	topic.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{2}}}
	req.Topics = append(req.Topics, topic)
	if row := c.request(5, req).(*kmsg.CreateTopicsResponse).Topics[0]; row.ErrorCode != 0 {
		t.Fatalf("create: %v", kafka.Code(row.ErrorCode))
	}
	produce := func() kafka.Code { return kafka.Code(c.produce("t", "value").ErrorCode) }
	until(t, "produce", kafka.None, produce)
	first.mustStop()
	until(t, "produce without a controller", kafka.NotLeaderOrFollower, produce)
	start(t, disk, load(t, anyPort, "/data", quick...))
	until(t, "produce with a controller", kafka.None, produce)
	second.mustStop() // while there is somebody to tell
}
