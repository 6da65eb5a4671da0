package wire

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// topic is a topic of a case.
type topic struct {
	name string
	id   [16]byte
}

// newTopic creates a topic, with settings given as name, value, name, value, and waits until its partitions have leaders.
func newTopic(t *testing.T, address string, partitions int32, settings ...string) topic {
	t.Helper()
	c := dial(t, address)
	req := createRequest(harness.TopicName(t), partitions, settings...)
	resp := ask(t, c, at(7, req)).Topics[0]
	if resp.ErrorCode != 0 {
		t.Fatalf("creating topic %s: error %d %s", resp.Topic, resp.ErrorCode, text(resp.ErrorMessage))
	}
	awaitLeaders(t, c, resp.Topic, partitions)
	if harness.External() != "" {
		t.Cleanup(func() { deleteTopic(t, address, resp.Topic) })
	}
	return topic{resp.Topic, resp.TopicID}
}

func createRequest(name string, partitions int32, settings ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	row := kmsg.NewCreateTopicsRequestTopic()
	row.Topic, row.NumPartitions, row.ReplicationFactor = name, partitions, -1
	for i := 0; i+1 < len(settings); i += 2 {
		row.Configs = append(row.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: settings[i], Value: &settings[i+1]})
	}
	req.Topics = append(req.Topics, row)
	return req
}

// awaitLeaders waits until all partitions can be used: that may be a moment after the creation was answered.
func awaitLeaders(t *testing.T, c *conn, name string, partitions int32) {
	t.Helper()
	deadline := time.Now().Add(replyWithin)
	for {
		ready := true
		req := listOffsetsRequest(name, -1, partitionNumbers(partitions)...)
		for _, p := range ask(t, c, at(7, req)).Topics[0].Partitions {
			ready = ready && p.ErrorCode == 0
		}
		if ready {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the partitions of %s have no leader", name)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func partitionNumbers(n int32) []int32 {
	numbers := make([]int32, n)
	for i := range numbers {
		numbers[i] = int32(i)
	}
	return numbers
}

func deleteTopic(t *testing.T, address, name string) {
	c, err := connect(address)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{name}
	if _, err := c.Request(context.Background(), at(5, req)); err != nil { // the case's own has ended
		t.Errorf("deleting topic %s: %v", name, err)
	}
}

func text(s *string) string {
	if s == nil {
		return "(null)"
	}
	return *s
}

// produceRequest is a Produce v9 that waits for all replicas.
func produceRequest(name string, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, int32(replyWithin.Milliseconds())
	addProduce(req, name, partition, records)
	return req
}

// addProduce adds a partition to a request.
func addProduce(req *kmsg.ProduceRequest, name string, partition int32, records []byte) {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	if n := len(req.Topics); n > 0 && req.Topics[n-1].Topic == name {
		req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, p)
		return
	}
	row := kmsg.NewProduceRequestTopic()
	row.Topic, row.Partitions = name, []kmsg.ProduceRequestTopicPartition{p}
	req.Topics = append(req.Topics, row)
}

// produce sends records to one partition and returns its part of the answer.
func produce(t *testing.T, c *conn, name string, partition int32, records []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return ask(t, c, produceRequest(name, partition, records)).Topics[0].Partitions[0]
}

// mustProduce is produce for what has to succeed; it returns the base offset.
func mustProduce(t *testing.T, c *conn, name string, partition int32, b *batch) int64 {
	t.Helper()
	p := produce(t, c, name, partition, b.bytes())
	if p.ErrorCode != 0 {
		t.Fatalf("producing to %s[%d]: error %d %s", name, partition, p.ErrorCode, text(p.ErrorMessage))
	}
	return p.BaseOffset
}

// fetchRequest is a Fetch v11 outside a session, of one partition; a case that waits sets MaxWaitMillis.
func fetchRequest(name string, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 11, 500, 1, 50<<20, -1
	addFetch(req, name, partition, offset)
	return req
}

// addFetch adds a partition to a request.
func addFetch(req *kmsg.FetchRequest, name string, partition int32, offset int64) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	if n := len(req.Topics); n > 0 && req.Topics[n-1].Topic == name {
		req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, p)
		return
	}
	row := kmsg.NewFetchRequestTopic()
	row.Topic, row.Partitions = name, []kmsg.FetchRequestTopicPartition{p}
	req.Topics = append(req.Topics, row)
}

// fetch reads one partition and returns its part of the answer.
func fetch(t *testing.T, c *conn, name string, partition int32, offset int64) kmsg.FetchResponseTopicPartition {
	t.Helper()
	return ask(t, c, fetchRequest(name, partition, offset)).Topics[0].Partitions[0]
}

// listOffsetsRequest asks for one timestamp of many partitions.
func listOffsetsRequest(name string, timestamp int64, partitions ...int32) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	row := kmsg.NewListOffsetsRequestTopic()
	row.Topic = name
	for _, n := range partitions {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = n, timestamp
		row.Partitions = append(row.Partitions, p)
	}
	req.Topics = append(req.Topics, row)
	return req
}

// Special timestamps of ListOffsets.
const (
	latest   = -1
	earliest = -2
)

// listOffset asks for one offset of partition 0.
func listOffset(t *testing.T, c *conn, name string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	return ask(t, c, at(7, listOffsetsRequest(name, timestamp, 0))).Topics[0].Partitions[0]
}

// endOffset returns the end of partition 0.
func endOffset(t *testing.T, c *conn, name string) int64 {
	t.Helper()
	p := listOffset(t, c, name, latest)
	if p.ErrorCode != 0 {
		t.Fatalf("the end of %s: error %d", name, p.ErrorCode)
	}
	return p.Offset
}

// metadataOf asks for one topic without having it created.
func metadataOf(t *testing.T, c *conn, name string) kmsg.MetadataResponseTopic {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	req.AllowAutoTopicCreation = false
	return ask(t, c, at(9, req)).Topics[0]
}
