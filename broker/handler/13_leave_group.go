package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/protocol"
)

// LeaveGroup: v0–5
//   - v3: many members, also by their instance (KIP-345). v5: a reason (KIP-800).

func (h *Handlers) leaveGroup(r *Request, req *kmsg.LeaveGroupRequest) Reply {
	return h.askGroup(r, req.Group, req, func(code kafka.Code) protocol.Body {
		resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
		resp.ErrorCode = int16(code)
		return resp
	})
}
