package group

import (
	"strings"
	"time"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// OffsetCommit v2–9.
//   - v2–4: retention_time_ms is an expiry of these offsets alone; -1 leaves them to the broker's retention (KIP-211)
//   - v6: the leader epoch is kept (KIP-320)
//   - v9: a generation of an unknown group is GROUP_ID_NOT_FOUND, and ILLEGAL_GENERATION before (KIP-848)

// commitOffsets writes one record a partition. A partition whose metadata is too long is refused alone; any offset is
// taken, a negative one too, as Kafka does.
func (s *Shard) commitOffsets(now time.Time, c *coordinator.Call, req *kmsg.OffsetCommitRequest) coordinator.Output {
	var (
		out  coordinator.Output
		code kafka.Code
	)
	switch g := s.group(req.Group); {
	case g != nil:
		code, out.Timers = g.checkCommit(now, req)
	case req.Generation < 0: // a group is not needed to keep offsets in
	case req.Version >= 9:
		code = kafka.GroupIDNotFound
	default:
		code = kafka.IllegalGeneration
	}

	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Version = req.Version
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	expires := commitExpiry(now, req)
	for i := range req.Topics {
		topic, to := &req.Topics[i], &resp.Topics[i]
		to.Topic, to.TopicID = topic.Topic, topic.TopicID
		to.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(topic.Partitions))
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			partitionCode := code
			switch {
			case code != kafka.None:
			case p.Metadata != nil && utf16Len(*p.Metadata) > s.settings.OffsetMetadataMax:
				partitionCode = kafka.OffsetMetadataTooLarge
			default:
				commit := committed{
					offset:      p.Offset,
					timestamp:   now.UnixMilli(),
					expires:     expires,
					topicID:     topic.TopicID,
					leaderEpoch: p.LeaderEpoch,
				}
				if p.Metadata != nil {
					commit.metadata = *p.Metadata
				}
				out.Records = append(out.Records, offsetRecord(now, req.Group, topic.Topic, p.Partition, commit))
			}
			to.Partitions[j] = kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(partitionCode)}
		}
	}
	out.Replies = []coordinator.Reply{{To: c, Body: resp}}
	if len(out.Records) > 0 && s.group(req.Group) == nil { // whoever commits without being a member gets one with nothing else
		g := s.ensureGroup(strings.Clone(req.Group))
		out.After = firstCommit{g}
	}
	return out
}

// firstCommit is the After of a commit that made a group.
type firstCommit struct{ g *classic }

// firstCommitted drops the group again where nothing was written and nothing else has come to it.
func (s *Shard) firstCommitted(of firstCommit, err error) coordinator.Output {
	g := of.g
	if err == nil || s.groups[g.id] != g || !g.isEmpty() || len(g.pending) > 0 || s.hard.metadata[g.id] != nil || s.hasOffsets(g.id) {
		return coordinator.Output{}
	}
	return coordinator.Output{Timers: s.forget(g.id)}
}

// commitExpiry returns when the offsets of a request expire, in ms since the epoch; -1: by the broker's retention. A
// retention without end wraps round and is over at once, as in Kafka.
func commitExpiry(now time.Time, req *kmsg.OffsetCommitRequest) int64 {
	if req.Version > 4 || req.RetentionTimeMillis == -1 {
		return -1
	}
	return now.UnixMilli() + req.RetentionTimeMillis
}

// utf16Len counts a string as Java does: offset.metadata.max.bytes is in truth a number of UTF-16 units.
func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
