package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// RemoveRaftVoter: v0 (KIP-853)
//
// Every node keeps the metadata log, and which of them vote is seen to without anybody asking. So whoever is named is removed from
// the cluster for good, with or without a vote, and its broker with it. AddRaftVoter and UpdateRaftVoter are not served: nodes join
// by themselves.

func (h *Handlers) removeRaftVoter(r *Request, req *kmsg.RemoveRaftVoterRequest) Reply {
	resp := req.ResponseKind().(*kmsg.RemoveRaftVoterResponse)
	if err := h.removeMember(r, req); err != nil {
		resp.ErrorCode, resp.ErrorMessage = h.code(r, err), messageOf(err)
	}
	return Now(resp)
}

func (h *Handlers) removeMember(r *Request, req *kmsg.RemoveRaftVoterRequest) error {
	cluster := h.Image().ClusterID
	switch {
	case req.ClusterID != nil && *req.ClusterID != cluster:
		return kafka.Errorf(kafka.InconsistentClusterID, "The given id %q doesn't match the cluster id %q", *req.ClusterID, cluster)
	case req.VoterID < 0 || kafka.DirectoryID(req.VoterDirectoryID).IsZero():
		return kafka.Errorf(kafka.InvalidRequest, "Remove voter request didn't include a valid voter")
	}
	_, err := h.submit(r, ownTimeoutMs, controller.RemoveMember{ClusterID: cluster, Node: kafka.BrokerID(req.VoterID), Directory: req.VoterDirectoryID})
	return err
}
