package controller

import (
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/mutant"
)

// election is what kind of leader a partition may get when it needs one.
type election int

const (
	cleanElection     election = iota // one that has all that was acknowledged
	preferredElection                 // likewise, the first replica before the present leader
	uncleanElection                   // else whoever is there
)

// transition is a change of one partition, and the election that it makes necessary.
type transition struct {
	img      *metadata.Image                // says who is active
	target   metadata.PartitionRegistration // as it shall be; ELR, leader and epochs follow from that
	leaves   kafka.BrokerID                 // leaves the ISR and becomes no leader; else kafka.NoBroker
	lossy    kafka.BrokerID                 // may have lost what it had, and leaves the ELR; else kafka.NoBroker
	anew     kafka.BrokerID                 // has nothing of what it had, and leaves the ELR; else kafka.NoBroker
	minISR   int                            // min.insync.replicas of the topic
	election election
}

// apply returns what p becomes; changed is false where it stays as it is.
func (t *transition) apply(p *metadata.PartitionRegistration) (next metadata.PartitionRegistration, changed bool) {
	next = t.target
	if t.leaves != kafka.NoBroker {
		next.ISR = without(next.ISR, t.leaves)
	}
	completeReassignment(&next)
	minISR := min(t.minISR, len(next.Replicas))
	next.ELR = t.eligible(p, &next, minISR)
	if len(next.Replicas) > 1 { // what the other replicas have must not be given up for nothing at all
		next.LastKnownELR = without(next.LastKnownELR, t.anew)
	}
	t.elect(&next)
	completeReassignment(&next) // the election may have made an ISR of the very one that was waited for
	if len(next.ISR) >= min(t.minISR, len(next.Replicas)) {
		next.ELR = nil // from here on the high watermark may move without them
	}
	switch {
	case next.Leader != kafka.NoBroker:
		next.LastKnownELR = nil
	case len(next.ISR) == 0 && next.HasReplica(p.Leader) && (p.Leader != t.anew || len(next.Replicas) == 1):
		next.LastKnownELR = []kafka.BrokerID{p.Leader}
	case len(next.ISR) == 0 && next.LastKnownELR == nil:
		next.LastKnownELR = t.lastHope(p, &next)
	}
	if next.Equal(p) {
		return next, false
	}
	if (next.Leader != p.Leader || !containsAll(next.Replicas, p.Replicas)) && !mutant.Is("noEpochBump") {
		next.LeaderEpoch++
	}
	next.PartitionEpoch++
	return next, true
}

// lastHope is whom to wait for where there was no leader already: the last one in sync, which could not lead, or the last one that
// was eligible. It may have lost something, and whoever leads then is to recover; but there is nobody else.
func (t *transition) lastHope(p, next *metadata.PartitionRegistration) []kafka.BrokerID {
	for _, left := range [][]kafka.BrokerID{p.ISR, p.ELR} {
		if len(left) == 1 && len(next.ELR) == 0 && next.HasReplica(left[0]) && (left[0] != t.anew || len(next.Replicas) == 1) {
			return left
		}
	}
	return nil
}

// eligible is the ELR: below the minimum, who leaves the ISR has still all that was ever acknowledged.
func (t *transition) eligible(p, next *metadata.PartitionRegistration, minISR int) []kafka.BrokerID {
	if len(next.ISR) >= minISR {
		return nil
	}
	var elr []kafka.BrokerID
	for _, id := range next.Replicas { // in this order, so that the same decision has the same records
		lost := (id == t.lossy || id == t.anew) && !mutant.Is("noELR")
		if (slices.Contains(p.ELR, id) || slices.Contains(p.ISR, id)) && !slices.Contains(next.ISR, id) && !lost {
			elr = append(elr, id)
		}
	}
	return elr
}

// elect chooses the leader: the present one if it still may, else the first replica that may; from the ISR, from the
// ELR when the ISR is empty. When both are empty, the last known leader, and then whoever is there if that is wanted:
// such an election loses what only others had, so the leader is to recover.
func (t *transition) elect(next *metadata.PartitionRegistration) {
	valid := func(id kafka.BrokerID) bool {
		in := next.ISR
		if len(in) == 0 {
			in = next.ELR
		}
		return (slices.Contains(in, id) || mutant.Is("electAnyAlive")) && t.acceptable(next, id)
	}
	if t.election == preferredElection && valid(next.Replicas[0]) {
		lead(next, next.Replicas[0], false)
		return
	}
	if valid(next.Leader) {
		lead(next, next.Leader, false)
		return
	}
	if i := slices.IndexFunc(next.Replicas, valid); i >= 0 {
		lead(next, next.Replicas[i], false)
		return
	}
	if len(next.ISR) == 0 && len(next.ELR) == 0 && len(next.LastKnownELR) == 1 && t.acceptable(next, next.LastKnownELR[0]) {
		lead(next, next.LastKnownELR[0], true)
		return
	}
	if t.election == uncleanElection {
		if i := slices.IndexFunc(next.Replicas, func(id kafka.BrokerID) bool { return t.acceptable(next, id) }); i >= 0 {
			lead(next, next.Replicas[i], true)
			return
		}
	}
	next.Leader = kafka.NoBroker
}

func (t *transition) acceptable(p *metadata.PartitionRegistration, id kafka.BrokerID) bool {
	return id != t.leaves && mayLead(t.img, p, id)
}

func lead(next *metadata.PartitionRegistration, id kafka.BrokerID, unclean bool) {
	next.Leader = id
	switch {
	case unclean:
		next.ISR = []kafka.BrokerID{id}
		next.ELR = nil
		next.RecoveryState = metadata.Recovering
	case len(next.ISR) == 0 || mutant.Is("electAnyAlive") && !slices.Contains(next.ISR, id):
		next.ISR = []kafka.BrokerID{id}
		next.ELR = without(next.ELR, id)
	}
}

// UncleanLeader is one that may lack what was acknowledged: whoever has it will give it up.
type UncleanLeader struct {
	Topic     kafka.TopicID
	Partition int32
	Leader    kafka.BrokerID
}

// UncleanLeaders names those among records that were decided on img. They are to be logged and counted.
func UncleanLeaders(img *metadata.Image, records []metadata.Record) (unclean []UncleanLeader) {
	for _, r := range records {
		next, isPartition := r.(metadata.PartitionRecord)
		if !isPartition || next.RecoveryState != metadata.Recovering || next.Leader == kafka.NoBroker {
			continue
		}
		if topic, known := img.Topics.ByID(next.TopicID); known {
			// One that recovers already may be led by a replica that was let in since; one that begins to was elected uncleanly,
			// whatever it was before this very decision.
			p := topic.Partition(next.Partition)
			if p != nil && (p.RecoveryState != metadata.Recovering || !p.InISR(next.Leader) && !slices.Contains(p.ELR, next.Leader)) {
				unclean = append(unclean, UncleanLeader{next.TopicID, next.Partition, next.Leader})
			}
		}
	}
	return unclean
}

// without returns ids less one, nil when nothing is left. It does not change ids.
func without(ids []kafka.BrokerID, id kafka.BrokerID) []kafka.BrokerID {
	var rest []kafka.BrokerID
	for _, other := range ids {
		if other != id {
			rest = append(rest, other)
		}
	}
	return rest
}

func containsAll(all, ids []kafka.BrokerID) bool {
	for _, id := range ids {
		if !slices.Contains(all, id) {
			return false
		}
	}
	return true
}

// mayLead reports whether a broker may lead the partition and be in its ISR, as far as its registration says: it is
// active, and the directory of its replica is there.
func mayLead(img *metadata.Image, p *metadata.PartitionRegistration, id kafka.BrokerID) bool {
	b, ok := img.Brokers.ByID(id)
	return ok && b.Active() && b.HasDirectory(p)
}

// topicRules is what a topic's configuration says of its partitions.
type topicRules struct {
	minISR  int
	unclean bool
}

func (d *decision) rules(topic string) topicRules {
	return topicRules{d.minISR(topic), d.uncleanElection(topic)}
}

// transition begins a change of p that changes nothing yet.
func (d *decision) transition(p *metadata.PartitionRegistration, rules topicRules) transition {
	t := transition{img: d.img, target: *p, leaves: kafka.NoBroker, lossy: kafka.NoBroker, anew: kafka.NoBroker, minISR: rules.minISR}
	if rules.unclean {
		t.election = uncleanElection
	}
	return t
}

// partitions changes every partition that is concerned, in order of topic name and number.
func (d *decision) partitions(concerned func(p *metadata.PartitionRegistration) bool, change func(*transition)) {
	for topic := range d.img.Topics.All() {
		var rules topicRules
		known := false
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			if !concerned(p) {
				continue
			}
			if !known {
				rules, known = d.rules(topic.Name), true
			}
			t := d.transition(p, rules)
			change(&t)
			if next, changed := t.apply(p); changed {
				d.add(metadata.PartitionRecord{TopicID: topic.ID, Partition: int32(i), PartitionRegistration: next})
			}
		}
	}
}

// leaveISRs takes a broker out of every ISR and from the lead of every partition; one that may have lost records out of
// every ELR too. With directories it is only about the replicas in those.
func (d *decision) leaveISRs(id kafka.BrokerID, lossy bool, directories ...kafka.DirectoryID) {
	d.leave(departure{broker: id, lossy: lossy, directories: directories})
}

// departure is of a broker from the ISRs that it is in.
type departure struct {
	broker kafka.BrokerID
	lossy  bool // it may have lost records
	// moved: it has lost a directory, and with that perhaps those of its replicas of which nobody knows where they are.
	moved       bool
	directories []kafka.DirectoryID // only replicas in these; nil for all
}

func (d *decision) leave(from departure) {
	id := from.broker
	lost := func(p *metadata.PartitionRegistration) bool {
		return from.moved && p.Directory(id) == kafka.UnassignedDirectory
	}
	d.partitions(func(p *metadata.PartitionRegistration) bool {
		part := p.InISR(id) || p.Leader == id || (from.lossy || lost(p)) && slices.Contains(p.ELR, id) || lost(p) && slices.Contains(p.LastKnownELR, id)
		return part && (from.directories == nil || slices.Contains(from.directories, p.Directory(id)))
	}, func(t *transition) {
		t.leaves = id
		if from.lossy {
			t.lossy = id
		}
		if lost(&t.target) {
			t.anew = id
		}
	})
}

// electForLeaderless elects for the partitions that have no leader, now that another broker may lead.
func (d *decision) electForLeaderless() {
	d.partitions(func(p *metadata.PartitionRegistration) bool { return p.Leader == kafka.NoBroker }, func(*transition) {})
}

// leadsAny reports whether the broker leads a partition.
func (d *decision) leadsAny(id kafka.BrokerID) bool {
	for topic := range d.img.Topics.All() {
		for i := range topic.Partitions {
			if topic.Partitions[i].Leader == id {
				return true
			}
		}
	}
	return false
}
