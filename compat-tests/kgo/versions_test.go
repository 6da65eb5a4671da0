package kgo

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"weir/compat-tests/harness"
)

// A client speaks the newest versions that both sides know. Held down to what an older release knew, it is an older
// client to the broker; 2.1 is the oldest that Kafka 4 serves.
func TestOlderVersionsOfTheProtocol(t *testing.T) {
	broker := harness.Shared(t)
	for name, versions := range map[string]*kversion.Versions{
		"2.1": kversion.V2_1_0(), "2.4": kversion.V2_4_0(), "2.8": kversion.V2_8_0(), "3.3": kversion.V3_3_0(),
		"3.9": kversion.V3_9_0(), "4.0": kversion.V4_0_0(), "4.4": kversion.V4_4_0(),
	} {
		t.Run(name, func(t *testing.T) {
			topic := harness.TopicName(t)
			client := broker.Client(t, kgo.MaxVersions(versions), kgo.DefaultProduceTopic(topic),
				kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
			ctx := harness.Context(t)
			admin := kadm.NewClient(client)
			if _, err := admin.CreateTopic(ctx, 1, 1, nil, topic); err != nil { // -1 for the defaults came with 2.4
				t.Fatal(err)
			}
			var records []*kgo.Record
			for i := range 100 {
				records = append(records, kgo.KeyStringRecord("k", fmt.Sprint(i)))
			}
			if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			for next := 0; next < len(records); {
				fetches := client.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					t.Fatalf("after %d records: %v", next, err)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					if string(r.Value) != fmt.Sprint(next) || r.Offset != int64(next) {
						t.Fatalf("record %d is %q at %d", next, r.Value, r.Offset)
					}
					next++
				})
			}
			ends, err := admin.ListEndOffsets(ctx, topic)
			if end, _ := ends.Lookup(topic, 0); err != nil || end.Err != nil || end.Offset != 100 {
				t.Errorf("end offset %d, %v, %v", end.Offset, err, end.Err)
			}
			if _, err := admin.DeleteTopic(ctx, topic); err != nil {
				t.Error(err)
			}
		})
	}
}
