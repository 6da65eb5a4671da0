package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/protocol"
)

// Heartbeat: v0–4
//   - v3: static members (KIP-345).
//
// While the group is being loaded nothing is known against the member, and it is told to go on.

func (h *Handlers) heartbeat(r *Request, req *kmsg.HeartbeatRequest) Reply {
	return h.askGroup(r, req.Group, req, func(code kafka.Code) protocol.Body {
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		if code != kafka.CoordinatorLoadInProgress {
			resp.ErrorCode = int16(code)
		}
		return resp
	})
}
