package controller

import (
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// maxRecords bounds what one command changes, and so the size of an entry: Kafka's MAX_RECORDS_PER_USER_OP.
const maxRecords = 10_000

const excessive = "Unable to perform excessively large batch operation."

// electLeaders holds the elections that someone asked for (KIP-460).
func (d *decision) electLeaders(c ElectLeaders) (Reply, error) {
	if c.Type != PreferredElection && c.Type != UncleanElection {
		return nil, kafka.Errorf(kafka.InvalidRequest, "Unknown election type %d", c.Type)
	}
	var reply ElectLeadersReply
	if c.All {
		for topic := range d.img.Topics.All() {
			rules := d.rules(topic.Name)
			for i := range topic.Partitions {
				r := d.electLeader(topic, int32(i), rules, c.Type)
				if r.Code != kafka.ElectionNotNeeded {
					reply.Partitions = append(reply.Partitions, ElectedPartition{kafka.TopicPartition{Topic: topic.Name, Partition: int32(i)}, r})
				}
			}
		}
	} else {
		reply.Partitions = d.electNamed(c)
	}
	if len(d.records) > maxRecords {
		return nil, kafka.Errorf(kafka.PolicyViolation, excessive)
	}
	return reply, nil
}

// electNamed answers a partition that is named twice twice, after one election.
func (d *decision) electNamed(c ElectLeaders) []ElectedPartition {
	rows := make([]ElectedPartition, 0, len(c.Partitions))
	done := make(map[kafka.TopicPartition]Result, len(c.Partitions))
	for _, tp := range c.Partitions {
		r, answered := done[tp]
		if !answered {
			topic, known := d.img.Topics.ByName(tp.Topic)
			switch {
			case !known:
				r = failed(kafka.UnknownTopicOrPartition, "No such topic as %s", tp.Topic)
			case topic.Partition(tp.Partition) == nil:
				r = failed(kafka.UnknownTopicOrPartition, "No such partition as %s", tp)
			default:
				r = d.electLeader(topic, tp.Partition, d.rules(topic.Name), c.Type)
			}
			done[tp] = r
		}
		rows = append(rows, ElectedPartition{tp, r})
	}
	return rows
}

func (d *decision) electLeader(topic *metadata.Topic, partition int32, rules topicRules, typ ElectionType) Result {
	p := topic.Partition(partition)
	if typ == PreferredElection && p.Leader == p.Replicas[0] || typ == UncleanElection && p.Leader != kafka.NoBroker {
		return failed(kafka.ElectionNotNeeded, "Leader election not needed for topic partition.")
	}
	t := d.transition(p, rules)
	t.election = preferredElection
	if typ == UncleanElection {
		t.election = uncleanElection
	}
	next, changed := t.apply(p)
	switch {
	case changed:
		d.add(metadata.PartitionRecord{TopicID: topic.ID, Partition: partition, PartitionRegistration: next})
		return ok
	case typ == PreferredElection:
		return failed(kafka.PreferredLeaderNotAvailable, "The preferred leader was not available.")
	}
	return failed(kafka.EligibleLeadersNotAvailable, "Eligible topic partition leaders are not available.")
}

// balanceLeaders gives leaderships back to first replicas that are in the ISR again.
func (d *decision) balanceLeaders(c BalanceLeaders) Reply {
	d.partitions(func(p *metadata.PartitionRegistration) bool {
		return len(d.records) < c.Max && p.Leader != kafka.NoBroker && p.Leader != p.Replicas[0]
	}, func(t *transition) {
		t.election = preferredElection
	})
	return BalanceLeadersReply{Elected: len(d.records), More: c.Max > 0 && len(d.records) >= c.Max}
}

// assignReplicasToDirs notes where a broker keeps replicas (KIP-858). A replica in a directory that its broker does not have
// any more leaves the ISR. One that was in such a directory and is elsewhere now has been made anew, so it is eligible for
// nothing that it had; where it is in an ISR, it came there since. What is unknown by now, or is no replica of the broker any
// more, is passed over.
func (d *decision) assignReplicasToDirs(c AssignReplicasToDirs) (Reply, error) {
	b, err := d.incarnation(c.Broker, c.Epoch)
	if err != nil {
		return nil, err
	}
	type key struct {
		topic     kafka.TopicID
		partition int32
	}
	seen := make(map[key]bool, len(c.Assignments))
	for _, a := range c.Assignments {
		topic, known := d.img.Topics.ByID(a.TopicID)
		if !known || seen[key{a.TopicID, a.Partition}] {
			continue
		}
		seen[key{a.TopicID, a.Partition}] = true
		p := topic.Partition(a.Partition)
		if p == nil || !p.HasReplica(b.ID) {
			continue
		}
		t := d.transition(p, d.rules(topic.Name))
		t.target.Directories = assigned(p, b.ID, a.Directory)
		if !b.HasDirectory(p) {
			t.anew = b.ID
		}
		if !b.HasDirectory(&t.target) {
			t.leaves = b.ID
		}
		if next, changed := t.apply(p); changed {
			d.add(metadata.PartitionRecord{TopicID: a.TopicID, Partition: a.Partition, PartitionRegistration: next})
		}
	}
	return AssignReplicasToDirsReply{}, nil
}

// assigned returns the directories of p's replicas with another one for one broker.
func assigned(p *metadata.PartitionRegistration, id kafka.BrokerID, directory kafka.DirectoryID) []kafka.DirectoryID {
	directories := make([]kafka.DirectoryID, len(p.Replicas))
	copy(directories, p.Directories)
	directories[slices.Index(p.Replicas, id)] = directory
	return directories
}
