package cluster

import (
	"slices"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// A command whose answer is lost is submitted again, until its submitter has waited for long enough, as Kafka does with what
// brokers forward. Most commands may come true twice as well as once: they name epochs, or say how something shall be and
// not what shall change. A repeated AllocateProducerIDs wastes a block. Some would answer a client that what it wanted
// failed, since it is so already, or do it to another topic of the same name; that is what this file is about.

// repeat returns the command to submit when an earlier try may have come true. before is the image at the first one. Topics
// to be deleted are named by their ids, so that nobody loses a topic that was created again meanwhile. Topics to be created
// have other ids each time: one that an earlier try made, and somebody has deleted since, must not be back under the id that
// logs elsewhere still have.
func repeat(cmd controller.Command, before *metadata.Image) controller.Command {
	switch c := cmd.(type) {
	case controller.CreateTopics:
		c.Topics = slices.Clone(c.Topics)
		for i := range c.Topics {
			c.Topics[i].ID = kafka.NewUUID()
		}
		return c
	case controller.DeleteTopics:
		if !plainNames(c.Topics) {
			return cmd
		}
		refs := slices.Clone(c.Topics)
		for i, r := range refs {
			if t, known := before.Topics.ByName(*r.Name); known {
				refs[i] = controller.TopicRef{ID: t.ID}
			}
		}
		return controller.DeleteTopics{Topics: refs}
	}
	return cmd
}

// lastTryCounts reports whether an answer is final only where no later try is on its way. A leader whose ISR is refused does not
// count on that any more; should a later try of the same be taken, since the replica is back, the controller would have it in
// sync when the leader does not wait for it.
func lastTryCounts(cmd controller.Command) bool {
	_, is := cmd.(controller.AlterPartition)
	return is
}

// plainNames reports whether topics are named by name, each once: what contradicts itself is left to the controller.
func plainNames(refs []controller.TopicRef) bool {
	seen := map[string]bool{}
	for _, r := range refs {
		if r.Name == nil || !r.ID.IsZero() || seen[*r.Name] {
			return false
		}
		seen[*r.Name] = true
	}
	return true
}

// settle corrects the reply to a repeated command: what an earlier try has done is a success. tries are all of them, the
// command itself first; before is the image at the first try, now the one that is published.
func settle(tries []controller.Command, reply controller.Reply, before, now *metadata.Image) controller.Reply {
	cmd := tries[0]
	switch r := reply.(type) {
	case controller.CreateTopicsReply:
		return settleCreated(tries, r, now)
	case controller.DeleteTopicsReply:
		return settleDeleted(cmd.(controller.DeleteTopics), r, before)
	case controller.CreatePartitionsReply:
		return settleAdded(cmd.(controller.CreatePartitions), r, before, now)
	case controller.AlterReassignmentsReply:
		return settleCancelled(r, before, now)
	}
	return reply
}

// settleRefused corrects the refusal of a repeated command: a broker that was registered before the first try, and is not now, was
// unregistered.
func settleRefused(cmd controller.Command, refusal error, before *metadata.Image) (controller.Reply, error) {
	if c, is := cmd.(controller.UnregisterBroker); is && kafka.CodeOf(refusal) == kafka.BrokerIDNotRegistered {
		if _, was := before.Brokers.ByID(c.Broker); was {
			return controller.UnregisterBrokerReply{}, nil
		}
	}
	return nil, refusal
}

// settleCreated finds the topics that exist with the very ids that one of the tries brought.
func settleCreated(tries []controller.Command, reply controller.CreateTopicsReply, now *metadata.Image) controller.Reply {
	rows := slices.Clone(reply.Topics)
	for i, row := range rows {
		t, exists := now.Topics.ByName(row.Name)
		if row.Code != kafka.TopicAlreadyExists || !exists || !slices.ContainsFunc(tries, func(try controller.Command) bool {
			return slices.ContainsFunc(try.(controller.CreateTopics).Topics, func(n controller.NewTopic) bool { return n.Name == row.Name && n.ID == t.ID })
		}) {
			continue
		}
		rows[i] = controller.CreatedTopic{
			Name: t.Name, ID: t.ID, NumPartitions: int32(len(t.Partitions)), ReplicationFactor: int16(len(t.Partitions[0].Replicas)),
			Configs: now.Configs.Topic(t.Name),
		}
	}
	return controller.CreateTopicsReply{Topics: rows}
}

// settleDeleted finds the topics that there were, and that are not there any more.
func settleDeleted(c controller.DeleteTopics, reply controller.DeleteTopicsReply, before *metadata.Image) controller.Reply {
	rows := slices.Clone(reply.Topics)
	for i, row := range rows {
		if t, known := before.Topics.ByID(row.ID); known && row.Code == kafka.UnknownTopicID {
			rows[i] = controller.DeletedTopic{Name: &t.Name, ID: t.ID}
		}
	}
	return controller.DeleteTopicsReply{Topics: rows}
}

// settleAdded finds the topics that had fewer partitions than were wanted, and have as many now.
func settleAdded(c controller.CreatePartitions, reply controller.CreatePartitionsReply, before, now *metadata.Image) controller.Reply {
	rows := slices.Clone(reply.Topics)
	for i, row := range rows {
		old, was := before.Topics.ByName(row.Name)
		t, is := now.Topics.ByName(row.Name)
		if row.Code == kafka.InvalidPartitions && was && is && old.ID == t.ID && len(old.Partitions) < len(t.Partitions) &&
			slices.ContainsFunc(c.Topics, func(m controller.MorePartitions) bool {
				return m.Name == row.Name && int(m.Count) == len(t.Partitions)
			}) {
			rows[i].Result = controller.Result{}
		}
	}
	return controller.CreatePartitionsReply{Topics: rows}
}

// settleCancelled finds the reassignments that were under way, and whose partitions have the replicas again that they had before.
func settleCancelled(reply controller.AlterReassignmentsReply, before, now *metadata.Image) controller.Reply {
	rows := slices.Clone(reply.Partitions)
	for i, row := range rows {
		old, was := before.Topics.ByName(row.Topic)
		t, is := now.Topics.ByName(row.Topic)
		if row.Code != kafka.NoReassignmentInProgress || !was || !is || old.ID != t.ID {
			continue
		}
		if p, q := old.Partition(row.Partition), t.Partition(row.Partition); p != nil && q != nil && cancelled(p, q) {
			rows[i].Result = controller.Result{}
		}
	}
	return controller.AlterReassignmentsReply{Partitions: rows}
}

// cancelled reports whether the reassignment of p ended in q without what it was to add.
func cancelled(p, q *metadata.PartitionRegistration) bool {
	moving := func(r *metadata.PartitionRegistration) bool { return len(r.Adding)+len(r.Removing) > 0 }
	if !moving(p) || moving(q) || len(q.Replicas) != len(p.Replicas)-len(p.Adding) {
		return false
	}
	return !slices.ContainsFunc(q.Replicas, func(id kafka.BrokerID) bool { return !p.HasReplica(id) || slices.Contains(p.Adding, id) })
}
