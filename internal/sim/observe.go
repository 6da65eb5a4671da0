package sim

import (
	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/log"
	"weir/protocol/batch"
)

// observed is a replica of a process, as it was seen last.
type observed struct {
	id        partitionID
	partition *replica.Partition
	log       *log.Log
	start     int64
	end       int64
	verified  int64 // below it, what is visible was shown to the checker
	truncated kafka.LeaderEpoch
}

// watchPartitions takes note of the replicas that the process has by now.
func (p *process) watchPartitions(img *metadata.Image) {
	old := make(map[*replica.Partition]*observed, len(p.parts))
	for _, o := range p.parts {
		old[o.partition] = o
	}
	p.parts = p.parts[:0]
	for _, partition := range p.replicas.All() {
		o := old[partition]
		if o == nil {
			id := partitionID{TopicID: partition.TopicID(), Partition: partition.TP().Partition}
			p.s.know(id, partition.TP())
			l := partition.Log()
			o = &observed{id: id, partition: partition, log: l, end: l.EndOffset(), verified: l.StartOffset(), truncated: kafka.NoLeaderEpoch}
		}
		p.parts = append(p.parts, o)
	}
}

// observe looks at what changed of the replicas.
func (p *process) observe() {
	for _, o := range p.parts {
		end := o.log.EndOffset()
		if end < o.end {
			p.truncated(o, end)
		}
		o.end = end
		hw := o.log.HighWatermark()
		if hw > o.verified {
			p.show(o, hw)
		}
		if start := o.log.StartOffset(); start > o.start {
			o.start = start
			p.s.check.deleted(o.id, start)
		}
		if epoch := o.partition.LeaderEpoch(); epoch != kafka.NoLeaderEpoch {
			p.s.check.leads(o.id, epoch, p.n.id)
			p.s.check.watermark(o.id, epoch, hw)
		}
	}
}

// truncated notes that a log was cut.
func (p *process) truncated(o *observed, end int64) {
	p.s.w.tracef("n%d cuts %v from %d to %d", p.n.id, o.partition.TP(), o.end, end)
	p.s.w.mix(uint64(end))
	p.s.rare.count(rareTruncated)
	if epoch := o.log.LatestEpoch(); epoch == o.truncated { // twice without a record of a new leader between
		p.s.rare.count(rareSecondRound)
	} else {
		o.truncated = epoch
	}
	o.verified = min(o.verified, end)
}

// show gives the checker what has become visible.
func (p *process) show(o *observed, hw int64) {
	if start := o.log.StartOffset(); o.verified < start {
		p.s.check.deleted(o.id, start)
		o.verified = start
	}
	for o.verified < hw {
		records, err := o.log.Read(log.ReadRequest{Offset: o.verified, MaxBytes: 1 << 20, EndOffset: hw, AtLeastOne: true})
		if err != nil {
			return // offline, or on its way to be deleted
		}
		b, err := take(records)
		if err != nil || len(b) == 0 {
			return
		}
		for one, err := range batch.Batches(b) {
			if err != nil {
				p.s.check.violate("corrupt", o.id, "offset %d of %v on broker %d: %v", o.verified, o.partition.TP(), p.n.id, err)
				return
			}
			o.verified = p.s.check.visibleBatch(p.n.id, o.id, o.verified, one)
		}
	}
}
