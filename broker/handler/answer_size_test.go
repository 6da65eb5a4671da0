package handler

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/coordinator/group"
	"weir/internal/kafka"
)

// A small request must not make an answer of any size by naming a group with much to tell again and again.
func TestWhatGroupsHaveIsNotRepeatedWithoutEnd(t *testing.T) {
	const each = 4 << 20
	f := newFixture(t)
	metadata := strings.Repeat("m", each)
	f.groups.answer = func(name string, _ int32, c *coordinator.Call) (any, error) {
		switch c.Body.(type) {
		case group.FetchOffsets:
			p := kmsg.OffsetFetchResponseGroupTopicPartition{Metadata: &metadata}
			return &kmsg.OffsetFetchResponseGroup{Group: name, Topics: []kmsg.OffsetFetchResponseGroupTopic{{Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{p}}}}, nil
		default:
			m := kmsg.DescribeGroupsResponseGroupMember{ProtocolMetadata: []byte(metadata)}
			return &kmsg.DescribeGroupsResponseGroup{Group: name, Members: []kmsg.DescribeGroupsResponseGroupMember{m}}, nil
		}
	}
	const fit = (maxAnswerBytes - 1) / each
	fetch := kmsg.NewPtrOffsetFetchRequest()
	describe := kmsg.NewPtrDescribeGroupsRequest()
	for range fit + 3 {
		fetch.Groups = append(fetch.Groups, kmsg.OffsetFetchRequestGroup{Group: "g"})
		describe.Groups = append(describe.Groups, "g")
	}
	describe.Groups = append(describe.Groups, "another")

	asked := len(f.groups.calls)
	fetched := f.client().call(9, fetch).(*kmsg.OffsetFetchResponse).Groups
	if n := len(f.groups.calls) - asked; n > fit+1 {
		t.Errorf("the coordinator was asked %d times", n)
	}
	for i, g := range fetched {
		if refused := i >= fit; refused != (kafka.Code(g.ErrorCode) == kafka.InvalidRequest) || refused != (len(g.Topics) == 0) || g.Group != "g" {
			t.Errorf("offsets %d: %v with %d topics", i, kafka.Code(g.ErrorCode), len(g.Topics))
		}
	}
	described := f.client().call(6, describe).(*kmsg.DescribeGroupsResponse).Groups
	for i, g := range described {
		refused := i > fit && g.Group == "g" // the first is not repeated, and another is not either
		if refused != (kafka.Code(g.ErrorCode) == kafka.InvalidRequest) || refused != (len(g.Members) == 0) {
			t.Errorf("description %d of %s: %v with %d members", i, g.Group, kafka.Code(g.ErrorCode), len(g.Members))
		}
	}
	if len(fetched) != len(fetch.Groups) || len(described) != len(describe.Groups) {
		t.Errorf("%d and %d answers", len(fetched), len(described))
	}
}
