package group

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

func newOffsetShard() *Shard { return replay(testSettings(), 1, nil) }

// offsetHarness asks a shard for offsets.
type offsetHarness struct {
	*runtime
	t       testing.TB
	batches []int // sizes of what was appended, in records
}

func newOffsetHarness(t testing.TB, log ...coordinator.Record) *offsetHarness {
	h := &offsetHarness{runtime: newRuntime(testSettings(), 1), t: t}
	h.log = log
	h.reload()
	h.seen = func(_ coordinator.Input, out *coordinator.Output) {
		if n := len(out.Records); n > 0 {
			h.batches = append(h.batches, n)
		}
	}
	return h
}

// begin is when a harness begins.
var begin = newRuntime(testSettings(), 1).now

// call returns what is answered.
func (h *offsetHarness) call(body any) any {
	h.t.Helper()
	answers := 0
	var answer any
	h.step(&coordinator.Call{Body: body, ClientID: "c", ClientHost: "/127.0.0.1", Done: func(body any, err error) {
		answers++
		if answer = body; err != nil {
			answer = err
		}
	}})
	if answers != 1 {
		h.t.Fatalf("%T has %d answers", body, answers)
	}
	return answer
}

// commitRequest commits one offset without being a member.
func commitRequest(version int16, group, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = version, group
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return req
}

func (h *offsetHarness) commit(group, topic string, partition int32, offset int64) {
	h.t.Helper()
	h.commitAs(kafka.None, commitRequest(9, group, topic, partition, offset))
}

// commitAs wants the code for the first partition.
func (h *offsetHarness) commitAs(want kafka.Code, req *kmsg.OffsetCommitRequest) {
	h.t.Helper()
	resp := h.call(req).(*kmsg.OffsetCommitResponse)
	if got := kafka.Code(resp.Topics[0].Partitions[0].ErrorCode); got != want {
		h.t.Errorf("commit to %q: %v, want %v", req.Group, got, want)
	}
}

// fetch returns what is answered of one partition.
func (h *offsetHarness) fetch(group, topic string, partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	h.t.Helper()
	resp := h.call(FetchOffsets{Group: group, MemberEpoch: -1,
		Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{partition}}}}).(*kmsg.OffsetFetchResponseGroup)
	if resp.Group != group || resp.ErrorCode != 0 || len(resp.Topics) != 1 || resp.Topics[0].Topic != topic || len(resp.Topics[0].Partitions) != 1 {
		h.t.Fatalf("answer %+v", resp)
	}
	return resp.Topics[0].Partitions[0]
}

// wantOffset wants an offset, -1 where nothing is committed.
func (h *offsetHarness) wantOffset(group, topic string, partition int32, want int64) {
	h.t.Helper()
	if got := h.fetch(group, topic, partition); got.Offset != want || got.ErrorCode != 0 || got.Partition != partition {
		h.t.Errorf("%q has %+v of %s-%d, want offset %d", group, got, topic, partition, want)
	}
}

// wantGroups wants these groups to exist, and no others.
func (h *offsetHarness) wantGroups(want ...string) {
	h.t.Helper()
	if got := slices.Sorted(maps.Keys(h.shard.groups)); !slices.Equal(got, want) {
		h.t.Errorf("groups %q, want %q", got, want)
	}
}

// TestAFailedCommitLeavesNoGroup behind, unless it had something before.
func TestAFailedCommitLeavesNoGroup(t *testing.T) {
	h := newOffsetHarness(t)
	refused := kafka.Errorf(kafka.CoordinatorNotAvailable, "")
	h.refuse = refused
	if got := h.call(commitRequest(9, "readers", "orders", 1, 42)); got != error(refused) {
		t.Fatalf("answered %v", got)
	}
	h.wantGroups()
	h.commit("readers", "orders", 1, 42)
	h.refuse = refused
	h.call(commitRequest(9, "readers", "orders", 1, 43))
	h.wantGroups("readers")
	h.wantOffset("readers", "orders", 1, 42)
}

func TestCommitIsFetched(t *testing.T) {
	h := newOffsetHarness(t)
	req := commitRequest(9, "readers", "orders", 1, 42)
	req.Topics[0].TopicID = [16]byte{7}
	req.Topics[0].Partitions[0].LeaderEpoch = 5
	req.Topics[0].Partitions[0].Metadata = new("note")
	h.commitAs(kafka.None, req)
	h.commit("readers", "orders", 0, 7)
	h.commit("readers", "bills", 3, 8)
	h.commit("others", "orders", 1, 9)

	if p := h.fetch("readers", "orders", 1); p.Offset != 42 || p.LeaderEpoch != 5 || *p.Metadata != "note" {
		t.Errorf("got %+v", p)
	}
	if p := h.fetch("readers", "orders", 0); p.Offset != 7 || p.LeaderEpoch != -1 || *p.Metadata != "" {
		t.Errorf("got %+v", p)
	}
	all := h.call(FetchOffsets{Group: "readers", All: true}).(*kmsg.OffsetFetchResponseGroup)
	var found []string
	for _, topic := range all.Topics {
		for _, p := range topic.Partitions {
			found = append(found, kafka.TopicPartition{Topic: topic.Topic, Partition: p.Partition}.String())
		}
	}
	if !slices.Equal(found, []string{"bills-3", "orders-0", "orders-1"}) {
		t.Errorf("all is %v", found)
	}
	if got := h.shard.hard.offsets.get("readers", "orders", 1).timestamp; got != begin.UnixMilli() {
		t.Errorf("committed at %d", got)
	}
}

// TestNeverCommittedIsNoError also of groups, topics and partitions that nobody knows.
func TestNeverCommittedIsNoError(t *testing.T) {
	h := newOffsetHarness(t)
	h.commit("readers", "orders", 1, 42)
	for _, c := range []struct {
		group, topic string
		partition    int32
	}{{"nobody", "orders", 1}, {"readers", "bills", 1}, {"readers", "orders", 0}, {"", "orders", 1}} {
		p := h.fetch(c.group, c.topic, c.partition)
		if p.Offset != -1 || p.LeaderEpoch != -1 || p.ErrorCode != 0 || p.Metadata == nil || *p.Metadata != "" {
			t.Errorf("%v: %+v", c, p)
		}
	}
	if all := h.call(FetchOffsets{Group: "nobody", All: true}).(*kmsg.OffsetFetchResponseGroup); len(all.Topics) != 0 || all.ErrorCode != 0 {
		t.Errorf("all of nobody is %+v", all)
	}
	h.wantGroups("readers") // asking makes none
}

// TestOffsetsOfAnEarlierTopicAreNotFetched: a topic was deleted and made anew before its offsets were removed.
func TestOffsetsOfAnEarlierTopicAreNotFetched(t *testing.T) {
	h := newOffsetHarness(t)
	req := commitRequest(9, "readers", "orders", 0, 42)
	req.Topics[0].TopicID = [16]byte{7}
	h.commitAs(kafka.None, req)
	h.commit("readers", "bills", 0, 43)
	for _, c := range []struct {
		topic string
		id    byte
		want  int64
	}{{"orders", 7, 42}, {"orders", 0, 42}, {"orders", 8, -1}, {"bills", 8, 43}} {
		resp := h.call(FetchOffsets{Group: "readers", Topics: []kmsg.OffsetFetchRequestGroupTopic{
			{Topic: c.topic, TopicID: [16]byte{c.id}, Partitions: []int32{0}}}}).(*kmsg.OffsetFetchResponseGroup)
		if got := resp.Topics[0].Partitions[0].Offset; got != c.want || resp.Topics[0].TopicID != [16]byte{c.id} {
			t.Errorf("%v: offset %d", c, got)
		}
	}
}

func TestWhatIsTakenAsACommit(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*kmsg.OffsetCommitRequest)
		want kafka.Code
	}{
		"an offset":                          {func(*kmsg.OffsetCommitRequest) {}, kafka.None},
		"a negative offset":                  {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Offset = -7 }, kafka.None},
		"no metadata":                        {func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = nil }, kafka.None},
		"metadata of 4096":                   {metadataOf(strings.Repeat("m", 4096)), kafka.None},
		"metadata of 4097":                   {metadataOf(strings.Repeat("m", 4097)), kafka.OffsetMetadataTooLarge},
		"4096 letters of two bytes":          {metadataOf(strings.Repeat("ü", 4096)), kafka.None},
		"4097 letters of two bytes":          {metadataOf(strings.Repeat("ü", 4097)), kafka.OffsetMetadataTooLarge},
		"2048 letters of two UTF-16 units":   {metadataOf(strings.Repeat("😀", 2048)), kafka.None},
		"2048.5 letters of two UTF-16 units": {metadataOf(strings.Repeat("😀", 2048) + "m"), kafka.OffsetMetadataTooLarge},
		"no group id":                        {func(r *kmsg.OffsetCommitRequest) { r.Group = "" }, kafka.None},
		"a generation of an unknown group":   {func(r *kmsg.OffsetCommitRequest) { r.Generation = 3 }, kafka.GroupIDNotFound},
		"the same in v8":                     {func(r *kmsg.OffsetCommitRequest) { r.Generation, r.Version = 3, 8 }, kafka.IllegalGeneration},
		"a member id without a generation":   {func(r *kmsg.OffsetCommitRequest) { r.MemberID = "m" }, kafka.None},
	} {
		t.Run(name, func(t *testing.T) {
			h := newOffsetHarness(t)
			req := commitRequest(9, "readers", "orders", 0, 42)
			c.edit(req)
			h.commitAs(c.want, req)
			want := req.Topics[0].Partitions[0].Offset
			if c.want != kafka.None {
				want = -1
			}
			h.wantOffset(req.Group, "orders", 0, want)
		})
	}
}

func metadataOf(s string) func(*kmsg.OffsetCommitRequest) {
	return func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = &s }
}

// TestOnePartitionIsRefusedAlone and the answer has the order of the request.
func TestOnePartitionIsRefusedAlone(t *testing.T) {
	h := newOffsetHarness(t)
	req := commitRequest(9, "readers", "orders", 5, 50)
	long := commitRequest(9, "", "orders", 4, 40).Topics[0].Partitions[0]
	long.Metadata = new(strings.Repeat("m", 5000))
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, long)
	req.Topics = append(req.Topics, commitRequest(9, "", "bills", 0, 60).Topics[0], kmsg.OffsetCommitRequestTopic{Topic: "none"})
	resp := h.call(req).(*kmsg.OffsetCommitResponse)
	want := []kmsg.OffsetCommitResponseTopic{
		{Topic: "orders", Partitions: []kmsg.OffsetCommitResponseTopicPartition{{Partition: 5}, {Partition: 4, ErrorCode: 12}}},
		{Topic: "bills", Partitions: []kmsg.OffsetCommitResponseTopicPartition{{}}},
		{Topic: "none", Partitions: []kmsg.OffsetCommitResponseTopicPartition{}},
	}
	if got := resp.Topics; !equalTopics(got, want) {
		t.Errorf("answer %+v, want %+v", got, want)
	}
	if !slices.Equal(h.batches, []int{2}) {
		t.Errorf("batches of %v records", h.batches)
	}
	h.wantOffset("readers", "orders", 5, 50)
	h.wantOffset("readers", "orders", 4, -1)
	h.wantOffset("readers", "bills", 0, 60)
}

func equalTopics(a, b []kmsg.OffsetCommitResponseTopic) bool {
	return slices.EqualFunc(a, b, func(a, b kmsg.OffsetCommitResponseTopic) bool {
		return a.Topic == b.Topic && slices.EqualFunc(a.Partitions, b.Partitions, func(a, b kmsg.OffsetCommitResponseTopicPartition) bool {
			return a.Partition == b.Partition && a.ErrorCode == b.ErrorCode
		})
	})
}

func TestCommitOfNothing(t *testing.T) {
	h := newOffsetHarness(t)
	req := commitRequest(9, "readers", "", 0, 0)
	req.Topics = nil
	if resp := h.call(req).(*kmsg.OffsetCommitResponse); len(resp.Topics) != 0 {
		t.Errorf("answer %+v", resp)
	}
	if len(h.batches) != 0 {
		t.Errorf("%v records were written", h.batches)
	}
}

// TestAfterARestart: what was committed is there again, with all that belongs to it.
func TestAfterARestart(t *testing.T) {
	h := newOffsetHarness(t)
	for i := range int32(20) {
		h.commit("my group/ü", "orders", (i*7)%10, int64(i))
	}
	req := commitRequest(4, "readers", "orders", 0, 42)
	req.RetentionTimeMillis = 5000
	h.commitAs(kafka.None, req)
	h.call(deleteRequest("my group/ü", "orders", 3))
	again := newOffsetHarness(t, h.log...)
	if got, want := again.shard.hard, h.shard.hard; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	again.wantGroups("my group/ü", "readers")
	again.wantOffset("my group/ü", "orders", 4, 12)
	again.wantOffset("my group/ü", "orders", 3, -1)
}
