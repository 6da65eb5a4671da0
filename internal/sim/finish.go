package sim

import (
	"fmt"
	"slices"
	"time"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/log"
	"weir/protocol/batch"
)

// watchInterval is how often what the metadata says of replicas is compared with them.
const watchInterval = 100 * time.Millisecond

// watch compares, over and over, what the metadata says with what there is.
func (s *simulation) watch() {
	s.w.after(watchInterval, func() {
		s.checkMembers()
		s.checkSilent()
		s.watch()
	})
}

// checkMembers checks that whoever may become a leader without loss has all that was ever visible.
func (s *simulation) checkMembers() {
	for t := range s.newest.Topics.All() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			id := partitionID{TopicID: t.ID, Partition: int32(i)}
			for _, member := range p.ISR {
				s.checkMember(id, member, "ISR")
			}
			for _, member := range p.ELR {
				s.checkMember(id, member, "ELR")
			}
			if p.Leader != kafka.NoBroker && len(p.ISR) < min(len(p.Replicas), s.minISR(s.newest, t.Name)) {
				if o := s.observed(p.Leader, t.ID, int32(i)); o != nil && o.log.HighWatermark() < o.log.EndOffset() {
					s.rare.count(rareHeldByMinISR)
				}
			}
		}
	}
}

func (s *simulation) checkMember(id partitionID, broker kafka.BrokerID, role string) {
	n := s.node(broker)
	if end, known := n.logEnd(id); known && !n.lossy[id] {
		s.check.holds(id, broker, role, end)
	}
}

// logEnd is where a node's log of a partition ends. It is unknown while no process has it open.
func (n *node) logEnd(id partitionID) (end int64, known bool) {
	if n.proc == nil {
		return 0, false
	}
	for _, o := range n.proc.parts {
		if o.id == id && o.log.Offline() == nil {
			return o.log.EndOffset(), true
		}
	}
	return 0, false
}

// unsettled says what is still to be done before the cluster is at rest; "" for nothing.
func (s *simulation) unsettled() string {
	for _, n := range s.nodes {
		if n.proc == nil {
			return fmt.Sprintf("%v does not run", n)
		}
		if index := n.proc.image().Index; index != s.newest.Index {
			return fmt.Sprintf("%v is at index %d of %d", n, index, s.newest.Index)
		}
		b, ok := s.newest.Brokers.ByID(n.id)
		if !ok || !b.Active() || b.Incarnation != n.incarnation {
			return fmt.Sprintf("%v is not active", n)
		}
	}
	if why := s.unsettledMembers(); why != "" {
		return why
	}
	for t := range s.newest.Topics.All() {
		for i := range t.Partitions {
			if why := s.unsettledPartition(t, int32(i)); why != "" {
				return fmt.Sprintf("%s-%d: %s", t.Name, i, why)
			}
		}
	}
	for _, p := range s.producers {
		if n := p.waiting(s); n > 0 {
			return fmt.Sprintf("producer %d has no answer to %d batches", p.log.index, n)
		}
	}
	return ""
}

func (s *simulation) unsettledPartition(t *metadata.Topic, i int32) string {
	p := t.Partition(i)
	if s.stands(partitionID{TopicID: t.ID, Partition: i}) {
		return ""
	}
	if p.Leader == kafka.NoBroker {
		return fmt.Sprintf("no leader; ISR %v, ELR %v, last known %v, replicas %v", p.ISR, p.ELR, p.LastKnownELR, p.Replicas)
	}
	if len(p.ISR) != len(p.Replicas) || len(p.Adding)+len(p.Removing) > 0 || p.RecoveryState != metadata.Recovered {
		return fmt.Sprintf("leader %d, ISR %v of %v, recovery state %d", p.Leader, p.ISR, p.Replicas, p.RecoveryState)
	}
	leader := s.observed(p.Leader, t.ID, i)
	if leader == nil || leader.partition.LeaderEpoch() != p.LeaderEpoch {
		return fmt.Sprintf("broker %d does not lead in epoch %d", p.Leader, p.LeaderEpoch)
	}
	end := leader.log.EndOffset()
	for _, id := range p.Replicas {
		r := s.observed(id, t.ID, i)
		if r == nil || r.log.EndOffset() != end || r.log.HighWatermark() != end {
			return fmt.Sprintf("the replica of broker %d is not where the leader is, at %d", id, end)
		}
	}
	return ""
}

// stands reports whether a partition has no leader, and may stay so. There are two cases. Too many of its replicas came back
// from a loss of power or of a disk of which the controller had not heard when it made the partition: nobody can tell that
// these have lost nothing. Or its ISR never had min.insync.replicas members, as where the others are away when the partition is
// made, and who was in it lost its disk; then nothing was acknowledged, and nothing ever became visible, or this is no excuse.
func (s *simulation) stands(id partitionID) bool {
	t, known := s.newest.Topics.ByID(id.TopicID)
	if !known || t.Partition(id.Partition) == nil || t.Partition(id.Partition).Leader != kafka.NoBroker {
		return false
	}
	h := s.check.partitions[id]
	return h.mayStand || !h.held && h.end() == 0
}

func (s *simulation) observed(broker kafka.BrokerID, topic kafka.TopicID, partition int32) *observed {
	proc := s.node(broker).proc
	if proc == nil {
		return nil
	}
	i := slices.IndexFunc(proc.parts, func(o *observed) bool { return o.id == replica.TopicIDPartition{TopicID: topic, Partition: partition} })
	if i < 0 {
		return nil
	}
	return proc.parts[i]
}

// finish checks the cluster at rest: every replica, record by record.
func (s *simulation) finish() {
	for t := range s.newest.Topics.All() {
		for i := range t.Partitions {
			if id := (partitionID{TopicID: t.ID, Partition: int32(i)}); s.stands(id) {
				s.finishStanding(id, &t.Partitions[i])
			} else {
				s.finishPartition(id, &t.Partitions[i])
			}
		}
	}
}

// finishStanding checks a partition that has no leader. Its replicas were not made equal, and what the log of each has above its
// high watermark was never visible; what is below was checked when it became so. But all that was is on some replica.
func (s *simulation) finishStanding(id partitionID, p *metadata.PartitionRegistration) {
	h := s.check.partitions[id]
	has := func(broker kafka.BrokerID) bool {
		o := s.observed(broker, id.TopicID, id.Partition)
		return o != nil && o.log.EndOffset() >= h.end()
	}
	if !h.mayLose && !slices.ContainsFunc(p.Replicas, has) {
		s.check.violate("lost-write", id, "%v has no leader, and none of its replicas has all up to %d, which was visible", h.id, h.end())
	}
}

func (s *simulation) finishPartition(id partitionID, p *metadata.PartitionRegistration) {
	var first []storedBatch
	for j, broker := range p.Replicas {
		o := s.observed(broker, id.TopicID, id.Partition)
		if o == nil {
			continue // which unsettled has told
		}
		s.countEpochs(o.log)
		batches := s.finalReplica(broker, id, o.log)
		if j == 0 {
			first = batches
		} else if !sameBatches(first, batches) {
			s.check.violate("replicas-differ", id, "%v differs on brokers %d and %d", s.check.partitions[id].id, p.Replicas[0], broker)
		}
	}
}

// storedBatch is a batch of a replica.
type storedBatch struct {
	baseOffset int64
	identity   uint64
}

// sameBatches reports whether two replicas have the same batches, from where both of them begin.
func sameBatches(a, b []storedBatch) bool {
	begin := int64(0)
	for _, batches := range [][]storedBatch{a, b} {
		if len(batches) > 0 {
			begin = max(begin, batches[0].baseOffset)
		}
	}
	from := func(batches []storedBatch) []storedBatch {
		i := slices.IndexFunc(batches, func(one storedBatch) bool { return one.baseOffset >= begin })
		return batches[max(i, 0):]
	}
	return slices.Equal(from(a), from(b))
}

// countEpochs counts what the leader epochs of a log show: epochs without records, and epochs that it never had.
func (s *simulation) countEpochs(l *log.Log) {
	if l.SegmentCount() > 1 {
		s.rare.count(rareSegmentsRolled)
	}
	if l.StartOffset() > 0 {
		s.rare.count(rareSegmentsDeleted)
	}
	before := int64(-1)
	for e := kafka.LeaderEpoch(0); e <= l.LatestEpoch(); e++ {
		switch known, end := l.EndOffsetForEpoch(e); {
		case known != e:
			s.rare.count(rareSkippedEpoch)
		case end == before:
			s.rare.count(rareEmptyEpoch)
		default:
			before = end
		}
	}
}

// finalReplica checks that a replica has what was ever visible, and that its leader epochs are those of its batches. It
// returns what tells its batches apart.
func (s *simulation) finalReplica(broker kafka.BrokerID, id partitionID, l *log.Log) (batches []storedBatch) {
	h := s.check.partitions[id]
	if l.EndOffset() < h.end() && !h.mayLose {
		s.check.violate("lost-write", id, "%v on broker %d ends at %d in the end; %d was visible", h.id, broker, l.EndOffset(), h.end())
	}
	offset := l.StartOffset()
	for offset < l.EndOffset() {
		records, err := l.Read(log.ReadRequest{Offset: offset, MaxBytes: 1 << 20, EndOffset: l.EndOffset(), AtLeastOne: true})
		var b []byte
		if err == nil {
			b, err = take(records)
		}
		if err != nil || len(b) == 0 {
			s.check.violate("unreadable", id, "offset %d of %v on broker %d: %v", offset, h.id, broker, err)
			return batches
		}
		for one, err := range batch.Batches(b) {
			if err != nil {
				s.check.violate("corrupt", id, "offset %d of %v on broker %d: %v", offset, h.id, broker, err)
				return batches
			}
			header, _ := batch.ParseHeader(one) // whole, or Batches would have said so
			// Where the start was moved and a crash moved it back, the epochs of what is there again are gone.
			e := l.EpochForOffset(header.LastOffset())
			if e != kafka.LeaderEpoch(header.LeaderEpoch) && !(e == kafka.NoLeaderEpoch && header.LastOffset() < h.deletedEnd) {
				s.check.violate("epoch-cache", id, "offset %d of %v on broker %d was appended in epoch %d, and the epochs say %d", header.LastOffset(), h.id, broker, header.LeaderEpoch, e)
			}
			batches = append(batches, storedBatch{header.BaseOffset, batchIdentity(&header)})
			offset = s.check.visibleBatch(broker, id, offset, one)
		}
	}
	return batches
}
