package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/cluster/metadata"
)

// IncrementalAlterConfigs: v0–1 (KIP-339)
//
// It changes single configs of a resource: set, delete, and for lists append and subtract. Of each resource all changes
// take place or none.

func (h *Handlers) incrementalAlterConfigs(r *Request, req *kmsg.IncrementalAlterConfigsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	cmd := controller.IncrementalAlterConfigs{Broker: h.Self, ValidateOnly: req.ValidateOnly, Resources: make([]controller.ConfigChange, len(req.Resources))}
	for i := range req.Resources {
		asked := &req.Resources[i]
		change := controller.ConfigChange{Resource: metadata.ConfigResource{Type: metadata.ResourceType(asked.ResourceType), Name: asked.ResourceName}}
		for _, c := range asked.Configs {
			change.Ops = append(change.Ops, controller.ConfigOp{Name: c.Name, Op: controller.OpType(c.Op), Value: c.Value})
		}
		cmd.Resources[i] = change
	}
	for i, result := range h.altered(r, cmd, len(req.Resources)) {
		row := kmsg.NewIncrementalAlterConfigsResponseResource()
		row.ResourceType, row.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		row.ErrorCode, row.ErrorMessage = int16(result.Code), result.Message
		resp.Resources = append(resp.Resources, row)
	}
	return Now(resp)
}
