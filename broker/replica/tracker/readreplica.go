package tracker

import (
	"slices"

	"weir/internal/kafka"
)

// ReadReplica picks the follower that a consumer at the offset shall read from (KIP-392), as Kafka's RackAwareReplicaSelector
// does: among those that are near to the consumer, in the ISR and have the offset, the one that has most; then the one that
// caught up last; then that with the highest id. Who is not in sync would have the consumer fall behind, too, and would be
// picked again. It returns NoBroker if there is none.
func (l *Leader) ReadReplica(offset int64, near func(kafka.BrokerID) bool) kafka.BrokerID {
	var best *follower
	for i := range l.followers {
		f := &l.followers[i]
		if f.LogEnd < offset || f.LogStart > offset || !slices.Contains(l.isr, f.id) || !near(f.id) {
			continue
		}
		if best == nil || best.before(f) {
			best = f
		}
	}
	if best == nil {
		return kafka.NoBroker
	}
	return best.id
}

// before reports whether other is the better one to read from.
func (f *follower) before(other *follower) bool {
	if f.LogEnd != other.LogEnd {
		return f.LogEnd < other.LogEnd
	}
	if c := f.LastCaughtUp.Compare(other.LastCaughtUp); c != 0 {
		return c < 0
	}
	return f.id < other.id
}
