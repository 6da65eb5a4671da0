package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// one describes a member: its node, then letters. V votes, L learns, neither: it is in the image only. c has the controller's
// role; h answers; w did till a moment ago; s has kept up for long, n for not long enough, else it does not keep up; g was removed from the image; o is
// superseded; a has no session; d has been silent for long.
func one(t *testing.T, now time.Time, text string) standing {
	digits := strings.TrimRight(text, "VLchwsngoad")
	var node kafka.BrokerID
	if _, err := fmt.Sscan(digits, &node); err != nil {
		t.Fatal(text, err)
	}
	has := func(letter string) bool { return strings.Contains(text[len(digits):], letter) }
	n := standing{
		QuorumMember: metadata.QuorumMember{RaftID: uint64(node), Node: node, Controller: has("c")},
		votes:        has("V"), learns: has("L"), removed: has("g"), superseded: has("o"), absent: has("a"),
		heard: now.Add(-time.Minute),
	}
	for letter, silent := range map[string]time.Duration{"h": time.Second / 2, "w": 2 * time.Second} {
		if has(letter) {
			n.contact, n.heard = now.Add(-silent), now.Add(-silent)
		}
	}
	if has("s") {
		n.steady = now.Add(-10 * time.Second)
	}
	if has("n") {
		n.steady = now.Add(-9 * time.Second)
	}
	if has("d") {
		n.heard = now.Add(-10 * time.Minute)
	}
	return n
}

// members describes what there is; the first is this node.
func members(t *testing.T, text string, maxVoters int) *membership {
	m := &membership{
		now: start, maxVoters: maxVoters, patience: 2 * time.Second, stabilization: 10 * time.Second, deadAfter: 10 * time.Minute,
	}
	for i, word := range strings.Fields(text) {
		n := one(t, m.now, word)
		if i == 0 {
			m.self = n.RaftID
		}
		m.members = append(m.members, n)
	}
	slices.SortFunc(m.members, byNode)
	return m
}

func (s *membersStep) String() string {
	var out []string
	for _, part := range []struct {
		what string
		ids  []uint64
	}{{"learn", s.change.Learn}, {"promote", s.change.Promote}, {"demote", s.change.Demote}, {"remove", s.change.Remove}} {
		if len(part.ids) > 0 {
			out = append(out, fmt.Sprint(part.what, part.ids))
		}
	}
	if s.transfer != 0 {
		out = append(out, fmt.Sprint("transfer ", s.transfer))
	}
	if s.forget != nil {
		out = append(out, fmt.Sprint("forget ", s.forget.Node))
	}
	return strings.Join(out, " ")
}

func TestMembership(t *testing.T) {
	for _, c := range []struct {
		what, members, want string
		max                 int // 0: 5
	}{
		{what: "alone", members: "1Vc"},
		{what: "who registers learns", members: "1Vc 2c 3", want: "learn[2 3]"},
		{what: "two voters are worse than one", members: "1Vc 2Lchs"},
		{what: "from one to three at once", members: "1Vc 2Lchs 3Lchs", want: "promote[2 3]"},
		{what: "not before both are ready", members: "1Vc 2Lchs 3Lchn"},
		{what: "who does not keep up waits", members: "1Vc 2Lchs 3Lch"},
		{what: "who does not answer waits", members: "1Vc 2Lchs 3Lcs"},
		{what: "who may have died just now waits", members: "1Vc 2Lchs 3Lcws"},
		{what: "another takes the place of who may have died just now", members: "1Vc 2Lchs 3Lcws 4Lchs", want: "promote[2 4]"},
		{what: "no more votes while a voter may have died just now", members: "1Vc 2Vcw 3Vc 4Vc 5Lchs"},
		{what: "a broker without a session waits", members: "1Vc 2Lchs 3Lchsa"},
		{what: "brokers alone never vote", members: "1Vc 2Lhs 3Lhs 4Lchs"},
		{what: "the lowest ids vote", members: "4Vc 1Lhs 2Lchs 3Lchs 5Lchs", want: "promote[2 3]"},
		{what: "from one to five at once", members: "1Vc 2Lchs 3Lchs 4Lchs 5Lchs 6Lchs", want: "promote[2 3 4 5]"},
		{what: "from three to five", members: "1Vc 2Vch 3Vch 4Lchs 5Lchs", want: "promote[4 5]"},
		{what: "not from three to four", members: "1Vc 2Vch 3Vch 4Lchs"},
		{what: "with one voter down two more may vote", members: "1Vc 2Vch 3Vc 4Lchs 5Lchs", want: "promote[4 5]"},
		{what: "from two to three", members: "1Vc 2Vch 3Lchs", want: "promote[3]"},
		{what: "from four to five", members: "1Vc 2Vch 3Vch 4Vch 5Lchs", want: "promote[5]"},
		{what: "as many as are wanted", members: "1Vc 2Vch 3Vch 4Lchs 5Lchs", max: 3},
		{what: "one is wanted", members: "1Vc 2Lchs 3Lchs", max: 1},
		{what: "more founders than are wanted", members: "1Vc 2Vch 3Vch 4Vch 5Vch 6Lchs", max: 3},

		{what: "silent, but not for long", members: "1Vc 2Vch 3Vc 4Lchs"},
		{what: "silent for long", members: "1Vc 2Vch 3Vcd 4Lchs", want: "promote[4] demote[3]"},
		{what: "silent for long, and another may have died just now", members: "1Vc 2Vcw 3Vcd 4Lchs"},
		{what: "silent for long, and nobody to take its place", members: "1Vc 2Vch 3Vcd 4Lchn 5Lhs"},
		{what: "silent for long, and another not well", members: "1Vc 2Vc 3Vcd 4Lchs"},
		{what: "one after the other", members: "1Vc 2Vch 3Vch 4Vcd 5Vcd 6Lchs 7Lchs", want: "promote[6] demote[4]"},
		{what: "it answers Raft, whatever its broker does", members: "1Vc 2Vch 3Vchd 4Lchs"},
		{what: "back on another disk", members: "1Vc 2Vch 3Vco 4Lchs", want: "promote[4] demote[3]"},
		{what: "back on another disk, which takes its own place", members: "1Vc 2Vch 3Vco 13Lchs", want: "promote[13] demote[3]"},
		{what: "back on another disk, and not ready", members: "1Vc 2Vch 3Vco 4Lchn"},
		{what: "back on another disk, which votes already", members: "1Vc 2Vch 3Vco 13Vch", want: "demote[3]"},
		{what: "back on another disk, and an even number would be left", members: "1Vc 2Vch 3Vco 4Vch 13Vch", want: "demote[3 13]"},
		{what: "back on another disk, and a learner may be ready soon", members: "1Vc 2Vch 3Vco 4Vch 13Vch 5Lchn"},
		{what: "back on another disk, and another not well", members: "1Vc 2Vch 3Vco 13Vc"},
		{what: "back on another disk, and an even number that is not all well", members: "1Vc 2Vc 3Vco 4Vch 13Vch", want: "demote[3 2]"},
		{what: "back on another disk, this node goes on", members: "4Vc 1Vch 2Vch 3Vch 13Vco", want: "demote[13 3]"},
		{what: "what cannot come back goes before what was silent for long", members: "1Vc 2Vcd 3Vch 4Vch 5Vco 6Lchs", want: "promote[6] demote[5]"},
		{what: "a learner that cannot come back", members: "1Vc 2Vch 3Vch 4Lco", want: "forget 4"},
		{what: "what cannot come back does not begin to learn", members: "1Vc 2co", want: "forget 2"},

		{what: "a learner was removed", members: "1Vc 2Vch 3Vch 4Lcg 5Lhg", want: "remove[4 5]"},
		{what: "a voter was removed", members: "1Vc 2Vch 3Vcg", want: "remove[3]"},
		{what: "a voter was removed, and another takes its place", members: "1Vc 2Vch 3Vcg 4Lchs", want: "promote[4] remove[3]"},
		{what: "two voters were removed", members: "1Vc 2Vchg 3Vcg", want: "remove[2 3]"},
		{what: "the other of two was removed", members: "1Vc 2Vchg", want: "remove[2]"},
		{what: "the other of two was removed, and there is a third", members: "1Vc 2Vchg 3Lchs", want: "remove[2]"},
		{what: "a voter was removed, and another may have died just now", members: "1Vc 2Vcw 3Vchg"},
		{what: "a voter was removed, and another is down", members: "1Vc 2Vc 3Vchg"},
		{what: "a voter was removed, another is down, and a learner ready", members: "1Vc 2Vc 3Vchg 4Lchs", want: "promote[4] remove[3]"},
		{what: "the leader was removed", members: "1Vcg 2Vc 3Vch", want: "transfer 3"},
		{what: "the leader was removed, and all others", members: "1Vcg 2Vchg 3Vchg"},
		{what: "the only voter was removed", members: "1Vcg 2Lchs", want: "promote[2]"},
		{what: "the only voter was removed, and nobody is ready", members: "1Vcg 2Lch"},
		{what: "members come after removals", members: "1Vc 2Lcg 3c", want: "remove[2]"},
		{what: "votes come after members", members: "1Vc 2Lchs 3Lchs 4c", want: "learn[4]"},
	} {
		m := members(t, c.members, max(c.max, 5*(1-min(c.max, 1))))
		s := m.next()
		if got := s.String(); got != c.want {
			t.Errorf("%s: %s: %q, want %q", c.what, c.members, got, c.want)
		}
		if s.String() != "" && s.why == "" {
			t.Errorf("%s: no reason is given", c.what)
		}
	}
}

func TestRemovalsThatTheQuorumSurvives(t *testing.T) {
	for _, c := range []struct {
		members string
		id      uint64
		want    bool
	}{
		{"1Vc 2Vch 3Vch", 3, true},
		{"1Vc 2Vch 3Vch", 1, true}, // this node itself
		{"1Vc 2Vch 3Vc", 3, true},  // the one that is down
		{"1Vc 2Vch 3Vc", 2, false}, // the one that is not
		{"1Vc 2Vch 3Vc", 1, false},
		{"1Vc 2Vcw 3Vch", 3, true},      // which leaves Raft when the other one is sure to be there
		{"1Vc 2Vch 3Vc 4Lchs", 2, true}, // there is one for its place
		{"1Vc 2Vch 3Vc 4Lchn", 2, false},
		{"1Vc 2Vch", 2, true},
		{"1Vc 2Vchg 3Vch", 3, true}, // another one was removed just now
		{"1Vc 2Vchg 3Vc", 1, false},
		{"1Vc", 1, false},
		{"1Vc 2Lch", 1, false},
		{"1Vc 2Lchs", 1, true},
		{"1Vc 2Lc", 2, true}, // a learner
		{"1Vc 2Vc 3Vch 4Lc", 4, true},
		{"1Vc 2c", 2, true}, // who is in the image only
	} {
		if got := members(t, c.members, 5).mayRemove(c.id); got != c.want {
			t.Errorf("%s without %d: %v, want %v", c.members, c.id, got, c.want)
		}
	}
}

// Whatever is decided leaves a majority of the voters healthy, and whoever votes may.
func TestMembershipIsSafe(t *testing.T) {
	letters := []string{"Vch", "Vcw", "Vc", "Vcd", "Vcg", "Vchg", "Vco", "Lchs", "Lcws", "Lch", "Lhs", "Lcs", "Lco", "Lg", "c"}
	for n := range len(letters) * len(letters) * len(letters) {
		text := "1Vc"
		for i, rest := 2, n; i <= 4; i, rest = i+1, rest/len(letters) {
			text += fmt.Sprint(" ", i, letters[rest%len(letters)])
		}
		m := members(t, text, 5)
		s := m.next()
		healthy, majority := m.after(s.change, m.fresh)
		for _, id := range s.change.Promote {
			if !slices.Contains(m.spares(), id) {
				t.Fatalf("%s: %s", text, s.String())
			}
		}
		votes := len(s.change.Promote) + len(s.change.Demote) + len(s.change.Remove)
		learners := m.find(func(n *standing) bool { return slices.Contains(s.change.Remove, n.RaftID) && n.learns })
		if votes > 0 && learners == nil && healthy < majority {
			t.Fatalf("%s: %s leaves %d of %d", text, s.String(), healthy, majority)
		}
	}
}

// Of two members of one node the one without the broker is gone only if the other one goes on answering: a process that has just
// died looks alive for a while.
func TestSupersededIsWhoStaysSilent(t *testing.T) {
	began := time.Unix(1000, 0)
	old, fresh := metadata.QuorumMember{RaftID: 1, Node: 4}, metadata.QuorumMember{RaftID: 2, Node: 4}
	for _, c := range []struct {
		name       string
		candidate  metadata.QuorumMember
		oldUntil   time.Duration // when the old disk's process answered last
		freshSince time.Duration // when the new disk's began to
		want       bool
	}{
		{"the newcomer, before it has registered", fresh, 0, time.Second, false},
		{"the newcomer, which takes long", fresh, 0, time.Hour, false},
		{"the old disk", old, 0, 0, true},
		{"two that are alive", old, time.Hour, 0, false},
	} {
		alone := map[uint64]time.Time{}
		superseded := false
		for at := time.Duration(0); at <= 20*time.Second; at += 100 * time.Millisecond {
			now := began.Add(at)
			m := &membership{now: now, began: began, patience: 2 * time.Second, members: []standing{
				{QuorumMember: old, learns: true, contact: began.Add(min(at, c.oldUntil))}, {QuorumMember: fresh, learns: true}}}
			if at >= c.freshSince {
				m.members[1].contact = now
			}
			m.supersede([]metadata.QuorumMember{c.candidate}, alone)
			superseded = superseded || m.find(func(n *standing) bool { return n.superseded }) != nil
		}
		if superseded != c.want {
			t.Errorf("%s: superseded=%t, want %t", c.name, superseded, c.want)
		}
	}
}
