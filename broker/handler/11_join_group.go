package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/protocol"
)

// JoinGroup: v0–9
//   - v1: rebalance timeout. v4: MEMBER_ID_REQUIRED (KIP-394). v5: static members (KIP-345). v7: protocol type (KIP-559).
//   - v8: a reason (KIP-800). v9: the leader may be told to skip the assignment (KIP-814).
//
// The answer comes when all members have joined; only the coordinator knows when.

func (h *Handlers) joinGroup(r *Request, req *kmsg.JoinGroupRequest) Reply {
	return h.askGroup(r, req.Group, req, func(code kafka.Code) protocol.Body {
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = int16(code)
		return resp
	})
}
