package handler

import (
	"cmp"
	"math/rand/v2"
	"strconv"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// automaticTimeoutMs is how long a request waits for topics that it has made. Without a controller they are not made, and clients
// have to be told soon what else they asked for.
const automaticTimeoutMs = 2_000

// autoCreate has topics made that a Metadata request named (KIP-361). What cannot be made is not there when the client
// asks again. The log has one line a request, with the first of the reasons: a request may name very many.
func (h *Handlers) autoCreate(r *Request, names []string) {
	cmd := controller.CreateTopics{Seed: rand.Uint64()}
	for _, name := range names {
		cmd.Topics = append(cmd.Topics, h.automaticTopic(name))
	}
	reply, err := h.submit(r, automaticTimeoutMs, cmd)
	if err != nil {
		h.Logger.Warn("topics could not be created automatically", "topics", len(names), "first", names[0], "error", err)
		return
	}
	var refused []controller.CreatedTopic
	for _, t := range reply.(controller.CreateTopicsReply).Topics {
		if !t.OK() && t.Code != kafka.TopicAlreadyExists {
			refused = append(refused, t)
		}
	}
	if len(refused) > 0 {
		first := refused[0]
		h.Logger.Warn("topics could not be created automatically", "topics", len(refused), "first", first.Name, "code", first.Code, "message", *cmp.Or(first.Message, new(string)))
	}
}

// automaticTopic is what becomes of a name that is asked for and may be created: this broker's defaults or, for an internal
// topic, what its coordinator needs. The controller lowers the replicas of internal topics to what there are brokers.
func (h *Handlers) automaticTopic(name string) controller.NewTopic {
	d := h.Config.Topics
	t := controller.NewTopic{Name: name, ID: kafka.NewUUID(), NumPartitions: d.NumPartitions, ReplicationFactor: d.DefaultReplicationFactor}
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
