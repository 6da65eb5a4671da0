package controller

import (
	"maps"
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// placer spreads replicas over brokers. The leader's place goes round the racks, and within a rack round its brokers, so
// that consecutive partitions are led by different ones. The followers come from the racks after the leader's, one each,
// before a rack is used twice; each time all brokers have led, they are shifted by one, so that a broker's partitions have
// not all the same second replica, which would take the whole load when it goes.
//
// Fenced brokers get replicas where there are not enough others in their rack, but are no first replica. Who is shutting down
// gets none; when it has shut down it counts as fenced, for it may come back.
type placer struct {
	racks  []rack
	leads  []int // indexes of the racks that have a live broker
	total  int
	fenced int
	seed   uint64
}

type rack struct{ live, fenced []kafka.BrokerID }

// newPlacer makes a placer on the active brokers, and on fenced ones too if that is wanted.
func newPlacer(img *metadata.Image, seed uint64, fenced bool) *placer {
	byName := map[string]*rack{}
	p := &placer{seed: seed % (1 << 32)} // so that sums below do not overflow
	for b := range img.Brokers.All() {
		if b.Fenced && !fenced || !b.Fenced && b.InControlledShutdown {
			continue
		}
		r := byName[b.Rack]
		if r == nil {
			r = &rack{}
			byName[b.Rack] = r
		}
		if b.Fenced {
			r.fenced = append(r.fenced, b.ID)
			p.fenced++
		} else {
			r.live = append(r.live, b.ID)
		}
		p.total++
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if len(byName[name].live) > 0 {
			p.leads = append(p.leads, len(p.racks))
		}
		p.racks = append(p.racks, *byName[name])
	}
	return p
}

// check returns why no partition can have that many replicas: the second half of Kafka's sentence.
func (p *placer) check(replicationFactor int) error {
	switch {
	case replicationFactor <= 0:
		return kafka.Errorf(kafka.InvalidReplicationFactor, "Invalid replication factor %d: the replication factor must be positive.", replicationFactor)
	case p.total == p.fenced:
		return kafka.Errorf(kafka.InvalidReplicationFactor, "All brokers are currently fenced or have all their log directories cordoned.")
	case replicationFactor > p.total:
		return kafka.Errorf(kafka.InvalidReplicationFactor, "The target replication factor of %d cannot be reached because only %d broker(s) are registered or some brokers have all their log directories cordoned.", replicationFactor, p.total)
	}
	return nil
}

// place returns the replicas of one partition, in order of preference. check must have passed.
func (p *placer) place(partition int32, replicationFactor int) []kafka.BrokerID {
	n := uint64(partition) + p.seed
	first := p.leads[n%uint64(len(p.leads))]
	turn := n / uint64(len(p.leads))
	replicas := make([]kafka.BrokerID, 0, replicationFactor)
	for round := uint64(0); len(replicas) < replicationFactor; round++ {
		for k := range p.racks {
			r := &p.racks[(first+k)%len(p.racks)]
			base := turn
			if k > 0 {
				base += uint64(k) + turn/uint64(r.size())
			}
			if id, ok := r.pick(base, round); ok && len(replicas) < replicationFactor {
				replicas = append(replicas, id)
			}
		}
	}
	return replicas
}

func (r *rack) size() int { return len(r.live) + len(r.fenced) }

// pick returns the broker that is the rack's round-th for base: first the live ones, then the fenced ones.
func (r *rack) pick(base, round uint64) (kafka.BrokerID, bool) {
	live := uint64(len(r.live))
	if round < live {
		return rotated(r.live, base, round), true
	}
	if round-live < uint64(len(r.fenced)) {
		return rotated(r.fenced, base, round-live), true
	}
	return 0, false
}

// rotated returns the i-th of ids in an order that begins at base; the others are shifted whenever base has gone round.
func rotated(ids []kafka.BrokerID, base, i uint64) kafka.BrokerID {
	n := uint64(len(ids))
	if i == 0 {
		return ids[base%n]
	}
	shift := (base/n + i - 1) % (n - 1)
	return ids[(base+1+shift)%n]
}
