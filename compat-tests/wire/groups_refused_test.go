package wire

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// Whatever is wrong with a member has its own error, by which clients decide whether they come again and how.
func TestJoinGroupRefuses(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	stable := newMember(t, address, group, "range", "sticky")
	settle(t, stable)
	fresh := newGroup(t, address)
	for _, r := range []struct {
		what  string
		group string
		wrong func(*kmsg.JoinGroupRequest)
		want  *kerr.Error
	}{
		{"no group", "", func(*kmsg.JoinGroupRequest) {}, kerr.InvalidGroupID},
		{"a session that is too short", fresh, func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = minSessionMillis - 1 }, kerr.InvalidSessionTimeout},
		{"a session that is too long", fresh, func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1_800_001 }, kerr.InvalidSessionTimeout},
		{"a session of no time", fresh, func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 0 }, kerr.InvalidSessionTimeout},
		{"a session that ended before it began", fresh, func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = -1 }, kerr.InvalidSessionTimeout},
		{"a member of a group that is not there", fresh, func(r *kmsg.JoinGroupRequest) { r.MemberID = "somebody" }, kerr.UnknownMemberID},
		{"no type of protocol", fresh, func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" }, kerr.InconsistentGroupProtocol},
		{"no protocol", fresh, func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }, kerr.InconsistentGroupProtocol},
		{"a member that is not there", group, func(r *kmsg.JoinGroupRequest) { r.MemberID = "somebody" }, kerr.UnknownMemberID},
		{"an instance that is not there with a member id", group, func(r *kmsg.JoinGroupRequest) { r.MemberID, r.InstanceID = "somebody", kmsg.StringPtr("x") }, kerr.UnknownMemberID},
		{"another type of protocol", group, func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" }, kerr.InconsistentGroupProtocol},
		{"another protocol", group, func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "roundrobin" }, kerr.InconsistentGroupProtocol},
		{"no protocol, in a group that has one", group, func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }, kerr.InconsistentGroupProtocol},
	} {
		for _, version := range []int16{0, 3, 4, 5, 9} {
			m := newMember(t, address, r.group)
			m.entry.Version = version
			r.wrong(m.entry)
			if m.entry.InstanceID != nil && version < 5 {
				continue
			}
			resp := ask(t, m.conn, m.entry)
			wantCode(t, r.what, resp.ErrorCode, r.want)
			if resp.Generation != -1 || resp.LeaderID != "" || len(resp.Members) != 0 || resp.MemberID != m.id() {
				t.Errorf("%s, at version %d: %+v", r.what, version, resp)
			}
			m.Close()
		}
	}
	wantCode(t, "the member's heartbeat", stable.heartbeat(t, stable.conn), nil)
	for _, session := range []int32{minSessionMillis, 1_800_000} {
		m := newMember(t, address, newGroup(t, address))
		m.entry.SessionTimeoutMillis = session
		settle(t, m)
		m.leave(t)
	}
}

// Members that are not there, or are of another generation, are told which of both.
func TestStrangersInAGroup(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	m := newMember(t, address, group)
	settle(t, m)
	c := dial(t, address)
	for _, r := range []struct {
		what       string
		group, id  string
		generation int32
		want       *kerr.Error // of Heartbeat and SyncGroup
		leave      *kerr.Error
	}{
		{"no group", "", m.id(), 1, kerr.InvalidGroupID, kerr.InvalidGroupID},
		{"a group that is not there", newGroup(t, address), m.id(), 1, kerr.UnknownMemberID, kerr.UnknownMemberID},
		{"a member that is not there", group, "somebody", 1, kerr.UnknownMemberID, kerr.UnknownMemberID},
		{"no member", group, "", 1, kerr.UnknownMemberID, kerr.UnknownMemberID},
		{"a generation to come", group, m.id(), 2, kerr.IllegalGeneration, nil},
		{"a generation that is over", group, m.id(), 0, kerr.IllegalGeneration, nil},
		{"no generation", group, m.id(), -1, kerr.IllegalGeneration, nil},
	} {
		for version := range int16(5) {
			req := at(version, kmsg.NewPtrHeartbeatRequest())
			req.Group, req.MemberID, req.Generation = r.group, r.id, r.generation
			wantCode(t, "a heartbeat of "+r.what, ask(t, c, req).ErrorCode, r.want)
		}
		for version := range int16(6) {
			req := at(version, kmsg.NewPtrSyncGroupRequest())
			req.Group, req.MemberID, req.Generation = r.group, r.id, r.generation
			req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
			resp := ask(t, c, req)
			wantCode(t, "SyncGroup of "+r.what, resp.ErrorCode, r.want)
			if len(resp.MemberAssignment) != 0 {
				t.Errorf("SyncGroup of %s assigns %q", r.what, resp.MemberAssignment)
			}
		}
		if r.leave == nil {
			continue // it would leave
		}
		for version := range int16(6) {
			req := at(version, kmsg.NewPtrLeaveGroupRequest())
			req.Group, req.MemberID = r.group, r.id
			req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: r.id}, {MemberID: r.id}}
			resp := ask(t, c, req)
			if version < 3 || r.group == "" {
				wantCode(t, "LeaveGroup of "+r.what, resp.ErrorCode, r.leave)
				continue
			}
			wantCode(t, "LeaveGroup", resp.ErrorCode, nil)
			if len(resp.Members) != 2 {
				t.Fatalf("LeaveGroup of two members: %+v", resp)
			}
			for _, row := range resp.Members {
				wantCode(t, "LeaveGroup of "+r.what, row.ErrorCode, r.leave)
			}
		}
	}
	for _, r := range []struct {
		what               string
		protocolType, name *string
	}{
		{"another type of protocol", kmsg.StringPtr("connect"), kmsg.StringPtr("range")},
		{"another protocol", kmsg.StringPtr("consumer"), kmsg.StringPtr("roundrobin")},
		{"no type of protocol", nil, kmsg.StringPtr("range")},
		{"no protocol", kmsg.StringPtr("consumer"), nil},
	} {
		req := at(5, kmsg.NewPtrSyncGroupRequest())
		req.Group, req.MemberID, req.Generation, req.ProtocolType, req.Protocol = group, m.id(), 1, r.protocolType, r.name
		wantCode(t, "SyncGroup with "+r.what, ask(t, c, req).ErrorCode, kerr.InconsistentGroupProtocol)
	}
	wantCode(t, "the member's heartbeat", m.heartbeat(t, m.conn), nil)
	m.sendSync(t)
	m.wantAssigned(t, assignmentOf(m))
}

// The group without a name keeps offsets, as it always has, and nothing else.
func TestTheGroupWithoutAName(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1).name
	c := dial(t, address)
	coordinate(t, address, "")
	mustCommit(t, c, "", topic, 0, 5)
	wantCommitted(t, c, "of the group without a name", "", topic, 5)
	member := commitRequest("", topic, 0, 6)
	member.MemberID, member.Generation = "somebody", 1
	wantCode(t, "a commit of a member", commit(t, c, member), kerr.UnknownMemberID)
	whole, _ := deleteOffset(t, c, "", topic)
	wantCode(t, "deleting an offset of it", whole, kerr.InvalidGroupID)
	wantCode(t, "deleting it", deleteGroup(t, c, ""), nil)
	wantCode(t, "deleting it again", deleteGroup(t, c, ""), kerr.GroupIDNotFound)
}

// An operator may bound how many members a group has. Those that are there stay.
func TestAFullGroup(t *testing.T) {
	t.Parallel()
	s := start(t, append([]string{"--override", "group.max.size=2"}, ownGroups...)...)
	group := newGroup(t, s.Address)
	a, b := newMember(t, s.Address, group), newMember(t, s.Address, group)
	settle(t, a, b)
	for _, version := range []int16{0, 7} {
		third := newMember(t, s.Address, group)
		third.entry.Version = version
		resp := ask(t, third.conn, third.entry)
		wantCode(t, "JoinGroup of a third one", resp.ErrorCode, kerr.GroupMaxSizeReached)
		if resp.MemberID != "" || resp.Generation != -1 {
			t.Errorf("a third one is told %+v", resp)
		}
	}
	for _, m := range []*member{a, b} {
		wantCode(t, "a heartbeat", m.heartbeat(t, m.conn), nil)
	}
	b.leave(t)
	c := newMember(t, s.Address, group)
	c.sendJoin(t)
	a.awaitRebalance(t)
	a.sendJoin(t)
	a.enter(t)
	c.enter(t)
	distribute(t, a, c)
}

// What a group keeps of its members is one record of the topic of the offsets. If it does not fit, the rebalance fails, and
// nothing else.
func TestAnAssignmentThatIsTooLarge(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	group := newGroup(t, address)
	m := newMember(t, address, group)
	m.join(t)
	wantCode(t, "SyncGroup with 1.5 MB", m.sync(t, m.id(), strings.Repeat("x", 1_500_000)).ErrorCode, kerr.UnknownServerError)
	wantCode(t, "a heartbeat after that", m.heartbeat(t, m.conn), kerr.RebalanceInProgress)
	m.join(t)
	wantCode(t, "SyncGroup with 1 MB", m.sync(t, m.id(), strings.Repeat("x", 1_000_000)).ErrorCode, nil)
	wantCode(t, "a heartbeat after that", m.heartbeat(t, m.conn), nil)
	m.leave(t)
}

// A text in a request may be longer than its record can hold. Such a request closes the connection; a member whose id would
// be too long is refused. What is already on record stays readable: at the next start it all has to be read.
func TestTextsThatAreTooLong(t *testing.T) {
	t.Parallel()
	s := start(t, ownGroups...)
	topic := newTopic(t, s.Address, 1).name
	simple := newGroup(t, s.Address)
	mustCommit(t, dial(t, s.Address), simple, topic, 0, 5)
	join := func(change func(*kmsg.JoinGroupRequest)) *member {
		m := newMember(t, s.Address, newGroup(t, s.Address))
		change(m.entry)
		return m
	}
	texts := map[string]func(text string) *member{
		"group":         func(text string) *member { return join(func(r *kmsg.JoinGroupRequest) { r.Group = text }) },
		"protocol type": func(text string) *member { return join(func(r *kmsg.JoinGroupRequest) { r.ProtocolType = text }) },
		"protocol":      func(text string) *member { return join(func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = text }) },
		"instance":      func(text string) *member { return join(func(r *kmsg.JoinGroupRequest) { r.InstanceID = &text }) },
	}
	const longest = 32_767 // bytes
	const inID = longest - 37
	for _, size := range []int{longest + 1, 40_000, 65_535, 65_536, 70_000} {
		text := strings.Repeat("x", size)
		for name, member := range texts {
			m := member(text)
			m.send(t, m.frame(m.entry))
			if err := m.closed(); err != nil {
				t.Errorf("a %s of %d bytes: %v", name, size, err)
			}
		}
		c := dial(t, s.Address)
		c.send(t, c.frame(at(8, commitRequest(text, topic, 0, 1))))
		c.wantClosed(t)
	}
	for name, member := range texts {
		if name == "instance" {
			for _, size := range []int{inID + 1, longest} {
				m := member(strings.Repeat("x", size))
				wantCode(t, "JoinGroup with a long instance", ask(t, m.conn, m.entry).ErrorCode, kerr.UnknownServerError)
			}
			continue
		}
		settle(t, member(strings.Repeat("x", longest)))
	}
	settle(t, texts["instance"](strings.Repeat("x", inID)))
	long := join(func(*kmsg.JoinGroupRequest) {})
	long.formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID(strings.Repeat("x", inID+1)))
	wantCode(t, "JoinGroup of a client with a long id", ask(t, long.conn, long.entry).ErrorCode, kerr.UnknownServerError)
	mustCommit(t, dial(t, s.Address), strings.Repeat("y", longest), topic, 0, 6)

	before := ask(t, dial(t, s.Address), at(5, kmsg.NewPtrListGroupsRequest())).Groups
	s.Kill()
	s.restart(t)
	c := dial(t, s.Address)
	for _, g := range before {
		coordinate(t, s.Address, g.Group)
		if row := listed(t, c, g.Group, at(5, kmsg.NewPtrListGroupsRequest())); row == nil {
			t.Errorf("group %.50s is gone", g.Group)
		}
	}
	if len(before) < 6 {
		t.Errorf("%d groups", len(before))
	}
	wantCommitted(t, c, "after the next start", simple, topic, 5)
	wantCommitted(t, c, "after the next start", strings.Repeat("y", longest), topic, 6)
}
