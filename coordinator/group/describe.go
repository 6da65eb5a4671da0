package group

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// describe answers DescribeGroups for one group. What members say in their protocol is told while the group is stable;
// their last assignments are told in every state.
func (s *Shard) describe(_ time.Time, c *coordinator.Call, req Describe) coordinator.Output {
	resp := kmsg.NewDescribeGroupsResponseGroup()
	resp.Group = req.Group
	g := s.groups[req.Group]
	if g == nil {
		resp.State = stateDead
		if req.Version >= 6 {
			resp.ErrorCode = int16(kafka.GroupIDNotFound)
			resp.ErrorMessage = new(fmt.Sprintf("Group %s not found.", req.Group))
		}
		return answer(c, &resp)
	}
	resp.State, resp.ProtocolType = g.state.String(), g.protocolType
	if g.state == stateStable {
		resp.Protocol = g.protocol
	}
	resp.Members = make([]kmsg.DescribeGroupsResponseGroupMember, len(g.list))
	for i, m := range g.list {
		to := &resp.Members[i]
		to.Default()
		to.MemberID, to.InstanceID, to.ClientID, to.ClientHost = m.id, m.instanceID, m.clientID, m.clientHost
		to.MemberAssignment = m.assignment
		if g.state == stateStable {
			to.ProtocolMetadata = m.metadata(g.protocol)
		}
	}
	return answer(c, &resp)
}

// answer is an Output that only answers.
func answer(c *coordinator.Call, body any) coordinator.Output {
	return coordinator.Output{Replies: []coordinator.Reply{{To: c, Body: body}}}
}
