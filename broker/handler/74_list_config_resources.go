package handler

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// ListConfigResources: v0–1
//   - v0: the names of client metrics subscriptions (KIP-714). v1: resources of the types asked for, or of all (KIP-1142).
//
// Topics and brokers are listed whether or not anything is set for them. Of the other types there is nothing yet.

func (h *Handlers) listConfigResources(r *Request, req *kmsg.ListConfigResourcesRequest) Reply {
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	wanted := req.ResourceTypes
	switch {
	case req.Version == 0:
		wanted = []int8{int8(metadata.ClientMetricsResource)}
	case len(wanted) == 0:
		wanted = allResourceTypes
	case slices.ContainsFunc(wanted, func(t int8) bool { return !slices.Contains(allResourceTypes, t) }):
		resp.ErrorCode = int16(kafka.UnsupportedVersion)
		return Now(resp)
	}
	for _, resource := range configResources(h.Image(), r.Conn.Listener) {
		if slices.Contains(wanted, int8(resource.Type)) {
			row := kmsg.NewListConfigResourcesResponseConfigResource()
			row.Type, row.Name = int8(resource.Type), resource.Name
			resp.ConfigResources = append(resp.ConfigResources, row)
		}
	}
	return Now(resp)
}

// allResourceTypes are the types of resources that requests may name.
var allResourceTypes = []int8{int8(metadata.TopicResource), int8(metadata.BrokerResource), int8(metadata.BrokerLoggerResource),
	int8(metadata.ClientMetricsResource), int8(metadata.GroupResource)}

// configResources are the topics, and the brokers that are reached by that listener, whether or not they are alive.
func configResources(img *metadata.Image, listener string) (all []metadata.ConfigResource) {
	for t := range img.Topics.All() {
		all = append(all, metadata.ConfigResource{Type: metadata.TopicResource, Name: t.Name})
	}
	for b := range img.Brokers.All() {
		if _, ok := b.Endpoint(listener); ok {
			all = append(all, metadata.ConfigResource{Type: metadata.BrokerResource, Name: strconv.Itoa(int(b.ID))})
		}
	}
	return all
}
