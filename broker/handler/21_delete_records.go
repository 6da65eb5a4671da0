package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// DeleteRecords: v0–2
//   - v2: flexible.
//
// Moves a partition's start, to the high watermark for -1. Of a partition that stands twice the last offset counts.

func (h *Handlers) deleteRecords(r *Request, req *kmsg.DeleteRecordsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	img := h.Image()
	last := make(map[kafka.TopicPartition]int64)
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			last[kafka.TopicPartition{Topic: req.Topics[i].Topic, Partition: p.Partition}] = p.Offset
		}
	}
	at := make(map[string]int) // topic → its row
	for i := range req.Topics {
		t := &req.Topics[i]
		for _, p := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			offset, todo := last[tp]
			if !todo {
				continue
			}
			delete(last, tp)
			row := kmsg.NewDeleteRecordsResponseTopicPartition()
			row.Partition = p.Partition
			low, err := h.deleteRecordsTo(byName(img, t.Topic), tp, offset)
			row.LowWatermark, row.ErrorCode = low, h.code(r, err)
			k, ok := at[t.Topic]
			if !ok {
				k = len(resp.Topics)
				at[t.Topic] = k
				resp.Topics = append(resp.Topics, kmsg.DeleteRecordsResponseTopic{Topic: t.Topic})
			}
			resp.Topics[k].Partitions = append(resp.Topics[k].Partitions, row)
		}
	}
	return Now(resp)
}

func (h *Handlers) deleteRecordsTo(t *metadata.Topic, tp kafka.TopicPartition, offset int64) (int64, error) {
	p, err := h.topicPartition(t, tp.Partition)
	if err != nil {
		return -1, err
	}
	if kafka.IsInternalTopic(tp.Topic) {
		return -1, kafka.Errorf(kafka.InvalidTopic, "Cannot delete records of internal topic %s", tp.Topic)
	}
	return p.DeleteRecords(offset)
}
