package wire

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"weir/compat-tests/harness"
)

// Who is assigned what is between the clients. The broker waits for the leader, and gives each member its own bytes as
// they came; a member that the leader does not name gets none, which is no error.
func TestFollowersGetTheirAssignment(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	first, second := newMember(t, address, newGroup(t, address)), (*member)(nil)
	first.entry.Protocols[0].Metadata = []byte("the first one's")
	second = newMember(t, address, first.entry.Group)
	second.entry.Protocols[0].Metadata = []byte("the second one's")

	settle(t, first)
	second.sendJoin(t)
	first.awaitRebalance(t)
	first.sendJoin(t)
	first.enter(t)
	second.enter(t)
	leader, follower := first, second
	if !first.leads() {
		leader, follower = second, first
	}
	told := make(map[string]string)
	for _, m := range leader.joined.Members {
		told[m.MemberID] = string(m.ProtocolMetadata)
	}
	if len(told) != 2 || told[first.id()] != "the first one's" || told[second.id()] != "the second one's" || len(follower.joined.Members) != 0 {
		t.Errorf("the leader is told of %q, the other of %d members", told, len(follower.joined.Members))
	}
	follower.sendSync(t)
	follower.wantSilence(t, "a follower's SyncGroup before the leader's")
	leader.sendSync(t, follower.id(), "\x00\x01 for the follower", leader.id(), "for the leader \xff")
	follower.wantAssigned(t, "\x00\x01 for the follower")
	leader.wantAssigned(t, "for the leader \xff")

	leader.sendJoin(t)
	follower.awaitRebalance(t)
	follower.sendJoin(t)
	leader.enter(t)
	follower.enter(t)
	if g := leader.joined.Generation; g != 3 || follower.joined.Generation != g {
		t.Errorf("the leader is in generation %d, the other in %d", g, follower.joined.Generation)
	}
	follower.sendSync(t)
	leader.sendSync(t, leader.id(), "all", "nobody", "something")
	leader.wantAssigned(t, "all")
	follower.wantAssigned(t, "") // not null, which could not be decoded
	wantCode(t, "its heartbeat", follower.heartbeat(t, follower.conn), nil)
}

// Connect and Streams put other things into the bytes than consumers do, and the broker looks into none of them.
func TestBytesOfMembersAreOpaque(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	random := rand.NewChaCha8([32]byte{})
	noise := func(n int) string {
		b := make([]byte, n)
		_, _ = random.Read(b) // never fails
		return string(b)
	}
	for _, protocolType := range []string{"connect", "consumer", "sr", "ä"} {
		for _, size := range []int{0, 1, 100, 200_000} {
			what := fmt.Sprintf("%s, %d bytes", protocolType, size)
			m := newMember(t, address, newGroup(t, address), "v1", "v0")
			m.entry.ProtocolType = protocolType
			metadata, assignment := noise(size), noise(size)
			m.entry.Protocols[0].Metadata, m.entry.Protocols[1].Metadata = []byte(metadata), []byte(noise(size))
			m.join(t)
			if got := m.joined; text(got.ProtocolType) != protocolType || text(got.Protocol) != "v1" || len(got.Members) != 1 || string(got.Members[0].ProtocolMetadata) != metadata {
				t.Errorf("%s: joined as %q, %q with %d members", what, text(got.ProtocolType), text(got.Protocol), len(got.Members))
			}
			m.sendSync(t, m.id(), assignment)
			m.wantAssigned(t, assignment)
			g := describeGroup(t, m.conn, m.entry.Group)
			if g.State != "Stable" || g.ProtocolType != protocolType || g.Protocol != "v1" || len(g.Members) != 1 ||
				string(g.Members[0].ProtocolMetadata) != metadata || string(g.Members[0].MemberAssignment) != assignment {
				t.Errorf("%s: described as %s, %q, %q with %d members", what, g.State, g.ProtocolType, g.Protocol, len(g.Members))
			}
			m.leave(t)
		}
	}
}

// While members join, those that are in the group are told so by their heartbeats and nothing else; they keep their ids, and
// a round makes one generation, however many join in it and however often they are told.
func TestARebalanceKeepsTheMembers(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	members := []*member{newMember(t, address, group)}
	settle(t, members...)
	for round := int32(2); round <= 4; round++ {
		joining := newMember(t, address, group)
		joining.sendJoin(t)
		for _, m := range members {
			m.awaitRebalance(t)
			for range 5 {
				wantCode(t, "a heartbeat during the rebalance", m.heartbeat(t, m.conn), kerr.RebalanceInProgress)
			}
		}
		for _, m := range members {
			m.sendJoin(t)
		}
		members = append(members, joining)
		for _, m := range members {
			m.enter(t)
			if m.joined.Generation != round {
				t.Errorf("after %d rounds the generation is %d", round, m.joined.Generation)
			}
		}
		distribute(t, members...)
		for _, m := range members {
			wantCode(t, "a heartbeat after the rebalance", m.heartbeat(t, m.conn), nil)
		}
	}
	last := members[len(members)-1]
	members = members[:len(members)-1]
	last.leave(t)
	for _, m := range members {
		m.awaitRebalance(t)
		m.sendJoin(t)
	}
	for _, m := range members {
		m.enter(t)
		if m.joined.Generation != 5 {
			t.Errorf("after one has left the generation is %d, want 5", m.joined.Generation)
		}
	}
	distribute(t, members...)
}

// A leader that joins again wants a new assignment, as when there are more partitions. A follower does so to be sure, and
// is told what it knows; only if it supports something else now is that news for all. Otherwise rebalances never end, or
// one that is wanted never comes.
func TestJoiningAgain(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	members := []*member{newMember(t, address, group), newMember(t, address, group)}
	leader := settle(t, members...)
	follower := members[0]
	if follower == leader {
		follower = members[1]
	}
	generation := leader.joined.Generation
	for range 3 {
		follower.join(t)
		if g := follower.joined; g.Generation != generation || g.LeaderID != leader.id() || len(g.Members) != 0 {
			t.Errorf("a follower that joins again is told generation %d with leader %s and %d members", g.Generation, g.LeaderID, len(g.Members))
		}
		wantCode(t, "the leader's heartbeat", leader.heartbeat(t, leader.conn), nil)
		follower.sendSync(t)
		follower.wantAssigned(t, assignmentOf(follower))
	}
	rejoin := func(first, second *member) {
		t.Helper()
		first.sendJoin(t)
		first.wantSilence(t, "JoinGroup before the other has joined")
		second.awaitRebalance(t)
		second.sendJoin(t)
		first.enter(t)
		second.enter(t)
		if generation++; first.joined.Generation != generation {
			t.Errorf("generation %d, want %d", first.joined.Generation, generation)
		}
		distribute(t, members...)
	}
	follower.entry.Protocols[0].Metadata = []byte("something else")
	rejoin(follower, leader)
	rejoin(leader, follower)
}

// The protocol of a generation is one that all members support, and the one that most of them name first.
func TestTheProtocolIsElected(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	for _, r := range []struct{ members, want string }{
		{"range", "range"}, {"range,roundrobin", "range"}, {"range,roundrobin roundrobin", "roundrobin"},
		{"a,b,c b,c,d c,b", "b"}, {"c,b,a a,b,c b,c", "b"}, {"sticky,range range range,sticky", "range"},
	} {
		group := newGroup(t, address)
		var members []*member
		for protocols := range strings.FieldsSeq(r.members) {
			members = append(members, newMember(t, address, group, strings.Split(protocols, ",")...))
		}
		settle(t, members...)
		for _, m := range members {
			if got := text(m.joined.Protocol); got != r.want {
				t.Errorf("%s: %q is elected, want %q", r.members, got, r.want)
			}
		}
		for _, m := range members[0].joined.Members {
			if want := "metadata of " + r.want; string(m.ProtocolMetadata) != want {
				t.Errorf("%s: the leader is told %q", r.members, m.ProtocolMetadata)
			}
		}
	}
}

// A member that does not join again is given up when the rebalance timeout of the group is over, though it goes on
// sending heartbeats; version 0 has no such timeout, and the session's is taken.
func TestARebalanceDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	for _, version := range []int16{0, 7} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			t.Parallel()
			group := newGroup(t, address)
			laggard, other := newMember(t, address, group), newMember(t, address, group)
			laggard.entry.RebalanceTimeoutMillis, other.entry.RebalanceTimeoutMillis = 2000, 1000
			if version == 0 {
				laggard.entry.Version, laggard.entry.SessionTimeoutMillis, laggard.entry.RebalanceTimeoutMillis = 0, minSessionMillis, 0
			}
			settle(t, laggard)
			began := time.Now()
			other.sendJoin(t)
			beat := dial(t, address)
			laggard.awaitRebalance(t)
			for describeGroup(t, beat, group).State == "PreparingRebalance" {
				if code := laggard.heartbeat(t, beat); code != kerr.RebalanceInProgress.Code && code != kerr.UnknownMemberID.Code {
					t.Errorf("the laggard's heartbeat: %s", codeName(code))
				}
				time.Sleep(20 * time.Millisecond)
			}
			other.enter(t)
			if took, least := time.Since(began), 2*time.Second; took < least {
				t.Errorf("the laggard was given up after %v, its rebalance timeout is %v", took, least)
			}
			if !other.leads() || len(other.joined.Members) != 1 || other.joined.Generation != 2 {
				t.Errorf("the other one got %+v", other.joined)
			}
			wantCode(t, "the laggard's heartbeat", laggard.heartbeat(t, laggard.conn), kerr.UnknownMemberID)
			distribute(t, other)
		})
	}
}

// A member that is silent is given up when its session is over, long before the rebalance timeout: who joins does not wait
// for the dead.
func TestASilentMemberIsGivenUp(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	silent, other := newMember(t, address, group), newMember(t, address, group)
	silent.entry.SessionTimeoutMillis, silent.entry.RebalanceTimeoutMillis = minSessionMillis, 5*60_000
	settle(t, silent)
	other.join(t) // within longestJoin, a tenth of the rebalance timeout
	if !other.leads() || len(other.joined.Members) != 1 || other.joined.Generation != 2 {
		t.Errorf("the other one got %+v", other.joined)
	}
	distribute(t, other)
	wantCode(t, "the silent one's heartbeat", silent.heartbeat(t, silent.conn), kerr.UnknownMemberID)
}

// Who waits for an answer to JoinGroup or SyncGroup is not silent: it sends no heartbeats meanwhile, and its session does
// not end.
func TestWhoWaitsIsNotSilent(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	slow, waiting := newMember(t, address, group), newMember(t, address, group)
	waiting.entry.SessionTimeoutMillis = minSessionMillis
	settle(t, slow)
	waiting.sendJoin(t)
	awaitMembers(t, slow.conn, group, 2)
	for range 8 { // seconds
		time.Sleep(time.Second)
		wantCode(t, "the slow one's heartbeat", slow.heartbeat(t, slow.conn), kerr.RebalanceInProgress)
	}
	slow.sendJoin(t)
	slow.enter(t)
	waiting.enter(t)
	if slow.joined.Generation != 2 || waiting.joined.Generation != 2 {
		t.Errorf("the slow one is in generation %d, the one that waited in %d", slow.joined.Generation, waiting.joined.Generation)
	}
	distribute(t, slow, waiting)
}

// A leader that makes no assignment is given up after the rebalance timeout, and the others are told to join again.
func TestALeaderThatAssignsNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	leader, follower := newMember(t, address, group), newMember(t, address, group)
	leader.entry.RebalanceTimeoutMillis, follower.entry.RebalanceTimeoutMillis = 1000, 1000
	settle(t, leader)
	follower.sendJoin(t)
	leader.awaitRebalance(t)
	leader.sendJoin(t)
	leader.enter(t)
	follower.enter(t)
	if follower.leads() {
		leader, follower = follower, leader
	}
	follower.sendSync(t)
	wantCode(t, "SyncGroup of the follower", follower.awaitSync(t).ErrorCode, kerr.RebalanceInProgress)
	follower.join(t)
	if !follower.leads() || len(follower.joined.Members) != 1 {
		t.Errorf("the follower got %+v", follower.joined)
	}
	distribute(t, follower)
	wantCode(t, "the leader's SyncGroup", leader.sync(t, leader.id(), "all").ErrorCode, kerr.UnknownMemberID)
}

// A client that is given a member id is waited for, since it is about to join; it may as well be gone.
func TestWhoDoesNotComeBackWithItsIDIsGivenUp(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	gone, other := newMember(t, address, group), newMember(t, address, group)
	settle(t, other)
	gone.entry.SessionTimeoutMillis = minSessionMillis
	wantCode(t, "JoinGroup", ask(t, gone.conn, gone.entry).ErrorCode, kerr.MemberIDRequired)
	wantCode(t, "the other one's heartbeat", other.heartbeat(t, other.conn), nil)
	if g := describeGroup(t, other.conn, group); g.State != "Stable" || len(g.Members) != 1 {
		t.Errorf("described as %+v", g)
	}
	other.sendJoin(t)
	other.wantSilence(t, "JoinGroup of the other one")
	other.enter(t)
	if len(other.joined.Members) != 1 {
		t.Errorf("the other one is told of %d members", len(other.joined.Members))
	}
}

// A new group waits a while for more members, so that a service that starts many has one rebalance: the longer the more
// come. Only the first round waits.
func TestTheInitialRebalanceDelay(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Second
	s := start(t, "--override", "group.initial.rebalance.delay.ms="+fmt.Sprint(delay.Milliseconds()))
	join := func(t *testing.T, group string, late bool) (took time.Duration) {
		first, second := newMember(t, s.Address, group), newMember(t, s.Address, group)
		first.sendJoin(t)
		began := time.Now()
		if late {
			time.Sleep(delay / 2)
		}
		second.sendJoin(t)
		first.enter(t)
		took = time.Since(began)
		second.enter(t)
		if first.joined.Generation != 1 || second.joined.Generation != 1 {
			t.Errorf("the members are in generations %d and %d", first.joined.Generation, second.joined.Generation)
		}
		distribute(t, first, second)

		third := newMember(t, s.Address, group)
		third.sendJoin(t)
		began = time.Now()
		first.awaitRebalance(t)
		second.awaitRebalance(t)
		first.sendJoin(t)
		second.sendJoin(t)
		first.enter(t)
		second.enter(t)
		third.enter(t)
		if again := time.Since(began); again >= delay {
			t.Errorf("the second rebalance took %v", again)
		}
		distribute(t, first, second, third)
		return took
	}
	alone := newMember(t, s.Address, newGroup(t, s.Address))
	group, lateGroup := newGroup(t, s.Address), newGroup(t, s.Address)
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		alone.join(t)
		if took := time.Since(began); took < delay || took >= 2*delay {
			t.Errorf("the first member waited for %v", took)
		}
		// An empty group is like a new one.
		distribute(t, alone)
		alone.leave(t)
		again := newMember(t, s.Address, alone.entry.Group)
		began = time.Now()
		again.join(t)
		if took := time.Since(began); took < delay {
			t.Errorf("in an empty group the first member waited for %v", took)
		}
	})
	t.Run("together", func(t *testing.T) {
		t.Parallel()
		if took := join(t, group, false); took < 2*delay {
			t.Errorf("two that came at the same time waited for %v", took)
		}
	})
	t.Run("late", func(t *testing.T) {
		t.Parallel()
		if took := join(t, lateGroup, true); took < 2*delay {
			t.Errorf("the first one waited for %v, a second one came after %v", took, delay/2)
		}
	})
}

// Without that delay whoever is alone does not wait at all.
func TestWithoutADelayTheFirstMemberIsAloneAtOnce(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	m := newMember(t, address, newGroup(t, address))
	began := time.Now()
	m.join(t)
	if took := time.Since(began); took > time.Second {
		t.Errorf("JoinGroup took %v", took)
	}
	if m.joined.Generation != 1 || !m.leads() || len(m.joined.Members) != 1 || m.joined.Members[0].MemberID != m.id() {
		t.Errorf("%+v", m.joined)
	}
	distribute(t, m)
}
