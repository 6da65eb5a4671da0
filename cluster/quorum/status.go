package quorum

import (
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Status is where the quorum stands, as far as this node knows.
type Status struct {
	Leadership
	// HighWatermark is the offset (exclusive) up to which the log is committed.
	HighWatermark int64
	// Voters and Learners are in the order of their Raft ids. Only a leader knows how far they have come.
	Voters, Learners []Replica
}

// Replica is one member's copy of the log. Times are the leader's, of others than itself; zero where they are not known.
type Replica struct {
	RaftID       uint64
	LogEndOffset int64     // exclusive; -1 where it is not known
	LastContact  time.Time // its last answer
	LastCaughtUp time.Time // when it last had all that there was
	SteadySince  time.Time // it has answered since, without a longer break than an election timeout, and been close behind
}

// Status looks at Raft. The result is the caller's.
func (n *Node) Status() *Status {
	basic := n.raft.BasicStatus()
	s := &Status{Leadership: n.lead, HighWatermark: min(int64(basic.HardState.GetCommit())+1, n.storage.log.EndOffset())}
	n.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		r := Replica{RaftID: id, LogEndOffset: n.logEnd(id, basic.RaftState, p.Match)}
		if f := n.follower(id); f != nil {
			r.LastContact, r.LastCaughtUp, r.SteadySince = f.contact, f.caughtUp, f.steady
		}
		if kind == raft.ProgressTypeLearner {
			s.Learners = append(s.Learners, r)
		} else {
			s.Voters = append(s.Voters, r)
		}
	})
	return s
}

// logEnd is how far a member's log is known to go.
func (n *Node) logEnd(id uint64, state raft.StateType, match uint64) int64 {
	switch {
	case id == n.RaftID():
		return n.storage.log.EndOffset()
	case state == raft.StateLeader && match > 0: // 0: it has not answered in this term
		return int64(match) + 1
	}
	return -1
}

// Match is the offset (exclusive) up to which a member has the log, as the leader knows; -1 where it is not known.
func (n *Node) Match(id uint64) int64 {
	end := int64(-1)
	state := n.raft.BasicStatus().RaftState
	n.raft.WithProgress(func(member uint64, _ raft.ProgressType, p tracker.Progress) {
		if member == id {
			end = n.logEnd(id, state, p.Match)
		}
	})
	return end
}
