package handler

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/config"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// DescribeConfigs: v1–4
//   - v1: sources and synonyms (KIP-226). v3: types and documentation (KIP-569).
//
// Not done: loggers, client metrics subscriptions (KIP-714), groups (KIP-848).
//
// A null or empty list of names asks for all; a name that the resource does not have is left out. A resource that stands
// twice is answered twice.

// maxRepeatedConfigs bounds the configs that one request has looked up besides those that each topic has once: a client
// cannot have the same described over and over. It is what 150 descriptions of a broker have.
const maxRepeatedConfigs = 50_000

func (h *Handlers) describeConfigs(r *Request, req *kmsg.DescribeConfigsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for i := range req.Resources {
		if !slices.Contains(allResourceTypes, int8(req.Resources[i].ResourceType)) {
			return Now(describeConfigsRefused(req, resp))
		}
	}
	img, topics, repeated := h.Image(), make(map[string]bool), 0
	for i := range req.Resources {
		asked := &req.Resources[i]
		row := kmsg.NewDescribeConfigsResponseResource()
		row.ResourceType, row.ResourceName, row.ErrorMessage = asked.ResourceType, asked.ResourceName, new("")
		var entries []config.Entry
		err := errRepeated
		isNew := metadata.ResourceType(asked.ResourceType) == metadata.TopicResource && !topics[asked.ResourceName]
		if isNew || repeated < maxRepeatedConfigs {
			entries, err = h.describedConfigs(img, asked)
		}
		if isNew {
			topics[asked.ResourceName] = true
		} else {
			repeated += len(entries)
		}
		if err != nil {
			row.ErrorCode = h.code(r, err)
			if text := messageOf(err); text != nil {
				row.ErrorMessage = text
			}
		} else {
			row.Configs = describedRows(named(entries, asked.ConfigNames), req)
		}
		resp.Resources = append(resp.Resources, row)
	}
	return Now(resp)
}

var errRepeated error = kafka.Errorf(kafka.InvalidRequest, "The request asks for more than %d configs besides those of each topic.", maxRepeatedConfigs)

// named picks the entries with these names, or all where there is no name. It reuses entries.
func named(entries []config.Entry, names []string) []config.Entry {
	if len(names) == 0 {
		return entries
	}
	wanted := make(map[string]bool, len(entries))
	for i := range entries {
		wanted[entries[i].Name] = false
	}
	for _, name := range names {
		if _, known := wanted[name]; known {
			wanted[name] = true
		}
	}
	return slices.DeleteFunc(entries, func(e config.Entry) bool { return !wanted[e.Name] })
}

// describeConfigsRefused answers a request with a resource of no known type, which is wrong as a whole.
func describeConfigsRefused(req *kmsg.DescribeConfigsRequest, resp *kmsg.DescribeConfigsResponse) *kmsg.DescribeConfigsResponse {
	for i := range req.Resources {
		row := kmsg.NewDescribeConfigsResponseResource()
		row.ResourceType, row.ResourceName = req.Resources[i].ResourceType, req.Resources[i].ResourceName
		row.ErrorCode, row.ErrorMessage = int16(kafka.InvalidRequest), new(invalidRequestText)
		resp.Resources = append(resp.Resources, row)
	}
	return resp
}

// describedConfigs are all configs of one resource.
func (h *Handlers) describedConfigs(img *metadata.Image, asked *kmsg.DescribeConfigsRequestResource) ([]config.Entry, error) {
	name, all, own := asked.ResourceName, img.Configs.BrokerDefault(), img.Configs.Broker(h.Self)
	switch t := metadata.ResourceType(asked.ResourceType); t {
	case metadata.TopicResource:
		if err := kafka.ValidateTopicName(name); err != nil {
			return nil, err
		}
		if byName(img, name) == nil {
			return nil, errUnknownTopicOrPartition
		}
		return h.Config.DescribeTopic(img.Configs.Topic(name), all, own), nil
	case metadata.BrokerResource:
		ofAll, err := h.Config.CheckBrokerResource(name)
		if err != nil {
			return nil, err
		}
		if ofAll {
			return config.DescribeBrokerDefault(all), nil
		}
		return h.Config.DescribeBroker(all, own), nil
	default:
		return nil, kafka.Errorf(kafka.InvalidRequest, "Unsupported resource type: %v", t)
	}
}

func describedRows(entries []config.Entry, req *kmsg.DescribeConfigsRequest) []kmsg.DescribeConfigsResponseResourceConfig {
	rows := make([]kmsg.DescribeConfigsResponseResourceConfig, len(entries))
	for i := range entries {
		e := &entries[i]
		row := kmsg.NewDescribeConfigsResponseResourceConfig()
		row.Name, row.Value, row.ReadOnly, row.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
		row.Source, row.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Type)
		if req.IncludeSynonyms {
			for _, s := range e.Synonyms {
				synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
				synonym.Name, synonym.Value, synonym.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
				row.ConfigSynonyms = append(row.ConfigSynonyms, synonym)
			}
		}
		if req.IncludeDocumentation {
			row.Documentation = &e.Doc
		}
		rows[i] = row
	}
	return rows
}
