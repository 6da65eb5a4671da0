package tracker

import (
	"time"

	"weir/internal/kafka"
	"weir/internal/mutant"
)

const (
	// unknownOffset is a follower's log start and end before it has fetched in this leadership.
	unknownOffset = -1
	// unknownBrokerEpoch is that of a follower that has not told which incarnation it is; the controller does not check it.
	unknownBrokerEpoch kafka.BrokerEpoch = -1
)

// Progress is how far a follower has come, as its fetches tell.
type Progress struct {
	LogEnd      int64             // exclusive: it has everything below, as the fsync policy counts; -1 before its first fetch
	LogStart    int64             // -1 before its first fetch
	BrokerEpoch kafka.BrokerEpoch // of the incarnation that fetched; -1 where it did not say
	LastFetch   time.Time
	// LeaderEndAtLastFetch is the leader's own log end at that time.
	LeaderEndAtLastFetch int64
	// LastCaughtUp is the latest time of which it is known that the follower has everything that the leader had then.
	LastCaughtUp time.Time
}

// follower is another replica of the partition.
type follower struct {
	id        kafka.BrokerID
	inMaximal bool // it is in the maximal ISR
	Progress
}

// newFollower has not fetched yet. What is in the ISR has until now plus the largest lag to do so.
func newFollower(id kafka.BrokerID, inISR bool, now time.Time) follower {
	f := follower{id: id, Progress: Progress{LogEnd: unknownOffset, LogStart: unknownOffset, BrokerEpoch: unknownBrokerEpoch}}
	if inISR {
		f.LastCaughtUp = now
	}
	return f
}

// Fetch is what a follower's fetch says of it.
type Fetch struct {
	Replica     kafka.BrokerID
	BrokerEpoch kafka.BrokerEpoch // -1 where the request does not say (KIP-903)
	Offset      int64             // the follower has everything below, and the leader has the offset
	LogStart    int64             // of the follower
	LeaderEnd   int64             // the leader's log end before it read for this fetch
	Time        time.Time
}

// Fetched takes a follower's progress from a fetch in this leader epoch that was not answered with a divergence
// (KAFKA-13141). It reports false, and takes nothing, if the replica is none of the partition's, its broker is not
// registered, or the fetch does not come from its present incarnation (KIP-903); Kafka takes what does not say.
func (l *Leader) Fetched(f Fetch) bool {
	p := l.follower(f.Replica)
	if p == nil {
		return false
	}
	broker, registered := l.Brokers(f.Replica)
	if !registered || f.BrokerEpoch < max(broker.Epoch, p.BrokerEpoch) && !mutant.Is("noBrokerEpoch") {
		return false
	}
	if p.BrokerEpoch != unknownBrokerEpoch && f.BrokerEpoch > p.BrokerEpoch {
		// The incarnation before kept up; this one may have begun with nothing, and nothing waits for it until it has caught up.
		p.Progress = newFollower(p.id, false, f.Time).Progress
	}
	switch {
	case f.Offset >= f.LeaderEnd:
		p.caughtUpAt(f.Time)
	case f.Offset >= p.LeaderEndAtLastFetch: // what came since need not be there: else no follower would be in sync under load
		p.caughtUpAt(p.LastFetch)
	}
	p.LogEnd, p.LogStart, p.BrokerEpoch = f.Offset, f.LogStart, f.BrokerEpoch
	p.LastFetch, p.LeaderEndAtLastFetch = f.Time, max(p.LeaderEndAtLastFetch, f.LeaderEnd)
	return true
}

func (p *Progress) caughtUpAt(t time.Time) {
	if t.After(p.LastCaughtUp) {
		p.LastCaughtUp = t
	}
}

// lags reports whether a follower has had less than the leader for too long: it is stuck, or too slow.
func (l *Leader) lags(p *Progress, now time.Time, leaderEnd int64) bool {
	return p.LogEnd != leaderEnd && now.Sub(p.LastCaughtUp) > l.MaxLag
}

// Progress returns how far a follower has come; false for what is none.
func (l *Leader) Progress(replica kafka.BrokerID) (Progress, bool) {
	if f := l.follower(replica); f != nil {
		return f.Progress, true
	}
	return Progress{}, false
}

// follower finds one by its id: there are few.
func (l *Leader) follower(id kafka.BrokerID) *follower {
	for i := range l.followers {
		if l.followers[i].id == id {
			return &l.followers[i]
		}
	}
	return nil
}

// LowWatermark is the smallest log start of this replica, whose own is localStart, and of the followers that are active:
// below it records are gone everywhere.
func (l *Leader) LowWatermark(localStart int64) int64 {
	low := localStart
	for i := range l.followers {
		f := &l.followers[i]
		if f.LogStart >= low {
			continue
		}
		if b, registered := l.Brokers(f.id); registered && b.Active {
			low = f.LogStart
		}
	}
	return low
}
