package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// comeBack lets a new process take the place of a static member: it knows the instance and no member id.
func (m *member) comeBack(t *testing.T, address string) *member {
	t.Helper()
	again := &member{conn: dial(t, address), entry: new(*m.entry)}
	again.entry.MemberID = ""
	again.join(t)
	return again
}

// wantSamePlace checks that a static member came back to the generation, the protocol and the assignment of the one
// before, under another id.
func wantSamePlace(t *testing.T, before, again *member, assignment string) {
	t.Helper()
	if again.id() == before.id() || again.joined.Generation != before.joined.Generation || text(again.joined.Protocol) != text(before.joined.Protocol) {
		t.Errorf("%s of generation %d came back as %s of generation %d", before.id(), before.joined.Generation, again.id(), again.joined.Generation)
	}
	again.sendSync(t)
	again.wantAssigned(t, assignment)
}

// wantFenced checks that what a static member was before it came back can do nothing any more.
func wantFenced(t *testing.T, c *conn, old *member, topic string) {
	t.Helper()
	wantCode(t, "the old one's heartbeat", old.heartbeat(t, c), kerr.FencedInstanceID)
	wantCode(t, "the old one's commit", commit(t, c, old.commitRequest(topic, 0, 99)), kerr.FencedInstanceID)
	wantCode(t, "the old one's JoinGroup", ask(t, c, old.entry).ErrorCode, kerr.FencedInstanceID)
	sync := at(3, kmsg.NewPtrSyncGroupRequest())
	sync.Group, sync.MemberID, sync.InstanceID, sync.Generation = old.entry.Group, old.id(), old.entry.InstanceID, old.joined.Generation
	wantCode(t, "the old one's SyncGroup", ask(t, c, sync).ErrorCode, kerr.FencedInstanceID)
	leave := at(5, kmsg.NewPtrLeaveGroupRequest())
	leave.Group, leave.Members = old.entry.Group, []kmsg.LeaveGroupRequestMember{{MemberID: old.id(), InstanceID: old.entry.InstanceID}}
	if resp := ask(t, c, leave); resp.ErrorCode != 0 || len(resp.Members) != 1 || resp.Members[0].ErrorCode != kerr.FencedInstanceID.Code {
		t.Errorf("the old one's LeaveGroup: %+v", resp)
	}
}

// A process with an instance id that is restarted within its session has its partitions back at once, and the others do
// not notice: that is what instance ids are for. Whoever is still there under the old id is fenced off.
func TestAStaticMemberComesBackWithoutARebalance(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1).name
	group := newGroup(t, address)
	members := []*member{newMember(t, address, group).static("a"), newMember(t, address, group).static("b")}
	leader := settle(t, members...)
	for i, m := range members {
		other := members[1-i]
		again := m.comeBack(t, address)
		// In this version a leader cannot be told to leave the assignment as it is. So it is told of the old one.
		if again.joined.LeaderID == again.id() || len(again.joined.Members) != 0 {
			t.Errorf("the one that came back is told leader %s and %d members", again.joined.LeaderID, len(again.joined.Members))
		}
		wantSamePlace(t, m, again, assignmentOf(m))
		wantCode(t, "the other one's heartbeat", other.heartbeat(t, other.conn), nil)
		wantCode(t, "its heartbeat", again.heartbeat(t, again.conn), nil)
		wantCode(t, "its commit", commit(t, again.conn, again.commitRequest(topic, 0, int64(i))), nil)
		wantFenced(t, m.conn, m, topic)
		wantCommitted(t, m.conn, "after the old one's commit", group, topic, int64(i))

		// From version 9 on a leader that comes back is told that it leads, of whom, and to assign nothing.
		again.entry.Version = 9
		third := again.comeBack(t, address)
		if leads := m == leader; third.leads() != leads || third.joined.SkipAssignment != leads || (len(third.joined.Members) == 2) != leads {
			t.Errorf("the leader was %s: %s came back to %+v", leader.id(), third.id(), third.joined)
		}
		wantSamePlace(t, again, third, assignmentOf(m))
		wantCode(t, "the other one's heartbeat", other.heartbeat(t, other.conn), nil)
		members[i] = third
	}
	if g := describeGroup(t, members[0].conn, group); g.State != "Stable" || len(g.Members) != 2 {
		t.Errorf("described as %+v", g)
	}
}

// What a static member supports may have changed while it was away. If that changes which protocol is elected there is a
// rebalance; metadata alone does not matter.
func TestAStaticMemberComesBackAsAnother(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	a, b := newMember(t, address, group, "range", "sticky").static("a"), newMember(t, address, group, "range", "sticky").static("b")
	settle(t, a, b)
	generation := a.joined.Generation
	a.entry.Protocols[0].Metadata = []byte("other topics")
	again := a.comeBack(t, address)
	wantSamePlace(t, a, again, assignmentOf(a))
	wantCode(t, "the other one's heartbeat", b.heartbeat(t, b.conn), nil)

	third := &member{conn: dial(t, address), entry: new(*again.entry)}
	third.entry.MemberID, third.entry.Protocols = "", third.entry.Protocols[1:] // sticky alone
	third.sendJoin(t)
	b.awaitRebalance(t)
	b.sendJoin(t)
	third.enter(t)
	b.enter(t)
	if third.joined.Generation != generation+1 || text(third.joined.Protocol) != "sticky" {
		t.Errorf("generation %d by %s", third.joined.Generation, text(third.joined.Protocol))
	}
	distribute(t, b, third)
}

// Two processes with one instance id are a mistake of the operator's. The second one takes the place, and the first is
// told so, even while it waits.
func TestTwoWithOneInstance(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1).name
	group := newGroup(t, address)
	other, first := newMember(t, address, group).static("other"), newMember(t, address, group).static("same")
	settle(t, other)
	first.sendJoin(t) // and waits for the other
	awaitMembers(t, other.conn, group, 2)
	second := newMember(t, address, group).static("same")
	second.sendJoin(t)
	wantCode(t, "the first one's JoinGroup", first.awaitJoin(t).ErrorCode, kerr.FencedInstanceID)
	other.awaitRebalance(t)
	other.sendJoin(t)
	other.enter(t)
	second.enter(t)
	leader, follower := other, second
	if second.leads() {
		leader, follower = second, other
	}
	follower.sendSync(t) // and waits for the leader
	follower.wantSilence(t, "SyncGroup of the follower")
	third := newMember(t, address, group).static(*follower.entry.InstanceID)
	third.sendJoin(t)
	wantCode(t, "the follower's SyncGroup", follower.awaitSync(t).ErrorCode, kerr.FencedInstanceID)
	leader.awaitRebalance(t)
	leader.sendJoin(t)
	leader.enter(t)
	third.enter(t)
	distribute(t, leader, third)
	wantFenced(t, follower.conn, follower, topic)
}

// A static member that goes away for good is missed when its session is over, and not before; an administrator can remove
// it by its instance.
func TestAStaticMemberIsKeptForItsSession(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	gone, stays := newMember(t, address, group).static("gone"), newMember(t, address, group)
	gone.entry.SessionTimeoutMillis = minSessionMillis
	settle(t, gone, stays)
	generation := stays.joined.Generation
	gone.Close()
	wantCode(t, "a heartbeat", stays.heartbeat(t, stays.conn), nil)
	stays.awaitRebalance(t)
	stays.join(t)
	if stays.joined.Generation != generation+1 || len(stays.joined.Members) != 1 {
		t.Errorf("generation %d with %d members", stays.joined.Generation, len(stays.joined.Members))
	}
	distribute(t, stays)

	back := newMember(t, address, group).static("gone")
	back.sendJoin(t)
	stays.awaitRebalance(t)
	stays.sendJoin(t)
	stays.enter(t)
	back.enter(t)
	distribute(t, stays, back)
	remove := func(instance string) kmsg.LeaveGroupResponseMember {
		req := at(5, kmsg.NewPtrLeaveGroupRequest())
		req.Group, req.Members = group, []kmsg.LeaveGroupRequestMember{{InstanceID: &instance}}
		resp := ask(t, stays.conn, req)
		if resp.ErrorCode != 0 || len(resp.Members) != 1 || text(resp.Members[0].InstanceID) != instance {
			t.Fatalf("LeaveGroup: %+v", resp)
		}
		return resp.Members[0]
	}
	wantCode(t, "removing an instance that is not there", remove("nobody").ErrorCode, kerr.UnknownMemberID)
	wantCode(t, "a heartbeat", stays.heartbeat(t, stays.conn), nil)
	wantCode(t, "removing the instance", remove("gone").ErrorCode, nil)
	stays.awaitRebalance(t)
	wantCode(t, "the removed one's heartbeat", back.heartbeat(t, back.conn), kerr.UnknownMemberID)
}

// Instance ids are kept with the group: a process that is restarted while the broker is has its place back, too, and the
// one before it is fenced off.
func TestAStaticMemberComesBackAfterACrash(t *testing.T) {
	t.Parallel()
	for _, how := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := start(t, ownGroups...)
			topic := newTopic(t, s.Address, 1).name
			group := newGroup(t, s.Address)
			a, b := newMember(t, s.Address, group).static("a"), newMember(t, s.Address, group).static("b")
			settle(t, a, b)
			replaced := a.comeBack(t, s.Address) // which is on record before it is answered
			assignment := assignmentOf(a)
			wantSamePlace(t, a, replaced, assignment)
			s.end(t, how)
			s.restart(t)
			coordinate(t, s.Address, group)
			for _, m := range []*member{a, b, replaced} {
				m.move(t, s.Address)
			}
			wantFenced(t, a.conn, a, topic)
			again := replaced.comeBack(t, s.Address)
			wantSamePlace(t, replaced, again, assignment)
			wantFenced(t, replaced.conn, replaced, topic)
			for _, m := range []*member{again, b} {
				wantCode(t, "a heartbeat", m.heartbeat(t, m.conn), nil)
				wantCode(t, "a commit", commit(t, m.conn, m.commitRequest(topic, 0, 7)), nil)
			}
		})
	}
}
