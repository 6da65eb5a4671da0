package metadata

import (
	"fmt"
	"testing"

	"weir/internal/kafka"
)

// bigTopics are n topics with one partition each.
func bigTopics(n int) []Record {
	var records []Record
	for i := range n {
		id := kafka.UUID{0: byte(i), 1: byte(i >> 8), 2: byte(i >> 16), 15: 1}
		records = append(records, TopicRecord{id, fmt.Sprintf("topic-%06d", i)}, PartitionRecord{id, 0, PartitionRegistration{
			Replicas: []kafka.BrokerID{1, 2, 3}, ISR: []kafka.BrokerID{1, 2, 3}, Leader: 1, Directories: make([]kafka.UUID, 3),
		}})
	}
	return records
}

func BenchmarkApply100kTopicsAtOnce(b *testing.B) {
	img := formatted(b)
	entry := AppendEntry(nil, 0, bigTopics(100_000))
	b.SetBytes(int64(len(entry)))
	for b.Loop() {
		if _, _, err := Apply(img, 1, 1, entry); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApplyOneChangeOn100kTopics(b *testing.B) {
	records := bigTopics(100_000)
	img, _, err := formatted(b).With(records)
	if err != nil {
		b.Fatal(err)
	}
	entry := AppendEntry(nil, img.Index, records[len(records)/2-1:len(records)/2])
	if _, isPartition := records[len(records)/2-1].(PartitionRecord); !isPartition {
		b.Fatal("not a partition")
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Apply(img, 2, 1, entry); err != nil {
			b.Fatal(err)
		}
	}
}

// What another start of a broker writes: a record for each of its partitions.
func BenchmarkApply10000PartitionsOf10Topics(b *testing.B) {
	var create, change []Record
	for t := range 10 {
		id := kafka.UUID{0: byte(t), 15: 200}
		create = append(create, TopicRecord{id, fmt.Sprint(t)})
		for p := range int32(1000) {
			r := PartitionRecord{id, p, PartitionRegistration{Replicas: []kafka.BrokerID{1}, ISR: []kafka.BrokerID{1}, Leader: 1, Directories: make([]kafka.UUID, 1)}}
			create = append(create, r)
			r.LeaderEpoch, r.PartitionEpoch = 2, 2
			change = append(change, r)
		}
	}
	img, _, err := formatted(b).With(create)
	if err != nil {
		b.Fatal(err)
	}
	entry := AppendEntry(nil, img.Index, change)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Apply(img, 2, 1, entry); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkByName100kTopics(b *testing.B) {
	img, _, err := formatted(b).With(bigTopics(100_000))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, ok := img.Topics.ByName("topic-054321"); !ok {
			b.Fatal("gone")
		}
	}
}
