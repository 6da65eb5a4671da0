package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator/group"
	"weir/internal/kafka"
)

// OffsetFetch: v1–9
//   - v2: an error for the whole answer, and null topics mean all that have an offset. v5: leader epochs (KIP-320).
//   - v7: require_stable (KIP-447). v8: many groups. v9: may come from members of the new protocol (KIP-848).
//
// What does not fit into maxAnswerBytes is refused group by group.

func (h *Handlers) offsetFetch(r *Request, req *kmsg.OffsetFetchRequest) Reply {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	groups := req.Groups
	if req.Version < 8 {
		groups = []kmsg.OffsetFetchRequestGroup{groupOfOffsetFetch(req)}
	}
	answers := make([]kmsg.OffsetFetchResponseGroup, len(groups))
	var size answerSize
	askAll(len(groups), func(i int, done func(any, error)) {
		g := &groups[i]
		if size.full() {
			done(nil, errAnswerTooLarge)
			return
		}
		h.Groups.Submit(g.Group, groupCall(r, group.FetchOffsets{Group: g.Group, MemberID: g.MemberID, MemberEpoch: g.MemberEpoch, Topics: g.Topics, All: g.Topics == nil,
			RequireStable: req.RequireStable}, done))
	}, func(i int, answer any, err error) {
		if err == nil && !size.add(sizeOfOffsets(answer.(*kmsg.OffsetFetchResponseGroup))) {
			err = errAnswerTooLarge
		}
		if err != nil {
			answers[i] = kmsg.NewOffsetFetchResponseGroup()
			answers[i].Group, answers[i].ErrorCode = groups[i].Group, int16(offsetFetchCode(err))
			return
		}
		answers[i] = *answer.(*kmsg.OffsetFetchResponseGroup)
	})
	if req.Version >= 8 {
		resp.Groups = answers
	} else {
		fillOffsetFetch(resp, req, &answers[0])
	}
	return Now(resp)
}

// groupOfOffsetFetch is what a request for one group asks, in the form for many.
func groupOfOffsetFetch(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics == nil {
		return g
	}
	g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
	for i := range req.Topics {
		g.Topics[i] = kmsg.OffsetFetchRequestGroupTopic{Topic: req.Topics[i].Topic, Partitions: req.Topics[i].Partitions}
	}
	return g
}

// fillOffsetFetch puts the answer for one group into the form before v8. In v1 an error has its place at each partition.
func fillOffsetFetch(resp *kmsg.OffsetFetchResponse, req *kmsg.OffsetFetchRequest, g *kmsg.OffsetFetchResponseGroup) {
	resp.ErrorCode = g.ErrorCode
	if g.ErrorCode != int16(kafka.None) && req.Version < 2 {
		for _, t := range req.Topics {
			row := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				row.Partitions = append(row.Partitions, kmsg.OffsetFetchResponseTopicPartition{Partition: p, Offset: -1, LeaderEpoch: -1, Metadata: new(string), ErrorCode: g.ErrorCode})
			}
			resp.Topics = append(resp.Topics, row)
		}
		return
	}
	for _, t := range g.Topics {
		row := kmsg.OffsetFetchResponseTopic{Topic: t.Topic, Partitions: make([]kmsg.OffsetFetchResponseTopicPartition, len(t.Partitions))}
		for i, p := range t.Partitions {
			row.Partitions[i] = kmsg.OffsetFetchResponseTopicPartition{Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode}
		}
		resp.Topics = append(resp.Topics, row)
	}
}

// offsetFetchCode: consumers before 3.9 do not try again after COORDINATOR_NOT_AVAILABLE (KAFKA-16386).
func offsetFetchCode(err error) kafka.Code {
	if code := kafka.CodeOf(err); code != kafka.CoordinatorNotAvailable {
		return code
	}
	return kafka.NotCoordinator
}
