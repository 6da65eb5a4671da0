package wire

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// A group can be used at each version that is offered of each of its keys: clients take the newest that they know, or have
// one written into them. A whole life of a group, with what every client does.
func TestAGroupAtEveryVersion(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	keys := offered(t, dial(t, address), 0)
	topic := newTopic(t, address, 1)
	for n := range int16(11) { // JoinGroup has the most of them
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			version := func(key kmsg.Key) int16 {
				k, ok := keys[key.Int16()]
				if !ok {
					t.Fatalf("%s is not offered", key.Name())
				}
				return min(k.MinVersion+n, k.MaxVersion)
			}
			liveAndDie(t, address, topic, version)
		})
	}
}

func liveAndDie(t *testing.T, address string, topic topic, version func(kmsg.Key) int16) {
	group := newGroup(t, address)
	c := dial(t, address)
	found := ask(t, c, at(version(kmsg.FindCoordinator), findCoordinator(0, group)))
	if found.ErrorCode != 0 || len(found.Coordinators) > 0 && found.Coordinators[0].ErrorCode != 0 {
		t.Errorf("FindCoordinator: %+v", found)
	}
	wantFetched(t, c, version(kmsg.OffsetFetch), group, topic, -1)

	m := newMember(t, address, group).consumerOf(topic.name)
	m.entry.Version = version(kmsg.JoinGroup)
	m.join(t)
	if m.joined.Generation != 1 || !m.leads() || len(m.joined.Members) != 1 || m.joined.Members[0].MemberID != m.id() ||
		text(m.joined.Protocol) != "range" || m.entry.Version >= 7 && text(m.joined.ProtocolType) != "consumer" {
		t.Errorf("JoinGroup v%d: %+v", m.entry.Version, m.joined)
	}
	sync := at(version(kmsg.SyncGroup), kmsg.NewPtrSyncGroupRequest())
	sync.Group, sync.Generation, sync.MemberID = group, 1, m.id()
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: m.id(), MemberAssignment: []byte("all")}}
	if resp := ask(t, c, sync); resp.ErrorCode != 0 || string(resp.MemberAssignment) != "all" || sync.Version >= 5 && (text(resp.ProtocolType) != "consumer" || text(resp.Protocol) != "range") {
		t.Errorf("SyncGroup v%d: %+v", sync.Version, resp)
	}
	beat := m.heartbeatRequest()
	beat.Version = version(kmsg.Heartbeat)
	wantCode(t, "Heartbeat", ask(t, c, beat).ErrorCode, nil)
	commitment := at(version(kmsg.OffsetCommit), m.commitRequest(topic.name, 0, 7))
	commitment.Topics[0].TopicID = topic.id // from version 10 on, instead of the name
	commitment.RetentionTimeMillis = -1
	wantCode(t, "OffsetCommit", commit(t, c, commitment), nil)
	wantFetched(t, c, version(kmsg.OffsetFetch), group, topic, 7)

	describing := at(version(kmsg.DescribeGroups), kmsg.NewPtrDescribeGroupsRequest())
	describing.Groups, describing.IncludeAuthorizedOperations = []string{group}, true
	g := ask(t, c, describing).Groups[0]
	if g.ErrorCode != 0 || g.State != "Stable" || g.ProtocolType != "consumer" || g.Protocol != "range" || len(g.Members) != 1 || string(g.Members[0].MemberAssignment) != "all" {
		t.Errorf("DescribeGroups v%d: %+v", describing.Version, g)
	}
	if asked := describing.Version >= 3; (g.AuthorizedOperations != -1<<31) != asked {
		t.Errorf("DescribeGroups v%d: authorized operations %#x", describing.Version, g.AuthorizedOperations)
	}
	row := listed(t, c, group, at(version(kmsg.ListGroups), kmsg.NewPtrListGroupsRequest()))
	if row == nil || row.ProtocolType != "consumer" {
		t.Errorf("ListGroups: %+v", row)
	}
	deleting := at(version(kmsg.DeleteGroups), kmsg.NewPtrDeleteGroupsRequest())
	deleting.Groups = []string{group}
	wantCode(t, "DeleteGroups of a group with a member", ask(t, c, deleting).Groups[0].ErrorCode, kerr.NonEmptyGroup)

	leave := at(version(kmsg.LeaveGroup), kmsg.NewPtrLeaveGroupRequest())
	leave.Group, leave.MemberID, leave.Members = group, m.id(), []kmsg.LeaveGroupRequestMember{{MemberID: m.id()}}
	left := ask(t, c, leave)
	if left.ErrorCode != 0 || leave.Version >= 3 && (len(left.Members) != 1 || left.Members[0].ErrorCode != 0 || left.Members[0].MemberID != m.id()) {
		t.Errorf("LeaveGroup v%d: %+v", leave.Version, left)
	}
	wantCode(t, "DeleteGroups", ask(t, c, deleting).Groups[0].ErrorCode, nil)
	wantFetched(t, c, version(kmsg.OffsetFetch), group, topic, -1)
}

// wantFetched checks the offset of partition 0 as any version of OffsetFetch tells it.
func wantFetched(t *testing.T, c *conn, version int16, group string, topic topic, want int64) {
	t.Helper()
	req := at(version, offsetFetchRequest(group, kmsg.OffsetFetchRequestTopic{Topic: topic.name, Partitions: []int32{0}}))
	if version >= 8 {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = group
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic.name, TopicID: topic.id, Partitions: []int32{0}}}
		req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	}
	resp := ask(t, c, req)
	var offset int64
	var code int16
	if version >= 8 {
		p := resp.Groups[0].Topics[0].Partitions[0]
		offset, code = p.Offset, p.ErrorCode
	} else {
		p := resp.Topics[0].Partitions[0]
		offset, code = p.Offset, p.ErrorCode
	}
	if wantCode(t, "OffsetFetch", code, nil); offset != want {
		t.Errorf("OffsetFetch v%d: %d, want %d", version, offset, want)
	}
}
