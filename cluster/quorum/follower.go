package quorum

import (
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// maxLag is how many entries a member may lack that counts as close behind: what is on its way while it follows.
const maxLag = 100

// follower is when another member answered this leader, and what it had of the log then. Raft itself knows no time.
type follower struct {
	contact  time.Time // of its last answer
	last     uint64    // the leader's last entry then
	caughtUp time.Time // when it last had all that there was
	steady   time.Time // since when it has answered, and been close behind, without a break; zero: it is not
}

// answered takes an answer that Raft has taken, at a leader.
func (n *Node) answered(now time.Time, m *raftpb.Message) {
	switch m.GetType() {
	case raftpb.MsgAppResp, raftpb.MsgHeartbeatResp:
	default:
		return
	}
	st := n.raft.BasicStatus()
	if st.RaftState != raft.StateLeader || m.GetTerm() != st.HardState.GetTerm() {
		return
	}
	if n.followersOf != m.GetTerm() {
		n.followersOf, n.followers = m.GetTerm(), map[uint64]*follower{}
	}
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if id != m.GetFrom() {
			return
		}
		f := n.followers[id]
		if f == nil {
			f = &follower{}
			n.followers[id] = f
		}
		f.answered(now, p.Match, n.storage.last(), n.o.ElectionTimeout)
	})
}

// answered takes an answer: the follower has the log up to match, and the leader up to last. Whoever has what there was when
// it answered before was caught up then, as in Kafka: else nobody would ever be who follows a busy leader.
func (f *follower) answered(now time.Time, match, last uint64, patience time.Duration) {
	switch {
	case match >= last:
		f.caughtUp = now
	case !f.contact.IsZero() && match >= f.last:
		f.caughtUp = f.contact
	}
	switch {
	case match+maxLag < last || match == 0:
		f.steady = time.Time{}
	case f.steady.IsZero() || now.Sub(f.contact) > patience:
		f.steady = now
	}
	f.contact, f.last = now, last
}

// follower is what this node knows as the leader of a member; nil for nothing.
func (n *Node) follower(id uint64) *follower {
	st := n.raft.BasicStatus()
	if st.RaftState != raft.StateLeader || n.followersOf != st.HardState.GetTerm() {
		return nil
	}
	return n.followers[id]
}
