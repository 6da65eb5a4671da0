// Package tracker decides, for a partition that this broker leads, how far the in-sync replicas have come: the high
// watermark. It is pure: progress in, offsets out; no clock, no lock, no I/O. replica.Partition owns each Leader under
// its lock and hands what is decided to the log, which keeps and enforces it.
//
// Invariants: the high watermark never exceeds the end of any in-sync replica, never goes back within one leadership,
// and stands still while the in-sync set is smaller than the minimum (KIP-966).
package tracker

import (
	"slices"

	"weir/internal/invariant"
	"weir/internal/kafka"
)

// unknownEnd is the log end of a follower that has not fetched since this leadership began.
const unknownEnd = -1

// Leader is the leader's view of a partition's replicas in one leader epoch.
type Leader struct {
	self          kafka.BrokerID
	ends          map[kafka.BrokerID]int64 // log end offset (exclusive) by replica
	isr           []kafka.BrokerID
	minISR        int
	highWatermark int64
}

// NewLeader begins a leadership: followers' ends are unknown, and the high watermark is the one that the log had.
func NewLeader(self kafka.BrokerID, isr []kafka.BrokerID, minISR int, localEnd, highWatermark int64) *Leader {
	l := &Leader{self: self, highWatermark: highWatermark, ends: map[kafka.BrokerID]int64{self: localEnd}}
	l.SetISR(isr, minISR)
	return l
}

// SetISR takes the committed in-sync set and the minimum in force, and returns the high watermark that follows.
func (l *Leader) SetISR(isr []kafka.BrokerID, minISR int) int64 {
	invariant.Assert(slices.Contains(isr, l.self), "leader %d is not in its ISR %v", l.self, isr)
	l.isr, l.minISR = slices.Clone(isr), minISR
	return l.advance()
}

// ISR returns the committed in-sync set; it must not be changed.
func (l *Leader) ISR() []kafka.BrokerID { return l.isr }

// UnderMinISR reports whether acks=all must be refused (NOT_ENOUGH_REPLICAS).
func (l *Leader) UnderMinISR() bool { return len(l.isr) < l.minISR }

// LogEnd takes how far a replica has come, counted as the fsync policy wants it, and returns the high watermark.
func (l *Leader) LogEnd(replica kafka.BrokerID, end int64) int64 {
	l.ends[replica] = end
	return l.advance()
}

// HighWatermark returns the offset (exclusive) up to which every in-sync replica has the records.
func (l *Leader) HighWatermark() int64 { return l.highWatermark }

func (l *Leader) advance() int64 {
	if l.UnderMinISR() {
		return l.highWatermark
	}
	low := l.ends[l.self]
	for _, id := range l.isr {
		end, ok := l.ends[id]
		if !ok {
			end = unknownEnd
		}
		low = min(low, end)
	}
	l.highWatermark = max(l.highWatermark, low)
	return l.highWatermark
}
