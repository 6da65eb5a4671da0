package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// noMetadata is what answers point to where there is none. Nobody writes to it.
var noMetadata = ""

// fetchOffsets answers from what is applied. The answer waits for what was appended before it, so it shows nothing that
// may still be lost.
//
// That a group is unknown is no error: nothing is committed there. A classic group does not check who asks, so the
// member id and epoch of version 9 mean nothing here (KIP-848). Nothing is ever unstable, since no transaction commits
// offsets yet.
func (s *Shard) fetchOffsets(_ time.Time, c *coordinator.Call, req FetchOffsets) coordinator.Output {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = req.Group
	g := s.hard.offsets.byGroup[req.Group]
	switch {
	case !req.All:
		resp.Topics = make([]kmsg.OffsetFetchResponseGroupTopic, len(req.Topics))
		for i := range req.Topics {
			resp.Topics[i] = fetchTopic(g, &req.Topics[i])
		}
	case g != nil:
		resp.Topics = make([]kmsg.OffsetFetchResponseGroupTopic, len(g.topics))
		for i := range g.topics {
			resp.Topics[i] = fetchWholeTopic(&g.topics[i])
		}
	}
	return answer(c, &resp)
}

func fetchTopic(g *groupOffsets, req *kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroupTopic {
	var topic *topicOffsets
	if g != nil {
		topic = g.topic(req.Topic)
	}
	partitions := make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(req.Partitions))
	for i, p := range req.Partitions {
		c := topic.get(p)
		if c != nil && isOtherTopic(c.topicID, req.TopicID) {
			c = nil
		}
		partitions[i] = fetchPartition(p, c)
	}
	return kmsg.OffsetFetchResponseGroupTopic{Topic: req.Topic, TopicID: req.TopicID, Partitions: partitions}
}

func fetchWholeTopic(t *topicOffsets) kmsg.OffsetFetchResponseGroupTopic {
	partitions := make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.partitions))
	for i := range t.partitions {
		p := &t.partitions[i]
		partitions[i] = fetchPartition(p.partition, &p.committed)
	}
	return kmsg.OffsetFetchResponseGroupTopic{Topic: t.name, Partitions: partitions}
}

// fetchPartition is told nil where nothing is committed.
func fetchPartition(partition int32, c *committed) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.OffsetFetchResponseGroupTopicPartition{Partition: partition, Offset: -1, LeaderEpoch: -1, Metadata: &noMetadata}
	if c == nil {
		return p
	}
	p.Offset, p.LeaderEpoch = c.offset, c.leaderEpoch
	if c.metadata != "" {
		m := c.metadata // the answer is read while the shard goes on
		p.Metadata = &m
	}
	return p
}

// isOtherTopic reports whether two ids are known and differ: what was committed is of a topic that had the name before.
func isOtherTopic(a, b kafka.UUID) bool { return !a.IsZero() && !b.IsZero() && a != b }
