package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/protocol"
)

// OffsetCommit: v2–9
//   - v2–4: retention time (dropped by KIP-211). v6: leader epochs (KIP-320). v7: static members (KIP-345).
//   - v9: may come from members of the new protocol (KIP-848).
//
// Pipelined: the coordinator has the commit when this returns, so the connection's next request may start while
// replicas are waited for. Topics and partitions that do not exist are refused one by one; the rest goes to the coordinator.

func (h *Handlers) offsetCommit(r *Request, req *kmsg.OffsetCommitRequest) Reply {
	known, refused := splitCommit(h.Image(), req)
	if known == nil {
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		resp.Topics = refused.topics
		return Now(resp)
	}
	return h.askGroupFor(r, known.Group, known, func(answer any, err error) protocol.Body {
		if err != nil {
			answer = refuseCommit(known, kafka.CodeOf(err))
		}
		resp := answer.(*kmsg.OffsetCommitResponse)
		resp.Topics = refused.before(resp.Topics)
		return resp
	})
}

// splitCommit parts what exists, nil where that is nothing, from what does not, which is answered at once.
func splitCommit(img *metadata.Image, req *kmsg.OffsetCommitRequest) (known *kmsg.OffsetCommitRequest, refused topicRows[kmsg.OffsetCommitResponseTopic, kmsg.OffsetCommitResponseTopicPartition]) {
	refused.of = func(t *kmsg.OffsetCommitResponseTopic) (string, *[]kmsg.OffsetCommitResponseTopicPartition) {
		return t.Topic, &t.Partitions
	}
	if len(req.Topics) > 0 && allExist(img, req) {
		return req, refused
	}
	kept := *req
	kept.Topics = nil
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := byName(img, t.Topic)
		there, missing := *t, kmsg.OffsetCommitResponseTopic{Topic: t.Topic}
		there.Partitions = nil
		for j := range t.Partitions {
			if p := &t.Partitions[j]; partitionExists(topic, p.Partition) {
				there.Partitions = append(there.Partitions, *p)
			} else {
				missing.Partitions = append(missing.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(kafka.UnknownTopicOrPartition)})
			}
		}
		if len(there.Partitions) > 0 {
			there.TopicID = topic.ID
			kept.Topics = append(kept.Topics, there)
		}
		if len(missing.Partitions) > 0 || topic == nil {
			refused.add(missing)
		}
	}
	if len(kept.Topics) == 0 {
		return nil, refused
	}
	return &kept, refused
}

// allExist is what a consumer's commit is nearly always. It notes the topics' ids, which older versions do not send.
func allExist(img *metadata.Image, req *kmsg.OffsetCommitRequest) bool {
	for i := range req.Topics {
		topic := byName(img, req.Topics[i].Topic)
		if topic == nil || len(req.Topics[i].Partitions) == 0 { // the one is refused, the other left out of the answer
			return false
		}
		req.Topics[i].TopicID = topic.ID
		for j := range req.Topics[i].Partitions {
			if !partitionExists(topic, req.Topics[i].Partitions[j].Partition) {
				return false
			}
		}
	}
	return true
}

func refuseCommit(req *kmsg.OffsetCommitRequest, code kafka.Code) *kmsg.OffsetCommitResponse {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for i := range req.Topics {
		t := kmsg.OffsetCommitResponseTopic{Topic: req.Topics[i].Topic}
		for j := range req.Topics[i].Partitions {
			t.Partitions = append(t.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: req.Topics[i].Partitions[j].Partition, ErrorCode: int16(code)})
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
