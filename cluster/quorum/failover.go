package quorum

import (
	"cmp"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// candidacy is a node's standing for election ahead of the election timeout: because the leader's process is gone, or because
// there has been none, and one of the founders does what all would do a second later.
type candidacy struct {
	at    time.Time // when to stand; zero: not
	until time.Time // afterwards the election timeout serves
	split bool      // at the last look the node stood in earnest and had not been elected
}

// Due is when the node wants a Wake, at the latest; zero where it needs none.
func (n *Node) Due() time.Time { return n.candidacy.at }

// suspect forgets a leader that is gone, so that this node votes for another, and has it stand itself. Others may not know
// yet and refuse their votes (CheckQuorum: they heard from the leader not long ago); therefore it stands again until
// somebody leads.
func (n *Node) suspect(now time.Time, id uint64) {
	if id == 0 || id != n.lead.Leader || id == n.RaftID() {
		return
	}
	if err := n.raft.ForgetLeader(); err != nil || !n.IsVoter() {
		return
	}
	n.candidacy = candidacy{at: now.Add(n.jitter()), until: now.Add(n.o.ElectionTimeout)}
}

// jitter spreads those that stand over one tick.
func (n *Node) jitter() time.Duration { return time.Duration(n.o.Rand.Int64N(int64(n.TickInterval()))) }

// stand stands for election when that is due. With PreVote, one that could not win changes nothing for the others.
func (n *Node) stand(now time.Time) {
	if n.candidacy.at.IsZero() || now.Before(n.candidacy.at) {
		return
	}
	st := n.raft.BasicStatus()
	if st.Lead != raft.None || !now.Before(n.candidacy.until) {
		n.candidacy = candidacy{}
		return
	}
	// Votes for one that stands in earnest may be on their way; at the second look they were split, and the election timeout,
	// which would end that, is ten times as long.
	waits := st.RaftState == raft.StateCandidate && !n.candidacy.split
	n.candidacy.split = waits
	if !waits {
		if err := n.raft.Campaign(); err != nil {
			n.logger.Debug("no candidacy", "err", err)
		}
	}
	n.candidacy.at = now.Add(n.TickInterval() + n.jitter())
}

// transfer hands leadership over; false: there is nothing, or nobody, to hand over to.
func (n *Node) transfer(to uint64) bool {
	if n.raft.BasicStatus().RaftState != raft.StateLeader {
		return false
	}
	if to == 0 {
		to = n.successor()
	}
	if to == n.RaftID() || !slices.Contains(n.conf.GetVoters(), to) {
		return false
	}
	n.raft.TransferLeader(to)
	return true
}

// successor is the voter that is furthest; 0 where there is none.
func (n *Node) successor() (best uint64) {
	var most tracker.Progress
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if id == n.RaftID() || !slices.Contains(n.conf.GetVoters(), id) {
			return
		}
		if best == 0 || cmp.Or(compareBool(p.RecentActive, most.RecentActive), cmp.Compare(p.Match, most.Match)) > 0 {
			best, most = id, p
		}
	})
	return best
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
