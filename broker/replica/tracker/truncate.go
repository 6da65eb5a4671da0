package tracker

import "weir/internal/kafka"

// EpochEnd is a leader epoch and the offset where it ends in a log (exclusive).
type EpochEnd struct {
	Epoch kafka.LeaderEpoch
	End   int64
}

// TruncationPoint decides where a follower cuts its log that has left the leader's (KIP-101, KIP-279). leader is the
// largest epoch that the leader knows of those up to the follower's last one, own the largest one of the follower's that
// is not above it (Epoch is NoLeaderEpoch where there is none), logEnd the follower's log end.
//
// again says that the logs may still differ below offset: the follower does not know the leader's epoch, so that the cut
// takes away what it has of later ones, and its next fetch, with an older epoch, tells more.
func TruncationPoint(leader, own EpochEnd, logEnd int64) (offset int64, again bool) {
	switch own.Epoch {
	case leader.Epoch:
		return min(own.End, leader.End, logEnd), false
	case kafka.NoLeaderEpoch:
		return min(leader.End, logEnd), false
	default:
		return min(own.End, logEnd), true
	}
}
