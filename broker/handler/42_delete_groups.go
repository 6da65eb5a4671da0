package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator/group"
	"weir/internal/kafka"
)

// DeleteGroups: v0–2 (KIP-229)
//
// A group that is named twice is answered once.

func (h *Handlers) deleteGroups(r *Request, req *kmsg.DeleteGroupsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	seen := make(map[string]bool, len(req.Groups))
	for _, name := range req.Groups {
		if !seen[name] {
			seen[name] = true
			resp.Groups = append(resp.Groups, kmsg.DeleteGroupsResponseGroup{Group: name})
		}
	}
	askAll(len(resp.Groups), func(i int, done func(any, error)) {
		name := resp.Groups[i].Group
		h.Groups.Submit(name, groupCall(r, group.Delete{Group: name}, done))
	}, func(i int, _ any, err error) {
		resp.Groups[i].ErrorCode = int16(kafka.CodeOf(err))
	})
	return Now(resp)
}
