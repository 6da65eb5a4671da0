package quorum

import (
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

// Replica is one member's copy of the log.
type Replica struct {
	RaftID       uint64
	LogEndOffset int64 // exclusive; -1 where it is not known
}

// Status looks at Raft. The result is the caller's.
func (n *Node) Status() *Status {
	basic := n.raft.BasicStatus()
	s := &Status{Leadership: n.lead, HighWatermark: int64(basic.HardState.GetCommit()) + 1}
	n.raft.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		r := Replica{RaftID: id, LogEndOffset: -1}
		switch {
		case id == n.RaftID():
			r.LogEndOffset = int64(n.storage.last()) + 1
		case basic.RaftState == raft.StateLeader && p.Match > 0: // 0: it has not answered in this term
			r.LogEndOffset = int64(p.Match) + 1
		}
		if kind == raft.ProgressTypeLearner {
			s.Learners = append(s.Learners, r)
		} else {
			s.Voters = append(s.Voters, r)
		}
	})
	return s
}
