package protocol

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

// memoryRecords are records that lie in no file.
type memoryRecords struct {
	b        []byte
	released *int
}

func (m memoryRecords) Len() int { return len(m.b) }

func (m memoryRecords) ReadAt(p []byte, off int64) (int, error) {
	if n := copy(p, m.b[off:]); n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return len(p), nil
}

func (m memoryRecords) OSFile() (*os.File, int64, bool) { return nil, 0, false }

func (m memoryRecords) Release() { *m.released++ }

// fetchPair makes the same response twice: ours, and kmsg's.
type fetchPair struct {
	rnd      *rand.Rand
	ours     FetchResponse
	theirs   *kmsg.FetchResponse
	withData int
	released int
}

func newFetchPair(version int16, seed uint64) *fetchPair {
	p := &fetchPair{rnd: rand.New(rand.NewPCG(seed, uint64(version)))}
	p.ours = FetchResponse{Version: version, ThrottleMs: p.rnd.Int32(), ErrorCode: int16(p.rnd.IntN(130)), SessionID: p.rnd.Int32()}
	p.theirs = kmsg.NewPtrFetchResponse()
	p.theirs.Version = version
	p.theirs.ThrottleMillis, p.theirs.ErrorCode, p.theirs.SessionID = p.ours.ThrottleMs, p.ours.ErrorCode, p.ours.SessionID
	for range p.rnd.IntN(4) {
		p.addTopic()
	}
	if version >= 16 && p.rnd.IntN(2) == 0 {
		for i := range int32(1 + p.rnd.IntN(3)) {
			p.addEndpoint(i)
		}
	}
	return p
}

func (p *fetchPair) addTopic() {
	name := strings.Repeat("t", 1+p.rnd.IntN(200)) // compact lengths of one byte and of two
	id := kafka.UUID{byte(p.rnd.Uint32()), 15: byte(p.rnd.Uint32())}
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic, topic.TopicID = name, id
	ours := FetchTopic{Name: name, ID: id}
	for i := range int32(p.rnd.IntN(4)) {
		a, b := p.partition(i)
		ours.Partitions = append(ours.Partitions, a)
		topic.Partitions = append(topic.Partitions, b)
	}
	p.ours.Topics = append(p.ours.Topics, ours)
	p.theirs.Topics = append(p.theirs.Topics, topic)
}

func (p *fetchPair) partition(index int32) (FetchPartition, kmsg.FetchResponseTopicPartition) {
	a, b := NewFetchPartition(index), kmsg.NewFetchResponseTopicPartition()
	b.Partition, b.HighWatermark, b.RecordBatches = index, -1, []byte{}
	if p.rnd.IntN(4) == 0 { // as little as there can be
		return a, b
	}
	a.ErrorCode, a.HighWatermark, a.LastStableOffset, a.LogStartOffset = int16(p.rnd.IntN(100)), p.rnd.Int64(), p.rnd.Int64(), p.rnd.Int64()
	a.PreferredReadReplica = p.rnd.Int32N(5) - 1
	b.ErrorCode, b.HighWatermark, b.LastStableOffset, b.LogStartOffset = a.ErrorCode, a.HighWatermark, a.LastStableOffset, a.LogStartOffset
	b.PreferredReadReplica = a.PreferredReadReplica
	if p.rnd.IntN(2) == 0 {
		a.AbortedTransactions = []AbortedTransaction{}
		b.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		for range p.rnd.IntN(3) {
			t := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			t.ProducerID, t.FirstOffset = p.rnd.Int64(), p.rnd.Int64()
			a.AbortedTransactions = append(a.AbortedTransactions, AbortedTransaction{t.ProducerID, t.FirstOffset})
			b.AbortedTransactions = append(b.AbortedTransactions, t)
		}
	}
	if p.rnd.IntN(3) > 0 {
		records := bytes.Repeat([]byte{0xbb}, p.rnd.IntN(300)) // none, too
		a.Records, b.RecordBatches = memoryRecords{records, &p.released}, records
		p.withData++
	}
	if p.rnd.IntN(3) == 0 {
		a.DivergingEpoch = &EpochEndOffset{Epoch: p.rnd.Int32(), EndOffset: p.rnd.Int64()}
		b.DivergingEpoch.Epoch, b.DivergingEpoch.EndOffset = a.DivergingEpoch.Epoch, a.DivergingEpoch.EndOffset
	}
	if p.rnd.IntN(3) == 0 {
		a.CurrentLeader = &LeaderAndEpoch{LeaderID: p.rnd.Int32(), LeaderEpoch: p.rnd.Int32()}
		b.CurrentLeader.LeaderID, b.CurrentLeader.LeaderEpoch = a.CurrentLeader.LeaderID, a.CurrentLeader.LeaderEpoch
	}
	if p.rnd.IntN(3) == 0 {
		a.SnapshotID = &EpochEndOffset{Epoch: p.rnd.Int32(), EndOffset: p.rnd.Int64()}
		b.SnapshotID.Epoch, b.SnapshotID.EndOffset = a.SnapshotID.Epoch, a.SnapshotID.EndOffset
	}
	return a, b
}

func (p *fetchPair) addEndpoint(id int32) {
	e := NodeEndpoint{NodeID: id, Host: strings.Repeat("h", p.rnd.IntN(140)), Port: p.rnd.Int32N(65536)}
	if p.rnd.IntN(2) == 0 {
		rack := strings.Repeat("r", p.rnd.IntN(140))
		e.Rack = &rack
	}
	p.ours.AddEndpoint(e, true)
	p.ours.AddEndpoint(e, true) // once is enough
	p.ours.AddEndpoint(NodeEndpoint{NodeID: 99}, false)
	b := kmsg.NewFetchResponseBroker()
	b.NodeID, b.Host, b.Port, b.Rack = e.NodeID, e.Host, e.Port, e.Rack
	p.theirs.Brokers = append(p.theirs.Brokers, b)
}

func TestFetchIsEncodedAsKmsgDoes(t *testing.T) {
	api := Lookup(1, ClientListener)
	for version := api.Min; version <= api.Max; version++ {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			for seed := range uint64(100) {
				p := newFetchPair(version, seed)
				got, err := AppendBody(nil, &p.ours)
				if err != nil {
					t.Fatal(err)
				}
				if want := p.theirs.AppendTo(nil); !bytes.Equal(got, want) {
					t.Fatalf("seed %d of %+v:\n got % x\nwant % x", seed, p.theirs, got, want)
				}
			}
		})
	}
}

func TestFetchFrameSaysItsSize(t *testing.T) {
	for seed := range uint64(20) {
		p := newFetchPair(16, seed)
		var parts Parts
		AppendParts(&parts, 5, &p.ours)
		want := AppendResponse(nil, 5, p.theirs)
		if parts.Len() != len(want) || !bytes.HasPrefix(parts.Bytes, want[:9]) {
			t.Fatalf("seed %d: %d bytes beginning % x, want %d beginning % x", seed, parts.Len(), parts.Bytes[:9], len(want), want[:9])
		}
	}
}

func TestFetchReleasesItsRecordsOnce(t *testing.T) {
	withData := 0
	for seed := range uint64(20) {
		p := newFetchPair(13, seed)
		p.ours.Release()
		p.ours.Release()
		if p.released != p.withData {
			t.Errorf("seed %d: %d runs released, want %d", seed, p.released, p.withData)
		}
		withData += p.withData
	}
	if withData == 0 {
		t.Error("no response had records")
	}
}

func TestEmptyRecordsAreNotNull(t *testing.T) {
	for _, version := range []int16{4, 12, 18} {
		r := &FetchResponse{Version: version, Topics: []FetchTopic{{Name: "t", Partitions: []FetchPartition{NewFetchPartition(0)}}}}
		b, err := AppendBody(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		var got kmsg.FetchResponse
		got.Version = version
		if err := got.ReadFrom(b); err != nil || got.Topics[0].Partitions[0].RecordBatches == nil {
			t.Errorf("v%d: records are null, error %v", version, err)
		}
	}
}

func TestFetchEncodingAllocatesNothing(t *testing.T) {
	r, parts := hundredPartitions(17), &Parts{}
	if n := testing.AllocsPerRun(100, func() {
		parts.Reset()
		AppendParts(parts, 1, r)
	}); n != 0 {
		t.Errorf("%v allocations in steady state", n)
	}
}

func hundredPartitions(version int16) *FetchResponse {
	released := 0
	records := memoryRecords{make([]byte, 10<<10), &released}
	topic := FetchTopic{Name: "topic", Partitions: make([]FetchPartition, 100)}
	for i := range topic.Partitions {
		topic.Partitions[i] = NewFetchPartition(int32(i))
		topic.Partitions[i].Records = records
	}
	return &FetchResponse{Version: version, Topics: []FetchTopic{topic}}
}

func BenchmarkFetchEncode100Partitions(b *testing.B) {
	r, parts := hundredPartitions(17), &Parts{}
	b.ReportAllocs()
	for b.Loop() {
		parts.Reset()
		AppendParts(parts, 1, r)
	}
}
