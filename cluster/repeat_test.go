package cluster

import (
	"reflect"
	"testing"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// What an earlier try has done is a success of the one that is answered; what others did is not.
func TestRepeatedCommands(t *testing.T) {
	settings := controller.Settings{NumPartitions: 1, DefaultReplicationFactor: 1, MinInSyncReplicas: 1, DeleteTopicEnable: true}
	decide := func(img *metadata.Image, cmd controller.Command) (*metadata.Image, controller.Reply) {
		records, reply, err := controller.Decide(&settings, img, controller.Leases{}, start, cmd)
		if err == nil && len(records) > 0 {
			img, _, err = img.With(records)
		}
		if err != nil {
			t.Fatal(err)
		}
		return img, reply
	}
	remove := func(names ...string) controller.DeleteTopics {
		var c controller.DeleteTopics
		for _, name := range names {
			c.Topics = append(c.Topics, controller.TopicRef{Name: &name})
		}
		return c
	}
	grow := func(count int32) controller.CreatePartitions {
		return controller.CreatePartitions{Topics: []controller.MorePartitions{{Name: "old", Count: count}}}
	}
	again := create("old", 1) // another topic of that name
	again.Topics[0].ID = kafka.UUID{99}

	before, _, err := metadata.Empty().With([]metadata.Record{metadata.RegisterBrokerRecord{BrokerRegistration: metadata.BrokerRegistration{
		ID: 1, Epoch: 1, Directories: []kafka.DirectoryID{{1, 15: 200}}}}})
	if err != nil {
		t.Fatal(err)
	}
	before, _ = decide(before, create("old", 2))

	for name, c := range map[string]struct {
		others []controller.Command // decided before the first try, unknown here
		cmd    controller.Command
		after  []controller.Command // decided by others between the two tries
		want   []kafka.Code
	}{
		"a topic":                          {nil, create("new", 3), nil, []kafka.Code{kafka.None}},
		"a topic that there was":           {nil, again, nil, []kafka.Code{kafka.TopicAlreadyExists}},
		"a topic that somebody else made":  {[]controller.Command{again}, create("old", 1), nil, []kafka.Code{kafka.TopicAlreadyExists}},
		"a topic that is gone again":       {nil, remove("old"), []controller.Command{again}, []kafka.Code{kafka.None}},
		"a topic that was deleted since":   {nil, create("new", 3), []controller.Command{remove("new")}, []kafka.Code{kafka.None}},
		"topics that never were":           {nil, remove("old", "never"), nil, []kafka.Code{kafka.None, kafka.UnknownTopicOrPartition}},
		"a topic that contradicts itself":  {nil, remove("old", "old"), nil, []kafka.Code{kafka.InvalidRequest}},
		"partitions":                       {nil, grow(5), nil, []kafka.Code{kafka.None}},
		"partitions that there were":       {nil, grow(2), nil, []kafka.Code{kafka.InvalidPartitions}},
		"partitions that are more by now":  {nil, grow(5), []controller.Command{grow(9)}, []kafka.Code{kafka.InvalidPartitions}},
		"partitions of a topic made again": {nil, grow(5), []controller.Command{remove("old"), again, grow(5)}, []kafka.Code{kafka.InvalidPartitions}},
	} {
		now := before
		for _, cmd := range c.others {
			now, _ = decide(now, remove("old"))
			now, _ = decide(now, cmd)
		}
		now, first := decide(now, c.cmd)
		for _, cmd := range c.after {
			now, _ = decide(now, cmd)
		}
		now, second := decide(now, repeat(c.cmd, before))
		settled := settle([]controller.Command{c.cmd}, second, before, now)
		if got := outcomes(settled); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v; the first try: %v", name, got, c.want, outcomes(first))
		}
		if r, ok := settled.(controller.CreateTopicsReply); ok && r.Topics[0].OK() && (len(c.after) > 0) == reflect.DeepEqual(r, first) {
			t.Errorf("%s: %+v, and the first try said %+v", name, r, first) // what was deleted meanwhile comes back under another id
		}
		if topic, exists := now.Topics.ByName("old"); name == "a topic that is gone again" && (!exists || topic.ID != again.Topics[0].ID) {
			t.Errorf("%s: somebody else's is gone too", name)
		}
	}
}

func outcomes(reply controller.Reply) (codes []kafka.Code) {
	switch r := reply.(type) {
	case controller.CreateTopicsReply:
		for _, row := range r.Topics {
			codes = append(codes, row.Code)
		}
	case controller.DeleteTopicsReply:
		for _, row := range r.Topics {
			codes = append(codes, row.Code)
		}
	case controller.CreatePartitionsReply:
		for _, row := range r.Topics {
			codes = append(codes, row.Code)
		}
	}
	return codes
}

// A leader takes the refusal of an ISR for final. It must not hear of one while another try of the same is on its way, which may
// succeed: the controller would count a replica as in sync that the leader does not wait for.
func TestALateRefusalOfAnISRIsNoAnswer(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	m := w.follower()
	epoch, _ := m.node.Registered()
	w.cut[m.id] = true
	var got []result
	m.node.SubmitAsync(controller.AlterPartition{Broker: m.id, Epoch: epoch}, func(reply controller.Reply, err error) { got = append(got, result{reply, err}) })
	m.step()
	pending := m.node.control.router.pending
	s := pending[len(pending)-1]
	w.run(10*time.Second, "tried again", func() bool { return s.try > 1 })
	m.node.control.answered(answered{s, 1, Answer{Reply: controller.AlterPartitionReply{}}, nil})
	m.step()
	if len(got) > 0 {
		t.Fatalf("the answer to the first try ends a command that was tried %d times: %+v", s.try, got)
	}
	w.cut[m.id] = false
	w.run(10*time.Second, "answered", func() bool { return len(got) == 1 })
	if got[0].err != nil {
		t.Error(got[0].err)
	}
}

// A cancellation that finds nothing to cancel has done it before, where the partition has the replicas again that it had before it
// was moved.
func TestRepeatedCancellations(t *testing.T) {
	ids := func(ids ...kafka.BrokerID) []kafka.BrokerID { return ids }
	moving := metadata.PartitionRegistration{Replicas: ids(3, 1, 2), Adding: ids(3), Removing: ids(2), Leader: 1}
	still := metadata.PartitionRegistration{Replicas: ids(1, 2), Leader: 1}
	image := func(id byte, p metadata.PartitionRegistration) *metadata.Image {
		img, _, err := metadata.Empty().With([]metadata.Record{
			metadata.TopicRecord{ID: kafka.UUID{id}, Name: "t"}, metadata.PartitionRecord{TopicID: kafka.UUID{id}, PartitionRegistration: p},
		})
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	none := controller.Result{Code: kafka.NoReassignmentInProgress}
	for name, c := range map[string]struct {
		before, now *metadata.Image
		result      controller.Result
		want        kafka.Code
	}{
		"cancelled":                  {image(1, moving), image(1, still), none, kafka.None},
		"cancelled, and led by 2":    {image(1, moving), image(1, metadata.PartitionRegistration{Replicas: ids(2, 1), Leader: 2}), none, kafka.None},
		"complete":                   {image(1, moving), image(1, metadata.PartitionRegistration{Replicas: ids(3, 1), Leader: 1}), none, none.Code},
		"complete, and moved on":     {image(1, moving), image(1, metadata.PartitionRegistration{Replicas: ids(1, 4), Leader: 1}), none, none.Code},
		"nothing was moved":          {image(1, still), image(1, still), none, none.Code},
		"moved again":                {image(1, moving), image(1, moving), none, none.Code},
		"another topic of that name": {image(1, moving), image(2, still), none, none.Code},
		"no topic":                   {image(1, moving), metadata.Empty(), none, none.Code},
		"refused for another reason": {image(1, moving), image(1, still), controller.Result{Code: kafka.PolicyViolation}, kafka.PolicyViolation},
	} {
		reply := controller.AlterReassignmentsReply{Partitions: []controller.ReassignedPartition{{Topic: "t", Result: c.result}}}
		got := settle([]controller.Command{controller.AlterReassignments{}}, reply, c.before, c.now).(controller.AlterReassignmentsReply)
		if code := got.Partitions[0].Code; code != c.want || reply.Partitions[0].Code != c.result.Code {
			t.Errorf("%s: %v", name, code)
		}
	}
}

func TestRepeatedUnregistration(t *testing.T) {
	before, _, err := metadata.Empty().With([]metadata.Record{metadata.RegisterBrokerRecord{BrokerRegistration: metadata.BrokerRegistration{ID: 1, Epoch: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cmd     controller.Command
		refusal kafka.Code
		want    kafka.Code
	}{
		"it was registered":        {controller.UnregisterBroker{Broker: 1}, kafka.BrokerIDNotRegistered, kafka.None},
		"it never was":             {controller.UnregisterBroker{Broker: 2}, kafka.BrokerIDNotRegistered, kafka.BrokerIDNotRegistered},
		"nobody decided":           {controller.UnregisterBroker{Broker: 1}, kafka.RequestTimedOut, kafka.RequestTimedOut},
		"somebody else registered": {controller.AllocateProducerIDs{Broker: 1}, kafka.BrokerIDNotRegistered, kafka.BrokerIDNotRegistered},
	} {
		reply, err := settleRefused(c.cmd, kafka.Errorf(c.refusal, "refused"), before)
		if got := kafka.CodeOf(err); got != c.want || (reply != nil) != (c.want == kafka.None) {
			t.Errorf("%s: %v %v", name, reply, err)
		}
	}
}
