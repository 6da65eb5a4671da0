package kgo

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/compat-tests/harness"
)

// max.message.bytes bounds a whole batch, headers included: the last byte that fits is accepted, the next is not.
func TestBatchAtAndAboveTheLimit(t *testing.T) {
	const limit = 100_000
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1, "max.message.bytes", fmt.Sprint(limit))
	client := broker.Client(t, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(10*limit))
	ctx := harness.Context(t)
	// A batch of one record without key and headers: the batch's header; the record's length (3 bytes for this size),
	// attributes, two deltas, a null key, the value's length (3) and the count of headers.
	const overhead = 61 + 3 + 1 + 1 + 1 + 1 + 3 + 1
	for _, c := range []struct {
		size int
		want error
	}{
		{limit - 1, nil}, {limit, nil}, {limit + 1, kerr.MessageTooLarge}, {5 * limit, kerr.MessageTooLarge}, {limit, nil},
	} {
		err := client.ProduceSync(ctx, &kgo.Record{Value: make([]byte, c.size-overhead)}).FirstErr()
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("a batch of %d bytes with a limit of %d: %v, want %v", c.size, limit, err, c.want)
		}
	}
	records := broker.ReadAll(t, topic)
	if len(records) != 3 {
		t.Fatalf("%d records were kept, want 3", len(records))
	}
	for i, size := range []int{limit - 1, limit, limit} {
		if len(records[i].Value) != size-overhead || records[i].Offset != int64(i) {
			t.Errorf("record %d: offset %d, %d bytes, want %d", i, records[i].Offset, len(records[i].Value), size-overhead)
		}
	}
}

// The limit counts compressed bytes; a batch that decompresses to far more is fine.
func TestLimitCountsCompressedBytes(t *testing.T) {
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1, "max.message.bytes", "10000")
	value := strings.Repeat("weir ", 100_000)
	for name, codec := range codecs {
		client := broker.Client(t, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(1<<20))
		err := client.ProduceSync(harness.Context(t), kgo.StringRecord(value)).FirstErr()
		if name == "none" || name == "snappy" { // snappy's ratio keeps it above 10,000 bytes
			if !errors.Is(err, kerr.MessageTooLarge) {
				t.Errorf("%s: %v, want MESSAGE_TOO_LARGE", name, err)
			}
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, r := range broker.ReadAll(t, topic) {
		if string(r.Value) != value {
			t.Errorf("offset %d: %d bytes came back, want %d", r.Offset, len(r.Value), len(value))
		}
	}
}

// A batch that is larger than what a fetch asks for is returned whole when it is the first, or a consumer would be stuck.
func TestLargeBatchPassesASmallFetch(t *testing.T) {
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1, "max.message.bytes", "3000000")
	client := broker.Client(t, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(3_000_000))
	for _, size := range []int{10, 2_500_000, 10} {
		if err := client.ProduceSync(harness.Context(t), &kgo.Record{Value: make([]byte, size)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	records := broker.ReadAll(t, topic, kgo.FetchMaxBytes(1000), kgo.FetchMaxPartitionBytes(1000))
	if len(records) != 3 || len(records[1].Value) != 2_500_000 {
		t.Errorf("%d records came back", len(records))
	}
}
