package controller

import (
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// transition is a change of one partition's ISR, and the election that it makes necessary.
type transition struct {
	isr        []kafka.BrokerID // as it shall be
	lossy      kafka.BrokerID   // a replica that may have lost what it had: it leaves the ELR too (R7); else kafka.NoBroker
	minISR     int
	unclean    bool // unclean.leader.election.enable of the topic
	acceptable func(kafka.BrokerID) bool
}

// apply returns what p becomes; changed is false where it stays as it is.
func (t transition) apply(p *metadata.PartitionRegistration) (next metadata.PartitionRegistration, changed bool) {
	next = *p
	next.ISR = t.isr
	next.ELR = t.eligible(p)
	t.elect(&next)
	if len(next.ISR) >= min(t.minISR, len(p.Replicas)) {
		next.ELR = nil // R6: from here on the high watermark may move without them
	}
	switch {
	case next.Leader != kafka.NoBroker:
		next.LastKnownELR = nil
	case len(next.ISR) == 0 && p.Leader != kafka.NoBroker:
		next.LastKnownELR = []kafka.BrokerID{p.Leader}
	}
	if next.Leader != p.Leader {
		next.LeaderEpoch++ // R3
	}
	changed = next.Leader != p.Leader || next.RecoveryState != p.RecoveryState || !slices.Equal(next.ISR, p.ISR) ||
		!slices.Equal(next.ELR, p.ELR) || !slices.Equal(next.LastKnownELR, p.LastKnownELR)
	if changed {
		next.PartitionEpoch++ // R3
	}
	return next, changed
}

// eligible is the ELR (R6): below the minimum, who leaves the ISR has still all that was ever acknowledged.
func (t transition) eligible(p *metadata.PartitionRegistration) []kafka.BrokerID {
	if len(t.isr) >= min(t.minISR, len(p.Replicas)) {
		return nil
	}
	var elr []kafka.BrokerID
	for _, id := range p.Replicas { // in this order, so that all nodes decide alike
		if (slices.Contains(p.ELR, id) || slices.Contains(p.ISR, id)) && !slices.Contains(t.isr, id) && id != t.lossy {
			elr = append(elr, id)
		}
	}
	return elr
}

// elect chooses the leader (R2): the present one if it still may, else the first replica that may; from the ISR, from the
// ELR when the ISR is empty. When both are empty, the last known leader, and then whoever is there if the topic wants that
// (R4): such an election loses what only others had, so the leader is to recover.
func (t transition) elect(next *metadata.PartitionRegistration) {
	valid := func(id kafka.BrokerID) bool {
		in := next.ISR
		if len(in) == 0 {
			in = next.ELR
		}
		return slices.Contains(in, id) && t.acceptable(id)
	}
	if valid(next.Leader) {
		t.lead(next, next.Leader, false)
		return
	}
	if i := slices.IndexFunc(next.Replicas, valid); i >= 0 {
		t.lead(next, next.Replicas[i], false)
		return
	}
	if len(next.ISR) == 0 && len(next.ELR) == 0 && len(next.LastKnownELR) == 1 && t.acceptable(next.LastKnownELR[0]) {
		t.lead(next, next.LastKnownELR[0], true)
		return
	}
	if i := slices.IndexFunc(next.Replicas, t.acceptable); t.unclean && i >= 0 {
		t.lead(next, next.Replicas[i], true)
		return
	}
	next.Leader = kafka.NoBroker
}

func (t transition) lead(next *metadata.PartitionRegistration, id kafka.BrokerID, unclean bool) {
	next.Leader = id
	switch {
	case unclean:
		next.ISR = []kafka.BrokerID{id}
		next.ELR = nil
		next.RecoveryState = metadata.Recovering
	case len(next.ISR) == 0:
		next.ISR = []kafka.BrokerID{id}
		next.ELR = without(next.ELR, id)
	}
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

// mayLead reports whether a broker may lead the partition and be in its ISR, as far as its registration says: it is
// active, and the directory of its replica is there.
func mayLead(img *metadata.Image, p *metadata.PartitionRegistration, id kafka.BrokerID) bool {
	b, ok := img.Brokers.ByID(id)
	return ok && b.Active() && directoryOnline(b, p)
}

func directoryOnline(b *metadata.BrokerRegistration, p *metadata.PartitionRegistration) bool {
	dir := p.Directory(b.ID)
	return dir == kafka.UnassignedDirectory || slices.Contains(b.Directories, dir)
}

// partitions calls f for every partition, in order of topic name and number, and adds a record for each that f changed.
func (d *decision) partitions(f func(t *metadata.Topic, p *metadata.PartitionRegistration) (transition, bool)) {
	for t := range d.img.Topics.All() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			tr, concerned := f(t, p)
			if !concerned {
				continue
			}
			tr.minISR, tr.unclean = d.minISR(t.Name), d.uncleanElection(t.Name)
			if next, changed := tr.apply(p); changed {
				d.add(metadata.PartitionRecord{TopicID: t.ID, Partition: int32(i), PartitionRegistration: next})
			}
		}
	}
}

// leaveISRs takes a broker out of every ISR and from the lead of every partition; one that may have lost records out of
// every ELR too.
func (d *decision) leaveISRs(id kafka.BrokerID, lossy bool) {
	d.partitions(func(t *metadata.Topic, p *metadata.PartitionRegistration) (transition, bool) {
		concerned := p.InISR(id) || p.Leader == id || lossy && slices.Contains(p.ELR, id)
		tr := transition{
			isr:   without(p.ISR, id),
			lossy: kafka.NoBroker,
			acceptable: func(other kafka.BrokerID) bool {
				return other != id && mayLead(d.img, p, other)
			},
		}
		if lossy {
			tr.lossy = id
		}
		return tr, concerned
	})
}

// leadAgain elects for the partitions that have no leader, now that a broker is there that the image shows as fenced.
func (d *decision) leadAgain(b *metadata.BrokerRegistration) {
	d.partitions(func(t *metadata.Topic, p *metadata.PartitionRegistration) (transition, bool) {
		return transition{
			isr:   p.ISR,
			lossy: kafka.NoBroker,
			acceptable: func(id kafka.BrokerID) bool {
				if id == b.ID {
					return directoryOnline(b, p)
				}
				return mayLead(d.img, p, id)
			},
		}, p.Leader == kafka.NoBroker
	})
}
