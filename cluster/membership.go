package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/mutant"
)

// membership is what the active controller knows of the quorum's members when it decides who of them is to vote. The decision
// is next; nothing here does anything.
type membership struct {
	now           time.Time
	began         time.Time // when this node became the active controller
	self          uint64    // Raft id of this node, which leads
	maxVoters     int
	patience      time.Duration // how old a member's last answer may be while it counts as healthy; see fresh
	stabilization time.Duration // how long a learner must have kept up before it may vote
	deadAfter     time.Duration // how long a voter must have been silent before another takes its place
	members       []standing    // in the order of their nodes
}

// standing is what is known of one member.
type standing struct {
	metadata.QuorumMember // the Raft id alone where it was removed
	votes, learns         bool
	removed               bool      // from the image: it is to leave Raft too
	superseded            bool      // its node has come back with another directory; this one never will
	absent                bool      // it is a broker and has no session, or it is about to go
	contact               time.Time // of its last answer to this leader
	steady                time.Time // since when it has answered, and been close behind; zero: it is not
	heard                 time.Time // when it was last heard of in any way, or this leader began to listen
}

// membersStep is the next thing to be done about the members; one of the first three, or nothing.
type membersStep struct {
	change   quorum.ChangeMembers
	transfer uint64                 // Raft id of the voter that is to lead first
	forget   *metadata.QuorumMember // is to be removed from the image
	why      string
}

func (s *membersStep) changes() bool {
	return len(s.change.Learn)+len(s.change.Promote)+len(s.change.Demote)+len(s.change.Remove) > 0
}

// supersede marks those who will never come back, of the candidates: their node's broker is registered with another member's
// directory. Which of the two is the newer the image does not say: a node that comes on a new disk is a member before its
// broker is registered, and a late heartbeat of the old process may make the old registration look alive. So it is Raft that
// decides, and time: the one with the broker answers and the other does not, for longer than the last answer of a process
// counts that is gone. alone is since when that is so, by the Raft ids of the others.
func (m *membership) supersede(candidates []metadata.QuorumMember, alone map[uint64]time.Time) {
	silent := map[uint64]bool{}
	for _, c := range candidates {
		gone := m.find(func(n *standing) bool { return n.RaftID == c.RaftID })
		present := m.find(func(n *standing) bool { return n.Node == c.Node && n.RaftID != c.RaftID && !n.absent && m.healthy(n) })
		if gone == nil || present == nil || m.healthy(gone) {
			continue
		}
		silent[c.RaftID] = true
		if since, known := alone[c.RaftID]; !known {
			alone[c.RaftID] = m.now
		} else if m.now.Sub(since) > 2*m.patience {
			gone.superseded = true
			gone.heard = later(m.began, gone.contact) // it is the other one whose broker was heard
		}
	}
	maps.DeleteFunc(alone, func(id uint64, _ time.Time) bool { return !silent[id] })
}

// next decides. What an operator ordered comes first, then what makes a member of somebody, then what the quorum lacks.
func (m *membership) next() membersStep {
	for _, decide := range []func() membersStep{m.dismiss, m.learn, m.replace, m.promote, m.forget} {
		if s := decide(); s.changes() || s.transfer != 0 || s.forget != nil {
			return s
		}
	}
	return membersStep{}
}

// dismiss has those leave Raft that were removed from the image. Learners that may vote take the voters' places. Where this node
// itself is to go, it first sees to it that another one leads, and that there is another one.
func (m *membership) dismiss() (s membersStep) {
	self := m.find(func(n *standing) bool { return n.RaftID == m.self && n.removed })
	if self != nil {
		if to := m.find(func(n *standing) bool { return n.votes && !n.removed && m.healthy(n) }); to != nil {
			return membersStep{transfer: to.RaftID, why: "this node was removed from the cluster"}
		}
		s.change.Promote = firstOf(m.spares(), 1)
		s.why = "the only voter was removed from the cluster"
		return s
	}
	s.why = "removed from the cluster"
	for i := range m.members {
		if n := &m.members[i]; n.removed && n.learns {
			s.change.Remove = append(s.change.Remove, n.RaftID)
		}
	}
	if s.changes() {
		return s
	}
	s.change = m.withoutRemoved()
	if len(s.change.Remove) == 0 || !m.mayGo(s.change, 1, m.fresh) {
		return membersStep{}
	}
	return s
}

// withoutRemoved is the change that ends the votes of those who were removed.
func (m *membership) withoutRemoved() (c quorum.ChangeMembers) {
	for i := range m.members {
		if n := &m.members[i]; n.removed && n.votes {
			c.Remove = append(c.Remove, n.RaftID)
		}
	}
	if len(c.Remove) > 0 {
		c.Promote = m.promotions()
	}
	return c
}

// learn has those learn the log who are registered as members, and are none of Raft's yet.
func (m *membership) learn() (s membersStep) {
	for i := range m.members {
		if n := &m.members[i]; !n.votes && !n.learns && !n.removed && !n.superseded {
			s.change.Learn = append(s.change.Learn, n.RaftID)
		}
	}
	s.why = "joined the cluster"
	return s
}

// replace gives the place of a voter that will not come back to a learner: at once where it cannot, else after a long silence.
// That one learns from then on, and keeps what it has. Who cannot come back goes though nobody is there to take its place. It
// happens only where a majority, and three at least, are healthy then.
func (m *membership) replace() (s membersStep) {
	out := m.find(func(n *standing) bool { return n.votes && n.superseded && n.RaftID != m.self })
	s.why = "its node has come back with another directory"
	if out == nil {
		out, s.why = m.find(m.dead), "it was not heard of for long"
	}
	spare := firstOf(m.spares(), 1)
	switch {
	case out == nil:
		return membersStep{}
	case spare != nil:
		s.change = quorum.ChangeMembers{Promote: spare, Demote: []uint64{out.RaftID}}
	case out.superseded && m.find(func(n *standing) bool { return m.maySpare(n) }) == nil:
		s.change = m.without(out)
	default:
		return membersStep{}
	}
	if !m.mayGo(s.change, 3, m.fresh) {
		return membersStep{}
	}
	return s
}

// without is the change that ends the vote of one who will not come back, and another vote where an even number would be left: the
// fewer bear as many failures.
func (m *membership) without(gone *standing) quorum.ChangeMembers {
	out := []uint64{gone.RaftID}
	voters := 0
	var last *standing
	for i := range m.members {
		if n := &m.members[i]; n.votes && n != gone {
			voters++
			if n.RaftID != m.self && (last == nil || m.healthy(last) || !m.healthy(n)) {
				last = n // one that is not well, if there is one
			}
		}
	}
	if voters%2 == 0 && last != nil {
		out = append(out, last.RaftID)
	}
	return quorum.ChangeMembers{Demote: out}
}

// promote gives votes to learners, so many that the number of voters is odd: one more than an odd number makes the majority
// larger and bears no more failures. From one voter it goes to three at once: should both learners die for ever between their last
// answers and the change, nobody leads any more before an operator recovers the quorum. So these answers are fresh; a leader cannot
// know more than that they lived then.
func (m *membership) promote() (s membersStep) {
	s.change.Promote = m.promotions()
	if fresh, majority := m.after(s.change, m.fresh); fresh < majority {
		return membersStep{}
	}
	s.why = "kept up with the log"
	return s
}

// promotions are the learners that get votes where there may be more voters.
func (m *membership) promotions() []uint64 {
	voters := 0
	for i := range m.members {
		if n := &m.members[i]; n.votes && !n.removed {
			voters++
		}
	}
	spares := m.spares()
	return firstOf(spares, odd(min(m.maxVoters, voters+len(spares)))-voters)
}

// forget has the image forget a member that does not vote and will not come back.
func (m *membership) forget() (s membersStep) {
	if n := m.find(func(n *standing) bool { return n.superseded && !n.votes && !n.removed }); n != nil {
		return membersStep{forget: &n.QuorumMember, why: "its node has come back with another directory"}
	}
	return s
}

// mayRemove reports whether the quorum could go on if a member were removed from the image. From then on it counts as removed here.
// Healthy is good enough: it leaves Raft later, by dismiss.
func (m *membership) mayRemove(id uint64) bool {
	for i := range m.members {
		m.members[i].removed = m.members[i].removed || m.members[i].RaftID == id
	}
	change := m.withoutRemoved()
	return len(change.Remove) == 0 || m.mayGo(change, 1, m.healthy)
}

// mayGo reports whether voters may go: a majority of those that vote afterwards, and a least number, must be well.
func (m *membership) mayGo(c quorum.ChangeMembers, least int, well func(*standing) bool) bool {
	left, majority := m.after(c, well)
	return left >= max(majority, least) || mutant.Is("removeVoterBelowQuorum")
}

// after counts the voters that a change leaves: those that are well, and how many are a majority.
func (m *membership) after(c quorum.ChangeMembers, is func(*standing) bool) (well, majority int) {
	voters := 0
	for i := range m.members {
		n := &m.members[i]
		if slices.Contains(c.Promote, n.RaftID) || n.votes && !slices.Contains(c.Demote, n.RaftID) && !slices.Contains(c.Remove, n.RaftID) {
			voters++
			if is(n) {
				well++
			}
		}
	}
	return well, voters/2 + 1
}

// spares are the learners that may get a vote, in the order of their nodes.
func (m *membership) spares() (ids []uint64) {
	for i := range m.members {
		n := &m.members[i]
		if m.maySpare(n) && m.fresh(n) && !n.absent && !n.steady.IsZero() && m.now.Sub(n.steady) >= m.stabilization {
			ids = append(ids, n.RaftID)
		}
	}
	return ids
}

// maySpare reports whether a learner that answers may get a vote once it has kept up.
func (m *membership) maySpare(n *standing) bool {
	return n.learns && n.Controller && !n.removed && !n.superseded && m.healthy(n)
}

// lagging are the learners that answer and could vote, and do not keep up.
func (m *membership) lagging() (ids []uint64) {
	for i := range m.members {
		n := &m.members[i]
		if m.maySpare(n) && n.steady.IsZero() {
			ids = append(ids, n.RaftID)
		}
	}
	return ids
}

// healthy reports whether a member has answered lately: it may have died since.
func (m *membership) healthy(n *standing) bool { return m.answered(n, m.patience) }

// fresh reports whether a member has answered so lately that its vote can be relied on, in a change that makes it needed: half an
// election timeout, in which it is asked five times. Whoever was late for once is at the next look.
func (m *membership) fresh(n *standing) bool { return m.answered(n, m.patience/4) }

func (m *membership) answered(n *standing, within time.Duration) bool {
	return n.RaftID == m.self || !n.contact.IsZero() && m.now.Sub(n.contact) <= within
}

// dead reports whether a voter has been silent for so long that nobody waits for it any more.
func (m *membership) dead(n *standing) bool {
	return n.votes && !n.removed && !m.healthy(n) && m.now.Sub(n.heard) >= m.deadAfter
}

func (m *membership) find(is func(*standing) bool) *standing {
	for i := range m.members {
		if is(&m.members[i]) {
			return &m.members[i]
		}
	}
	return nil
}

// firstOf returns the first n, or all; nil for none.
func firstOf(ids []uint64, n int) []uint64 {
	if n = min(n, len(ids)); n <= 0 {
		return nil
	}
	return ids[:n]
}

// odd is the largest odd number that is not above n; 0 for none.
func odd(n int) int { return max(0, n-(n+1)%2) }

func byNode(a, b standing) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.RaftID, b.RaftID))
}
