package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// ElectLeaders: v0–2
//   - v0: elects preferred leaders (KIP-183). v1: or unclean ones, and has an error for the whole (KIP-460).
//
// Where the request names no topics, every partition is meant; then those that need no election are left out, but not their
// topics.

func (h *Handlers) electLeaders(r *Request, req *kmsg.ElectLeadersRequest) Reply {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	cmd := controller.ElectLeaders{Type: controller.ElectionType(req.ElectionType), All: req.Topics == nil}
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			cmd.Partitions = append(cmd.Partitions, kafka.TopicPartition{Topic: req.Topics[i].Topic, Partition: p})
		}
	}
	reply, err := h.submit(r, req.TimeoutMillis, cmd)
	if err != nil {
		resp.ErrorCode = h.code(r, err)
		failed := controller.Result{Code: kafka.Code(resp.ErrorCode), Message: messageOf(err)}
		resp.Topics = electedTopics(req, func() controller.Result { return failed })
		return Now(resp)
	}
	rows := reply.(controller.ElectLeadersReply).Partitions
	if cmd.All {
		resp.Topics = allElected(h.Image(), rows)
		return Now(resp)
	}
	resp.Topics = electedTopics(req, func() controller.Result {
		first := rows[0].Result
		rows = rows[1:]
		return first
	})
	return Now(resp)
}

// electedTopics answers the topics of a request in its order, with a result for each partition.
func electedTopics(req *kmsg.ElectLeadersRequest, next func() controller.Result) []kmsg.ElectLeadersResponseTopic {
	topics := make([]kmsg.ElectLeadersResponseTopic, len(req.Topics))
	for i := range req.Topics {
		topics[i].Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			topics[i].Partitions = append(topics[i].Partitions, electedRow(p, next()))
		}
	}
	return topics
}

// allElected answers for all topics. Those in rows follow each other; one of them may be deleted by now.
func allElected(img *metadata.Image, rows []controller.ElectedPartition) (topics []kmsg.ElectLeadersResponseTopic) {
	for i := range rows {
		if n := len(topics); n == 0 || topics[n-1].Topic != rows[i].Topic {
			topics = append(topics, kmsg.ElectLeadersResponseTopic{Topic: rows[i].Topic})
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, electedRow(rows[i].Partition, rows[i].Result))
	}
	elected := make(map[string]bool, len(topics))
	for i := range topics {
		elected[topics[i].Topic] = true
	}
	for t := range img.Topics.All() {
		if !elected[t.Name] {
			topics = append(topics, kmsg.ElectLeadersResponseTopic{Topic: t.Name})
		}
	}
	return topics
}

func electedRow(partition int32, r controller.Result) kmsg.ElectLeadersResponseTopicPartition {
	row := kmsg.NewElectLeadersResponseTopicPartition()
	row.Partition, row.ErrorCode, row.ErrorMessage = partition, int16(r.Code), r.Message
	return row
}
