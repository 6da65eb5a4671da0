package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator/group"
	"weir/internal/kafka"
)

// ListGroups: v0–5
//   - v4: filter by state (KIP-518). v5: filter by type (KIP-848).
//
// A broker lists the groups that it coordinates; tools ask every broker. If one partition is still loading, the whole
// answer is that error, since the list would look complete.

func (h *Handlers) listGroups(r *Request, req *kmsg.ListGroupsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	resp.Groups = []kmsg.ListGroupsResponseGroup{}
	partitions := h.Groups.Owned()
	lists, codes := make([][]kmsg.ListGroupsResponseGroup, len(partitions)), make([]kafka.Code, len(partitions))
	askAll(len(partitions), func(i int, done func(any, error)) {
		h.Groups.SubmitTo(partitions[i], groupCall(r, group.List{States: req.StatesFilter, Types: req.TypesFilter}, done))
	}, func(i int, answer any, err error) {
		lists[i], _ = answer.([]kmsg.ListGroupsResponseGroup)
		codes[i] = kafka.CodeOf(err)
	})
	for i, code := range codes {
		switch code {
		case kafka.None:
			resp.Groups = append(resp.Groups, lists[i]...)
		case kafka.NotCoordinator: // another broker has it now, and lists it
		default:
			resp.ErrorCode = int16(code)
		}
	}
	if resp.ErrorCode != int16(kafka.None) {
		resp.Groups = []kmsg.ListGroupsResponseGroup{}
	}
	return Now(resp)
}
