package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// LeaveGroup: v0–5
//   - v0-2: one member, whose error is the answer's. v3: any number, each with its own error (KIP-345).
//   - A static member may be removed by its instance alone, which is what administrators do; it never leaves itself.
//   - v5: a reason (KIP-800), which only says why.

func (s *Shard) leave(now time.Time, c *coordinator.Call, req *kmsg.LeaveGroupRequest) coordinator.Output {
	st := step{Shard: s, now: now}
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version = req.Version
	if req.Group == "" {
		resp.ErrorCode = int16(kafka.InvalidGroupID)
		st.reply(c, resp)
		return st.out
	}
	members := req.Members
	if req.Version < 3 {
		members = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	g := s.groups[req.Group]
	anyLeft := false
	for i := range members {
		code := st.leaveOne(g, &members[i])
		anyLeft = anyLeft || code == kafka.None
		r := kmsg.NewLeaveGroupResponseMember()
		r.MemberID, r.InstanceID, r.ErrorCode = members[i].MemberID, members[i].InstanceID, int16(code)
		resp.Members = append(resp.Members, r)
	}
	if req.Version < 3 {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	if anyLeft && !g.isEmpty() {
		// Kafka rebalances too when who left was only pending.
		st.rebalanceOrComplete(g)
	}
	st.reply(c, resp)
	return st.out
}

// leaveOne removes one member; g is nil where the group is not known.
func (st *step) leaveOne(g *classic, who *kmsg.LeaveGroupRequestMember) kafka.Code {
	if g == nil {
		return kafka.UnknownMemberID
	}
	if who.MemberID == "" {
		if who.InstanceID == nil || g.instances[*who.InstanceID] == nil {
			return kafka.UnknownMemberID
		}
		st.remove(g.instances[*who.InstanceID])
		return kafka.None
	}
	if m := g.pending[who.MemberID]; m != nil {
		st.remove(m)
		return kafka.None
	}
	if code := g.check(who.MemberID, who.InstanceID); code != kafka.None {
		return code
	}
	st.remove(g.members[who.MemberID])
	return kafka.None
}
