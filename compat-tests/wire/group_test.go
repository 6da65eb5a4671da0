package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// ownGroups are settings of the brokers of cases with groups: by default a new group waits three seconds for more members.
var ownGroups = []string{"--override", "group.initial.rebalance.delay.ms=0"}

// sessionMillis is far above what a case without heartbeats takes.
const sessionMillis = 30_000

// minSessionMillis is the shortest session that a broker admits by default.
const minSessionMillis = 6000

// newGroup returns a name that no other case uses, of a group whose coordinator is there.
func newGroup(t *testing.T, address string) string {
	t.Helper()
	group := "group-" + harness.TopicName(t)
	coordinate(t, address, group)
	return group
}

// coordinate waits until a group has a coordinator: the first to ask has the topic of the offsets made, and the
// coordinator may have to load it.
func coordinate(t *testing.T, address, group string) {
	t.Helper()
	c := dial(t, address)
	defer c.Close()
	for deadline := time.Now().Add(replyWithin); ; time.Sleep(10 * time.Millisecond) {
		code := ask(t, c, at(3, findCoordinator(0, group))).ErrorCode
		if code == 0 {
			code = ask(t, c, at(7, offsetFetchRequest(group))).ErrorCode
		}
		if code == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("group %s has no coordinator: %s", group, codeName(code))
		}
	}
}

// findCoordinator asks for coordinators of one kind: 0 those of groups, 1 of transactions.
func findCoordinator(kind int8, keys ...string) *kmsg.FindCoordinatorRequest {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKeys = kind, keys
	if len(keys) > 0 {
		req.CoordinatorKey = keys[0] // the only one before version 4
	}
	return req
}

// member is a member of a group, or would be one. Its connection is its own, as a JoinGroup holds what is behind it.
type member struct {
	*conn
	entry  *kmsg.JoinGroupRequest  // what it joins with, and its id
	joined *kmsg.JoinGroupResponse // the last answer to that
	synced *kmsg.SyncGroupRequest  // the last one sent
}

// newMember returns one that has not joined yet. It supports the protocols named, or "range".
func newMember(t *testing.T, address, group string, protocols ...string) *member {
	t.Helper()
	if len(protocols) == 0 {
		protocols = []string{"range"}
	}
	req := at(7, kmsg.NewPtrJoinGroupRequest())
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = group, "consumer", sessionMillis, sessionMillis
	for _, p := range protocols {
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: []byte("metadata of " + p)})
	}
	return &member{conn: dial(t, address), entry: req}
}

// static gives a member an instance id.
func (m *member) static(instance string) *member {
	m.entry.InstanceID = &instance
	return m
}

// move gives a member a new connection, as after a restart of the broker.
func (m *member) move(t *testing.T, address string) {
	t.Helper()
	m.conn = dial(t, address)
}

func (m *member) id() string { return m.entry.MemberID }

// sendJoin asks to join. A member without an id gets one first, where the version wants that (KIP-394).
func (m *member) sendJoin(t *testing.T) {
	t.Helper()
	if m.id() == "" && m.entry.InstanceID == nil && m.entry.Version >= 4 {
		first := ask(t, m.conn, m.entry)
		wantCode(t, "JoinGroup without a member id", first.ErrorCode, kerr.MemberIDRequired)
		m.entry.MemberID = first.MemberID
	}
	m.send(t, m.frame(m.entry))
}

// awaitJoin waits for the answer to sendJoin, whatever it is.
func (m *member) awaitJoin(t *testing.T) *kmsg.JoinGroupResponse {
	t.Helper()
	resp, err := m.receive(m.entry, m.sent, longestJoin)
	if err != nil {
		t.Fatal(err)
	}
	m.joined = resp.(*kmsg.JoinGroupResponse)
	return m.joined
}

// longestJoin is more than any JoinGroup of a case waits for.
const longestJoin = sessionMillis * time.Millisecond

// enter waits for the answer to sendJoin, which must be a generation, in which a member without an instance keeps its id.
func (m *member) enter(t *testing.T) {
	t.Helper()
	if resp := m.awaitJoin(t); resp.ErrorCode != 0 {
		t.Fatalf("JoinGroup: %s", codeName(resp.ErrorCode))
	}
	if had := m.id(); had != "" && had != m.joined.MemberID && m.entry.InstanceID == nil {
		t.Errorf("member %s is called %s now", had, m.joined.MemberID)
	}
	m.entry.MemberID = m.joined.MemberID
}

// join joins and waits for it.
func (m *member) join(t *testing.T) {
	t.Helper()
	m.sendJoin(t)
	m.enter(t)
}

func (m *member) leads() bool { return m.joined.LeaderID == m.id() }

// sendSync asks for the member's assignment; a leader gives those of all: member id, bytes, member id, bytes.
func (m *member) sendSync(t *testing.T, assignments ...string) {
	t.Helper()
	req := at(5, kmsg.NewPtrSyncGroupRequest())
	req.Group, req.Generation, req.MemberID, req.InstanceID = m.entry.Group, m.joined.Generation, m.id(), m.entry.InstanceID
	req.ProtocolType, req.Protocol = &m.entry.ProtocolType, m.joined.Protocol
	if m.joined.ProtocolType == nil { // older versions do not tell
		req.Version = 3
	}
	for i := 0; i+1 < len(assignments); i += 2 {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: assignments[i], MemberAssignment: []byte(assignments[i+1])})
	}
	m.synced = req
	m.send(t, m.frame(req))
}

// awaitSync waits for the answer to sendSync.
func (m *member) awaitSync(t *testing.T) *kmsg.SyncGroupResponse {
	t.Helper()
	resp, err := m.receive(m.synced, m.sent, longestJoin)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.SyncGroupResponse)
}

// sync is both.
func (m *member) sync(t *testing.T, assignments ...string) *kmsg.SyncGroupResponse {
	t.Helper()
	m.sendSync(t, assignments...)
	return m.awaitSync(t)
}

// wantAssigned waits for the answer to sendSync and checks what it assigns.
func (m *member) wantAssigned(t *testing.T, want string) {
	t.Helper()
	resp := m.awaitSync(t)
	wantCode(t, "SyncGroup", resp.ErrorCode, nil)
	if string(resp.MemberAssignment) != want {
		t.Errorf("member %s is assigned %.100q, want %.100q", m.id(), resp.MemberAssignment, want)
	}
}

// wantSilence checks that the answer does not come for a while.
func (m *member) wantSilence(t *testing.T, what string) {
	t.Helper()
	if err := m.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if b, err := m.in.Peek(1); err == nil {
		t.Errorf("%s: there is an answer: % x", what, b)
	}
}

// heartbeat asks on the member's connection, or on another one while that waits.
func (m *member) heartbeat(t *testing.T, on *conn) int16 {
	t.Helper()
	return ask(t, on, m.heartbeatRequest()).ErrorCode
}

func (m *member) heartbeatRequest() *kmsg.HeartbeatRequest {
	req := at(4, kmsg.NewPtrHeartbeatRequest())
	req.Group, req.MemberID, req.Generation, req.InstanceID = m.entry.Group, m.id(), m.joined.Generation, m.entry.InstanceID
	return req
}

// awaitRebalance sends heartbeats until they say that a rebalance is under way.
func (m *member) awaitRebalance(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(replyWithin); ; time.Sleep(10 * time.Millisecond) {
		code := m.heartbeat(t, m.conn)
		if code == kerr.RebalanceInProgress.Code {
			return
		}
		if code != 0 || time.Now().After(deadline) {
			t.Fatalf("a heartbeat before the rebalance: %s", codeName(code))
		}
	}
}

// leave leaves, and must be let go.
func (m *member) leave(t *testing.T) {
	t.Helper()
	req := at(5, kmsg.NewPtrLeaveGroupRequest())
	req.Group = m.entry.Group
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.id(), InstanceID: m.entry.InstanceID}}
	resp := ask(t, m.conn, req)
	if resp.ErrorCode != 0 || len(resp.Members) != 1 || resp.Members[0].ErrorCode != 0 {
		t.Fatalf("LeaveGroup: %+v", resp)
	}
}

// assignmentOf is what settle assigns.
func assignmentOf(m *member) string { return "what " + m.id() + " reads" }

// settle makes the members those of a group that has none, or none but the first, and brings it to Stable. It returns
// the leader.
func settle(t *testing.T, members ...*member) *member {
	t.Helper()
	first := members[0]
	if first.joined == nil {
		first.join(t)
	}
	if others := members[1:]; len(others) > 0 {
		for _, m := range others {
			m.sendJoin(t)
		}
		awaitMembers(t, first.conn, first.entry.Group, len(members))
		first.sendJoin(t)
		for _, m := range members {
			m.enter(t)
		}
	}
	return distribute(t, members...)
}

// distribute gives each of the members that have joined its assignment, and returns the leader.
func distribute(t *testing.T, members ...*member) (leader *member) {
	t.Helper()
	var all []string
	for _, m := range members {
		all = append(all, m.id(), assignmentOf(m))
		if m.leads() {
			leader = m
		}
		if m.joined.Generation != members[0].joined.Generation {
			t.Fatalf("member %s is in generation %d, %s in %d", m.id(), m.joined.Generation, members[0].id(), members[0].joined.Generation)
		}
	}
	if leader == nil {
		t.Fatalf("none of the members is the leader %q", members[0].joined.LeaderID)
	}
	for _, m := range members {
		if m == leader {
			m.sendSync(t, all...)
		} else {
			m.sendSync(t)
		}
	}
	for _, m := range members {
		m.wantAssigned(t, assignmentOf(m))
	}
	return leader
}

// awaitMembers waits until so many members are known.
func awaitMembers(t *testing.T, c *conn, group string, want int) {
	t.Helper()
	awaitGroup(t, c, group, fmt.Sprintf("of %d members", want), func(g kmsg.DescribeGroupsResponseGroup) bool { return len(g.Members) == want })
}

// awaitGroup waits until a group is described as ok wants it.
func awaitGroup(t *testing.T, c *conn, group, what string, ok func(kmsg.DescribeGroupsResponseGroup) bool) kmsg.DescribeGroupsResponseGroup {
	t.Helper()
	for deadline := time.Now().Add(longestJoin); ; time.Sleep(10 * time.Millisecond) {
		g := describeGroup(t, c, group)
		if g.ErrorCode == 0 && ok(g) {
			return g
		}
		if time.Now().After(deadline) {
			t.Fatalf("group %s is not %s: %+v", group, what, g)
		}
	}
}

// describeGroup asks at a version in which a group that is not there is Dead, and no error.
func describeGroup(t *testing.T, c *conn, group string) kmsg.DescribeGroupsResponseGroup {
	t.Helper()
	req := at(5, kmsg.NewPtrDescribeGroupsRequest())
	req.Groups = []string{group}
	return ask(t, c, req).Groups[0]
}

// commitRequest commits one offset without being a member.
func commitRequest(group, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := at(7, kmsg.NewPtrOffsetCommitRequest())
	req.Group = group
	addCommit(req, topic, partition, offset)
	return req
}

// addCommit adds an offset to a request.
func addCommit(req *kmsg.OffsetCommitRequest, topic string, partition int32, offset int64) {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, offset, kmsg.StringPtr("")
	if n := len(req.Topics); n > 0 && req.Topics[n-1].Topic == topic {
		req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, p)
		return
	}
	row := kmsg.NewOffsetCommitRequestTopic()
	row.Topic, row.Partitions = topic, []kmsg.OffsetCommitRequestTopicPartition{p}
	req.Topics = append(req.Topics, row)
}

// commitRequest commits one offset as that member.
func (m *member) commitRequest(topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := commitRequest(m.entry.Group, topic, partition, offset)
	req.MemberID, req.InstanceID, req.Generation = m.id(), m.entry.InstanceID, m.joined.Generation
	return req
}

// commit sends a commit of one offset and returns its code.
func commit(t *testing.T, c *conn, req *kmsg.OffsetCommitRequest) int16 {
	t.Helper()
	return ask(t, c, req).Topics[0].Partitions[0].ErrorCode
}

// mustCommit commits one offset without being a member.
func mustCommit(t *testing.T, c *conn, group, topic string, partition int32, offset int64) {
	t.Helper()
	if code := commit(t, c, commitRequest(group, topic, partition, offset)); code != 0 {
		t.Fatalf("committing offset %d of %s[%d] for %s: %s", offset, topic, partition, group, codeName(code))
	}
}

// offsetFetchRequest asks for offsets of a group: of no topics, or of one.
func offsetFetchRequest(group string, topics ...kmsg.OffsetFetchRequestTopic) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.Topics = group, append([]kmsg.OffsetFetchRequestTopic{}, topics...)
	return req
}

// committed returns the offset that is committed, -1 for none.
func committed(t *testing.T, c *conn, group, topic string, partition int32) int64 {
	t.Helper()
	resp := ask(t, c, at(7, offsetFetchRequest(group, kmsg.OffsetFetchRequestTopic{Topic: topic, Partitions: []int32{partition}})))
	if resp.ErrorCode != 0 {
		t.Fatalf("OffsetFetch of %s: %s", group, codeName(resp.ErrorCode))
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Fatalf("OffsetFetch of %s[%d] for %s: %s", topic, partition, group, codeName(p.ErrorCode))
	}
	return p.Offset
}

// wantCommitted checks the offset of partition 0.
func wantCommitted(t *testing.T, c *conn, what, group, topic string, want int64) {
	t.Helper()
	if got := committed(t, c, group, topic, 0); got != want {
		t.Errorf("%s: committed is %d, want %d", what, got, want)
	}
}
