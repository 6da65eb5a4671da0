package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/protocol"
)

// OffsetDelete: v0 (KIP-496)
//
// Topics and partitions that do not exist are refused one by one, unless the coordinator refuses the whole request.

func (h *Handlers) offsetDelete(r *Request, req *kmsg.OffsetDeleteRequest) Reply {
	known, refused := h.splitOffsetDelete(req)
	return h.askGroupFor(r, known.Group, known, func(answer any, err error) protocol.Body {
		if err != nil {
			resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
			resp.ErrorCode = int16(kafka.CodeOf(err))
			return resp
		}
		resp := answer.(*kmsg.OffsetDeleteResponse)
		if resp.ErrorCode != int16(kafka.None) {
			return resp
		}
		resp.Topics = refused.before(resp.Topics)
		return resp
	})
}

// splitOffsetDelete parts what exists from what does not.
func (h *Handlers) splitOffsetDelete(req *kmsg.OffsetDeleteRequest) (known *kmsg.OffsetDeleteRequest, refused topicRows[kmsg.OffsetDeleteResponseTopic, kmsg.OffsetDeleteResponseTopicPartition]) {
	refused.of = func(t *kmsg.OffsetDeleteResponseTopic) (string, *[]kmsg.OffsetDeleteResponseTopicPartition) {
		return t.Topic, &t.Partitions
	}
	img := h.Image()
	kept := *req
	kept.Topics = nil
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := byName(img, t.Topic)
		there, missing := kmsg.OffsetDeleteRequestTopic{Topic: t.Topic}, kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			if partitionExists(topic, p.Partition) {
				there.Partitions = append(there.Partitions, p)
			} else {
				missing.Partitions = append(missing.Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(kafka.UnknownTopicOrPartition)})
			}
		}
		if len(there.Partitions) > 0 {
			kept.Topics = append(kept.Topics, there)
		}
		if len(missing.Partitions) > 0 || topic == nil {
			refused.add(missing)
		}
	}
	return &kept, refused
}
