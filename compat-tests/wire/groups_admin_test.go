package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// listed returns a group's row of ListGroups, or nil.
func listed(t *testing.T, c *conn, group string, req *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponseGroup {
	t.Helper()
	resp := ask(t, c, req)
	wantCode(t, "ListGroups", resp.ErrorCode, nil)
	for i := range resp.Groups {
		if resp.Groups[i].Group == group {
			return &resp.Groups[i]
		}
	}
	return nil
}

// deleteGroup returns the code that the deletion of one group has.
func deleteGroup(t *testing.T, c *conn, group string) int16 {
	t.Helper()
	req := at(2, kmsg.NewPtrDeleteGroupsRequest())
	req.Groups = []string{group}
	rows := ask(t, c, req).Groups
	if len(rows) != 1 || rows[0].Group != group {
		t.Fatalf("DeleteGroups of %q: %+v", group, rows)
	}
	return rows[0].ErrorCode
}

// deleteOffset deletes the offset of partition 0 of a topic.
func deleteOffset(t *testing.T, c *conn, group, topic string) (whole, partition int16) {
	t.Helper()
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	resp := ask(t, c, req)
	if resp.ErrorCode != 0 {
		return resp.ErrorCode, 0
	}
	return 0, resp.Topics[0].Partitions[0].ErrorCode
}

// consumerOf makes a member say that it subscribes to a topic, in the form that consumers have; the broker reads it.
func (m *member) consumerOf(topics ...string) *member {
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = topics
	for i := range m.entry.Protocols {
		m.entry.Protocols[i].Metadata = subscription.AppendTo(nil)
	}
	return m
}

// What tools show of a group in each of its states, and what they may do to it then.
func TestAGroupIsDescribedInEveryState(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic, other := newTopic(t, address, 1).name, newTopic(t, address, 1).name
	group := newGroup(t, address)
	c := dial(t, address)
	wantState := func(state string, members int) kmsg.DescribeGroupsResponseGroup {
		t.Helper()
		g := describeGroup(t, c, group)
		if g.ErrorCode != 0 || g.State != state || len(g.Members) != members {
			t.Errorf("wanted %s with %d members: %+v", state, members, g)
		}
		row := listed(t, c, group, at(4, kmsg.NewPtrListGroupsRequest()))
		if state == "Dead" {
			if row != nil {
				t.Errorf("a group that is not there is listed: %+v", row)
			}
			return g
		}
		if row == nil || row.GroupState != state || row.ProtocolType != g.ProtocolType {
			t.Errorf("it is listed as %+v", row)
		}
		for _, filter := range []string{"PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead"} {
			for _, filter := range []string{filter, strings.ToLower(filter)} {
				req := at(4, kmsg.NewPtrListGroupsRequest())
				req.StatesFilter = []string{filter}
				if found := listed(t, c, group, req) != nil; found != (strings.EqualFold(filter, state)) {
					t.Errorf("it is %s; among groups that are %s it is listed: %v", state, filter, found)
				}
			}
		}
		return g
	}
	wantState("Dead", 0)
	v6 := at(6, kmsg.NewPtrDescribeGroupsRequest())
	v6.Groups = []string{group}
	if g := ask(t, c, v6).Groups[0]; g.ErrorCode != kerr.GroupIDNotFound.Code || g.State != "Dead" || g.ErrorMessage == nil {
		t.Errorf("at version 6: %+v", g)
	}
	wantCode(t, "deleting it", deleteGroup(t, c, group), kerr.GroupIDNotFound)
	whole, _ := deleteOffset(t, c, group, topic)
	wantCode(t, "deleting an offset of it", whole, kerr.GroupIDNotFound)

	first, second := newMember(t, address, group).consumerOf(topic), newMember(t, address, group).consumerOf(topic)
	first.join(t)
	if g := wantState("CompletingRebalance", 1); g.ProtocolType != "consumer" || g.Protocol != "" || len(g.Members[0].ProtocolMetadata) != 0 {
		t.Errorf("without an assignment it is %+v", g)
	}
	distribute(t, first)
	g := wantState("Stable", 1)
	if g.ProtocolType != "consumer" || g.Protocol != "range" {
		t.Errorf("it is of type %s, by protocol %s", g.ProtocolType, g.Protocol)
	}
	if m := g.Members[0]; m.MemberID != first.id() || !strings.HasPrefix(m.MemberID, clientID+"-") || m.InstanceID != nil || m.ClientID != clientID || m.ClientHost != "/127.0.0.1" ||
		!slices.Equal(m.ProtocolMetadata, first.entry.Protocols[0].Metadata) || string(m.MemberAssignment) != assignmentOf(first) {
		t.Errorf("its member is %+v", m)
	}
	for _, topic := range []string{topic, other} {
		wantCode(t, "commit", commit(t, c, first.commitRequest(topic, 0, 1)), nil)
	}
	wantCode(t, "deleting it", deleteGroup(t, c, group), kerr.NonEmptyGroup)
	for topic, want := range map[string]*kerr.Error{topic: kerr.GroupSubscribedToTopic, other: nil, harness.TopicName(t): kerr.UnknownTopicOrPartition} {
		whole, partition := deleteOffset(t, c, group, topic)
		wantCode(t, "deleting an offset", whole, nil)
		wantCode(t, "deleting an offset of "+topic, partition, want)
	}
	wantCommitted(t, c, "of the subscribed topic", group, topic, 1)
	wantCommitted(t, c, "of the other topic", group, other, -1)

	second.sendJoin(t)
	first.awaitRebalance(t)
	wantState("PreparingRebalance", 2)
	first.sendJoin(t)
	first.enter(t)
	second.enter(t)
	distribute(t, first, second)
	wantState("Stable", 2)
	second.leave(t)
	first.leave(t)
	if g := wantState("Empty", 0); g.ProtocolType != "consumer" || g.Protocol != "" {
		t.Errorf("empty it is of type %q, by protocol %q", g.ProtocolType, g.Protocol)
	}
	whole, partition := deleteOffset(t, c, group, topic)
	wantCode(t, "deleting an offset", whole, nil)
	wantCode(t, "deleting an offset that nobody is subscribed to", partition, nil)
	wantCommitted(t, c, "after its deletion", group, topic, -1)
	mustCommit(t, c, group, topic, 0, 5)
	wantCode(t, "deleting it", deleteGroup(t, c, group), nil)
	wantCode(t, "deleting it again", deleteGroup(t, c, group), kerr.GroupIDNotFound)
	wantState("Dead", 0)
	wantCommitted(t, c, "of the deleted group", group, topic, -1)
}

// Groups that only commit have no type and no members, and are groups all the same.
func TestAGroupThatOnlyCommits(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1).name
	group := newGroup(t, address)
	c := dial(t, address)
	mustCommit(t, c, group, topic, 0, 3)
	if g := describeGroup(t, c, group); g.ErrorCode != 0 || g.State != "Empty" || g.ProtocolType != "" || g.Protocol != "" || len(g.Members) != 0 {
		t.Errorf("described as %+v", g)
	}
	for _, r := range []struct {
		types  []string
		listed bool
	}{{nil, true}, {[]string{"classic"}, true}, {[]string{"Classic"}, true}, {[]string{"consumer"}, false}, {[]string{"consumer", "classic"}, true}, {[]string{"nosuch"}, false}} {
		req := at(5, kmsg.NewPtrListGroupsRequest())
		req.TypesFilter = r.types
		row := listed(t, c, group, req)
		if (row != nil) != r.listed {
			t.Errorf("among groups of types %q it is listed: %v", r.types, row != nil)
		}
		if row != nil && (row.GroupType != "classic" || row.GroupState != "Empty") {
			t.Errorf("listed as %+v", row)
		}
	}
	if row := listed(t, c, group, at(0, kmsg.NewPtrListGroupsRequest())); row == nil || row.ProtocolType != "" {
		t.Errorf("at version 0 it is listed as %+v", row)
	}
	// Deleting its last offset leaves the group until it expires.
	if whole, partition := deleteOffset(t, c, group, topic); whole != 0 || partition != 0 {
		t.Errorf("deleting the offset: %d, %d", whole, partition)
	}
	wantCommitted(t, c, "after its deletion", group, topic, -1)
}

// Many are described and deleted in one request, each with its own error.
func TestManyGroupsInOneRequest(t *testing.T) {
	t.Parallel()
	const groups = 200
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1).name
	c := dial(t, address)
	describing, deleting := at(6, kmsg.NewPtrDescribeGroupsRequest()), at(2, kmsg.NewPtrDeleteGroupsRequest())
	fetching := at(8, kmsg.NewPtrOffsetFetchRequest())
	for i := range groups {
		group := fmt.Sprintf("%s-%d", harness.TopicName(t), i)
		if i == 0 {
			coordinate(t, address, group)
		}
		if i%2 == 0 {
			mustCommit(t, c, group, topic, 0, int64(i))
		}
		describing.Groups, deleting.Groups = append(describing.Groups, group), append(deleting.Groups, group)
		fetching.Groups = append(fetching.Groups, kmsg.OffsetFetchRequestGroup{Group: group, MemberEpoch: -1,
			Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{0}}}})
	}
	// The answers are in any order.
	described, deleted, fetched := make(map[string]int16), make(map[string]int16), make(map[string]int64)
	for _, g := range ask(t, c, describing).Groups {
		described[g.Group] = g.ErrorCode
	}
	for _, g := range ask(t, c, fetching).Groups {
		wantCode(t, "OffsetFetch of "+g.Group, g.ErrorCode, nil)
		fetched[g.Group] = g.Topics[0].Partitions[0].Offset
	}
	for _, g := range ask(t, c, deleting).Groups {
		deleted[g.Group] = g.ErrorCode
	}
	if len(described) != groups || len(fetched) != groups || len(deleted) != groups {
		t.Fatalf("of %d groups %d are described, %d fetched and %d deleted", groups, len(described), len(fetched), len(deleted))
	}
	for i, group := range describing.Groups {
		want, offset := kerr.GroupIDNotFound, int64(-1)
		if i%2 == 0 {
			want, offset = nil, int64(i)
		}
		wantCode(t, "describing "+group, described[group], want)
		wantCode(t, "deleting "+group, deleted[group], want)
		if fetched[group] != offset {
			t.Errorf("%s has offset %d, want %d", group, fetched[group], offset)
		}
	}
}

// The id of a group is any text, and it is not changed on its way to the disk and back.
func TestNamesOfGroups(t *testing.T) {
	t.Parallel()
	s := start(t, ownGroups...)
	topic := newTopic(t, s.Address, 1).name
	names := []string{"my group/ü", ".", "..", "/", " ", "a\x00b", "日本", "𝄞", strings.Repeat("x", 1000), "A", "a"}
	c := dial(t, s.Address)
	coordinate(t, s.Address, "a")
	for i, name := range names {
		mustCommit(t, c, name, topic, 0, int64(i))
	}
	for _, how := range []string{"", "stop", "kill"} {
		if how != "" {
			s.end(t, how)
			s.restart(t)
			coordinate(t, s.Address, "a")
			c = dial(t, s.Address)
		}
		for i, name := range names {
			coordinate(t, s.Address, name)
			wantCommitted(t, c, fmt.Sprintf("%q", name), name, topic, int64(i))
			if listed(t, c, name, at(5, kmsg.NewPtrListGroupsRequest())) == nil {
				t.Errorf("%q is not listed", name)
			}
		}
	}
}
