package tracker

import (
	"slices"
	"time"

	"weir/internal/invariant"
	"weir/internal/kafka"
	"weir/internal/mutant"
)

// Options are the same for all partitions of a broker. All fields are required.
type Options struct {
	Self   kafka.BrokerID
	MaxLag time.Duration // replica.lag.time.max.ms
	// Brokers finds a registered broker, as the metadata knows it. It is called at every decision that depends on it.
	Brokers func(kafka.BrokerID) (Broker, bool)
}

// Broker is the present incarnation of a broker.
type Broker struct {
	Epoch  kafka.BrokerEpoch
	Active bool // neither fenced nor shutting down: it may be in an ISR (KIP-841)
}

// Registration is what the controller has decided of the partition. Self is in ISR and in Replicas.
type Registration struct {
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	Replicas, ISR  []kafka.BrokerID
	Recovering     bool // the leader was elected uncleanly and is to say that it has recovered (KIP-704)
}

// Leader is the leader's view of a partition's replicas in one leader epoch.
type Leader struct {
	Options
	leaderEpoch    kafka.LeaderEpoch
	partitionEpoch kafka.PartitionEpoch // of the committed state, by the metadata or by the controller's answer
	epochStart     int64                // log end when the leadership began
	replicas       int
	minISR         int              // as configured
	isr            []kafka.BrokerID // committed
	recovering     bool             // committed
	pending        change           // of the committed state; its zero value if there is none
	changes        uint64           // that were ever pending
	maximalISR     []kafka.BrokerID
	followers      []follower // in the order of the replicas
	highWatermark  int64
}

// NewLeader begins a leadership at a log end of epochStart. Nothing is known of the followers before they fetch, and the
// high watermark is the one that the log had.
func NewLeader(o Options, now time.Time, r Registration, minISR int, epochStart, highWatermark int64) *Leader {
	l := &Leader{Options: o, leaderEpoch: r.LeaderEpoch, epochStart: epochStart, highWatermark: highWatermark}
	l.commit(r.PartitionEpoch, r.ISR, r.Recovering)
	l.assign(r.Replicas, minISR, now)
	l.tryRecover()
	return l
}

// Update takes a registration of the same leader epoch. A partition epoch below the known one is late and ignored; of the
// known one only the replicas are news, since the controller's answer to a proposal told the rest.
func (l *Leader) Update(now time.Time, r Registration, minISR int) {
	if r.PartitionEpoch < l.partitionEpoch {
		return
	}
	// With the known epoch a pending change stays so, too: it may be on its way to the controller, and who joins by it must
	// count until that has answered.
	if r.PartitionEpoch > l.partitionEpoch {
		l.commit(r.PartitionEpoch, r.ISR, r.Recovering)
	}
	l.assign(r.Replicas, minISR, now)
	l.tryRecover()
}

// SetMinISR takes min.insync.replicas as it is configured. A topic with fewer replicas never refuses for it.
func (l *Leader) SetMinISR(minISR int) { l.minISR = minISR }

// commit takes what the controller has decided; that ends what was pending.
func (l *Leader) commit(epoch kafka.PartitionEpoch, isr []kafka.BrokerID, recovering bool) {
	invariant.Assert(slices.Contains(isr, l.Self), "leader %d is not in its ISR %v", l.Self, isr)
	l.partitionEpoch, l.isr, l.recovering = epoch, slices.Clone(isr), recovering
	l.pending = change{}
	l.recount()
}

// assign takes the replicas; who stays keeps the progress that is known of it.
func (l *Leader) assign(replicas []kafka.BrokerID, minISR int, now time.Time) {
	followers := make([]follower, 0, len(replicas))
	for _, id := range replicas {
		if id == l.Self {
			continue
		}
		if f := l.follower(id); f != nil {
			followers = append(followers, *f)
		} else {
			followers = append(followers, newFollower(id, slices.Contains(l.isr, id), now))
		}
	}
	l.followers, l.replicas, l.minISR = followers, len(replicas), minISR
	l.recount()
}

// recount finds the maximal ISR: every replica that the controller may count as in sync, whatever became of what is pending
// (KIP-497).
func (l *Leader) recount() {
	l.maximalISR = l.isr
	if l.pending.kind == expandISR && !mutant.Is("expandNotCounted") || l.pending.kind == shrinkISR && mutant.Is("shrinkEarly") {
		l.maximalISR = l.pending.isr
	}
	for i := range l.followers {
		l.followers[i].inMaximal = slices.Contains(l.maximalISR, l.followers[i].id)
	}
}

// LeaderEpoch is the epoch of this leadership.
func (l *Leader) LeaderEpoch() kafka.LeaderEpoch { return l.leaderEpoch }

// ISR returns the committed in-sync set; it must not be changed.
func (l *Leader) ISR() []kafka.BrokerID { return l.isr }

// MaximalISR returns the in-sync set with whoever may be in it by now; it must not be changed.
func (l *Leader) MaximalISR() []kafka.BrokerID { return l.maximalISR }

// MinISR is the minimum in force.
func (l *Leader) MinISR() int { return min(l.minISR, l.replicas) }

// UnderMinISR reports whether acks=all must be refused (NOT_ENOUGH_REPLICAS).
func (l *Leader) UnderMinISR() bool { return len(l.isr) < l.MinISR() }

// HighWatermark returns the offset (exclusive) up to which every in-sync replica has the records.
func (l *Leader) HighWatermark() int64 { return l.highWatermark }

// Advance moves the high watermark to where the slowest of those that count is, and returns it. localEnd is how far this
// replica's own records count, as the fsync policy wants it. To be called whenever anything that it depends on may have
// changed: the log's end, a follower's progress, the ISR or its minimum, the brokers.
func (l *Leader) Advance(now time.Time, localEnd int64) int64 {
	if l.UnderMinISR() && !mutant.Is("hwUnderMinISR") {
		return l.highWatermark
	}
	low := localEnd
	for i := range l.followers {
		if f := &l.followers[i]; f.LogEnd < low && (f.inMaximal || l.awaited(f, now)) {
			low = f.LogEnd
		}
	}
	l.highWatermark = max(l.highWatermark, low)
	return l.highWatermark
}

// awaited reports whether the high watermark waits for a follower that is not in sync: it has kept up of late and may join,
// which a leader that is alone in its ISR could else put off for ever by taking more and more records.
func (l *Leader) awaited(f *follower, now time.Time) bool {
	return now.Sub(f.LastCaughtUp) <= l.MaxLag && l.eligible(f) && !mutant.Is("expandNotCounted")
}

// eligible reports whether the follower's broker may be in an ISR, and is still the incarnation that fetched (KIP-841,
// KIP-903).
func (l *Leader) eligible(f *follower) bool {
	b, registered := l.Brokers(f.id)
	return registered && b.Active && (b.Epoch == f.BrokerEpoch || mutant.Is("noBrokerEpoch"))
}
