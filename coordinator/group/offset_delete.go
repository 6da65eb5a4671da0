package group

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// deleteOffsets removes committed offsets of topics that nobody is subscribed to (OffsetDelete v0, KIP-496). A group
// that is not of consumers is opaque to the coordinator: while it has members nothing is removed.
func (s *Shard) deleteOffsets(now time.Time, c *coordinator.Call, req *kmsg.OffsetDeleteRequest) coordinator.Output {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	resp.Version = req.Version
	out := answer(c, resp)
	g := s.group(req.Group)
	switch {
	case req.Group == "":
		resp.ErrorCode = int16(kafka.InvalidGroupID)
	case g == nil:
		resp.ErrorCode = int16(kafka.GroupIDNotFound)
	case !g.isEmpty() && g.protocolType != consumerProtocol:
		resp.ErrorCode = int16(kafka.NonEmptyGroup)
	}
	if resp.ErrorCode != int16(kafka.None) {
		return out
	}

	gone := removal{now: now}
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	for i := range req.Topics {
		topic, to := &req.Topics[i], &resp.Topics[i]
		to.Topic = topic.Topic
		to.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(topic.Partitions))
		subscribed := g.subscribed(topic.Topic)
		for j := range topic.Partitions {
			p := topic.Partitions[j].Partition
			to.Partitions[j].Partition = p
			switch {
			case subscribed:
				to.Partitions[j].ErrorCode = int16(kafka.GroupSubscribedToTopic)
			case s.hard.offsets.get(req.Group, topic.Topic, p) != nil:
				gone.offset(req.Group, topic.Topic, p)
			}
		}
	}
	out.Records = gone.records
	return out
}

// topicsDeleted removes what groups have committed of topics that are no more. Where that is more than one batch, the
// rest follows when this one is committed; a failure leaves it to expiry.
func (s *Shard) topicsDeleted(now time.Time, in TopicsDeleted) coordinator.Output {
	gone := removal{now: now}
	for _, id := range slices.Sorted(maps.Keys(s.hard.offsets.byGroup)) {
		for _, deleted := range in.Topics {
			topic := s.hard.offsets.byGroup[id].topic(deleted.Name)
			if topic != nil && !gone.offsetsOf(id, topic, func(of kafka.UUID) bool { return !isOtherTopic(of, deleted.ID) }) {
				return coordinator.Output{Records: gone.records, After: in}
			}
		}
	}
	return coordinator.Output{Records: gone.records}
}

// topicsThere is topicsDeleted for all topics but those that are there.
func (s *Shard) topicsThere(now time.Time, in TopicsThere) coordinator.Output {
	gone := removal{now: now}
	for _, group := range slices.Sorted(maps.Keys(s.hard.offsets.byGroup)) {
		topics := s.hard.offsets.byGroup[group].topics
		for i := range topics {
			id, ok := in.ID(topics[i].name)
			if !gone.offsetsOf(group, &topics[i], func(of kafka.UUID) bool { return !ok || isOtherTopic(of, id) }) {
				return coordinator.Output{Records: gone.records, After: in}
			}
		}
	}
	return coordinator.Output{Records: gone.records}
}
