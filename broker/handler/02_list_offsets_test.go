package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/internal/kafka"
)

func listOffsetsRequest(topic string, of ...kmsg.ListOffsetsRequestTopicPartition) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for _, p := range of { // an element of its own for each
		req.Topics = append(req.Topics, kmsg.ListOffsetsRequestTopic{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}})
	}
	return req
}

func at(partition int32, timestamp int64) kmsg.ListOffsetsRequestTopicPartition {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, -1
	return p
}

func TestListOffsetsByVersion(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	c := f.client()
	c.mustProduce("t", records(t, 3, 10))
	if _, err := f.partition("t", 0).DeleteRecords(1); err != nil {
		t.Fatal(err)
	}
	const time = 1_700_000_000_000 // of all records
	for _, test := range []struct {
		name      string
		version   int16
		timestamp int64
		want      int64
		code      kafka.Code
	}{
		{"latest", 1, replica.TimestampLatest, 3, 0},
		{"earliest", 1, replica.TimestampEarliest, 1, 0},
		{"a time", 1, time, 1, 0},
		{"later than all", 1, time + 1, -1, 0},
		{"zero", 1, 0, 1, 0},
		{"max timestamp", 7, replica.TimestampMax, 1, 0},
		{"max timestamp too early", 6, replica.TimestampMax, -1, kafka.UnsupportedVersion},
		{"local start", 8, replica.TimestampEarliestLocal, 1, 0},
		{"local start too early", 7, replica.TimestampEarliestLocal, -1, kafka.UnsupportedVersion},
		{"tiered", 9, replica.TimestampLatestTiered, -1, 0},
		{"tiered too early", 8, replica.TimestampLatestTiered, -1, kafka.UnsupportedVersion},
		{"pending upload", 11, replica.TimestampEarliestPendingUpload, -1, 0},
		{"pending upload too early", 10, replica.TimestampEarliestPendingUpload, -1, kafka.UnsupportedVersion},
		{"no such time", 11, -7, -1, kafka.UnsupportedVersion},
		{"the smallest number", 11, -1 << 63, -1, kafka.UnsupportedVersion},
	} {
		row := c.call(test.version, listOffsetsRequest("t", at(0, test.timestamp))).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if row.Offset != test.want || kafka.Code(row.ErrorCode) != test.code {
			t.Errorf("%s: offset %d, %v; want %d, %v", test.name, row.Offset, kafka.Code(row.ErrorCode), test.want, test.code)
		}
	}
}

func TestListOffsetsRows(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 2)
	c := f.client()
	newer := at(1, replica.TimestampLatest)
	newer.CurrentLeaderEpoch = 5
	resp := c.call(9, listOffsetsRequest("t", at(0, -1), newer, at(0, -2), at(7, -1), at(-1, -1))).(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 {
		t.Fatalf("%d topics, want one", len(resp.Topics))
	}
	for i, want := range []struct {
		partition int32
		code      kafka.Code
	}{{0, kafka.InvalidRequest}, {1, kafka.UnknownLeaderEpoch}, {7, kafka.UnknownTopicOrPartition}, {-1, kafka.UnknownTopicOrPartition}} {
		row := resp.Topics[0].Partitions[i]
		if row.Partition != want.partition || kafka.Code(row.ErrorCode) != want.code || row.Offset != -1 || row.Timestamp != -1 {
			t.Errorf("row %d: partition %d, %v, offset %d; want %d, %v", i, row.Partition, kafka.Code(row.ErrorCode), row.Offset, want.partition, want.code)
		}
	}
	wrong := listOffsetsRequest("t", at(0, -1), at(0, -1))
	wrong.IsolationLevel = 9
	for _, topic := range c.call(9, wrong).(*kmsg.ListOffsetsResponse).Topics {
		if kafka.Code(topic.Partitions[0].ErrorCode) != kafka.UnknownServerError {
			t.Errorf("isolation level 9: %v", kafka.Code(topic.Partitions[0].ErrorCode))
		}
	}
}

func TestDeleteRecordsRows(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 2)
	f.createTopic("compacted", 1, "cleanup.policy", "compact")
	f.createTopic(kafka.ConsumerOffsetsTopic, 1)
	c := f.client()
	c.mustProduce("t", records(t, 3, 10))
	req := kmsg.NewPtrDeleteRecordsRequest()
	for _, a := range []struct {
		topic     string
		partition int32
		offset    int64
	}{{"t", 0, 99}, {"t", 1, 1}, {"compacted", 0, -1}, {kafka.ConsumerOffsetsTopic, 0, -1}, {"nowhere", 0, 0}, {"t", -1, 0}, {"t", 0, 2}} { // of partition 0 the last counts
		req.Topics = append(req.Topics, kmsg.DeleteRecordsRequestTopic{Topic: a.topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: a.partition, Offset: a.offset}}})
	}
	type row struct {
		topic     string
		partition int32
		low       int64
		code      kafka.Code
	}
	var got []row
	for _, topic := range c.call(2, req).(*kmsg.DeleteRecordsResponse).Topics {
		for _, p := range topic.Partitions {
			got = append(got, row{topic.Topic, p.Partition, p.LowWatermark, kafka.Code(p.ErrorCode)})
		}
	}
	want := []row{{"t", 0, 2, 0}, {"t", 1, -1, kafka.OffsetOutOfRange}, {"t", -1, -1, kafka.UnknownTopicOrPartition}, {"compacted", 0, -1, kafka.PolicyViolation},
		{kafka.ConsumerOffsetsTopic, 0, -1, kafka.InvalidTopic}, {"nowhere", 0, -1, kafka.UnknownTopicOrPartition}}
	if len(got) != len(want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("row %d: %v, want %v", i, got[i], want[i])
		}
	}
}
