package handler

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

func TestTopicsAreCreatedGrownAndDeleted(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 1000
	for _, name := range []string{"a", "a/b", "twice", "twice"} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 2, 1
		topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: kmsg.StringPtr("5000")}}
		create.Topics = append(create.Topics, topic)
	}
	rows := c.call(7, create).(*kmsg.CreateTopicsResponse).Topics
	created := rows[0]
	if created.ErrorCode != 0 || created.NumPartitions != 2 || created.ReplicationFactor != 1 || created.TopicID == (kafka.TopicID{}) {
		t.Fatalf("%+v", created)
	}
	retention := slices.IndexFunc(created.Configs, func(c kmsg.CreateTopicsResponseTopicConfig) bool { return c.Name == "retention.ms" })
	if retention < 0 || *created.Configs[retention].Value != "5000" || created.Configs[retention].Source != 1 || len(created.Configs) < 30 {
		t.Fatalf("configs %+v", created.Configs)
	}
	if len(rows) != 3 || kafka.Code(rows[1].ErrorCode) != kafka.InvalidTopic || kafka.Code(rows[2].ErrorCode) != kafka.InvalidRequest || rows[1].Configs == nil {
		t.Fatalf("%+v", rows)
	}

	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.TimeoutMillis = 1000
	for name, count := range map[string]int32{"a": 3, "nowhere": 3} {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = name, count
		grow.Topics = append(grow.Topics, topic)
	}
	for _, row := range c.call(3, grow).(*kmsg.CreatePartitionsResponse).Topics {
		if (row.ErrorCode == 0) != (row.Topic == "a") {
			t.Errorf("grow %s: %v", row.Topic, kafka.Code(row.ErrorCode))
		}
	}
	c.call(9, produceRequestTo(1, topicRecords{"a", 2, records(t, 1, 10)}))
	if end := f.partition("a", 2).Log().EndOffset(); end != 1 {
		t.Errorf("the new partition ends at %d", end)
	}

	late := kmsg.NewPtrDeleteTopicsRequest() // there is no time for it, so it is not begun
	late.TimeoutMillis, late.Topics = 0, []kmsg.DeleteTopicsRequestTopic{{TopicID: created.TopicID}}
	if row := c.call(6, late).(*kmsg.DeleteTopicsResponse).Topics[0]; kafka.Code(row.ErrorCode) != kafka.RequestTimedOut {
		t.Errorf("%+v", row)
	}

	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TimeoutMillis = 1000
	remove.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: created.TopicID}}
	if row := c.call(6, remove).(*kmsg.DeleteTopicsResponse).Topics[0]; row.ErrorCode != 0 || *row.Topic != "a" || row.TopicID != created.TopicID {
		t.Errorf("%+v", row)
	}
	byName := kmsg.NewPtrDeleteTopicsRequest()
	byName.TimeoutMillis, byName.TopicNames = 1000, []string{"a"}
	if row := c.call(4, byName).(*kmsg.DeleteTopicsResponse).Topics[0]; kafka.Code(row.ErrorCode) != kafka.UnknownTopicOrPartition {
		t.Errorf("deleted twice: %v", kafka.Code(row.ErrorCode))
	}
}

func TestDescribeLogDirs(t *testing.T) {
	f := newFixture(t)
	f.createTopic("a", 2)
	f.createTopic("b", 1)
	c := f.client()
	c.mustProduce("a", records(t, 1, 10))
	size := int64(len(records(t, 1, 10)))
	all := kmsg.NewPtrDescribeLogDirsRequest()
	dir := c.call(4, all).(*kmsg.DescribeLogDirsResponse).Dirs[0]
	if dir.Dir != dataDir || dir.TotalBytes != 100 || dir.UsableBytes != 50 || len(dir.Topics) != 2 || dir.Topics[0].Partitions[0].Size != size || dir.Topics[0].Partitions[1].Size != 0 {
		t.Fatalf("%+v", dir)
	}
	some := kmsg.NewPtrDescribeLogDirsRequest()
	some.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: []int32{1, -1, 77}}, {Topic: "nowhere", Partitions: []int32{0}}}
	dir = c.call(4, some).(*kmsg.DescribeLogDirsResponse).Dirs[0]
	if len(dir.Topics) != 1 || len(dir.Topics[0].Partitions) != 1 || dir.Topics[0].Partitions[0].Partition != 1 {
		t.Fatalf("%+v", dir.Topics)
	}
	f.handlers.Directories = failedDirectory{}
	dir = c.call(4, all).(*kmsg.DescribeLogDirsResponse).Dirs[0]
	if kafka.Code(dir.ErrorCode) != kafka.KafkaStorageError || dir.TotalBytes != -1 || dir.UsableBytes != -1 || len(dir.Topics) != 0 {
		t.Fatalf("an offline directory: %+v", dir)
	}
}

type failedDirectory struct{}

func (failedDirectory) Describe() []Directory {
	return []Directory{{Path: dataDir, Err: errors.New("gone"), Total: 7, Usable: 7}}
}

func TestDescribeCluster(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, clientListener)
	c := f.client()
	resp := c.call(2, kmsg.NewPtrDescribeClusterRequest()).(*kmsg.DescribeClusterResponse)
	if resp.ErrorCode != 0 || resp.ClusterID != f.store.ClusterID() || len(resp.Brokers) != 2 || resp.Brokers[0].Host != "localhost" || resp.Brokers[1].IsFenced {
		t.Fatalf("%+v", resp)
	}
	for kind, code := range map[int8]kafka.Code{2: kafka.MismatchedEndpointType, 3: kafka.UnsupportedEndpointType, -1: kafka.UnsupportedEndpointType} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = kind
		if resp := c.call(1, req).(*kmsg.DescribeClusterResponse); kafka.Code(resp.ErrorCode) != code || resp.ErrorMessage == nil {
			t.Errorf("endpoint type %d: %v", kind, kafka.Code(resp.ErrorCode))
		}
	}
}

func TestPartitionsOfOtherBrokers(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two", Port: 9094})
	f.createTopicOn("t", [][]kafka.BrokerID{{self}, {2}})
	c := f.client()
	c.mustProduce("t", records(t, 2, 10))

	ends := kmsg.NewPtrOffsetForLeaderEpochRequest()
	topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
	topic.Topic = "t"
	for _, p := range []struct{ partition, current, epoch int32 }{{0, -1, 0}, {0, 0, 5}, {0, 3, 0}, {1, -1, 0}, {-1, -1, 0}, {9, -1, 0}} {
		asked := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		asked.Partition, asked.CurrentLeaderEpoch, asked.LeaderEpoch = p.partition, p.current, p.epoch
		topic.Partitions = append(topic.Partitions, asked)
	}
	ends.Topics = append(ends.Topics, topic)
	for i, row := range c.call(2, ends).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions {
		want := []struct {
			code  kafka.Code
			epoch int32
			end   int64
		}{{0, 0, 2}, {0, -1, -1}, {kafka.UnknownLeaderEpoch, -1, -1}, {kafka.NotLeaderOrFollower, -1, -1}, {kafka.UnknownTopicOrPartition, -1, -1}, {kafka.UnknownTopicOrPartition, -1, -1}}[i]
		if kafka.Code(row.ErrorCode) != want.code || row.LeaderEpoch != want.epoch || row.EndOffset != want.end {
			t.Errorf("row %d: %v, epoch %d ends at %d; want %+v", i, kafka.Code(row.ErrorCode), row.LeaderEpoch, row.EndOffset, want)
		}
	}

	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 1, -1}}, {Topic: "no/name", Partitions: []int32{0}}, {Topic: "nowhere", Partitions: []int32{0}}}
	var codes []string
	for _, topic := range c.call(0, producers).(*kmsg.DescribeProducersResponse).Topics {
		for _, row := range topic.Partitions {
			codes = append(codes, kafka.Code(row.ErrorCode).String())
		}
	}
	if got, want := strings.Join(codes, " "), "NONE NOT_LEADER_OR_FOLLOWER UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION UNKNOWN_TOPIC_OR_PARTITION"; got != want {
		t.Errorf("producers: %s, want %s", got, want)
	}
}

func TestApiVersionsRemembersTheClient(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "kgo", "1.2"
	resp := c.call(4, req).(*kmsg.ApiVersionsResponse)
	if resp.ErrorCode != 0 || c.SoftwareName != "kgo" || c.SoftwareVersion != "1.2" || resp.FinalizedFeaturesEpoch != f.node.Image().Index {
		t.Fatalf("%+v, client %q %q", resp, c.SoftwareName, c.SoftwareVersion)
	}
	req.ClientSoftwareName = "-"
	if resp := c.call(4, req).(*kmsg.ApiVersionsResponse); kafka.Code(resp.ErrorCode) != kafka.InvalidRequest {
		t.Fatalf("a name that is none: %v", kafka.Code(resp.ErrorCode))
	}
}
