package group

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

func deleteRequest(group, topic string, partitions ...int32) *kmsg.OffsetDeleteRequest {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	t := kmsg.OffsetDeleteRequestTopic{Topic: topic}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
	}
	req.Topics = []kmsg.OffsetDeleteRequestTopic{t}
	return req
}

// deleteOffsets wants a code for the whole, and one for each partition where that is NONE.
func (h *offsetHarness) deleteOffsets(req *kmsg.OffsetDeleteRequest, want kafka.Code, partitions ...kafka.Code) {
	h.t.Helper()
	resp := h.call(req).(*kmsg.OffsetDeleteResponse)
	if got := kafka.Code(resp.ErrorCode); got != want {
		h.t.Errorf("delete in %q: %v, want %v", req.Group, got, want)
	}
	if want != kafka.None {
		if len(resp.Topics) != 0 {
			h.t.Errorf("an error comes with %+v", resp.Topics)
		}
		return
	}
	var got []kafka.Code
	for i, p := range resp.Topics[0].Partitions {
		if p.Partition != req.Topics[0].Partitions[i].Partition {
			h.t.Errorf("answer %d is of partition %d", i, p.Partition)
		}
		got = append(got, kafka.Code(p.ErrorCode))
	}
	if !slices.Equal(got, partitions) {
		h.t.Errorf("partitions %v, want %v", got, partitions)
	}
}

func TestOffsetDelete(t *testing.T) {
	h := newOffsetHarness(t)
	h.commit("readers", "orders", 0, 1)
	h.commit("readers", "orders", 1, 2)
	h.commit("readers", "bills", 0, 3)
	// What is not there is as good as deleted.
	h.deleteOffsets(deleteRequest("readers", "orders", 1, 7, 1), kafka.None, kafka.None, kafka.None, kafka.None)
	h.wantOffset("readers", "orders", 0, 1)
	h.wantOffset("readers", "orders", 1, -1)
	h.deleteOffsets(deleteRequest("readers", "orders", 0), kafka.None, kafka.None)
	h.wantOffset("readers", "bills", 0, 3)
	h.deleteOffsets(deleteRequest("readers", "bills", 0), kafka.None, kafka.None)
	h.wantGroups("readers") // it stays until the next look for what has expired
	h.deleteOffsets(deleteRequest("nobody", "orders", 0), kafka.GroupIDNotFound)
	h.deleteOffsets(deleteRequest("", "orders", 0), kafka.InvalidGroupID)
}

// TestOffsetDeleteOfMembers goes by what the members subscribe to, where the coordinator can know.
func TestOffsetDeleteOfMembers(t *testing.T) {
	records := kafkaRecords(t)
	connect, err := parseMetadata(records["group-dynamic"].Value)
	if err != nil {
		t.Fatal(err)
	}
	connect.ProtocolType = "connect"
	h := newOffsetHarness(t, records["group-dynamic"], groupMetadataRecord(begin, "workers", connect),
		offsetRecord(begin, "readers", "orders", 0, committed{offset: 1}), offsetRecord(begin, "readers", "bills", 0, committed{offset: 2}),
		offsetRecord(begin, "workers", "bills", 0, committed{offset: 3}))
	h.deleteOffsets(deleteRequest("readers", "orders", 0, 1), kafka.None, kafka.GroupSubscribedToTopic, kafka.GroupSubscribedToTopic)
	h.deleteOffsets(deleteRequest("readers", "bills", 0), kafka.None, kafka.None)
	h.deleteOffsets(deleteRequest("workers", "bills", 0), kafka.NonEmptyGroup)
	h.wantOffset("readers", "orders", 0, 1)
	h.wantOffset("readers", "bills", 0, -1)
	h.wantOffset("workers", "bills", 0, 3)
}

func TestDelete(t *testing.T) {
	h := newOffsetHarness(t, kafkaRecords(t)["group-dynamic"], groupMetadataRecord(begin, "left", &metadata{ProtocolType: "consumer"}))
	h.commit("simple", "orders", 1, 1)
	h.commit("simple", "orders", 0, 1)
	h.commit("left", "bills", 0, 1)
	h.commit("", "bills", 0, 1)
	for _, c := range []struct {
		group string
		want  kafka.Code
	}{
		{"readers", kafka.NonEmptyGroup}, {"nobody", kafka.GroupIDNotFound}, {"simple", kafka.None}, {"simple", kafka.GroupIDNotFound},
		{"left", kafka.None}, {"", kafka.None},
	} {
		err, _ := h.call(Delete{Group: c.group}).(error)
		if got := kafka.CodeOf(err); got != c.want {
			t.Errorf("delete %q: %v, want %v", c.group, got, c.want)
		}
	}
	h.wantGroups("readers")
	h.wantOffset("simple", "orders", 1, -1)
	if h.shard.hard.metadata["left"] != nil || len(h.shard.hard.offsets.byGroup) != 0 {
		t.Errorf("left: %+v", h.shard.hard)
	}
	newOffsetHarness(t, h.log...).wantGroups("readers")
	h.commit("simple", "orders", 1, 5) // and can be made anew
	h.wantOffset("simple", "orders", 1, 5)
}

// TestDeleteThatFails leaves the group as it was.
func TestDeleteThatFails(t *testing.T) {
	h := newOffsetHarness(t, groupMetadataRecord(begin, "left", &metadata{ProtocolType: "consumer", Generation: 5}))
	h.commit("simple", "orders", 1, 1)
	for _, group := range []string{"simple", "left"} {
		h.refuse = errors.New("no disk")
		if err := h.call(Delete{Group: group}); err == nil {
			t.Errorf("%q is said to be deleted", group)
		}
	}
	h.wantGroups("left", "simple")
	h.wantOffset("simple", "orders", 1, 1)
	if g := h.shard.groups["left"]; g.protocolType != "consumer" || g.generation != 5 {
		t.Errorf("back as %+v", g)
	}
}

func TestTopicsDeleted(t *testing.T) {
	h := newOffsetHarness(t)
	for _, group := range []string{"a", "b"} {
		for _, topic := range []string{"orders", "bills", "orders2"} {
			h.commit(group, topic, 0, 1)
			h.commit(group, topic, 1, 1)
		}
	}
	h.batches = nil
	h.step(TopicsDeleted{Topics: []DeletedTopic{{Name: "orders"}, {Name: "unknown"}, {Name: "bills"}}})
	if !slices.Equal(h.batches, []int{8}) {
		t.Errorf("batches of %v records", h.batches)
	}
	for _, group := range []string{"a", "b"} {
		h.wantOffset(group, "orders", 0, -1)
		h.wantOffset(group, "bills", 1, -1)
		h.wantOffset(group, "orders2", 1, 1)
	}
	h.batches = nil
	h.step(TopicsDeleted{Topics: []DeletedTopic{{Name: "orders"}}})
	if h.batches != nil {
		t.Error("something was written for nothing")
	}
}

// TestWhatIsCommittedOfTheNextTopicStays: the name was taken again before the shard heard that the topic is deleted.
func TestWhatIsCommittedOfTheNextTopicStays(t *testing.T) {
	h := newOffsetHarness(t)
	for partition, id := range []byte{1, 2} {
		req := commitRequest(9, "readers", "orders", int32(partition), 42)
		req.Topics[0].TopicID = [16]byte{id}
		h.commitAs(kafka.None, req)
	}
	h.commit("readers", "orders", 2, 42) // by a version of Kafka that knew no ids
	h.step(TopicsDeleted{Topics: []DeletedTopic{{Name: "orders", ID: kafka.TopicID{1}}}})
	h.wantOffset("readers", "orders", 0, -1)
	h.wantOffset("readers", "orders", 1, 42)
	h.wantOffset("readers", "orders", 2, -1)
}

// TestTopicsThere: a shard that is loaded does not know what was deleted while it was not.
func TestTopicsThere(t *testing.T) {
	h := newOffsetHarness(t)
	for topic, id := range map[string][16]byte{"same": {1}, "anew": {1}, "gone": {1}, "old": {}, "old and gone": {}} {
		req := commitRequest(9, "readers", topic, 0, 42)
		req.Topics[0].TopicID = id
		h.commitAs(kafka.None, req)
	}
	there := TopicsThere{ID: func(topic string) (kafka.TopicID, bool) {
		ids := map[string]kafka.TopicID{"same": {1}, "anew": {2}, "old": {3}, "new": {4}}
		id, ok := ids[topic]
		return id, ok
	}}
	h.batches = nil
	h.step(there)
	if !slices.Equal(h.batches, []int{3}) {
		t.Errorf("batches of %v records", h.batches)
	}
	for topic, want := range map[string]int64{"same": 42, "anew": -1, "gone": -1, "old": 42, "old and gone": -1} {
		h.wantOffset("readers", topic, 0, want)
	}
	h.batches = nil
	h.step(there)
	if h.batches != nil {
		t.Error("something was written for nothing")
	}
}

// TestMuchIsRemovedInBatches that a topic takes.
func TestMuchIsRemovedInBatches(t *testing.T) {
	for name, remove := range map[string]func(*offsetHarness){
		"topics": func(h *offsetHarness) { h.step(TopicsDeleted{Topics: []DeletedTopic{{Name: "orders"}}}) },
		"topics, at a load": func(h *offsetHarness) {
			h.step(TopicsThere{ID: func(string) (kafka.TopicID, bool) { return kafka.TopicID{}, false }})
		},
		"expiry": func(h *offsetHarness) {
			h.advance(retention + check)
		},
	} {
		h := newOffsetHarness(t)
		for group := range 3 {
			req := commitRequest(9, fmt.Sprint("readers", group), "orders", 0, 1)
			for p := range int32(8000) {
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: p})
			}
			h.call(req)
		}
		h.batches = nil
		remove(h)
		if len(h.shard.hard.offsets.byGroup) != 0 || len(h.batches) < 2 || slices.Max(h.batches) > 12_000 {
			t.Errorf("%s: %d groups left after batches of %v records", name, len(h.shard.hard.offsets.byGroup), h.batches)
		}
	}
}
