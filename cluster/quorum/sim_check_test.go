package quorum

import (
	"bytes"
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
)

// checker knows what was ever said and shown, and that it must not come to be otherwise.
type checker struct {
	w       *world
	leaders map[int32]uint64        // who led in a term
	votes   map[ballot]uint64       // whom a member voted for in a term
	entries map[int64]applied       // what a metadata entry led to, at its index
	states  map[uint64]applied      // what was true when all up to an index was applied
	said    map[uint64]*attestation // what a member has told others that it keeps
	last    uint64                  // the highest index that anybody applied
	acked   int                     // metadata entries that were applied
}

type ballot struct {
	voter uint64
	term  uint64
}

// applied is enough of an image to tell it from every other: each proposal takes another producer id.
type applied struct {
	skipped  bool
	index    int64
	term     int32
	producer int64
	members  string // but for entries
}

// attestation is what a member said of its term, and in that term of its vote and of its log.
type attestation struct {
	term, vote, end uint64
}

func newChecker(w *world) *checker {
	return &checker{
		w: w, leaders: map[int32]uint64{}, votes: map[ballot]uint64{}, entries: map[int64]applied{}, states: map[uint64]applied{},
		said: map[uint64]*attestation{},
	}
}

func (c *checker) of(h *host) *attestation {
	a := c.said[h.member.RaftID]
	if a == nil {
		a = &attestation{}
		c.said[h.member.RaftID] = a
	}
	return a
}

// sent: a vote is given once, and what was said of term and log is on the disk.
func (c *checker) sent(h *host, m *raftpb.Message) {
	a := c.of(h)
	if m.GetType() == raftpb.MsgPreVote || m.GetType() == raftpb.MsgPreVoteResp {
		return // of a term that may never be
	}
	if m.GetTerm() > a.term {
		*a = attestation{term: m.GetTerm()}
	}
	candidate := uint64(0)
	switch {
	case m.GetType() == raftpb.MsgVote:
		candidate = m.GetFrom()
	case m.GetType() == raftpb.MsgVoteResp && !m.GetReject():
		candidate = m.GetTo()
	case m.GetType() == raftpb.MsgAppResp && !m.GetReject() && m.GetTerm() == a.term:
		a.end = max(a.end, m.GetIndex())
	}
	if candidate == 0 {
		return
	}
	c.vote(ballot{m.GetFrom(), m.GetTerm()}, candidate)
	if m.GetTerm() == a.term {
		a.vote = candidate
	}
}

func (c *checker) vote(b ballot, candidate uint64) {
	if other, voted := c.votes[b]; voted && other != candidate {
		c.w.failf("%x voted in term %d for %x, then for %x", b.voter, b.term, other, candidate)
	}
	c.votes[b] = candidate
}

// started: the disk has what was said, and the configuration that votes count by is one change behind the log at most.
func (c *checker) started(h *host) {
	a, s := c.of(h), h.node.storage
	if s.state.Term < a.term || s.state.Term == a.term && (s.last() < a.end || a.vote != 0 && s.state.Vote != a.vote) {
		c.w.failf("host %d starts with %+v and a log up to %d, and told others %+v", h.number, s.state, s.last(), *a)
	}
	if term, err := s.Term(s.last()); err != nil && s.last() > 0 || term > s.state.Term {
		c.w.failf("host %d starts in term %d with an entry of term %d (%v)", h.number, s.state.Term, term, err)
	}
	changes := changesBeyond(c.w.t, s)
	if len(changes) > 1 {
		c.w.failf("host %d has changes of members at %v, and knows the log to be committed up to %d", h.number, changes, s.state.Committed)
	}
}

// stepped: one leader a term; what was applied at an index is applied there by all and for ever.
func (c *checker) stepped(h *host, out Output) {
	n := h.node
	if n.raft.BasicStatus().RaftState == raft.StateLeader {
		if other, led := c.leaders[n.lead.Term]; led && other != n.RaftID() {
			c.w.failf("%x leads in term %d, in which %x led", n.RaftID(), n.lead.Term, other)
		}
		c.leaders[n.lead.Term] = n.RaftID()
	}
	for _, a := range out.Applied {
		if a.Delta != nil && a.Image.Index != a.Index {
			c.w.seen["snapshot installed"]++
			continue // state looks at it, if nothing came behind it
		}
		got := applied{skipped: a.Delta == nil, index: a.Image.Index, term: a.Image.Term, producer: a.Image.NextProducerID}
		want, known := c.entries[a.Index]
		if known && got != want {
			c.w.failf("host %d has applied %+v at %d, and somebody else %+v", h.number, got, a.Index, want)
		}
		if !known {
			c.entries[a.Index] = got
			c.acked++
		}
	}
	if !n.Waiting() {
		c.state(h)
	}
	if out.MembersChanged && !contains(n.Members(), n.RaftID()) {
		c.w.seen["removed, and knows it"]++
	}
	c.tell(h)
	c.w.note(uint64(c.w.now), uint64(h.number), uint64(n.lead.Term), n.lead.Leader, n.applied, n.storage.last())
}

// state compares what is true after everything up to an index.
func (c *checker) state(h *host) {
	n := h.node
	got := applied{index: n.image.Index, term: n.image.Term, producer: n.image.NextProducerID, members: c.members(n)}
	if want, known := c.states[n.applied]; known && got != want {
		c.w.failf("host %d is at %d with %+v, and somebody else was with %+v", h.number, n.applied, got, want)
	}
	c.states[n.applied] = got
	c.last = max(c.last, n.applied)
}

// tell says where a host has come to, if that is news.
func (c *checker) tell(h *host) {
	if !*simTell {
		return
	}
	n := h.node
	st := n.raft.BasicStatus()
	now := fmt.Sprintf("life %d %s term %d vote %s lead %s members %s committed %d", h.life, st.RaftState, n.lead.Term,
		c.name(n.storage.state.Vote), c.name(n.lead.Leader), c.members(n), n.storage.state.Committed)
	if now != h.told {
		c.w.t.Logf("%s host %d: %s; applied %d, last %d, log from %d", c.w.now, h.number, now, n.applied, n.storage.last(), n.storage.log.StartOffset())
	}
	h.told = now
}

func (c *checker) name(id uint64) string {
	if h := c.w.byID[id]; h != nil {
		return fmt.Sprint(h.number)
	}
	return "-"
}

func (c *checker) members(n *Node) string {
	s := ""
	for _, ids := range [][]uint64{n.conf.GetVoters(), n.conf.GetLearners(), n.conf.GetVotersOutgoing(), n.conf.GetLearnersNext()} {
		s += "["
		for _, id := range ids {
			s += c.name(id)
		}
		s += "]"
	}
	return s
}

// settled: after some time without faults one leads, all members know it, and all have the same image, which has all that
// anybody ever applied.
func (c *checker) settled() {
	w := c.w
	leader := w.leader()
	if leader == nil {
		w.failf("nobody leads: %s", c.describe())
	}
	if leader.node.applied < c.last {
		w.failf("the leader has applied up to %d, and somebody had up to %d", leader.node.applied, c.last)
	}
	want := c.encode(leader.node)
	members := leader.node.Members()
	for _, h := range w.hosts {
		if h.wiped || !contains(members, h.member.RaftID) {
			continue
		}
		switch {
		case h.node == nil:
			w.failf("host %d is down", h.number)
		case h.node.lead.Leader != leader.member.RaftID, h.node.lead.Term != leader.node.lead.Term:
			w.failf("host %d follows %+v, and the leader is %d: %s", h.number, h.node.lead, leader.number, c.describe())
		case h.node.applied != leader.node.applied:
			w.failf("host %d has applied up to %d, and the leader up to %d: %s", h.number, h.node.applied, leader.node.applied, c.describe())
		case !bytes.Equal(c.encode(h.node), want):
			w.failf("host %d has another image than the leader", h.number)
		}
	}
}

func contains(m Members, id uint64) bool {
	for _, ids := range [][]uint64{m.Voters, m.Learners} {
		for _, member := range ids {
			if member == id {
				return true
			}
		}
	}
	return false
}

func (c *checker) encode(n *Node) []byte {
	b, err := (&snapshot{index: n.applied, term: n.term, conf: n.conf, image: n.image}).encode(0)
	if err != nil {
		c.w.failf("%v", err)
	}
	return b
}

func (c *checker) describe() string {
	s := ""
	for _, h := range c.w.hosts {
		s += fmt.Sprintf("\n  host %d %016x", h.number, h.member.RaftID)
		switch {
		case h.wiped:
			s += " wiped"
		case h.node == nil:
			s += " down"
		default:
			n := h.node
			st := n.raft.BasicStatus()
			s += fmt.Sprintf(" %s lead %+v applied %d last %d commit %d snapshot %d voters %x members %s waiting %v",
				st.RaftState, n.lead, n.applied, n.storage.last(), st.HardState.GetCommit(), n.storage.snap.index, n.Members().Voters, c.members(n), n.Waiting())
		}
	}
	return s
}

// entry is a proposal unlike all others: the producer id counts, the setting has some length.
func (w *world) entry(n *Node) []byte {
	w.clock++
	length := w.rng.IntN(60)
	if w.chance(0.05) {
		length = w.rng.IntN(6000)
	}
	value := string(bytes.Repeat([]byte{byte('a' + w.rng.IntN(26))}, length))
	base := n.Image().Index
	if w.chance(0.02) {
		base--
	}
	return metadata.AppendEntry(nil, base, []metadata.Record{
		metadata.ProducerIDsRecord{Next: w.clock},
		metadata.ConfigRecord{Resource: metadata.ConfigResource{Type: 4}, Key: fmt.Sprintf("k%d", w.rng.IntN(4)), Value: &value},
	})
}
