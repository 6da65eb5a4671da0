package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/protocol"
)

// What is measured here is what a request takes in its handler, the log included, whatever the size. Frame and decoding are
// the edge's, see package broker. The disk is in memory, so that B/op of Produce has the records in it.

// producer returns what sends one batch of a record to each of so many partitions.
func producer(t testing.TB, partitions int, acks int16, size int) (send func()) {
	f := newFixture(t)
	f.createTopic("t", int32(partitions), "segment.bytes", "1048576")
	c := f.client()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 1000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	for i := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), records(t, 1, size)
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	req.SetVersion(9)
	r := &Request{Header: protocol.RequestHeader{Key: 0, Version: 9}, Body: req, Conn: &c.Conn}
	sent := 0
	return func() {
		for i := range topic.Partitions { // as it came from a client: not stamped
			clear(topic.Partitions[i].Records[:8])
		}
		reply := f.handlers.Handle(r)
		if p := reply.Pending(); p != nil {
			<-p.Done()
		} else if acks != replica.AcksNone && reply.Body() == nil {
			t.Fatal(reply.Err())
		}
		if sent++; sent%4096 == 0 { // memory is the disk
			for i := range partitions {
				l := f.partition("t", int32(i)).Log()
				_ = l.AdvanceStartOffset(l.EndOffset())
				_, _ = l.DeleteOldSegments(f.clock.Now())
			}
		}
	}
}

// consumer returns what fetches from the beginning of so many partitions: all, or in a session, as Kafka's clients do.
func consumer(t testing.TB, partitions int, version int16, session, hit bool) (fetch func()) {
	f := newFixture(t)
	id := f.createTopic("t", int32(partitions))
	c := f.client()
	var all []fetchPartitionOf
	for i := range partitions {
		if hit {
			c.call(9, produceRequestTo(replica.AcksAll, topicRecords{"t", int32(i), records(t, 10, 1<<10)}))
		}
		all = append(all, fetchPartitionOf{"t", int32(i), 0, 0})
	}
	req := fetchRequest(0, 0, all...)
	for i := range req.Topics {
		req.Topics[i].TopicID = id
	}
	if session {
		req.SessionEpoch = 0
	}
	req.SetVersion(version)
	r := &Request{Header: protocol.RequestHeader{Key: 1, Version: version}, Body: req, Conn: &c.Conn}
	first := f.handlers.Handle(r).Body().(protocol.PartsBody)
	if session {
		req.SessionID, req.Topics = first.(*protocol.FetchResponse).SessionID, nil
	}
	first.Release()
	var parts protocol.Parts
	return func() {
		if session {
			req.SessionEpoch++
		}
		body := f.handlers.Handle(r).Body().(protocol.PartsBody)
		parts.Reset()
		protocol.AppendParts(&parts, 1, body)
		body.Release()
	}
}

func BenchmarkProduce(b *testing.B) {
	for _, c := range []struct {
		name       string
		partitions int
		acks       int16
		size       int
	}{{"1KiB", 1, replica.AcksAll, 1 << 10}, {"1KiB-acks0", 1, replica.AcksNone, 1 << 10}, {"16KiB", 1, replica.AcksAll, 16 << 10}, {"100x100B", 100, replica.AcksAll, 100}} {
		b.Run(c.name, func(b *testing.B) {
			send := producer(b, c.partitions, c.acks, c.size)
			b.ReportAllocs()
			b.SetBytes(int64(c.partitions * c.size))
			for b.Loop() {
				send()
			}
		})
	}
}

func BenchmarkFetch(b *testing.B) {
	for _, c := range []struct {
		name         string
		partitions   int
		version      int16
		session, hit bool
	}{{"hit", 1, 16, false, true}, {"hit-session", 1, 16, true, true}, {"empty-session", 1, 16, true, false}, {"100-session", 100, 16, true, true},
		{"100-session-empty", 100, 16, true, false}, {"hit-names", 1, 12, false, true}} {
		b.Run(c.name, func(b *testing.B) {
			fetch := consumer(b, c.partitions, c.version, c.session, c.hit)
			b.ReportAllocs()
			for b.Loop() {
				fetch()
			}
		})
	}
}

// A request takes a fixed number of allocations, however large it is.
func TestRequestsAllocateLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops what is pooled")
	}
	for _, c := range []struct {
		name string
		max  float64
		run  func()
	}{
		{"produce", 6, producer(t, 1, replica.AcksAll, 1<<10)}, // 1 of its own; the rest is the log's, and pages of the disk
		{"fetch", 2, consumer(t, 1, 16, false, true)},
		{"fetch in a session", 2, consumer(t, 1, 16, true, true)},
		{"fetch of 100 partitions", 4, consumer(t, 100, 16, true, true)},
		{"fetch of 100 partitions without news", 2, consumer(t, 100, 16, true, false)},
	} {
		if got := testing.AllocsPerRun(500, c.run); got > c.max {
			t.Errorf("%s: %.0f allocations, %.0f are allowed", c.name, got, c.max)
		}
	}
}
