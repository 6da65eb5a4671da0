package handler

import (
	"strconv"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// automaticTopic is what becomes of a name that is asked for and may be created: the broker's defaults or, for an internal
// topic, what its coordinator needs. The controller lowers the replicas of internal topics to what there are brokers.
func (h *Handlers) automaticTopic(name string) controller.NewTopic {
	t := controller.NewTopic{Name: name, ID: kafka.NewUUID(), NumPartitions: -1, ReplicationFactor: -1}
	switch name {
	case kafka.ConsumerOffsetsTopic:
		o := h.Config.Offsets
		t.NumPartitions, t.ReplicationFactor = o.TopicPartitions, o.TopicReplicationFactor
		t.Configs = topicConfigs("cleanup.policy", "compact", "compression.type", "producer", "segment.bytes", strconv.Itoa(int(o.TopicSegmentBytes)))
	case kafka.TransactionStateTopic:
		x := h.Config.Transactions
		t.NumPartitions, t.ReplicationFactor = x.TopicPartitions, x.TopicReplicationFactor
		t.Configs = topicConfigs("cleanup.policy", "compact", "compression.type", "uncompressed", "min.insync.replicas", strconv.Itoa(int(x.TopicMinISR)),
			"unclean.leader.election.enable", "false", "segment.bytes", strconv.Itoa(defaultInternalSegmentBytes))
	}
	return t
}

const defaultInternalSegmentBytes = 100 << 20 // transaction.state.log.segment.bytes

func topicConfigs(pairs ...string) []controller.ConfigValue {
	var values []controller.ConfigValue
	for i := 0; i < len(pairs); i += 2 {
		values = append(values, controller.ConfigValue{Name: pairs[i], Value: &pairs[i+1]})
	}
	return values
}
