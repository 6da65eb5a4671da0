package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// DeleteTopics: v1–6
//   - v3: TOPIC_DELETION_DISABLED. v5: error message. v6: topics by id (KIP-516).

func (h *Handlers) deleteTopics(r *Request, req *kmsg.DeleteTopicsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	cmd := controller.DeleteTopics{}
	for i := range req.TopicNames {
		cmd.Topics = append(cmd.Topics, controller.TopicRef{Name: &req.TopicNames[i]})
	}
	for i := range req.Topics {
		cmd.Topics = append(cmd.Topics, controller.TopicRef{Name: req.Topics[i].Topic, ID: req.Topics[i].TopicID})
	}
	reply, err := h.submit(r, req.TimeoutMillis, cmd)
	if kafka.CodeOf(err) == kafka.TopicDeletionDisabled && req.Version < 3 {
		err = kafka.Errorf(kafka.InvalidRequest, "%v", err) // which clients of that time know
	}
	if err != nil {
		for _, t := range cmd.Topics {
			resp.Topics = append(resp.Topics, deletedRow(t.Name, t.ID, kafka.Code(h.code(r, err)), messageOf(err)))
		}
		return Now(resp)
	}
	for _, t := range reply.(controller.DeleteTopicsReply).Topics {
		resp.Topics = append(resp.Topics, deletedRow(t.Name, t.ID, t.Code, t.Message))
	}
	return Now(resp)
}

func deletedRow(name *string, id kafka.TopicID, code kafka.Code, message *string) kmsg.DeleteTopicsResponseTopic {
	row := kmsg.NewDeleteTopicsResponseTopic()
	row.Topic, row.TopicID, row.ErrorCode, row.ErrorMessage = name, id, int16(code), message
	return row
}
