package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/protocol"
)

// SyncGroup: v0–5
//   - v3: static members (KIP-345). v5: protocol type and name (KIP-559).
//
// The answer comes when the leader's assignment is there and committed.

func (h *Handlers) syncGroup(r *Request, req *kmsg.SyncGroupRequest) Reply {
	return h.askGroup(r, req.Group, req, func(code kafka.Code) protocol.Body {
		resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
		resp.ErrorCode = int16(code)
		return resp
	})
}
