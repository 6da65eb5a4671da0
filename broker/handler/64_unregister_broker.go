package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// UnregisterBroker: v0 (KIP-631)
//
// The broker's replicas stay assigned to it. RemoveRaftVoter removes the node itself.

func (h *Handlers) unregisterBroker(r *Request, req *kmsg.UnregisterBrokerRequest) Reply {
	resp := req.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	if _, err := h.submit(r, ownTimeoutMs, controller.UnregisterBroker{Broker: kafka.BrokerID(req.BrokerID)}); err != nil {
		resp.ErrorCode, resp.ErrorMessage = h.code(r, err), messageOf(err)
	}
	return Now(resp)
}
