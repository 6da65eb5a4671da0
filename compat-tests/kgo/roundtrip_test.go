package kgo

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/compat-tests/harness"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// Whatever is sent comes back as it was: with every codec, keys and values that are null, empty, text or not, headers,
// and timestamps.
func TestHeadersNullsAndCodecs(t *testing.T) {
	broker := harness.Shared(t)
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			topic := broker.Topic(t, 3)
			client := broker.Client(t, kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.ProducerLinger(5*time.Millisecond)) // several records a batch
			sent := make(map[int32][]*kgo.Record)
			for i, r := range variedRecords(900) {
				r.Topic, r.Partition = topic, int32(i%3)
				sent[r.Partition] = append(sent[r.Partition], r)
			}
			ctx := harness.Context(t)
			for _, records := range sent {
				if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			got := make(map[int32][]*kgo.Record)
			for _, r := range broker.ReadAll(t, topic) {
				got[r.Partition] = append(got[r.Partition], r)
			}
			for partition, want := range sent {
				compareRecords(t, got[partition], want)
			}
		})
	}
}

// variedRecords are the same in every run.
func variedRecords(n int) []*kgo.Record {
	random := rand.New(rand.NewPCG(1, 2))
	field := func(i int) []byte {
		switch i % 5 {
		case 0:
			return nil
		case 1:
			return []byte{}
		case 2:
			return fmt.Appendf(nil, "text %d ✓", i)
		case 3:
			return bytes.Repeat([]byte{byte(i)}, random.IntN(3000)) // compresses well
		}
		b := make([]byte, random.IntN(300))
		for j := range b {
			b[j] = byte(random.Uint32()) // does not
		}
		return b
	}
	var records []*kgo.Record
	start := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for i := range n {
		r := &kgo.Record{Key: field(i / 5), Value: field(i), Timestamp: start.Add(time.Duration(i%7) * time.Minute)}
		for h := range i % 4 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: fmt.Sprint("h", h%2), Value: field(i + h)})
		}
		records = append(records, r)
	}
	return records
}

func compareRecords(t *testing.T, got, want []*kgo.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		switch {
		case g.Offset != w.Offset || g.Offset != int64(i):
			t.Fatalf("record %d has offset %d, and was acknowledged at %d", i, g.Offset, w.Offset)
		case !equalBytes(g.Key, w.Key) || !equalBytes(g.Value, w.Value):
			t.Fatalf("record %d: %.50q=%.50q, want %.50q=%.50q", i, g.Key, g.Value, w.Key, w.Value)
		case !g.Timestamp.Equal(w.Timestamp):
			t.Fatalf("record %d: timestamp %v, want %v", i, g.Timestamp, w.Timestamp)
		case !slices.EqualFunc(g.Headers, w.Headers, func(a, b kgo.RecordHeader) bool {
			return a.Key == b.Key && equalBytes(a.Value, b.Value)
		}):
			t.Fatalf("record %d: headers %v, want %v", i, g.Headers, w.Headers)
		}
	}
}

// equalBytes tells null from empty.
func equalBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func TestAcks(t *testing.T) {
	broker := harness.Shared(t)
	for name, acks := range map[string]kgo.Acks{"acks=all": kgo.AllISRAcks(), "acks=1": kgo.LeaderAck(), "acks=0": kgo.NoAck()} {
		t.Run(name, func(t *testing.T) {
			topic := broker.Topic(t, 1)
			client := broker.Client(t, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite(), kgo.DefaultProduceTopic(topic))
			ctx := harness.Context(t)
			for i := range 20 {
				if err := client.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			// Without acknowledgements nobody says when the records are there, so wait for them as a consumer.
			consumer := broker.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
			for next := 0; next < 20; {
				fetches := consumer.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					t.Fatalf("after %d records: %v", next, err)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					if string(r.Value) != fmt.Sprint(next) {
						t.Fatalf("record %d is %q", next, r.Value)
					}
					next++
				})
			}
		})
	}
}
