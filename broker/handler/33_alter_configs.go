package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// AlterConfigs: v0–2
//
// It replaces all that is set for a resource: what the request leaves out goes back to its default. Clients that know
// IncrementalAlterConfigs use that instead.

func (h *Handlers) alterConfigs(r *Request, req *kmsg.AlterConfigsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	cmd := controller.AlterConfigs{Broker: h.Self, ValidateOnly: req.ValidateOnly, Resources: make([]controller.ConfigReplacement, len(req.Resources))}
	for i := range req.Resources {
		asked := &req.Resources[i]
		change := controller.ConfigReplacement{Resource: metadata.ConfigResource{Type: metadata.ResourceType(asked.ResourceType), Name: asked.ResourceName}}
		for _, c := range asked.Configs {
			change.Configs = append(change.Configs, controller.ConfigValue{Name: c.Name, Value: c.Value})
		}
		cmd.Resources[i] = change
	}
	for i, result := range h.altered(r, cmd, len(req.Resources)) {
		row := kmsg.NewAlterConfigsResponseResource()
		row.ResourceType, row.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		row.ErrorCode, row.ErrorMessage = int16(result.Code), result.Message
		resp.Resources = append(resp.Resources, row)
	}
	return Now(resp)
}

// altered runs a command that alters n resources, and returns the outcome for each.
func (h *Handlers) altered(r *Request, cmd controller.Command, n int) []controller.Result {
	results := make([]controller.Result, n)
	reply, err := h.submit(r, ownTimeoutMs, cmd)
	for i := range results {
		if err != nil {
			results[i] = controller.Result{Code: kafka.Code(h.code(r, err)), Message: messageOf(err)}
		} else {
			results[i] = reply.(controller.AlterConfigsReply).Resources[i].Result
		}
	}
	return results
}
