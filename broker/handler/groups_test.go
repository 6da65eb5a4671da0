package handler

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/coordinator"
	"weir/coordinator/group"
	"weir/internal/kafka"
)

// testGroups answers at once what the test says; a real coordinator answers in tests of package broker.
type testGroups struct {
	owned  []int32
	answer func(group string, partition int32, c *coordinator.Call) (any, error)
	mu     sync.Mutex
	calls  []*coordinator.Call
}

func (g *testGroups) Submit(group string, c *coordinator.Call) { g.ask(group, -1, c) }

func (g *testGroups) SubmitTo(partition int32, c *coordinator.Call) { g.ask("", partition, c) }

func (g *testGroups) Owned() []int32 { return g.owned }

func (g *testGroups) ask(group string, partition int32, c *coordinator.Call) {
	g.mu.Lock()
	g.calls = append(g.calls, c)
	g.mu.Unlock()
	c.Done(g.answer(group, partition, c))
}

func (g *testGroups) refuse(code kafka.Code) {
	g.answer = func(string, int32, *coordinator.Call) (any, error) { return nil, kafka.Errorf(code, "") }
}

// Each kind of answer has its own place for an error of the coordinator, and some have codes of their own.
func TestWhatTheCoordinatorRefusesIsToldInEveryVersion(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	f.groups.owned = []int32{3}
	c := f.client()
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g"}}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Groups = []string{"g"}
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Groups = []string{"g"}

	codeOf := func(resp kmsg.Response) int16 {
		switch r := resp.(type) {
		case *kmsg.OffsetCommitResponse:
			return r.Topics[0].Partitions[0].ErrorCode
		case *kmsg.OffsetFetchResponse:
			switch {
			case r.Version >= 8:
				return r.Groups[0].ErrorCode
			case r.Version >= 2:
				return r.ErrorCode
			}
			return r.Topics[0].Partitions[0].ErrorCode
		case *kmsg.JoinGroupResponse:
			return r.ErrorCode
		case *kmsg.HeartbeatResponse:
			return r.ErrorCode
		case *kmsg.LeaveGroupResponse:
			return r.ErrorCode
		case *kmsg.SyncGroupResponse:
			return r.ErrorCode
		case *kmsg.DescribeGroupsResponse:
			return r.Groups[0].ErrorCode
		case *kmsg.ListGroupsResponse:
			return r.ErrorCode
		case *kmsg.DeleteGroupsResponse:
			return r.Groups[0].ErrorCode
		case *kmsg.OffsetDeleteResponse:
			return r.ErrorCode
		}
		t.Fatalf("%T", resp)
		return 0
	}
	special := map[int16]map[kafka.Code]kafka.Code{
		9:  {kafka.CoordinatorNotAvailable: kafka.NotCoordinator}, // KAFKA-16386
		12: {kafka.CoordinatorLoadInProgress: kafka.None},
		16: {kafka.NotCoordinator: kafka.None},
	}
	for _, api := range []struct {
		req      kmsg.Request
		min, max int16
	}{
		{commit, 2, 9}, {fetch, 1, 9}, {kmsg.NewPtrJoinGroupRequest(), 0, 9}, {kmsg.NewPtrHeartbeatRequest(), 0, 4}, {kmsg.NewPtrLeaveGroupRequest(), 0, 5},
		{kmsg.NewPtrSyncGroupRequest(), 0, 5}, {describe, 0, 6}, {kmsg.NewPtrListGroupsRequest(), 0, 5}, {remove, 0, 2}, {kmsg.NewPtrOffsetDeleteRequest(), 0, 0},
	} {
		for version := api.min; version <= api.max; version++ {
			for _, said := range []kafka.Code{kafka.NotCoordinator, kafka.CoordinatorLoadInProgress, kafka.CoordinatorNotAvailable, kafka.UnknownServerError} {
				want := said
				if other, ok := special[api.req.Key()][said]; ok {
					want = other
				}
				f.groups.refuse(said)
				if got := kafka.Code(codeOf(c.call(version, api.req))); got != want {
					t.Errorf("%T v%d: %v is told as %v, want %v", api.req, version, said, got, want)
				}
			}
		}
	}
}

func TestCommitsForWhatDoesNotExistAreRefusedOneByOne(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 2)
	f.groups.answer = func(_ string, _ int32, c *coordinator.Call) (any, error) {
		req := c.Body.(*kmsg.OffsetCommitRequest)
		for _, topic := range req.Topics {
			if topic.TopicID != byName(f.node.Image(), topic.Topic).ID {
				t.Errorf("the coordinator is told that %s has the id %v", topic.Topic, topic.TopicID)
			}
		}
		return refuseCommit(req, kafka.None), nil
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = "g"
	partitions := func(ids ...int32) (ps []kmsg.OffsetCommitRequestTopicPartition) {
		for _, p := range ids {
			ps = append(ps, kmsg.OffsetCommitRequestTopicPartition{Partition: p})
		}
		return ps
	}
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: partitions(1, 77, 0)}, {Topic: "none", Partitions: partitions(0)}, {Topic: "t", Partitions: partitions(-1)},
		{Topic: "t"}, {Topic: "none", Partitions: partitions(5)}}
	resp := f.client().call(8, req).(*kmsg.OffsetCommitResponse)
	type row struct {
		topic     string
		partition int32
		code      kafka.Code
	}
	var got []row
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			got = append(got, row{topic.Topic, p.Partition, kafka.Code(p.ErrorCode)})
		}
	}
	unknown := kafka.UnknownTopicOrPartition
	want := []row{{"t", 77, unknown}, {"t", -1, unknown}, {"t", 1, kafka.None}, {"t", 0, kafka.None}, {"none", 0, unknown}, {"none", 5, unknown}}
	if !slices.Equal(got, want) || len(resp.Topics) != 2 {
		t.Fatalf("answered %+v in %d topics,\nwant %+v in 2", got, len(resp.Topics), want)
	}

	before := len(f.groups.calls)
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "none", Partitions: partitions(0)}, {Topic: "t"}}
	resp = f.client().call(8, req).(*kmsg.OffsetCommitResponse)
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != "none" || len(f.groups.calls) != before {
		t.Fatalf("%+v, and the coordinator was asked %d times", resp, len(f.groups.calls)-before)
	}
}

func TestOffsetDeleteIsRefusedAsAWholeOrOneByOne(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	whole := kafka.None
	f.groups.answer = func(_ string, _ int32, c *coordinator.Call) (any, error) {
		req := c.Body.(*kmsg.OffsetDeleteRequest)
		resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
		resp.ErrorCode = int16(whole)
		for _, topic := range req.Topics {
			resp.Topics = append(resp.Topics, kmsg.OffsetDeleteResponseTopic{Topic: topic.Topic, Partitions: make([]kmsg.OffsetDeleteResponseTopicPartition, len(topic.Partitions))})
		}
		return resp, nil
	}
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 4}}}}
	resp := f.client().call(0, req).(*kmsg.OffsetDeleteResponse)
	if rows := resp.Topics[0].Partitions; len(resp.Topics) != 1 || len(rows) != 2 || kafka.Code(rows[0].ErrorCode) != kafka.UnknownTopicOrPartition || rows[0].Partition != 4 || rows[1].ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	whole = kafka.GroupIDNotFound
	req.Topics[0].Partitions = req.Topics[0].Partitions[1:]
	resp = f.client().call(0, req).(*kmsg.OffsetDeleteResponse)
	if kafka.Code(resp.ErrorCode) != whole || len(resp.Topics) != 0 {
		t.Fatalf("%+v", resp)
	}
}

func TestManyGroupsAreAskedAndAnsweredInTheirOrder(t *testing.T) {
	f := newFixture(t)
	f.groups.answer = func(name string, _ int32, c *coordinator.Call) (any, error) {
		switch body := c.Body.(type) {
		case group.FetchOffsets:
			resp := kmsg.NewOffsetFetchResponseGroup()
			resp.Group = name
			if body.All {
				resp.Topics = []kmsg.OffsetFetchResponseGroupTopic{{Topic: "all"}}
			}
			return &resp, nil
		case group.Describe:
			resp := kmsg.NewDescribeGroupsResponseGroup()
			resp.Group = name
			return &resp, nil
		case group.Delete:
			if name == "g1" {
				return nil, kafka.Errorf(kafka.NonEmptyGroup, "")
			}
		}
		return nil, nil
	}
	var names []string
	fetch, describe, remove := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrDeleteGroupsRequest()
	for i := range 3 * maxAskedTogether {
		names = append(names, "g"+string(rune('0'+i%10)))
	}
	for _, name := range names {
		fetch.Groups = append(fetch.Groups, kmsg.OffsetFetchRequestGroup{Group: name})
	}
	fetch.Groups[1].Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	describe.Groups, remove.Groups = names, names
	describe.IncludeAuthorizedOperations = true
	c := f.client()
	fetched := c.call(8, fetch).(*kmsg.OffsetFetchResponse).Groups
	described := c.call(5, describe).(*kmsg.DescribeGroupsResponse).Groups
	for i, name := range names {
		if fetched[i].Group != name || (len(fetched[i].Topics) == 1) != (i != 1) {
			t.Fatalf("offsets of %s: %+v", name, fetched[i])
		}
		if described[i].Group != name || described[i].AuthorizedOperations != groupOperations {
			t.Fatalf("%s: %+v", name, described[i])
		}
	}
	removed := c.call(2, remove).(*kmsg.DeleteGroupsResponse).Groups
	if len(removed) != 10 || removed[0].ErrorCode != 0 || kafka.Code(removed[1].ErrorCode) != kafka.NonEmptyGroup {
		t.Fatalf("%+v", removed)
	}
}

func TestListGroupsIsWhole(t *testing.T) {
	f := newFixture(t)
	f.groups.owned = []int32{2, 7, 9}
	answers := map[int32]error{2: nil, 7: kafka.Errorf(kafka.NotCoordinator, ""), 9: nil}
	f.groups.answer = func(_ string, partition int32, c *coordinator.Call) (any, error) {
		if err := answers[partition]; err != nil {
			return nil, err
		}
		r := kmsg.NewListGroupsResponseGroup()
		r.Group = string(rune('0' + partition))
		return []kmsg.ListGroupsResponseGroup{r}, nil
	}
	c := f.client()
	resp := c.call(4, kmsg.NewPtrListGroupsRequest()).(*kmsg.ListGroupsResponse)
	if resp.ErrorCode != 0 || len(resp.Groups) != 2 || resp.Groups[0].Group != "2" || resp.Groups[1].Group != "9" {
		t.Fatalf("%+v", resp)
	}
	answers[9] = kafka.Errorf(kafka.CoordinatorLoadInProgress, "")
	resp = c.call(4, kmsg.NewPtrListGroupsRequest()).(*kmsg.ListGroupsResponse)
	if kafka.Code(resp.ErrorCode) != kafka.CoordinatorLoadInProgress || len(resp.Groups) != 0 {
		t.Fatalf("%+v", resp)
	}
}

func TestTheFirstToLookForACoordinatorFindsIt(t *testing.T) {
	f := newFixture(t, "offsets.topic.num.partitions=7")
	c := f.client()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g", "", "h"}
	for version := int16(0); version <= 6; version++ {
		resp := c.call(version, find).(*kmsg.FindCoordinatorResponse)
		rows := resp.Coordinators
		if version < 4 {
			rows = []kmsg.FindCoordinatorResponseCoordinator{{NodeID: resp.NodeID, Host: resp.Host, Port: resp.Port, ErrorCode: resp.ErrorCode, Key: "g"}}
		} else if len(rows) != 3 || rows[1].Key != "" || rows[2].Key != "h" {
			t.Fatalf("v%d: %+v", version, resp)
		}
		for _, r := range rows {
			if r.ErrorCode != 0 || r.NodeID != int32(self) || r.Host != clientListener.Host || r.Port != int32(clientListener.Port) {
				t.Fatalf("v%d: %+v", version, r)
			}
		}
	}
	topic, ok := f.node.Image().Topics.ByName(kafka.ConsumerOffsetsTopic)
	if !ok || len(topic.Partitions) != 7 {
		t.Fatalf("the topic of the offsets: %+v", topic)
	}
	c.Listener = "OTHER"
	if resp := c.call(1, find).(*kmsg.FindCoordinatorResponse); kafka.Code(resp.ErrorCode) != kafka.CoordinatorNotAvailable || *resp.ErrorMessage != "The coordinator is not available." {
		t.Fatalf("by a listener that is none of its: %+v", resp)
	}
	for _, kind := range []int8{1, 2, 9, -1} {
		find.CoordinatorType = kind
		old, many := c.call(3, find).(*kmsg.FindCoordinatorResponse), c.call(6, find).(*kmsg.FindCoordinatorResponse).Coordinators
		if kafka.Code(old.ErrorCode) != kafka.InvalidRequest || old.NodeID != -1 || old.Port != -1 || len(many) != 3 || kafka.Code(many[0].ErrorCode) != kafka.InvalidRequest {
			t.Errorf("type %d: %+v, %+v", kind, old, many)
		}
	}
}

func TestWhereTheOffsetsCannotBeKeptThereIsNoCoordinator(t *testing.T) {
	f := newFixture(t)
	tries := 0
	f.handlers.Controller = controllerFunc(func() error {
		tries++
		return errors.New("no quorum")
	})
	resp := f.client().call(4, &kmsg.FindCoordinatorRequest{CoordinatorKeys: []string{"g", "h"}}).(*kmsg.FindCoordinatorResponse)
	for _, r := range resp.Coordinators {
		if kafka.Code(r.ErrorCode) != kafka.CoordinatorNotAvailable || r.NodeID != -1 {
			t.Fatalf("%+v", r)
		}
	}
	if tries != 1 {
		t.Errorf("it was tried %d times to make their topic", tries)
	}
}

func TestMembersAreKnownByTheirAddressAsJavaWritesIt(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1": "/127.0.0.1", "::1": "/0:0:0:0:0:0:0:1", "::ffff:10.1.2.3": "/10.1.2.3", "2001:db8::ff00:42": "/2001:db8:0:0:0:0:ff00:42", "fe80::1%eth0": "/fe80:0:0:0:0:0:0:1%eth0",
	} {
		if got := clientHost(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
	f := newFixture(t)
	f.groups.refuse(kafka.NotCoordinator)
	c := f.client()
	c.Remote = netip.MustParseAddrPort("127.0.0.1:5000")
	c.call(0, kmsg.NewPtrHeartbeatRequest())
	if call := f.groups.calls[0]; call.ClientHost != "/127.0.0.1" || call.ClientID != "" {
		t.Errorf("%+v", call)
	}
}

type controllerFunc func() error

func (f controllerFunc) Submit(context.Context, controller.Command) (controller.Reply, error) {
	return nil, f()
}
