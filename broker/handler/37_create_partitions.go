package handler

import (
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// CreatePartitions: v0–3
//   - v3: THROTTLING_QUOTA_EXCEEDED (KIP-599).

func (h *Handlers) createPartitions(r *Request, req *kmsg.CreatePartitionsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	cmd := controller.CreatePartitions{ValidateOnly: req.ValidateOnly, Seed: rand.Uint64()}
	for i := range req.Topics {
		t := &req.Topics[i]
		more := controller.MorePartitions{Name: t.Topic, Count: t.Count}
		if t.Assignment != nil {
			more.Assignments = [][]kafka.BrokerID{} // by hand, though it may name no partition
		}
		for _, a := range t.Assignment {
			more.Assignments = append(more.Assignments, toBrokerIDs(a.Replicas))
		}
		cmd.Topics = append(cmd.Topics, more)
	}
	reply, err := h.submit(r, req.TimeoutMillis, cmd)
	if err != nil {
		for i := range req.Topics {
			resp.Topics = append(resp.Topics, partitionsRow(req.Topics[i].Topic, h.code(r, err), messageOf(err)))
		}
		return Now(resp)
	}
	for _, t := range reply.(controller.CreatePartitionsReply).Topics {
		resp.Topics = append(resp.Topics, partitionsRow(t.Name, int16(t.Code), t.Message))
	}
	return Now(resp)
}

func partitionsRow(topic string, code int16, message *string) kmsg.CreatePartitionsResponseTopic {
	row := kmsg.NewCreatePartitionsResponseTopic()
	row.Topic, row.ErrorCode, row.ErrorMessage = topic, code, message
	return row
}
