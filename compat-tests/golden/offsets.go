package golden

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func offsetScripts() []Script {
	return atEach("offsets", runOffsets, kmsg.FindCoordinator, kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.OffsetDelete)
}

// findCoordinator asks for groups; older versions know one at a time.
func (s *Session) findCoordinator(kind int8, keys ...string) *kmsg.FindCoordinatorRequest {
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.CoordinatorType, r.CoordinatorKey, r.CoordinatorKeys = kind, keys[0], keys
	return r
}

// coordinate waits until the broker coordinates a group: the first may have to create a topic.
func (s *Session) coordinate(group string) {
	s.Quiet(s.findCoordinator(0, group), func(r kmsg.Response) bool {
		found := r.(*kmsg.FindCoordinatorResponse)
		return found.ErrorCode == 0 && (len(found.Coordinators) == 0 || found.Coordinators[0].ErrorCode == 0)
	})
	s.Quiet(offsetFetch(group, "", [16]byte{}, nil), func(r kmsg.Response) bool { // it may still be loading
		fetched := r.(*kmsg.OffsetFetchResponse)
		return fetched.ErrorCode == 0 && (len(fetched.Groups) == 0 || fetched.Groups[0].ErrorCode == 0)
	})
}

type commit struct {
	partition int32
	offset    int64
	metadata  string
}

func offsetCommit(group, member string, generation int32, topic string, id [16]byte, commits ...commit) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.MemberID, r.Generation = group, member, generation
	rt := kmsg.OffsetCommitRequestTopic{Topic: topic, TopicID: id}
	for _, c := range commits {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = c.partition, c.offset, &c.metadata
		rt.Partitions = append(rt.Partitions, p)
	}
	r.Topics = []kmsg.OffsetCommitRequestTopic{rt}
	return r
}

// offsetFetch asks for offsets of a topic; for all that there are without one.
func offsetFetch(group, topic string, id [16]byte, partitions []int32) *kmsg.OffsetFetchRequest {
	r := kmsg.NewPtrOffsetFetchRequest()
	r.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if topic != "" {
		r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: partitions}}
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: id, Partitions: partitions}}
	}
	r.Groups = []kmsg.OffsetFetchRequestGroup{g}
	return r
}

func runOffsets(s *Session) {
	group, orders := s.Name("readers"), s.Name("orders")
	id := s.topic(orders, 3)
	s.coordinate(group)
	s.Ask("the coordinator of a group", s.findCoordinator(0, group))
	if s.Version(kmsg.FindCoordinator) >= 1 {
		s.Ask("a coordinator of a kind that is not there", s.findCoordinator(9, group))
	}
	if s.Version(kmsg.FindCoordinator) >= 4 {
		s.Ask("the coordinators of two groups", s.findCoordinator(0, group, s.Name("others")))
	}
	all := []int32{0, 1, 2}
	s.Ask("fetch before anything was committed", offsetFetch(group, orders, id, all))
	s.Ask("commit", offsetCommit(group, "", -1, orders, id, commit{0, 7, "a note"}, commit{1, 0, ""}))
	s.Ask("fetch", offsetFetch(group, orders, id, all))
	if s.Version(kmsg.OffsetFetch) >= 2 {
		s.Ask("fetch all", offsetFetch(group, "", id, nil))
	}
	s.Ask("commit a smaller one", offsetCommit(group, "", -1, orders, id, commit{0, 3, "back"}))
	s.Ask("fetch the smaller one", offsetFetch(group, orders, id, []int32{0}))
	s.Ask("commit with metadata of 4097 bytes", offsetCommit(group, "", -1, orders, id, commit{0, 4, strings.Repeat("x", 4097)}, commit{1, 5, "kept"}))
	s.Ask("fetch after that", offsetFetch(group, orders, id, all))
	s.Ask("commit of a partition that is not there", offsetCommit(group, "", -1, orders, id, commit{9, 1, ""}))
	s.Ask("commit of a topic that is not there", offsetCommit(group, "", -1, s.Name("nosuch"), [16]byte{1}, commit{0, 1, ""}))
	s.Ask("fetch of a topic that is not there", offsetFetch(group, s.Name("nosuch"), [16]byte{1}, []int32{0}))
	s.Ask("commit as a member of a group that has none", offsetCommit(group, "nobody", 1, orders, id, commit{0, 1, ""}))
	s.Ask("commit of generation 1 to a group that is not there", offsetCommit(s.Name("nosuch"), "nobody", 1, orders, id, commit{0, 1, ""}))
	s.Ask("commit to the group without a name", offsetCommit("", "", -1, orders, id, commit{0, 1, ""}))
	s.Ask("fetch from the group without a name", offsetFetch("", orders, id, []int32{0}))
	s.Ask("fetch of a group that is not there", offsetFetch(s.Name("nosuch"), orders, id, []int32{0}))

	remove := func(group, topic string, partitions ...int32) *kmsg.OffsetDeleteRequest {
		r := kmsg.NewPtrOffsetDeleteRequest()
		r.Group = group
		rt := kmsg.OffsetDeleteRequestTopic{Topic: topic}
		for _, p := range partitions {
			rt.Partitions = append(rt.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
		}
		r.Topics = []kmsg.OffsetDeleteRequestTopic{rt}
		return r
	}
	s.Ask("delete", remove(group, orders, 0, 2))
	s.Ask("fetch what is left", offsetFetch(group, orders, id, all))
	s.Ask("delete of a partition that is not there", remove(group, orders, 9))
	s.Ask("delete of a topic that is not there", remove(group, s.Name("nosuch"), 0))
	s.Ask("delete of a group that is not there", remove(s.Name("nosuch"), orders, 0))
}
