package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

// The kinds of call that a shard answers, beside the requests of kmsg as they are:
//
//	*kmsg.JoinGroupRequest     *kmsg.JoinGroupResponse
//	*kmsg.SyncGroupRequest     *kmsg.SyncGroupResponse
//	*kmsg.HeartbeatRequest     *kmsg.HeartbeatResponse
//	*kmsg.LeaveGroupRequest    *kmsg.LeaveGroupResponse
//	*kmsg.OffsetCommitRequest  *kmsg.OffsetCommitResponse, of partitions that the caller knows to exist
//	*kmsg.OffsetDeleteRequest  *kmsg.OffsetDeleteResponse, likewise
//	FetchOffsets               *kmsg.OffsetFetchResponseGroup
//	Describe                   *kmsg.DescribeGroupsResponseGroup
//	List                       []kmsg.ListGroupsResponseGroup
//	Delete                     an error, or nil
//	Stats                      []GroupStats, in no order

// FetchOffsets asks for committed offsets of one group (OffsetFetch of any version).
type FetchOffsets struct {
	Group         string
	MemberID      *string // null: not a member of the new protocol
	MemberEpoch   int32
	Topics        []kmsg.OffsetFetchRequestGroupTopic
	All           bool // every partition that has an offset, instead of Topics
	RequireStable bool // KIP-447
}

// Describe asks what DescribeGroups tells of one group.
type Describe struct {
	Group   string
	Version int16 // of the request: an unknown group is Dead below 6, and GROUP_ID_NOT_FOUND from there on (KIP-1043)
}

// List asks for the groups of the shard that pass both filters; an empty filter passes all. Names are compared without
// case.
type List struct{ States, Types []string }

// Delete asks to delete one group (DeleteGroups).
type Delete struct{ Group string }

// Stats asks what metrics tell of every group of the shard.
type Stats struct{}

// TopicsDeleted is an input without an answer: offsets of these topics are dropped.
type TopicsDeleted struct{ Topics []DeletedTopic }

// TopicsThere is an input without an answer, for a shard that did not hear of every deletion before it was loaded: offsets of
// topics that are not there, or have another id, are dropped. ID must know every topic whose offsets may be on record.
type TopicsThere struct {
	ID func(topic string) (id kafka.TopicID, ok bool)
}

// DeletedTopic is a topic that is no more. Another one may have its name already: what was committed with its id stays.
type DeletedTopic struct {
	Name string
	ID   kafka.TopicID
}
