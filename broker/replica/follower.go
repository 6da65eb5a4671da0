package replica

import (
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// following is what a partition knows while another broker leads it; the zero value while this one does, or none.
// Guarded by the partition's lock.
type following struct {
	is     bool
	leader kafka.BrokerID
	epoch  kafka.LeaderEpoch
}

// followLocked has the partition follow whoever leads it. Partition.apply calls it, with the partition's lock, for every
// registration that does not name this broker as the leader, after what this broker may have led is resigned; the leader
// may be kafka.NoBroker.
func (p *Partition) followLocked(r metadata.PartitionRegistration) {
	p.mu.following = following{is: r.Leader != kafka.NoBroker, leader: r.Leader, epoch: r.LeaderEpoch}
}
