package controller

import (
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/mutant"
)

// alterPartition decides what leaders want of the ISRs of what they lead (KIP-497, KIP-841, KIP-903).
func (d *decision) alterPartition(c AlterPartition) (Reply, error) {
	if _, err := d.incarnation(c.Broker, c.Epoch); err != nil {
		return nil, err
	}
	reply := AlterPartitionReply{Partitions: make([]AlteredPartition, 0, len(c.Partitions))}
	type key struct {
		topic     kafka.TopicID
		partition int32
	}
	seen := make(map[key]bool, len(c.Partitions))
	for i := range c.Partitions {
		change := &c.Partitions[i]
		row := AlteredPartition{TopicID: change.TopicID, Partition: change.Partition, Code: kafka.InvalidRequest}
		if k := (key{change.TopicID, change.Partition}); !seen[k] { // what is said twice of one partition is decided once
			seen[k] = true
			row = d.alterISR(c.Broker, change)
		}
		reply.Partitions = append(reply.Partitions, row)
	}
	return reply, nil
}

// alterISR answers one partition: with its state, which is the old one if nothing was to be changed, or with why not. Where the
// change ends a reassignment that takes the leader away, both happen: there is a new leader, and the answer says so.
func (d *decision) alterISR(broker kafka.BrokerID, c *ISRChange) AlteredPartition {
	row := AlteredPartition{TopicID: c.TopicID, Partition: c.Partition}
	topic, known := d.img.Topics.ByID(c.TopicID)
	if !known {
		row.Code = kafka.UnknownTopicID
		return row
	}
	p := topic.Partition(c.Partition)
	if p == nil {
		row.Code = kafka.UnknownTopicOrPartition
		return row
	}
	unchanged, code := d.checkISRChange(broker, c, p)
	if code != kafka.None {
		row.Code = code
		return row
	}
	now := *p
	if !unchanged {
		t := d.transition(p, d.rules(topic.Name))
		if !sameMembers(c.ISR, p.ISR) {
			t.target.ISR = members(c.ISR)
		}
		t.target.RecoveryState = c.RecoveryState
		next, changed := t.apply(p)
		if changed {
			d.add(metadata.PartitionRecord{TopicID: c.TopicID, Partition: c.Partition, PartitionRegistration: next})
		}
		now = next
	}
	if now.Leader != broker {
		row.Code = kafka.NewLeaderElected
		return row
	}
	row.Leader, row.LeaderEpoch, row.PartitionEpoch = now.Leader, now.LeaderEpoch, now.PartitionEpoch
	row.ISR, row.RecoveryState = slices.Clone(now.ISR), now.RecoveryState
	return row
}

// checkISRChange checks in Kafka's order. unchanged is a retry: what the leader wants is so already, perhaps by its own
// request, of which it did not hear the answer. It is told the state, whatever partition epoch it knows (KAFKA-14144).
func (d *decision) checkISRChange(broker kafka.BrokerID, c *ISRChange, p *metadata.PartitionRegistration) (unchanged bool, code kafka.Code) {
	switch {
	case c.LeaderEpoch > p.LeaderEpoch, c.PartitionEpoch > p.PartitionEpoch:
		return false, kafka.NotController // someone else knows more
	case c.LeaderEpoch < p.LeaderEpoch:
		return false, kafka.FencedLeaderEpoch
	case broker != p.Leader:
		return false, kafka.InvalidRequest
	case c.PartitionEpoch < p.PartitionEpoch && sameMembers(c.ISR, p.ISR) && c.RecoveryState == p.RecoveryState:
		return true, kafka.None
	case c.PartitionEpoch < p.PartitionEpoch && !mutant.Is("noPartitionEpochFence"):
		return false, kafka.InvalidUpdateVersion
	case !d.validISR(broker, c, p):
		return false, kafka.InvalidRequest
	case slices.ContainsFunc(c.ISR, func(m ISRMember) bool { return !d.eligibleForISR(p, m) }):
		return false, kafka.IneligibleReplica
	}
	return false, kafka.None
}

// validISR checks what the request says of itself: each member a replica and named once, the leader among them; and a leader
// that is still recovering from an unclean election is alone, and does not begin to recover by itself (KIP-704).
func (d *decision) validISR(leader kafka.BrokerID, c *ISRChange, p *metadata.PartitionRegistration) bool {
	isr := members(c.ISR)
	for i, id := range isr {
		if !p.HasReplica(id) || slices.Contains(isr[:i], id) {
			return false
		}
	}
	switch c.RecoveryState {
	case metadata.Recovering:
		return slices.Contains(isr, leader) && len(isr) == 1 && p.RecoveryState == metadata.Recovering
	case metadata.Recovered:
		return slices.Contains(isr, leader)
	}
	return false
}

// eligibleForISR reports whether a member may be in an ISR (KIP-841), and is the incarnation that the leader means: one that
// began anew since may have lost what it had fetched (KIP-903). One whose replica is believed in a directory that its broker
// has not got, as on a new disk before the assignment is told, could not be elected, and would leave again with that assignment.
func (d *decision) eligibleForISR(p *metadata.PartitionRegistration, m ISRMember) bool {
	b, known := d.img.Brokers.ByID(m.Broker)
	return known && b.Active() && b.HasDirectory(p) && (m.Epoch == -1 || m.Epoch == b.Epoch)
}

func members(isr []ISRMember) []kafka.BrokerID {
	ids := make([]kafka.BrokerID, len(isr))
	for i, m := range isr {
		ids[i] = m.Broker
	}
	return ids
}

func sameMembers(isr []ISRMember, ids []kafka.BrokerID) bool {
	return len(isr) == len(ids) && containsAll(ids, members(isr)) && containsAll(members(isr), ids)
}
