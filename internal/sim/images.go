package sim

import (
	"hash/fnv"
	"slices"
	"time"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// digestOf tells images apart by all that is in them.
func digestOf(img *metadata.Image) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(metadata.AppendEntry(nil, img.Index, slices.Collect(img.Records()))) // never fails
	return h.Sum64()
}

// published takes note of an image that a node published. The first to publish one tells what became of the partitions.
func (s *simulation) published(n *node, _ *metadata.Delta, img *metadata.Image) {
	digest := digestOf(img)
	s.w.mix(uint64(n.id), uint64(img.Index), digest)
	s.check.image(n.id, img.Index, digest)
	if img.Index <= s.newest.Index {
		return
	}
	s.compare(metadata.Diff(s.newest, img), img)
	s.check.directories(img)
	s.newest = img
	for _, n := range s.nodes {
		n.settleLossy(img)
	}
}

// compare counts what happened between two images, and checks what must hold.
func (s *simulation) compare(d *metadata.Delta, img *metadata.Image) {
	for _, t := range d.TopicsCreated {
		for p := range t.Partitions {
			s.begin(img, t, int32(p))
		}
		s.w.tracef("  topic %s %v: %d partitions", t.Name, t.ID, len(t.Partitions))
	}
	for _, t := range d.TopicsDeleted {
		for p := range t.Partitions {
			s.check.partitions[partitionID{TopicID: t.ID, Partition: int32(p)}].gone = true
		}
	}
	for _, c := range d.TopicsChanged {
		for _, p := range c.Partitions {
			tp := kafka.TopicPartition{Topic: c.New.Name, Partition: p}
			id := partitionID{TopicID: c.New.ID, Partition: p}
			if old := c.Old.Partition(p); old != nil {
				s.change(id, tp, old, c.New.Partition(p))
			} else {
				s.begin(img, c.New, p)
			}
			s.hold(img, id, c.New)
		}
	}
	for _, b := range d.Brokers {
		s.brokerChanged(img, b)
	}
}

// begin takes note of a new partition. A replica on a broker that has lost its power since it registered, and was not missed
// yet, will leave the ISR as if it had lost something. One that got an empty disk since then has lost its part in the
// partition already: whatever the ISR says of it, it comes back with nothing, and will not even be elected as the last leader.
func (s *simulation) begin(img *metadata.Image, t *metadata.Topic, p int32) {
	id := partitionID{TopicID: t.ID, Partition: p}
	s.know(id, kafka.TopicPartition{Topic: t.Name, Partition: p})
	unclean := 0
	for _, broker := range t.Partition(p).Replicas {
		if n := s.node(broker); n.unclean {
			n.lossy[id] = n.wiped
			unclean++
		}
	}
	h := s.check.partitions[id]
	h.copies = s.needed(img, t, p)
	h.mayStand = unclean > h.copies-1
	s.hold(img, id, t)
}

// needed is how many members the ISR of a partition must have for records to become visible.
func (s *simulation) needed(img *metadata.Image, t *metadata.Topic, p int32) int {
	return min(s.minISR(img, t.Name), len(t.Partition(p).Replicas))
}

// hold notes that the ISR of a partition has so many. Where it is to get more replicas it may need more of them than have what
// was visible before: these are all that there is of it, until the ISR is as large.
func (s *simulation) hold(img *metadata.Image, id partitionID, t *metadata.Topic) {
	h, needed := s.check.partitions[id], s.needed(img, t, id.Partition)
	if len(t.Partition(id.Partition).ISR) >= needed {
		h.held, h.copies = true, needed
	} else {
		h.copies = min(h.copies, needed)
	}
}

func (s *simulation) change(id partitionID, tp kafka.TopicPartition, old, now *metadata.PartitionRegistration) {
	s.w.tracef("  %v leader=%d epoch=%d.%d isr=%v elr=%v last=%v recovery=%d replicas=%v+%v-%v", tp, now.Leader, now.LeaderEpoch, now.PartitionEpoch,
		now.ISR, now.ELR, now.LastKnownELR, now.RecoveryState, now.Replicas, now.Adding, now.Removing)
	s.countReassignment(old, now)
	moved := now.Leader != old.Leader
	switch {
	case now.PartitionEpoch <= old.PartitionEpoch:
		s.check.violate("epochs", id, "%v changed, and its partition epoch went from %d to %d", tp, old.PartitionEpoch, now.PartitionEpoch)
	case now.LeaderEpoch < old.LeaderEpoch, moved && now.LeaderEpoch == old.LeaderEpoch:
		s.check.violate("epochs", id, "%v went from leader %d to %d, and its leader epoch from %d to %d", tp, old.Leader, now.Leader, old.LeaderEpoch, now.LeaderEpoch)
	case now.Leader != kafka.NoBroker && !now.InISR(now.Leader):
		s.check.violate("epochs", id, "%v has the leader %d and the ISR %v", tp, now.Leader, now.ISR)
	}
	switch {
	case moved && now.Leader == kafka.NoBroker:
		s.rare.count(rareLeaderless)
	case moved && slices.Contains(old.LastKnownELR, now.Leader) && now.RecoveryState == metadata.Recovering:
		s.rare.count(rareLastKnownLeader)
	case moved && now.RecoveryState == metadata.Recovering && old.RecoveryState != metadata.Recovering:
		s.rare.count(rareUnclean)
	case moved && !old.InISR(now.Leader) && slices.Contains(old.ELR, now.Leader):
		s.rare.count(rareElectedFromELR)
	}
	if !moved && len(now.ISR) > len(old.ISR) {
		s.rare.count(rareISRExpanded)
	}
	if !moved && len(now.ISR) < len(old.ISR) && s.allActive(old.ISR) {
		s.rare.count(rareISRShrunk)
	}
}

// allActive reports whether the brokers are neither fenced nor on their way out, by the image before.
func (s *simulation) allActive(ids []kafka.BrokerID) bool {
	return !slices.ContainsFunc(ids, func(id kafka.BrokerID) bool {
		b, ok := s.newest.Brokers.ByID(id)
		return !ok || !b.Active()
	})
}

func (s *simulation) brokerChanged(img *metadata.Image, c metadata.BrokerChange) {
	if c.New == nil {
		return
	}
	b := c.New
	s.w.tracef("  broker %d epoch=%d fenced=%v shutdown=%v", b.ID, b.Epoch, b.Fenced, b.InControlledShutdown)
	if c.Old == nil || c.Old.Epoch != b.Epoch || c.Old.Fenced || !b.Fenced {
		return
	}
	n := s.node(b.ID)
	s.checkFenced(img, b)
	switch silent := s.w.now - n.died; {
	case b.InControlledShutdown || n.stopped:
		s.rare.count(rareControlledShutdown)
	case !n.host.running && silent < min(s.c.session-s.c.heartbeat, time.Second):
		s.rare.count(rareFencedByEvidence)
	default:
		s.rare.count(rareFencedBySession)
	}
}
