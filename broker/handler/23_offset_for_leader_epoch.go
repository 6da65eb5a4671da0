package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// OffsetForLeaderEpoch: v2–4 (librdkafka sends v2 only)
//   - v2: current leader epoch (KIP-320). v3: replica id. v4: flexible.

func (h *Handlers) offsetForLeaderEpoch(r *Request, req *kmsg.OffsetForLeaderEpochRequest) Reply {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	img := h.Image()
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.OffsetForLeaderEpochResponseTopic{Topic: t.Topic}
		for j := range t.Partitions {
			out.Partitions = append(out.Partitions, h.epochEnd(r, byName(img, t.Topic), &t.Partitions[j]))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return Now(resp)
}

func (h *Handlers) epochEnd(r *Request, t *metadata.Topic, asked *kmsg.OffsetForLeaderEpochRequestTopicPartition) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	row := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	row.Partition, row.LeaderEpoch, row.EndOffset = asked.Partition, -1, -1
	p, err := h.topicPartition(t, asked.Partition)
	if err == nil {
		end, endErr := p.EndOffsetForEpoch(kafka.LeaderEpoch(asked.LeaderEpoch), kafka.LeaderEpoch(asked.CurrentLeaderEpoch))
		row.LeaderEpoch, row.EndOffset, err = int32(end.Epoch), end.End, endErr
	}
	row.ErrorCode = h.code(r, err)
	return row
}
