package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/protocol"
)

// ApiVersions: v0–4
//   - v3: the client's name and version (KIP-511). v4: supported features may begin at level 0 (KAFKA-17011).
//
// Versions above the table never come here: the edge answers them in the layout of v0.

func (h *Handlers) apiVersions(r *Request, req *kmsg.ApiVersionsRequest) Reply {
	if req.Version >= 3 {
		if !protocol.IsSoftwareName(req.ClientSoftwareName) || !protocol.IsSoftwareName(req.ClientSoftwareVersion) {
			resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
			resp.ErrorCode = int16(kafka.InvalidRequest)
			return Now(resp)
		}
		r.Conn.SoftwareName, r.Conn.SoftwareVersion = req.ClientSoftwareName, req.ClientSoftwareVersion
	}
	features := []protocol.Feature{protocol.MetadataVersion(h.Config.Cluster.MetadataVersion)}
	return Now(protocol.ApiVersionsResponse(req.Version, h.Image().Index, features))
}
