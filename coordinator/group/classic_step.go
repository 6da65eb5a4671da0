package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// step is one Step of the classic protocol in the making.
type step struct {
	*Shard
	now time.Time
	out coordinator.Output
}

func (st *step) reply(to *coordinator.Call, body any) {
	st.out.Replies = append(st.out.Replies, coordinator.Reply{To: to, Body: body})
}

func (st *step) setTimer(key any, in time.Duration) {
	st.out.Timers = append(st.out.Timers, coordinator.Timer{Key: key, At: st.now.Add(in)})
}

func (st *step) cancelTimer(key any) {
	st.out.Timers = append(st.out.Timers, coordinator.Timer{Key: key})
}

// keepSession gives a member its whole session timeout again.
func (st *step) keepSession(m *liveMember) {
	st.setTimer(sessionTimer{m}, milliseconds(m.sessionTimeout))
}

// lives reports whether a group is still the one of its id: timers and outcomes may come late.
func (st *step) lives(g *classic) bool { return st.groups[g.id] == g }

// awaitJoin lets a member's JoinGroup wait for the others.
func (st *step) awaitJoin(m *liveMember, c *coordinator.Call) {
	if m.join != nil {
		// A member asks once more when it gave its first connection up; whoever still listens there joins again.
		st.answerJoin(m, refusedJoin(m.join, m.id, kafka.RebalanceInProgress))
	}
	m.join = c
	m.group.joining++
}

// answerJoin answers a JoinGroup that waits, if there is one.
func (st *step) answerJoin(m *liveMember, body *kmsg.JoinGroupResponse) {
	if m.join == nil {
		return
	}
	st.reply(m.join, body)
	m.join = nil
	m.group.joining--
}

// refuseJoin answers a JoinGroup that waits, if there is one, with an error.
func (st *step) refuseJoin(m *liveMember, memberID string, code kafka.Code) {
	if m.join != nil {
		st.answerJoin(m, refusedJoin(m.join, memberID, code))
	}
}

func refusedJoin(c *coordinator.Call, memberID string, code kafka.Code) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version = c.Body.(*kmsg.JoinGroupRequest).Version
	resp.ErrorCode = int16(code)
	resp.MemberID = memberID
	return resp
}

// acceptedJoin says what the member's generation is.
func acceptedJoin(c *coordinator.Call, m *liveMember) *kmsg.JoinGroupResponse {
	g := m.group
	resp := refusedJoin(c, m.id, kafka.None)
	resp.Generation = g.generation
	resp.ProtocolType = new(g.protocolType)
	if g.protocol != "" || resp.Version < 7 {
		resp.Protocol = new(g.protocol)
	}
	resp.LeaderID = g.leader.id
	return resp
}

// tellMembers adds what a leader needs to make an assignment: everybody, in the order of joining.
func tellMembers(resp *kmsg.JoinGroupResponse, g *classic) {
	resp.Members = make([]kmsg.JoinGroupResponseMember, len(g.list))
	for i, m := range g.list {
		to := &resp.Members[i]
		to.Default()
		to.MemberID, to.InstanceID, to.ProtocolMetadata = m.id, m.instanceID, m.metadata(g.protocol)
	}
}

// awaitSync lets a member's SyncGroup wait for the leader's.
func (st *step) awaitSync(m *liveMember, c *coordinator.Call) {
	st.refuseSync(m, kafka.RebalanceInProgress) // as in awaitJoin
	m.sync = c
	st.hasSynced(m)
}

// hasSynced ends the wait for a member's SyncGroup.
func (st *step) hasSynced(m *liveMember) {
	if !m.unsynced {
		return
	}
	m.unsynced = false
	if m.group.unsynced--; m.group.unsynced == 0 {
		st.cancelTimer(syncTimer{m.group})
	}
}

// refuseSync answers a SyncGroup that waits, if there is one, with an error.
func (st *step) refuseSync(m *liveMember, code kafka.Code) {
	if m.sync != nil {
		st.reply(m.sync, refusedSync(m.sync, code))
		m.sync = nil
	}
}

func refusedSync(c *coordinator.Call, code kafka.Code) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version = c.Body.(*kmsg.SyncGroupRequest).Version
	resp.ErrorCode = int16(code)
	return resp
}

// assigned gives a member its assignment.
func assigned(c *coordinator.Call, m *liveMember) *kmsg.SyncGroupResponse {
	resp := refusedSync(c, kafka.None)
	resp.ProtocolType, resp.Protocol = new(m.group.protocolType), new(m.group.protocol)
	resp.MemberAssignment = m.assignment
	return resp
}

// remove takes a member out of its group. Whatever it waits for is answered with UNKNOWN_MEMBER_ID and no id, so that a
// client that still lives joins anew.
func (st *step) remove(m *liveMember) {
	st.refuseJoin(m, "", kafka.UnknownMemberID)
	st.refuseSync(m, kafka.UnknownMemberID)
	st.cancelTimer(sessionTimer{m})
	last := m.unsynced && m.group.unsynced == 1
	m.group.drop(m)
	if last {
		st.cancelTimer(syncTimer{m.group})
	}
}
