package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// AlterPartitionReassignments: v0–1 (KIP-455)
//   - v1: whether partitions may get more or fewer replicas (KIP-860); before, they may.
//
// It answers when the reassignments have begun. ListPartitionReassignments tells which are under way. A request without topics
// asks for nothing, and is answered even where there is no controller.

func (h *Handlers) alterPartitionReassignments(r *Request, req *kmsg.AlterPartitionAssignmentsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	if len(req.Topics) == 0 {
		resp.ErrorMessage = new("")
		return Now(resp)
	}
	cmd := controller.AlterReassignments{AllowFactorChange: req.AllowReplicationFactorChange}
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			change := controller.Reassignment{Topic: req.Topics[i].Topic, Partition: p.Partition}
			if p.Replicas != nil {
				change.Replicas = toBrokerIDs(p.Replicas)
			}
			cmd.Partitions = append(cmd.Partitions, change)
		}
	}
	reply, err := h.submit(r, req.TimeoutMillis, cmd)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = h.code(r, err), messageOf(err)
		failed := controller.Result{Code: kafka.Code(resp.ErrorCode), Message: resp.ErrorMessage}
		resp.Topics = reassignedTopics(req, func() controller.Result { return failed })
		return Now(resp)
	}
	rows := reply.(controller.AlterReassignmentsReply).Partitions
	resp.Topics = reassignedTopics(req, func() controller.Result {
		first := rows[0].Result
		rows = rows[1:]
		return first
	})
	return Now(resp)
}

// reassignedTopics answers the topics of a request in its order, with a result for each partition.
func reassignedTopics(req *kmsg.AlterPartitionAssignmentsRequest, next func() controller.Result) []kmsg.AlterPartitionAssignmentsResponseTopic {
	topics := make([]kmsg.AlterPartitionAssignmentsResponseTopic, len(req.Topics))
	for i := range req.Topics {
		topics[i].Topic = req.Topics[i].Topic
		for _, p := range req.Topics[i].Partitions {
			row, result := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition(), next()
			row.Partition, row.ErrorCode, row.ErrorMessage = p.Partition, int16(result.Code), result.Message
			topics[i].Partitions = append(topics[i].Partitions, row)
		}
	}
	return topics
}
