package wire

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// found is what ListOffsets finds.
type found struct{ offset, timestamp int64 }

var nothing = found{-1, -1}

func wantFound(t *testing.T, c *conn, name, what string, timestamp int64, want found) {
	t.Helper()
	p := ask(t, c, at(5, listOffsetsRequest(name, timestamp, 0))).Topics[0].Partitions[0]
	wantCode(t, what, p.ErrorCode, nil)
	if got := (found{p.Offset, p.Timestamp}); got != want {
		t.Errorf("%s, time %d: offset %d of time %d, want %d of %d", what, timestamp, got.offset, got.timestamp, want.offset, want.timestamp)
	}
}

// Where a consumer begins "at two o'clock" is the first record, in the order of offsets, that is not older: not its
// batch, not the nearest in time. Where there is none the answer is no error.
func TestOffsetsByTimestamp(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1).name
	for _, timestamp := range []int64{latest, earliest} {
		wantFound(t, c, topic, "an empty log", timestamp, found{0, -1})
	}
	wantFound(t, c, topic, "an empty log", 1000, nothing)
	for _, ms := range []int64{1000, 3000, 2000} {
		mustProduce(t, c, topic, 0, newBatch(record{ms, nil, nil}))
	}
	for timestamp, want := range map[int64]found{
		latest: {3, -1}, earliest: {0, -1}, 0: {0, 1000}, 1000: {0, 1000}, 1001: {1, 3000}, 1500: {1, 3000}, 2500: {1, 3000}, 3000: {1, 3000}, 3001: nothing,
	} {
		wantFound(t, c, topic, "three batches", timestamp, want)
	}
	unknown := ask(t, c, at(5, listOffsetsRequest(harness.TopicName(t), latest, 0))).Topics[0].Partitions[0]
	wantCode(t, "an unknown topic", unknown.ErrorCode, kerr.UnknownTopicOrPartition)
	if unknown.Offset != -1 || unknown.Timestamp != -1 {
		t.Errorf("an unknown topic: offset %d, timestamp %d", unknown.Offset, unknown.Timestamp)
	}
	// Kafka before 0.10 had other special timestamps; they are refused.
	wantCode(t, "timestamp -99", listOffset(t, c, topic, -99).ErrorCode, kerr.UnsupportedVersion)
}

// Within a batch, compressed or not, it is the record that counts.
func TestOffsetsByTimestampWithinABatch(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	for _, codec := range []int16{codecNone, codecGzip} {
		topic := newTopic(t, broker.Bootstrap, 1).name
		b := newBatch(record{10, nil, nil}, record{20, nil, nil}, record{30, nil, nil})
		if codec == codecGzip {
			b.compressed(codec, gzipped(b.Records))
		}
		mustProduce(t, c, topic, 0, b)
		for timestamp, want := range map[int64]found{0: {0, 10}, 10: {0, 10}, 11: {1, 20}, 15: {1, 20}, 20: {1, 20}, 30: {2, 30}, 31: nothing} {
			wantFound(t, c, topic, fmt.Sprintf("codec %d", codec), timestamp, want)
		}
		if p := listOffset(t, c, topic, -3); p.ErrorCode != 0 || p.Offset != 2 || p.Timestamp != 30 {
			t.Errorf("codec %d: the latest timestamp: %+v", codec, p)
		}
	}
}

// The answer is never a record that was deleted.
func TestOffsetsByTimestampBeginAtTheLogsStart(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1).name
	mustProduce(t, c, topic, 0, newBatch(record{10, nil, nil}, record{20, nil, nil}, record{30, nil, nil}))
	deleteRecords(t, c, topic, 1)
	for timestamp, want := range map[int64]found{earliest: {1, -1}, 0: {1, 20}, 10: {1, 20}, 25: {2, 30}} {
		wantFound(t, c, topic, "after deleting one", timestamp, want)
	}
}

// deleteRecords deletes the records of partition 0 below an offset.
func deleteRecords(t *testing.T, c *conn, name string, offset int64) kmsg.DeleteRecordsResponseTopicPartition {
	t.Helper()
	req := at(2, kmsg.NewPtrDeleteRecordsRequest())
	req.TimeoutMillis = int32(replyWithin.Milliseconds())
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: offset}}}}
	return ask(t, c, req).Topics[0].Partitions[0]
}

// Streams deletes what it has read of its own topics. The start only ever moves up, and what lies below is gone.
func TestDeleteRecords(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1).name
	mustProduce(t, c, topic, 0, textBatch("a", "b", "c"))
	for _, step := range []struct {
		offset int64
		want   *kerr.Error
		low    int64
	}{
		{99, kerr.OffsetOutOfRange, -1}, {4, kerr.OffsetOutOfRange, -1}, {-2, kerr.OffsetOutOfRange, -1},
		{1, nil, 1}, {0, nil, 1}, {1, nil, 1}, {2, nil, 2},
	} {
		p := deleteRecords(t, c, topic, step.offset)
		wantCode(t, fmt.Sprint(step.offset), p.ErrorCode, step.want)
		if p.LowWatermark != step.low {
			t.Errorf("up to %d: the low watermark is %d, want %d", step.offset, p.LowWatermark, step.low)
		}
	}
	wantCode(t, "fetching below", fetch(t, c, topic, 0, 1).ErrorCode, kerr.OffsetOutOfRange)
	if p := fetch(t, c, topic, 0, 2); p.ErrorCode != 0 || p.LogStartOffset != 2 || len(readBatches(t, p.RecordBatches)) != 1 {
		t.Errorf("fetching from the start: %s, log start %d", codeName(p.ErrorCode), p.LogStartOffset)
	}
	if p := listOffset(t, c, topic, earliest); p.Offset != 2 {
		t.Errorf("the earliest offset is %d, want 2", p.Offset)
	}
	if p := deleteRecords(t, c, topic, -1); p.ErrorCode != 0 || p.LowWatermark != 3 { // all there is
		t.Errorf("up to the high watermark: %s, low watermark %d", codeName(p.ErrorCode), p.LowWatermark)
	}
	if offset := mustProduce(t, c, topic, 0, textBatch("d")); offset != 3 {
		t.Errorf("the next record is at offset %d, want 3", offset)
	}

	compacted := newTopic(t, broker.Bootstrap, 1, "cleanup.policy", "compact").name
	mustProduce(t, c, compacted, 0, textBatch("a"))
	wantCode(t, "of a compacted topic", deleteRecords(t, c, compacted, 1).ErrorCode, kerr.PolicyViolation)
	wantCode(t, "of an unknown topic", deleteRecords(t, c, harness.TopicName(t), 1).ErrorCode, kerr.UnknownTopicOrPartition)
}

// What was deleted stays deleted over a stop, and then whatever ends the broker. (Where a crash comes within a minute of
// the deletion, records may be back, as in Kafka.)
func TestDeletedRecordsStayDeleted(t *testing.T) {
	s := start(t)
	topic := newTopic(t, s.Address, 1).name
	c := dial(t, s.Address)
	mustProduce(t, c, topic, 0, textBatch("a", "b", "c"))
	if p := deleteRecords(t, c, topic, 2); p.ErrorCode != 0 {
		t.Fatal(codeName(p.ErrorCode))
	}
	for _, how := range []string{"stop", "kill"} {
		if how == "kill" {
			s.Kill()
		} else {
			s.stop(t)
		}
		s.restart(t)
		c := dial(t, s.Address)
		if p := listOffset(t, c, topic, earliest); p.ErrorCode != 0 || p.Offset != 2 {
			t.Errorf("%s: %s, the earliest offset is %d", how, codeName(p.ErrorCode), p.Offset)
		}
		wantCode(t, how, fetch(t, c, topic, 0, 1).ErrorCode, kerr.OffsetOutOfRange)
	}
}

// A consumer asks where the epoch ended that it last read, and takes a lower offset than it has for lost data. The answers
// must not give false alarm, and neither must those after a restart.
func TestOffsetForLeaderEpoch(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1).name
	mustProduce(t, c, topic, 0, textBatch("a", "b", "c"))
	wantEpochEnd(t, c, topic, 0, 0, -1, nil, 0, 3)
	wantEpochEnd(t, c, topic, 0, 0, 0, nil, 0, 3)
	wantEpochEnd(t, c, topic, 0, 50, -1, nil, -1, -1)
	wantEpochEnd(t, c, topic, 0, 0, 50, kerr.UnknownLeaderEpoch, -1, -1)
	wantEpochEnd(t, c, topic, 77, 0, -1, kerr.UnknownTopicOrPartition, -1, -1)
}

func wantEpochEnd(t *testing.T, c *conn, topic string, partition, epoch, current int32, want *kerr.Error, wantEpoch int32, wantEnd int64) {
	t.Helper()
	req := at(2, kmsg.NewPtrOffsetForLeaderEpochRequest())
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.LeaderEpoch, p.CurrentLeaderEpoch = partition, epoch, current
	req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
	got := ask(t, c, req).Topics[0].Partitions[0]
	what := fmt.Sprintf("partition %d, epoch %d, current %d", partition, epoch, current)
	wantCode(t, what, got.ErrorCode, want)
	if got.LeaderEpoch != wantEpoch || got.EndOffset != wantEnd {
		t.Errorf("%s: epoch %d ends at %d, want %d at %d", what, got.LeaderEpoch, got.EndOffset, wantEpoch, wantEnd)
	}
}

// The leader epoch of a partition never goes back: a client that has seen a higher one would wait for it for ever. And
// what was written in the epochs before still ends where it did.
func TestLeaderEpochsDoNotGoBack(t *testing.T) {
	s := start(t)
	topic := newTopic(t, s.Address, 1).name
	var epochs []int32
	var ends []int64
	for i := range 5 {
		c := dial(t, s.Address)
		epoch := metadataOf(t, c, topic).Partitions[0].LeaderEpoch
		if i > 0 && epoch < epochs[i-1] {
			t.Fatalf("after start %d the leader epoch is %d, after %v", i, epoch, epochs)
		}
		mustProduce(t, c, topic, 0, textBatch("a", "b"))
		epochs, ends = append(epochs, epoch), append(ends, int64(2*i+2))
		for j, e := range epochs {
			if j == i || epochs[j+1] != e {
				wantEpochEnd(t, c, topic, 0, e, epoch, nil, e, ends[j])
			}
		}
		if epoch > 0 {
			wantEpochEnd(t, c, topic, 0, epoch, epoch-1, kerr.FencedLeaderEpoch, -1, -1)
		}
		if i%2 == 0 {
			s.Kill()
		} else {
			s.stop(t)
		}
		s.restart(t)
	}
}
