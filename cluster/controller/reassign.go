package controller

import (
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// AlterReassignments says which replicas partitions shall have, or that they shall keep those that they had before (KIP-455).
// It begins what the leaders end: the change of the ISR with which all new replicas are in sync takes the others away.
type AlterReassignments struct {
	Partitions        []Reassignment
	AllowFactorChange bool // whether a partition may get more or fewer replicas (KIP-860)
}

// Reassignment is what shall become of one partition.
type Reassignment struct {
	Topic     string
	Partition int32
	Replicas  []kafka.BrokerID // in order of preference; nil cancels what is under way
}

// AlterReassignmentsReply has one row for every partition, in the order of the command.
type AlterReassignmentsReply struct{ Partitions []ReassignedPartition }

// ReassignedPartition is the outcome for one partition. Codes: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT,
// INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS, POLICY_VIOLATION.
type ReassignedPartition struct {
	Topic     string
	Partition int32
	Result
}

func (AlterReassignments) command()    {}
func (AlterReassignmentsReply) reply() {}

// alterReassignments decides on one partition after the other. Of what is said twice of one the last counts, as in Kafka.
func (d *decision) alterReassignments(c AlterReassignments) Reply {
	reply := AlterReassignmentsReply{Partitions: make([]ReassignedPartition, len(c.Partitions))}
	decided := make(map[kafka.TopicPartition]bool, len(c.Partitions))
	for i := range c.Partitions {
		r := &c.Partitions[i]
		tp := kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		if decided[tp] {
			d.settle()
		}
		decided[tp] = true
		reply.Partitions[i] = ReassignedPartition{r.Topic, r.Partition, d.alterReassignment(r, c.AllowFactorChange)}
	}
	return reply
}

func (d *decision) alterReassignment(r *Reassignment, allowFactorChange bool) Result {
	topic, known := d.img.Topics.ByName(r.Topic)
	if !known {
		return failed(kafka.UnknownTopicOrPartition, "Unable to find a topic named %s.", r.Topic)
	}
	p := topic.Partition(r.Partition)
	if p == nil {
		return failed(kafka.UnknownTopicOrPartition, "Unable to find partition %s:%d.", r.Topic, r.Partition)
	}
	t := d.transition(p, d.rules(topic.Name))
	var result Result
	if r.Replicas == nil {
		result = cancel(&t, r)
	} else {
		result = d.reassign(&t, r.Replicas, allowFactorChange)
	}
	if !result.OK() {
		return result
	}
	next, changed := t.apply(p)
	switch {
	case !changed:
		return ok
	case len(d.records) >= maxRecords:
		return failed(kafka.PolicyViolation, excessive)
	}
	d.add(metadata.PartitionRecord{TopicID: topic.ID, Partition: r.Partition, PartitionRegistration: next})
	return ok
}

// reassign gives a partition the replicas of target, and has the others removed when the new ones are in sync. A reassignment that is
// under way is replaced: what it was adding stays until the new one is complete, for it may be all that is in sync, and
// it counts as added still, so that a cancellation leads back to where the first one began.
func (d *decision) reassign(t *transition, target []kafka.BrokerID, allowFactorChange bool) Result {
	if r := d.checkReplicas(target); !r.OK() {
		return r
	}
	p := t.target
	if factor := len(p.Replicas) - len(p.Removing); factor != len(target) && !allowFactorChange {
		return failed(kafka.InvalidReplicationFactor, "The replication factor is changed from %d to %d", factor, len(target))
	}
	t.election = cleanElection // a replica that has nothing as yet shall not lead because nobody else is there
	t.target.Removing = sortedWithout(p.Replicas, target)
	t.target.Replicas = slices.Concat(target, t.target.Removing)
	t.target.Adding = sortedWithout(t.target.Replicas, withoutAll(p.Replicas, p.Adding))
	t.target.Directories = d.directories(&p, t.target.Replicas)
	return ok
}

// cancel takes away what is being added, and keeps what was to be removed. Where nobody is in sync but what is being added, the
// others are not up to date: then that is an unclean election, and only done where those are allowed. The first of them is
// elected, or waited for.
func cancel(t *transition, r *Reassignment) Result {
	p := &t.target
	if len(p.Adding)+len(p.Removing) == 0 {
		return Result{Code: kafka.NoReassignmentInProgress} // without a text, as in Kafka
	}
	endReassignment(p, p.Adding)
	if len(p.ISR) > 0 {
		return ok
	}
	if t.election != uncleanElection {
		return failed(kafka.InvalidReplicaAssignment, "Unable to revert partition assignment for %s:%d because it would require an unclean leader election.",
			r.Topic, r.Partition)
	}
	if p.LastKnownELR == nil {
		p.LastKnownELR = p.Replicas[:1:1]
	}
	return ok
}

// completeReassignment ends a reassignment as soon as every new replica is in the ISR: one that stays and is not in sync was not
// before, either. Where more replicas go than come, all that stay must be in the ISR, so that it does not become too small.
func completeReassignment(p *metadata.PartitionRegistration) {
	if len(p.Adding)+len(p.Removing) == 0 {
		return
	}
	complete := *p
	endReassignment(&complete, p.Removing)
	awaited := withoutAll(p.Adding, p.Removing) // what an earlier one added, and this one does not want, does not count
	if len(awaited) < len(withoutAll(p.Removing, p.Adding)) {
		awaited = complete.Replicas
	}
	if len(complete.ISR) > 0 && containsAll(complete.ISR, awaited) {
		*p = complete
	}
}

// endReassignment takes replicas away, and their part in the partition. It changes no list in place. The ELR is not among what
// it looks at: that follows from the replicas.
func endReassignment(p *metadata.PartitionRegistration, gone []kafka.BrokerID) {
	if p.Directories != nil {
		var directories []kafka.DirectoryID
		for i, id := range p.Replicas {
			if !slices.Contains(gone, id) {
				directories = append(directories, p.Directories[i])
			}
		}
		p.Directories = directories
	}
	p.Replicas, p.ISR, p.LastKnownELR = withoutAll(p.Replicas, gone), withoutAll(p.ISR, gone), withoutAll(p.LastKnownELR, gone)
	p.Adding, p.Removing = nil, nil
}

// withoutAll returns ids less others, nil when nothing is left. It does not change ids.
func withoutAll(ids, others []kafka.BrokerID) []kafka.BrokerID {
	var rest []kafka.BrokerID
	for _, id := range ids {
		if !slices.Contains(others, id) {
			rest = append(rest, id)
		}
	}
	return rest
}

func sortedWithout(ids, others []kafka.BrokerID) []kafka.BrokerID {
	rest := withoutAll(ids, others)
	slices.Sort(rest)
	return rest
}
