package tracker

import (
	"slices"
	"time"

	"weir/internal/kafka"
	"weir/internal/mutant"
)

// changeKind says what a pending change is to bring about.
type changeKind int

const (
	noChange    changeKind = iota
	expandISR              // by one replica
	shrinkISR              // by those that lag
	endRecovery            // the ISR stays: the leader has recovered from an unclean election
)

// change is what the leader wants of the controller and has no answer to yet.
type change struct {
	kind   changeKind
	number uint64           // no two changes of a Leader have the same
	isr    []kafka.BrokerID // as it shall be
	// members are isr with the incarnations that the change was decided on: of another one, that has come since, the
	// controller must not be told that it has what the one before had.
	members []Member
}

// Proposal is a pending change as the controller is asked for it (AlterPartition).
type Proposal struct {
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	ISR            []Member // must not be changed
	Growth         int      // how many more members the ISR would have; negative where it would shrink
	change         uint64
}

// Member is a replica of a proposed ISR, with the epoch of the incarnation that fetched; -1 is not checked.
type Member struct {
	Broker kafka.BrokerID
	Epoch  kafka.BrokerEpoch
}

// Answer is what the controller says to a Proposal: with NONE, what the partition is now.
type Answer struct {
	Code           kafka.Code
	Leader         kafka.BrokerID
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	ISR            []kafka.BrokerID
	Recovering     bool
}

// TryExpand proposes that a follower joins the ISR, if it may: its broker is active and still the one that fetched, and it
// has what is committed and all that this leader began with. Without the latter it could lack what an earlier leader
// committed and this one has not yet seen committed (KAFKA-7128). It reports whether there is a new change to propose.
func (l *Leader) TryExpand(replica kafka.BrokerID) bool {
	f := l.follower(replica)
	if f == nil || f.inMaximal || l.Pending() || f.LogEnd < l.highWatermark {
		return false
	}
	if f.LogEnd < l.epochStart && !mutant.Is("noLeaderEpochStart") || !l.eligible(f) {
		return false
	}
	l.begin(expandISR, append(slices.Clone(l.isr), replica))
	return true
}

// Check proposes what time has made due: that followers which lag leave the ISR, or, once more, that the leader has
// recovered. leaderEnd is the log's end. It reports whether there is a new change to propose.
func (l *Leader) Check(now time.Time, leaderEnd int64) bool {
	if l.Pending() {
		return false
	}
	if l.tryRecover() {
		return true
	}
	for i := range l.followers {
		if f := &l.followers[i]; f.inMaximal && l.lags(&f.Progress, now, leaderEnd) {
			l.begin(shrinkISR, l.keepingUp(now, leaderEnd))
			return true
		}
	}
	return false
}

// keepingUp is the ISR without those that lag, in its order.
func (l *Leader) keepingUp(now time.Time, leaderEnd int64) []kafka.BrokerID {
	return slices.DeleteFunc(slices.Clone(l.isr), func(id kafka.BrokerID) bool {
		if id == l.Self {
			return false
		}
		f := l.follower(id)
		return f == nil || l.lags(&f.Progress, now, leaderEnd)
	})
}

// tryRecover proposes that the partition has recovered: this leader's records are what there is. Before that is known no
// other replica may join the ISR (KIP-704).
func (l *Leader) tryRecover() bool {
	if !l.recovering || l.Pending() {
		return false
	}
	l.begin(endRecovery, l.isr)
	return true
}

func (l *Leader) begin(kind changeKind, isr []kafka.BrokerID) {
	l.changes++
	l.pending = change{kind: kind, number: l.changes, isr: isr, members: make([]Member, len(isr))}
	for i, id := range isr {
		l.pending.members[i] = Member{Broker: id, Epoch: l.brokerEpoch(id)}
	}
	l.recount()
}

// Pending reports whether a change waits for the controller's answer, or for the metadata that will tell.
func (l *Leader) Pending() bool { return l.pending.kind != noChange }

// Proposal returns the pending change, if there is one; it is the same as long as the change is pending.
func (l *Leader) Proposal() (p Proposal, ok bool) {
	if !l.Pending() {
		return Proposal{}, false
	}
	return Proposal{LeaderEpoch: l.leaderEpoch, PartitionEpoch: l.partitionEpoch, ISR: l.pending.members, Growth: len(l.pending.isr) - len(l.isr),
		change: l.pending.number}, true
}

// brokerEpoch is the incarnation that fetched. Of a member of the ISR that has not fetched yet none is known, and needs
// none: it is a member by the controller's own word, which would have ended with its incarnation.
func (l *Leader) brokerEpoch(id kafka.BrokerID) kafka.BrokerEpoch {
	if mutant.Is("noBrokerEpoch") {
		return unknownBrokerEpoch
	}
	if f := l.follower(id); f != nil {
		return f.BrokerEpoch
	}
	if b, ok := l.Brokers(id); ok && id == l.Self {
		return b.Epoch
	}
	return unknownBrokerEpoch
}

// Answered takes the controller's answer to a proposal, or, as a code, why there is none. It does nothing if the change is
// no longer pending: the metadata told meanwhile. It reports whether the same proposal is to be made again: until there is
// a definite answer the controller may have taken it, or may yet, so that the change has to stay pending.
func (l *Leader) Answered(p Proposal, a Answer) (again bool) {
	if p.LeaderEpoch != l.leaderEpoch || p.change != l.pending.number || !l.Pending() {
		return false
	}
	switch a.Code {
	case kafka.None:
		if a.Leader == l.Self && a.LeaderEpoch == l.leaderEpoch && a.PartitionEpoch >= l.partitionEpoch && slices.Contains(a.ISR, l.Self) {
			l.commit(a.PartitionEpoch, a.ISR, a.Recovering)
		}
	case kafka.IneligibleReplica, kafka.OperationNotAttempted:
		// The controller says two things: the partition epoch is right, and the change was not made, now or ever.
		l.pending = change{}
		l.recount()
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicID, kafka.FencedLeaderEpoch, kafka.InvalidUpdateVersion, kafka.InvalidRequest, kafka.NewLeaderElected:
		// Something changed that this broker does not know of yet. What that is, and whether the change is part of it, the
		// metadata will tell.
	default:
		return true
	}
	return false
}
