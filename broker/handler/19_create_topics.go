package handler

import (
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// CreateTopics: v2–7
//   - v4: -1 partitions or replicas ask for the broker's default (KIP-464). v5: the answer has the topic's settings
//     (KIP-525). v7: topic id.

func (h *Handlers) createTopics(r *Request, req *kmsg.CreateTopicsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	cmd := controller.CreateTopics{ValidateOnly: req.ValidateOnly, Seed: rand.Uint64(), Topics: make([]controller.NewTopic, len(req.Topics))}
	for i := range req.Topics {
		cmd.Topics[i] = newTopic(&req.Topics[i])
	}
	reply, err := h.submit(r, req.TimeoutMillis, cmd)
	if err != nil {
		for i := range req.Topics {
			row := createTopicRow(req.Topics[i].Topic)
			row.ErrorCode, row.ErrorMessage = h.code(r, err), messageOf(err)
			resp.Topics = append(resp.Topics, row)
		}
		return Now(resp)
	}
	for _, t := range reply.(controller.CreateTopicsReply).Topics {
		row := createTopicRow(t.Name)
		row.ErrorCode, row.ErrorMessage = int16(t.Code), t.Message
		if t.OK() {
			row.TopicID, row.NumPartitions, row.ReplicationFactor = t.ID, t.NumPartitions, t.ReplicationFactor
			row.Configs = h.createdConfigs(t.Configs)
		}
		resp.Topics = append(resp.Topics, row)
	}
	return Now(resp)
}

func createTopicRow(name string) kmsg.CreateTopicsResponseTopic {
	row := kmsg.NewCreateTopicsResponseTopic()
	row.Topic, row.NumPartitions, row.ReplicationFactor = name, -1, -1
	row.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // empty with an error, never null
	return row
}

func newTopic(t *kmsg.CreateTopicsRequestTopic) controller.NewTopic {
	n := controller.NewTopic{Name: t.Topic, ID: kafka.NewUUID(), NumPartitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor}
	for _, a := range t.ReplicaAssignment {
		n.Assignments = append(n.Assignments, controller.Assignment{Partition: a.Partition, Replicas: toBrokerIDs(a.Replicas)})
	}
	for _, c := range t.Configs {
		n.Configs = append(n.Configs, controller.ConfigValue{Name: c.Name, Value: c.Value})
	}
	return n
}

// createdConfigs lists everything that is in force for a new topic, and where it comes from.
func (h *Handlers) createdConfigs(overrides map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	configs := h.Image().Configs
	entries := h.Config.DescribeCreatedTopic(overrides, configs.BrokerDefault(), configs.Broker(h.Self))
	rows := make([]kmsg.CreateTopicsResponseTopicConfig, len(entries))
	for i, e := range entries {
		rows[i] = kmsg.CreateTopicsResponseTopicConfig{Name: e.Name, Value: e.Value, ReadOnly: e.ReadOnly, Source: int8(e.Source), IsSensitive: e.Sensitive}
	}
	return rows
}

func toBrokerIDs(ids []int32) []kafka.BrokerID {
	out := make([]kafka.BrokerID, len(ids))
	for i, id := range ids {
		out[i] = kafka.BrokerID(id)
	}
	return out
}
