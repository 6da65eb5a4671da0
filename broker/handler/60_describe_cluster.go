package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

// DescribeCluster: v0–2
//   - v1: endpoint type (KIP-919). v2: fenced brokers (KIP-1073).

const endpointTypeBroker = 1

func (h *Handlers) describeCluster(r *Request, req *kmsg.DescribeClusterRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	if req.Version >= 1 && req.EndpointType != endpointTypeBroker {
		err := kafka.Errorf(kafka.MismatchedEndpointType, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
		if req.EndpointType != 2 {
			err = kafka.Errorf(kafka.UnsupportedEndpointType, "Unsupported endpoint type %d", req.EndpointType)
		}
		resp.ErrorCode, resp.ErrorMessage = int16(err.Code()), nullable(err.Error())
		return Now(resp)
	}
	img := h.Image()
	resp.ClusterID, resp.ControllerID = img.ClusterID, h.controllerID(img)
	for b := range img.Brokers.All() {
		if b.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		if e, ok := endpoint(img, b.ID, r.Conn.Listener); ok {
			row := kmsg.NewDescribeClusterResponseBroker()
			row.NodeID, row.Host, row.Port, row.Rack, row.IsFenced = int32(b.ID), e.Host, int32(e.Port), nullable(b.Rack), b.Fenced
			resp.Brokers = append(resp.Brokers, row)
		}
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return Now(resp)
}
