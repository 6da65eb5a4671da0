package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/metadata"
)

// ListPartitionReassignments: v0 (KIP-455)
//
// Only what is being moved is listed: a topic or partition that does not exist is left out like one that stands still, and
// is no error. The request's timeout has no meaning, since nothing is waited for.

func (h *Handlers) listPartitionReassignments(_ *Request, req *kmsg.ListPartitionReassignmentsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	img := h.Image()
	if req.Topics == nil {
		for t := range img.Topics.All() {
			var moving []kmsg.ListPartitionReassignmentsResponseTopicPartition
			for i := range t.Partitions {
				moving = appendMoving(moving, t, int32(i))
			}
			addReassigning(resp, t, moving)
		}
		return Now(resp)
	}
	for i := range req.Topics {
		t := byName(img, req.Topics[i].Topic)
		if t == nil {
			continue
		}
		var moving []kmsg.ListPartitionReassignmentsResponseTopicPartition
		for _, p := range req.Topics[i].Partitions {
			moving = appendMoving(moving, t, p)
		}
		addReassigning(resp, t, moving)
	}
	return Now(resp)
}

// appendMoving adds a partition if replicas of it come or go.
func appendMoving(rows []kmsg.ListPartitionReassignmentsResponseTopicPartition, t *metadata.Topic, partition int32) []kmsg.ListPartitionReassignmentsResponseTopicPartition {
	p := t.Partition(partition)
	if p == nil || len(p.Adding)+len(p.Removing) == 0 {
		return rows
	}
	row := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	row.Partition, row.Replicas, row.AddingReplicas, row.RemovingReplicas = partition, brokerIDs(p.Replicas), brokerIDs(p.Adding), brokerIDs(p.Removing)
	return append(rows, row)
}

func addReassigning(resp *kmsg.ListPartitionReassignmentsResponse, t *metadata.Topic, moving []kmsg.ListPartitionReassignmentsResponseTopicPartition) {
	if len(moving) > 0 {
		resp.Topics = append(resp.Topics, kmsg.ListPartitionReassignmentsResponseTopic{Topic: t.Name, Partitions: moving})
	}
}
