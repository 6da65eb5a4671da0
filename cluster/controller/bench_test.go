package controller

import (
	"fmt"
	"testing"
	"time"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// bigWorld has three brokers that share topics of 100 partitions with three replicas, and a fourth that has one partition.
func bigWorld(b *testing.B, partitions int) *world {
	w := newWorld()
	for id := range 4 {
		w.run(fmt.Sprintf("broker %d", id+1))
	}
	w.run("create small assign=0:4,1")
	var assignments []Assignment
	for p := range int32(100) {
		replicas := []kafka.BrokerID{1, 2, 3, 1, 2}[p%3 : p%3+3]
		assignments = append(assignments, Assignment{Partition: p, Replicas: replicas})
	}
	var c CreateTopics
	for i := range partitions / 100 {
		c.Topics = append(c.Topics, NewTopic{
			Name: fmt.Sprintf("topic-%05d", i), ID: kafka.UUID{0: 9, 1: byte(i), 2: byte(i >> 8)}, NumPartitions: -1, ReplicationFactor: -1, Assignments: assignments,
		})
		if len(c.Topics) == 100 || i == partitions/100-1 {
			w.apply(b, w.mustDecide(b, c))
			c.Topics = nil
		}
	}
	if got := w.img.Topics.PartitionCount(); got != partitions+1 {
		b.Fatalf("%d partitions", got)
	}
	return w
}

func (w *world) mustDecide(b *testing.B, cmd Command) []metadata.Record {
	records, _, err := Decide(&w.settings, w.img, w.leases, w.now, cmd)
	if err != nil {
		b.Fatal(err)
	}
	return records
}

func (w *world) apply(b *testing.B, records []metadata.Record) {
	next, _, err := metadata.Apply(w.img, w.img.Index+1, 1, metadata.AppendEntry(nil, w.img.Index, records))
	if err != nil {
		b.Fatal(err)
	}
	w.img = next
}

// expire has one broker's session end.
func (w *world) expire(id kafka.BrokerID) {
	w.now = w.now.Add(time.Second)
	for _, other := range []string{"1", "2", "3", "4"} {
		if other != fmt.Sprint(id) {
			w.run("contact " + other)
		}
	}
	w.now = w.now.Add(w.leases.SessionTimeout - time.Second)
}

func BenchmarkFence(b *testing.B) {
	for _, c := range []struct {
		partitions int
		broker     kafka.BrokerID
		changed    int
	}{{2000, 4, 1}, {2000, 1, 2001}, {100_000, 4, 1}, {100_000, 1, 100_001}} {
		b.Run(fmt.Sprintf("partitions=%d/changed=%d", c.partitions, c.changed), func(b *testing.B) {
			w := bigWorld(b, c.partitions)
			w.expire(c.broker)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				if records := w.mustDecide(b, FenceBrokers{}); len(records) != c.changed+1 {
					b.Fatalf("%d records", len(records))
				}
			}
		})
	}
}

// A decision and its entry, as every node applies it.
func BenchmarkFenceAndApply100kPartitions(b *testing.B) {
	w := bigWorld(b, 100_000)
	w.expire(1)
	before := w.img
	for b.Loop() {
		w.img = before
		w.apply(b, w.mustDecide(b, FenceBrokers{}))
	}
}

func BenchmarkUnfence(b *testing.B) {
	for _, partitions := range []int{2000, 100_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			w := bigWorld(b, partitions)
			w.run("heartbeat 4 fence=")
			cmd := w.command("heartbeat", []string{"4"}, false)
			for b.Loop() {
				if records := w.mustDecide(b, cmd); len(records) != 1 {
					b.Fatalf("%d records", len(records))
				}
			}
		})
	}
}

func BenchmarkAlterPartition(b *testing.B) {
	for _, partitions := range []int{2000, 100_000} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			w := bigWorld(b, partitions)
			cmd := w.command("isr", []string{"1", "topic-00010-0 isr=1,2"}, false)
			b.ReportAllocs()
			for b.Loop() {
				if records := w.mustDecide(b, cmd); len(records) != 1 {
					b.Fatalf("%d records", len(records))
				}
			}
		})
	}
}

// Decision and application of the greatest request there may be.
func BenchmarkCreate10000Partitions(b *testing.B) {
	for _, factor := range []int16{1, 3} {
		for _, topics := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("rf=%d/topics=%d", factor, topics), func(b *testing.B) {
				w := bigWorld(b, 100)
				var c CreateTopics
				for i := range topics {
					c.Topics = append(c.Topics, NewTopic{
						Name: fmt.Sprintf("new-%05d", i), ID: kafka.UUID{0: 8, 1: byte(i), 2: byte(i >> 8)}, NumPartitions: int32(10_000 / topics), ReplicationFactor: factor,
					})
				}
				before := w.img
				for b.Loop() {
					w.img = before
					w.apply(b, w.mustDecide(b, c))
				}
			})
		}
	}
}
