package handler

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

func metadataRequest(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	return req
}

func (c *client) metadata(version int16, req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	c.f.t.Helper()
	return c.call(version, req).(*kmsg.MetadataResponse)
}

// topicCodes are the names of an answer with their error codes.
func topicCodes(resp *kmsg.MetadataResponse) map[string]kafka.Code {
	codes := make(map[string]kafka.Code)
	for _, t := range resp.Topics {
		name := ""
		if t.Topic != nil {
			name = *t.Topic
		}
		codes[name] = kafka.Code(t.ErrorCode)
	}
	return codes
}

func TestMetadataOfAllOrNoTopics(t *testing.T) {
	f := newFixture(t)
	f.createTopic("a", 1)
	f.createTopic("b", 3)
	c := f.client()
	none := metadataRequest()
	all := metadataRequest()
	all.Topics = nil
	for _, test := range []struct {
		name    string
		version int16
		req     *kmsg.MetadataRequest
		topics  int
	}{{"empty in v0", 0, none, 2}, {"empty in v1", 1, none, 0}, {"empty in v12", 12, none, 0}, {"null in v1", 1, all, 2}, {"null in v13", 13, all, 2}} {
		resp := c.metadata(test.version, test.req)
		if len(resp.Topics) != test.topics || len(resp.Brokers) != 1 || resp.Brokers[0].Port != 9092 {
			t.Errorf("%s: %d topics, brokers %+v; want %d", test.name, len(resp.Topics), resp.Brokers, test.topics)
		}
	}
	resp := c.metadata(12, all)
	if len(resp.Topics[1].Partitions) != 3 || resp.ControllerID != 1 || *resp.ClusterID != f.store.ClusterID() {
		t.Errorf("%+v", resp)
	}
}

func TestMetadataByID(t *testing.T) {
	f := newFixture(t)
	id := f.createTopic("a", 1)
	f.createTopic("b", 1)
	c := f.client()
	named := "b"
	unknown := kafka.NewUUID()
	req := metadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{TopicID: id}, {TopicID: id}, {TopicID: unknown}, {Topic: &named}}
	resp := c.metadata(12, req)
	if len(resp.Topics) != 2 || *resp.Topics[0].Topic != "a" || resp.Topics[1].Topic != nil || resp.Topics[1].TopicID != unknown || kafka.Code(resp.Topics[1].ErrorCode) != kafka.UnknownTopicID {
		t.Fatalf("%+v", resp.Topics)
	}
	for _, req := range []*kmsg.MetadataRequest{{Topics: []kmsg.MetadataRequestTopic{{Topic: &named, TopicID: id}}}, {Topics: []kmsg.MetadataRequestTopic{{}}}} {
		if resp := c.metadata(11, req); kafka.Code(resp.Topics[0].ErrorCode) != kafka.InvalidRequest || len(resp.Brokers) != 0 {
			t.Errorf("ids or null names before v12: %+v", resp)
		}
	}
}

func TestMetadataCreatesTopics(t *testing.T) {
	f := newFixture(t, "num.partitions=2", "offsets.topic.num.partitions=5")
	c := f.client()
	allow := func(names ...string) *kmsg.MetadataRequest {
		req := metadataRequest(names...)
		req.AllowAutoTopicCreation = true
		return req
	}
	exists := func(name string) bool { _, ok := f.node.Image().Topics.ByName(name); return ok }
	for _, test := range []struct {
		name    string
		version int16
		req     *kmsg.MetadataRequest
		topic   string
		code    kafka.Code
		created bool
	}{
		{"not allowed", 4, metadataRequest("no"), "no", kafka.UnknownTopicOrPartition, false},
		{"allowed", 4, allow("yes"), "yes", kafka.UnknownTopicOrPartition, true},
		{"it is there", 4, allow("yes"), "yes", kafka.None, true},
		{"implied before v4", 3, metadataRequest("old"), "old", kafka.UnknownTopicOrPartition, true},
		{"no name for a topic", 4, allow("a/b"), "a/b", kafka.InvalidTopic, false},
		{"no name at all", 4, allow(""), "", kafka.InvalidTopic, false},
		{"an internal one", 4, allow(kafka.ConsumerOffsetsTopic), kafka.ConsumerOffsetsTopic, kafka.UnknownTopicOrPartition, true},
	} {
		if got := topicCodes(c.metadata(test.version, test.req)); len(got) != 1 || got[test.topic] != test.code {
			t.Errorf("%s: %v, want %v", test.name, got, test.code)
		}
		if exists(test.topic) != test.created {
			t.Errorf("%s: topic exists: %t", test.name, exists(test.topic))
		}
	}
	offsets, _ := f.node.Image().Topics.ByName(kafka.ConsumerOffsetsTopic)
	yes, _ := f.node.Image().Topics.ByName("yes")
	if len(yes.Partitions) != 2 || len(offsets.Partitions) != 5 || len(offsets.Partitions[0].Replicas) != 1 || f.node.Image().Configs.Topic(offsets.Name)["cleanup.policy"] != "compact" {
		t.Errorf("%d partitions by default, internal topic %+v", len(yes.Partitions), offsets)
	}
	off := newFixture(t, "auto.create.topics.enable=false")
	off.client().metadata(4, allow("t"))
	if _, ok := off.node.Image().Topics.ByName("t"); ok {
		t.Error("created, though the broker does not allow it")
	}
}

// A client of a listener that a leader does not have cannot reach it.
func TestMetadataOfALeaderOnAnotherListener(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: "OTHER", Host: "two", Port: 9094})
	f.createTopicOn("t", [][]kafka.BrokerID{{self}, {2}})
	c := f.client()
	for version, code := range map[int16]kafka.Code{5: kafka.LeaderNotAvailable, 6: kafka.ListenerNotFound} {
		resp := c.metadata(version, metadataRequest("t"))
		here, there := resp.Topics[0].Partitions[0], resp.Topics[0].Partitions[1]
		if here.ErrorCode != 0 || here.Leader != 1 || len(here.OfflineReplicas) != 0 {
			t.Errorf("v%d: own partition %+v", version, here)
		}
		if kafka.Code(there.ErrorCode) != code || there.Leader != -1 || !slices.Equal(there.Replicas, []int32{2}) || !slices.Equal(there.OfflineReplicas, []int32{2}) {
			t.Errorf("v%d: %+v, want %v and no leader", version, there, code)
		}
		if len(resp.Brokers) != 1 {
			t.Errorf("v%d: brokers %+v", version, resp.Brokers)
		}
	}
	described := c.call(0, describeRequest(10, nil, "t")).(*kmsg.DescribeTopicPartitionsResponse)
	if there := described.Topics[0].Partitions[1]; there.ErrorCode != 0 || there.LeaderID != -1 || !slices.Equal(there.OfflineReplicas, []int32{2}) {
		t.Errorf("described: %+v; Kafka gives no error there", there)
	}
	c.Listener = "OTHER"
	if resp := c.metadata(12, metadataRequest("t")); len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 2 || resp.Topics[0].Partitions[1].Leader != 2 {
		t.Errorf("on the other listener: %+v", resp)
	}
}

func describeRequest(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, names ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit, req.Cursor = limit, cursor
	for _, name := range names {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
	}
	return req
}

type describedPage struct {
	topics     []string // with the number of partitions, such as "a 2"
	next       string
	nextNumber int32
}

func (c *client) describe(req *kmsg.DescribeTopicPartitionsRequest) (page describedPage) {
	c.f.t.Helper()
	resp := c.call(0, req).(*kmsg.DescribeTopicPartitionsResponse)
	for _, t := range resp.Topics {
		page.topics = append(page.topics, *t.Topic+" "+string(rune('0'+len(t.Partitions))))
		if code := kafka.Code(t.ErrorCode); code != kafka.None {
			page.topics[len(page.topics)-1] = *t.Topic + " " + code.String()
		}
	}
	if resp.NextCursor != nil {
		page.next, page.nextNumber = resp.NextCursor.Topic, resp.NextCursor.Partition
	}
	return page
}

func TestDescribeTopicPartitionsPages(t *testing.T) {
	f := newFixture(t, "max.request.partition.size.limit=4")
	f.createTopic("a", 2)
	f.createTopic("b", 3)
	f.createTopic("c", 1)
	c := f.client()
	cursor := func(topic string, partition int32) *kmsg.DescribeTopicPartitionsRequestCursor {
		return &kmsg.DescribeTopicPartitionsRequestCursor{Topic: topic, Partition: partition}
	}
	for _, test := range []struct {
		name string
		req  *kmsg.DescribeTopicPartitionsRequest
		want describedPage
	}{
		{"the broker's limit", describeRequest(2000, nil), describedPage{[]string{"a 2", "b 2"}, "b", 2}},
		{"from there", describeRequest(2000, cursor("b", 2)), describedPage{[]string{"b 1", "c 1"}, "", 0}},
		{"a limit at a topic's end", describeRequest(2, nil), describedPage{[]string{"a 2"}, "b", 0}},
		{"no limit is one", describeRequest(0, nil, "a"), describedPage{[]string{"a 1"}, "a", 1}},
		{"a negative one, too", describeRequest(-5, nil, "a"), describedPage{[]string{"a 1"}, "a", 1}},
		{"names in order, once", describeRequest(9, nil, "c", "a", "c"), describedPage{[]string{"a 2", "c 1"}, "", 0}},
		{"unknown ones are told and cost nothing", describeRequest(3, nil, "a", "aa", "c", "/"),
			describedPage{[]string{"/ INVALID_TOPIC_EXCEPTION", "a 2", "aa UNKNOWN_TOPIC_OR_PARTITION", "c 1"}, "", 0}},
		{"a cursor between the names", describeRequest(9, cursor("bb", 0)), describedPage{[]string{"c 1"}, "", 0}},
		{"a cursor behind the partitions", describeRequest(9, cursor("b", 1<<31-1)), describedPage{[]string{"b 0", "c 1"}, "", 0}},
		{"a cursor of another topic", describeRequest(9, cursor("b", 0), "a", "c"), describedPage{[]string{"a INVALID_REQUEST", "c INVALID_REQUEST"}, "", 0}},
		{"a negative cursor", describeRequest(9, cursor("a", -1), "a"), describedPage{[]string{"a INVALID_REQUEST"}, "", 0}},
	} {
		got := c.describe(test.req)
		if !slices.Equal(got.topics, test.want.topics) || got.next != test.want.next || got.nextNumber != test.want.nextNumber {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}
