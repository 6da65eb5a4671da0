package golden

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func groupScripts() []Script {
	keys := []kmsg.Key{kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.DescribeGroups, kmsg.ListGroups, kmsg.DeleteGroups,
		kmsg.OffsetCommit, kmsg.OffsetFetch}
	scripts := atEach("groups", runGroups, keys...)
	for _, script := range atEach("static", runStaticMembers, keys...) {
		if script.Version(kmsg.JoinGroup) >= 5 { // static members came with that
			scripts = append(scripts, script)
		}
	}
	return scripts
}

const sessionMillis = 30000

// join asks to become a member; protocols are names, whose metadata is the name.
func join(group, member string, protocols ...string) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.ProtocolType = group, member, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = sessionMillis, sessionMillis
	for _, p := range protocols {
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: []byte("metadata of " + p)})
	}
	return r
}

// enter joins without a member id, and again with the id that the answer gives where the protocol wants that (KIP-394).
func (s *Session) enter(what string, r *kmsg.JoinGroupRequest) (wait func() *kmsg.JoinGroupResponse) {
	if s.Version(kmsg.JoinGroup) >= 4 && r.InstanceID == nil {
		first := s.Ask(what+", without a member id", r).(*kmsg.JoinGroupResponse)
		second := *r
		second.MemberID = first.MemberID
		r = &second
	}
	answer := s.Send(what, r)
	return func() *kmsg.JoinGroupResponse { return answer().(*kmsg.JoinGroupResponse) }
}

// sync distributes assignments, if any: member, text, member, text.
func sync(joined *kmsg.JoinGroupResponse, group, member string, assignments ...string) *kmsg.SyncGroupRequest {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Group, r.Generation, r.MemberID = group, joined.Generation, member
	if joined.GetVersion() >= 7 {
		r.ProtocolType, r.Protocol = joined.ProtocolType, joined.Protocol
	}
	for i := 0; i+1 < len(assignments); i += 2 {
		r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: assignments[i], MemberAssignment: []byte(assignments[i+1])})
	}
	return r
}

func heartbeat(group, member string, generation int32) *kmsg.HeartbeatRequest {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Group, r.MemberID, r.Generation = group, member, generation
	return r
}

func leave(group string, member string) *kmsg.LeaveGroupRequest {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.MemberID = group, member
	r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: member}}
	return r
}

func describeGroups(groups ...string) *kmsg.DescribeGroupsRequest {
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Groups = groups
	return r
}

func deleteGroups(groups ...string) *kmsg.DeleteGroupsRequest {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = groups
	return r
}

// listGroups asks for all groups and keeps those of this run.
func (s *Session) listGroups(what string, states ...string) {
	r := kmsg.NewPtrListGroupsRequest()
	r.StatesFilter = states
	listed := s.request(s.conn, r).(*kmsg.ListGroupsResponse)
	var own []kmsg.ListGroupsResponseGroup
	for _, g := range listed.Groups {
		if strings.Contains(g.Group, s.run) {
			own = append(own, g)
		}
	}
	listed.Groups = own
	s.keep(what, r, listed)
}

func runGroups(s *Session) {
	group, orders := s.Name("readers"), s.Name("orders")
	id := s.topic(orders, 2)
	s.coordinate(group)
	s.Ask("describe a group that is not there", describeGroups(group))
	s.Ask("heartbeat to a group that is not there", heartbeat(group, "nobody", 1))
	s.Ask("leave a group that is not there", leave(group, "nobody"))
	s.Ask("join a group that is not there as somebody", join(group, "somebody", "range"))
	s.Ask("join without protocols", join(group, ""))
	s.Ask("join the group without a name", join("", "", "range"))
	impatient := join(group, "", "range")
	impatient.SessionTimeoutMillis = 10
	s.Ask("join with a session of 10 ms", impatient)

	one := s.enter("join alone", join(group, "", "range", "roundrobin"))()
	first := one.MemberID
	s.Ask("describe while it has no assignment", describeGroups(group))
	s.Ask("heartbeat before the assignment", heartbeat(group, first, one.Generation))
	s.Ask("sync", sync(one, group, first, first, "all of it"))
	s.Ask("sync again", sync(one, group, first))
	s.Ask("heartbeat", heartbeat(group, first, one.Generation))
	s.Ask("heartbeat of another generation", heartbeat(group, first, one.Generation+1))
	s.Ask("heartbeat of nobody", heartbeat(group, "nobody", one.Generation))
	s.Ask("commit as a member", offsetCommit(group, first, one.Generation, orders, id, commit{0, 1, ""}))
	s.Ask("commit as a member of another generation", offsetCommit(group, first, one.Generation+1, orders, id, commit{0, 2, ""}))
	s.Ask("commit as nobody", offsetCommit(group, "nobody", one.Generation, orders, id, commit{0, 3, ""}))
	s.Ask("commit without a member to a group with one", offsetCommit(group, "", -1, orders, id, commit{0, 4, ""}))
	s.Ask("describe", describeGroups(group))
	s.listGroups("list")
	s.Ask("delete a group with a member", deleteGroups(group))
	s.Ask("join with another protocol", join(group, "", "other"))
	wrong := join(group, "", "range")
	wrong.ProtocolType = "connect"
	s.Ask("join with another type of protocol", wrong)

	second := s.enter("join as a second member", join(group, "", "roundrobin", "range"))
	s.Quiet(heartbeat(group, first, one.Generation), func(r kmsg.Response) bool { return r.(*kmsg.HeartbeatResponse).ErrorCode != 0 })
	s.Ask("heartbeat during a rebalance", heartbeat(group, first, one.Generation))
	s.Ask("commit during a rebalance", offsetCommit(group, first, one.Generation, orders, id, commit{0, 5, ""}))
	s.Ask("sync during a rebalance", sync(one, group, first))
	again := s.Send("join again", join(group, first, "range", "roundrobin"))
	leader, follower := again().(*kmsg.JoinGroupResponse), second()
	waiting := s.Send("sync as a follower", sync(follower, group, follower.MemberID))
	s.Ask("sync as the leader", sync(leader, group, first, first, "one half", follower.MemberID, "the other half"))
	waiting()
	s.Ask("describe two members", describeGroups(group))
	s.Ask("leave", leave(group, follower.MemberID))
	s.Ask("heartbeat after the other has left", heartbeat(group, first, leader.Generation))
	s.Ask("leave as the last one", leave(group, first))
	s.Ask("leave again", leave(group, first))
	s.Ask("describe an empty group", describeGroups(group))
	s.listGroups("list an empty group")
	if s.Version(kmsg.ListGroups) >= 4 {
		s.listGroups("list stable groups", "Stable")
		s.listGroups("list empty groups", "empty")
	}
	s.Ask("fetch what was committed", offsetFetch(group, orders, id, []int32{0, 1}))
	s.Ask("delete", deleteGroups(group))
	s.Ask("delete again", deleteGroups(group, s.Name("nosuch")))
	s.Ask("describe a deleted group", describeGroups(group))
}

func runStaticMembers(s *Session) {
	group := s.Name("static")
	s.coordinate(group)
	enter := func(what, member string, protocols ...string) *kmsg.JoinGroupResponse {
		r := join(group, member, protocols...)
		r.InstanceID = ptr("rack-1")
		return s.Ask(what, r).(*kmsg.JoinGroupResponse)
	}
	as := func(r kmsg.Request) kmsg.Request {
		switch r := r.(type) {
		case *kmsg.HeartbeatRequest:
			r.InstanceID = ptr("rack-1")
		case *kmsg.SyncGroupRequest:
			r.InstanceID = ptr("rack-1")
		case *kmsg.LeaveGroupRequest:
			r.Members[0].InstanceID = ptr("rack-1")
		}
		return r
	}
	one := enter("join", "", "range")
	s.Ask("sync", as(sync(one, group, one.MemberID, one.MemberID, "all of it")))
	two := enter("join again without a member id", "", "range")
	s.Ask("sync again", as(sync(two, group, two.MemberID)))
	s.Ask("heartbeat of the member that was replaced", as(heartbeat(group, one.MemberID, one.Generation)))
	s.Ask("heartbeat", as(heartbeat(group, two.MemberID, two.Generation)))
	enter("join as the member that was replaced", one.MemberID, "range")
	three := enter("join again with another protocol", "", "roundrobin")
	s.Ask("sync after that", as(sync(three, group, three.MemberID, three.MemberID, "all of it")))
	s.Ask("describe", describeGroups(group))
	s.Ask("leave as the member that was replaced", as(leave(group, one.MemberID)))
	byInstance := as(leave(group, ""))
	s.Ask("leave by the instance's id", byInstance)
	s.Ask("leave again", byInstance)
	s.Ask("describe an empty group", describeGroups(group))
	s.Ask("delete", deleteGroups(group))
}
