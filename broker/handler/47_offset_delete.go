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
		return mergeOffsetDeletes(refused, resp)
	})
}

func (h *Handlers) splitOffsetDelete(req *kmsg.OffsetDeleteRequest) (known *kmsg.OffsetDeleteRequest, refused *kmsg.OffsetDeleteResponse) {
	refused = req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	img := h.Image()
	rows := make(map[string]int)
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
			addOffsetDeletes(refused, rows, missing)
		}
	}
	return &kept, refused
}

// mergeOffsetDeletes puts what was refused before what the coordinator says.
func mergeOffsetDeletes(refused, answered *kmsg.OffsetDeleteResponse) *kmsg.OffsetDeleteResponse {
	if len(refused.Topics) == 0 {
		return answered
	}
	rows := make(map[string]int)
	for i := range refused.Topics {
		rows[refused.Topics[i].Topic] = i
	}
	addOffsetDeletes(refused, rows, answered.Topics...)
	return refused
}

// addOffsetDeletes adds topics to an answer, which has each once: rows says where.
func addOffsetDeletes(resp *kmsg.OffsetDeleteResponse, rows map[string]int, topics ...kmsg.OffsetDeleteResponseTopic) {
	for _, t := range topics {
		if i, ok := rows[t.Topic]; ok {
			resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, t.Partitions...)
			continue
		}
		rows[t.Topic] = len(resp.Topics)
		resp.Topics = append(resp.Topics, t)
	}
}
