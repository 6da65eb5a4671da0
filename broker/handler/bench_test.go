package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/protocol"
)

// The benchmarks hold the steady state of storage: what a request allocates in its handler, the log included, whatever
// the size. Frame and decoding are the edge's, see package broker.

func benchmarkProduce(b *testing.B, partitions int, acks int16, size int) {
	f := newFixture(b)
	f.createTopic("t", int32(partitions), "segment.bytes", "1048576", "retention.bytes", "1048576")
	c := f.client()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = "t"
	for i := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), records(b, 1, size)
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	req.SetVersion(9)
	r := &Request{Header: protocol.RequestHeader{Key: 0, Version: 9}, Body: req, Conn: &c.Conn}
	b.ReportAllocs()
	b.SetBytes(int64(partitions * size))
	for n := 0; b.Loop(); n++ {
		for i := range t.Partitions { // as it came from a client: not stamped
			clear(t.Partitions[i].Records[:8])
		}
		reply := f.handlers.Handle(r)
		if p := reply.Pending(); p != nil {
			<-p.Done()
		} else if acks != replica.AcksNone && reply.Body() == nil {
			b.Fatal(reply.Err())
		}
		if n%4096 == 4095 { // memory is the disk
			b.StopTimer()
			for i := range partitions {
				l := f.partition("t", int32(i)).Log()
				_ = l.AdvanceStartOffset(l.EndOffset())
				_, _ = l.DeleteOldSegments(f.clock.Now())
			}
			b.StartTimer()
		}
	}
}

func BenchmarkProduce(b *testing.B) {
	b.Run("1KiB", func(b *testing.B) { benchmarkProduce(b, 1, replica.AcksAll, 1<<10) })
	b.Run("1KiB-acks0", func(b *testing.B) { benchmarkProduce(b, 1, replica.AcksNone, 1<<10) })
	b.Run("16KiB", func(b *testing.B) { benchmarkProduce(b, 1, replica.AcksAll, 16<<10) })
	b.Run("100x100B", func(b *testing.B) { benchmarkProduce(b, 100, replica.AcksAll, 100) })
}

// benchmarkFetch reads in a session, as Kafka's clients do.
func benchmarkFetch(b *testing.B, partitions int, version int16, session, hit bool) {
	f := newFixture(b)
	id := f.createTopic("t", int32(partitions))
	c := f.client()
	var all []fetchPartitionOf
	for i := range partitions {
		if hit {
			c.call(9, produceRequestTo(replica.AcksAll, topicRecords{"t", int32(i), records(b, 10, 1<<10)}))
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
	first := f.handlers.Handle(r).Body().(*protocol.FetchResponse)
	first.Release()
	if session {
		req.SessionID, req.Topics = first.SessionID, nil
	}
	epoch := int32(1)
	var parts protocol.Parts
	b.ReportAllocs()
	for b.Loop() {
		if session {
			req.SessionEpoch = epoch
			epoch++
		}
		body := f.handlers.Handle(r).Body().(*protocol.FetchResponse)
		parts.Reset()
		protocol.AppendParts(&parts, 1, body)
		body.Release()
	}
}

func BenchmarkFetch(b *testing.B) {
	b.Run("hit", func(b *testing.B) { benchmarkFetch(b, 1, 16, false, true) })
	b.Run("hit-session", func(b *testing.B) { benchmarkFetch(b, 1, 16, true, true) })
	b.Run("empty-session", func(b *testing.B) { benchmarkFetch(b, 1, 16, true, false) })
	b.Run("100-session", func(b *testing.B) { benchmarkFetch(b, 100, 16, true, true) })
	b.Run("100-session-empty", func(b *testing.B) { benchmarkFetch(b, 100, 16, true, false) })
	b.Run("hit-names", func(b *testing.B) { benchmarkFetch(b, 1, 12, false, true) })
}
