package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator/group"
	"weir/internal/kafka"
)

// DescribeGroups: v0–6
//   - v3: authorized operations (KIP-430). v4: instances of static members.
//   - v6: an unknown group is GROUP_ID_NOT_FOUND, with a message (KIP-1043); before it is Dead, and no error.
//
// A group that is named twice is described twice, as far as what is repeated fits into maxAnswerBytes.

func (h *Handlers) describeGroups(r *Request, req *kmsg.DescribeGroupsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(req.Groups))
	repeated := make([]bool, len(req.Groups))
	seen := make(map[string]bool, len(req.Groups))
	for i, name := range req.Groups {
		repeated[i], seen[name] = seen[name], true
	}
	var size answerSize // of what is repeated
	askAll(len(req.Groups), func(i int, done func(any, error)) {
		if repeated[i] && size.full() {
			done(nil, errAnswerTooLarge)
			return
		}
		h.Groups.Submit(req.Groups[i], groupCall(r, group.Describe{Group: req.Groups[i], Version: req.Version}, done))
	}, func(i int, answer any, err error) {
		g := &resp.Groups[i]
		if err == nil && repeated[i] && !size.add(sizeOfDescription(answer.(*kmsg.DescribeGroupsResponseGroup))) {
			err = errAnswerTooLarge
		}
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
