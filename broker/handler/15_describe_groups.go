package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator/group"
	"weir/internal/kafka"
)

// DescribeGroups: v0–6
//   - v3: authorized operations (KIP-430). v4: instances of static members.
//   - v6: an unknown group is GROUP_ID_NOT_FOUND, with a message (KIP-1043); before it is Dead, and no error.

func (h *Handlers) describeGroups(r *Request, req *kmsg.DescribeGroupsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(req.Groups))
	askAll(len(req.Groups), func(i int, done func(any, error)) {
		h.Groups.Submit(req.Groups[i], groupCall(r, group.Describe{Group: req.Groups[i], Version: req.Version}, done))
	}, func(i int, answer any, err error) {
		g := &resp.Groups[i]
		if err != nil {
			*g = kmsg.NewDescribeGroupsResponseGroup()
			g.Group, g.ErrorCode = req.Groups[i], int16(kafka.CodeOf(err))
			return
		}
		*g = *answer.(*kmsg.DescribeGroupsResponseGroup)
		if req.IncludeAuthorizedOperations && g.ErrorCode == int16(kafka.None) {
			g.AuthorizedOperations = groupOperations
		}
	})
	return Now(resp)
}
