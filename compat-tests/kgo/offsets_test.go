package kgo

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/compat-tests/harness"
)

// produceAt sends records of given timestamps (seconds after base), each in a batch of its own.
func produceAt(t *testing.T, broker *harness.Broker, topic string, base time.Time, seconds ...int) {
	t.Helper()
	client := broker.Client(t, kgo.DefaultProduceTopic(topic))
	for i, s := range seconds {
		r := &kgo.Record{Value: fmt.Append(nil, i), Timestamp: base.Add(time.Duration(s) * time.Second)}
		if err := client.ProduceSync(harness.Context(t), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestListOffsets(t *testing.T) {
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1)
	admin := broker.Admin(t)
	base := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	produceAt(t, broker, topic, base, 0, 10, 5, 30, 20) // not in the order of time
	ctx := harness.Context(t)
	lookup := func(listed kadm.ListedOffsets, err error) kadm.ListedOffset {
		t.Helper()
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
		o, _ := listed.Lookup(topic, 0)
		return o
	}
	if got := lookup(admin.ListStartOffsets(ctx, topic)); got.Offset != 0 {
		t.Errorf("start: %d", got.Offset)
	}
	if got := lookup(admin.ListEndOffsets(ctx, topic)); got.Offset != 5 {
		t.Errorf("end: %d", got.Offset)
	}
	if got := lookup(admin.ListMaxTimestampOffsets(ctx, topic)); got.Offset != 3 || got.Timestamp != base.Add(30*time.Second).UnixMilli() {
		t.Errorf("maximum timestamp: offset %d at %d", got.Offset, got.Timestamp)
	}
	for seconds, want := range map[int]int64{-1: 0, 0: 0, 1: 1, 6: 1, 10: 1, 11: 3, 30: 3} {
		got := lookup(admin.ListOffsetsAfterMilli(ctx, base.Add(time.Duration(seconds)*time.Second).UnixMilli(), topic))
		if got.Offset != want {
			t.Errorf("first record at or after %d s: %d, want %d", seconds, got.Offset, want)
		}
	}
	if got := lookup(admin.ListOffsetsAfterMilli(ctx, base.Add(31*time.Second).UnixMilli(), topic)); got.Offset != 5 {
		t.Errorf("after the last record: %d, want the end", got.Offset)
	}
}

func TestConsumeFromTheMiddleOfABatch(t *testing.T) {
	broker := harness.Shared(t)
	for name, codec := range codecs {
		topic := broker.Topic(t, 1)
		client := broker.Client(t, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec))
		var records []*kgo.Record
		for i := range 50 {
			records = append(records, kgo.StringRecord(fmt.Sprint(i)))
		}
		ctx := harness.Context(t)
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		consumer := broker.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(33)}}))
		var first *kgo.Record
		for first == nil {
			fetches := consumer.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if all := fetches.Records(); len(all) > 0 {
				first = all[0]
			}
		}
		if first.Offset != 33 || string(first.Value) != "33" {
			t.Errorf("%s: the first record is %q at %d, want 33", name, first.Value, first.Offset)
		}
	}
}

func TestDeleteRecordsMovesTheStart(t *testing.T) {
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1)
	admin := broker.Admin(t)
	produceAt(t, broker, topic, time.Now(), 0, 0, 0, 0, 0)
	ctx := harness.Context(t)
	offsets := make(kadm.Offsets)
	offsets.AddOffset(topic, 0, 3, -1)
	deleted, err := admin.DeleteRecords(ctx, offsets)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := deleted.Lookup(topic, 0); r.LowWatermark != 3 {
		t.Errorf("low watermark %d, want 3", r.LowWatermark)
	}
	records := broker.ReadAll(t, topic)
	if len(records) != 2 || records[0].Offset != 3 {
		t.Errorf("%d records are left, want offsets 3 and 4", len(records))
	}
	offsets = make(kadm.Offsets)
	offsets.AddOffset(topic, 0, 6, -1)
	deleted, err = admin.DeleteRecords(ctx, offsets)
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := deleted.Lookup(topic, 0); !errors.Is(r.Err, kerr.OffsetOutOfRange) {
		t.Errorf("beyond the end: %v, want OFFSET_OUT_OF_RANGE", r.Err)
	}
}

func TestTimestampsOfTheBroker(t *testing.T) {
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1, "message.timestamp.type", "LogAppendTime")
	produceAt(t, broker, topic, time.Now().Add(-48*time.Hour), 0, 1, 2)
	before := time.Now().Add(-time.Minute)
	for _, r := range broker.ReadAll(t, topic) {
		if r.Timestamp.Before(before) || r.Attrs.TimestampType() != 1 {
			t.Errorf("offset %d: timestamp %v, type %d; want the broker's", r.Offset, r.Timestamp, r.Attrs.TimestampType())
		}
	}
}

// A record from far in the future is refused by default (message.timestamp.after.max.ms is one hour).
func TestTimestampInTheFuture(t *testing.T) {
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1)
	client := broker.Client(t, kgo.DefaultProduceTopic(topic))
	for after, want := range map[time.Duration]error{30 * time.Minute: nil, 2 * time.Hour: kerr.InvalidTimestamp} {
		err := client.ProduceSync(harness.Context(t), &kgo.Record{Value: []byte("x"), Timestamp: time.Now().Add(after)}).FirstErr()
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%v from now: %v, want %v", after, err, want)
		}
	}
}

// A fetch without news waits; a record ends the wait, and is not held back until the wait is over.
func TestFetchIsWokenByARecord(t *testing.T) {
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1)
	ctx := harness.Context(t)
	consumer := broker.Client(t, kgo.ConsumeTopics(topic), kgo.FetchMaxWait(30*time.Second))
	got := make(chan kgo.Fetches, 1)
	go func() { got <- consumer.PollFetches(ctx) }()
	time.Sleep(300 * time.Millisecond) // so that the fetch has most likely begun to wait; the result does not depend on it
	produceAt(t, broker, topic, time.Now(), 0)
	select {
	case fetches := <-got:
		if err := fetches.Err(); err != nil || fetches.NumRecords() != 1 {
			t.Errorf("%d records, %v", fetches.NumRecords(), err)
		}
	case <-time.After(25 * time.Second): // less than the longest wait
		t.Error("the record did not end the fetch's wait")
	}
}
