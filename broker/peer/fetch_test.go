package peer

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/protocol"
)

// memoryRecords are records that lie in memory.
type memoryRecords []byte

func (r memoryRecords) Len() int                                { return len(r) }
func (r memoryRecords) ReadAt(p []byte, off int64) (int, error) { return copy(p, r[off:]), nil }
func (r memoryRecords) OSFile() (*os.File, int64, bool)         { return nil, 0, false }
func (r memoryRecords) Release()                                {}

func fetchResponse(topics, partitions, recordBytes int) *protocol.FetchResponse {
	r := &protocol.FetchResponse{Version: FetchVersion, SessionID: 77}
	for i := range topics {
		topic := protocol.FetchTopic{ID: kafka.TopicID{byte(i + 1)}}
		for j := range partitions {
			p := protocol.NewFetchPartition(int32(j))
			p.HighWatermark, p.LogStartOffset = int64(10*i+j), int64(j)
			if recordBytes > 0 {
				p.Records = memoryRecords(bytes.Repeat([]byte{byte(j)}, recordBytes))
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		r.Topics = append(r.Topics, topic)
	}
	return r
}

func encodeFetch(t testing.TB, r *protocol.FetchResponse) []byte {
	t.Helper()
	body, err := protocol.AppendBody(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestFetchResponseIsDecoded(t *testing.T) {
	in := fetchResponse(2, 3, 5)
	in.ErrorCode = 70
	in.Topics[0].Partitions[0].AbortedTransactions = []protocol.AbortedTransaction{{ProducerID: 1, FirstOffset: 2}, {ProducerID: 3}}
	in.Topics[0].Partitions[1].DivergingEpoch = &protocol.EpochEndOffset{Epoch: 4, EndOffset: 55}
	in.Topics[0].Partitions[1].Records = nil
	in.Topics[1].Partitions[2].ErrorCode = int16(kafka.NotLeaderOrFollower)
	in.Topics[1].Partitions[2].CurrentLeader = &protocol.LeaderAndEpoch{LeaderID: 2, LeaderEpoch: 9}
	in.Topics[1].Partitions[2].SnapshotID = &protocol.EpochEndOffset{Epoch: 1, EndOffset: 2}
	in.AddEndpoint(protocol.NodeEndpoint{NodeID: 2, Host: "two.test", Port: 9}, true)
	body := encodeFetch(t, in)
	var r FetchResponse
	if err := r.Decode(body); err != nil {
		t.Fatal(err)
	}
	if r.ErrorCode != kafka.FetchSessionIDNotFound || r.SessionID != 77 || len(r.Partitions) != 6 {
		t.Fatalf("%+v", r)
	}
	for n, got := range r.Partitions {
		i, j := n/3, n%3
		want := FetchedPartition{TopicID: kafka.TopicID{byte(i + 1)}, Partition: int32(j), HighWatermark: int64(10*i + j), LogStartOffset: int64(j), Records: bytes.Repeat([]byte{byte(j)}, 5)}
		switch n {
		case 1:
			want.Diverges, want.DivergingEpoch, want.DivergingEnd, want.Records = true, 4, 55, []byte{}
		case 5:
			want.ErrorCode = kafka.NotLeaderOrFollower
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("partition %d is %+v, want %+v", n, got, want)
		}
	}
	records := r.Partitions[2].Records
	for n := range body {
		if err := r.Decode(body[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are taken", n, len(body))
		}
	}
	if clear(body); records[0] != 0 {
		t.Error("records are copied")
	}
}

func TestFetchResponseOfKmsgIsDecoded(t *testing.T) {
	in := kmsg.NewPtrFetchResponse()
	in.Version, in.SessionID = FetchVersion, 5
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.HighWatermark, p.RecordBatches = 3, 8, []byte("abc")
	p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 1, 2
	in.Topics = []kmsg.FetchResponseTopic{{TopicID: [16]byte{9}, Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	var r FetchResponse
	if err := r.Decode(in.AppendTo(nil)); err != nil || len(r.Partitions) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	got := r.Partitions[0]
	if got.TopicID != (kafka.TopicID{9}) || got.Partition != 3 || got.HighWatermark != 8 || string(got.Records) != "abc" || !got.Diverges || got.DivergingEpoch != 1 || got.DivergingEnd != 2 {
		t.Fatalf("%+v", got)
	}
}

func TestHostileFetchResponses(t *testing.T) {
	head := "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	topic := "\x02" + "0123456789abcdef"
	for name, body := range map[string]string{
		"empty":                    "",
		"a bomb of topics":         head + "\xff\xff\xff\xff\x0f",
		"a bomb of partitions":     head + topic + "\xff\xff\xff\xff\x0f" + string(make([]byte, 100)),
		"more partitions than fit": head + topic + "\x20" + string(make([]byte, 100)),
		"a bomb of tags":           head + "\x01" + "\xff\xff\xff\xff\x0f",
		"a tag beyond the end":     head + "\x01" + "\x01\x00\x05abc",
		"a bomb of transactions":   head + topic + "\x02" + string(make([]byte, 30)) + "\xff\xff\xff\xff\x0f" + string(make([]byte, 100)),
		"records beyond the end":   head + topic + "\x02" + string(make([]byte, 30)) + "\x00\x00\x00\x00\x00\xff\xff\xff\xff\x0f",
		"a short divergence":       head + topic + "\x02" + string(make([]byte, 30)) + "\x00\x00\x00\x00\x00\x01\x01\x00\x03abc" + "\x00\x00",
	} {
		var r FetchResponse
		if err := r.Decode([]byte(body)); err == nil {
			t.Errorf("%s: %+v", name, r)
		} else if cap(r.Partitions) > 16 {
			t.Errorf("%s: memory for %d partitions", name, cap(r.Partitions))
		}
	}
}

func TestFetchResponseTakesNoMemoryTheSecondTime(t *testing.T) {
	body := encodeFetch(t, fetchResponse(4, 25, 100))
	var r FetchResponse
	if err := r.Decode(body); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = r.Decode(body) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzFetchResponse(f *testing.F) {
	f.Add(encodeFetch(f, fetchResponse(2, 2, 3)))
	diverging := fetchResponse(1, 1, 0)
	diverging.Topics[0].Partitions[0].DivergingEpoch = &protocol.EpochEndOffset{Epoch: 1, EndOffset: 2}
	f.Add(encodeFetch(f, diverging))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r FetchResponse
		if r.Decode(body) != nil {
			return
		}
		if len(r.Partitions)*leastPartitionBytes > len(body) {
			t.Fatalf("%d partitions in %d bytes", len(r.Partitions), len(body))
		}
		// What kmsg takes is read alike.
		k := kmsg.NewPtrFetchResponse()
		k.Version = FetchVersion
		if k.ReadFrom(bytes.Clone(body)) != nil {
			return
		}
		n := 0
		for i := range k.Topics {
			for j := range k.Topics[i].Partitions {
				want, got := &k.Topics[i].Partitions[j], &r.Partitions[n]
				if n++; got.TopicID != k.Topics[i].TopicID || got.Partition != want.Partition || int16(got.ErrorCode) != want.ErrorCode ||
					got.HighWatermark != want.HighWatermark || got.LogStartOffset != want.LogStartOffset || !bytes.Equal(got.Records, want.RecordBatches) {
					t.Fatalf("%+v, and by kmsg %+v", got, want)
				}
			}
		}
		if n != len(r.Partitions) {
			t.Fatalf("%d partitions, and by kmsg %d", len(r.Partitions), n)
		}
	})
}

// BenchmarkFetchDecode decodes an answer with 1 MiB of records.
func BenchmarkFetchDecode(b *testing.B) {
	for _, partitions := range []int{1, 100} {
		b.Run(fmt.Sprint(partitions, "partitions"), func(b *testing.B) {
			body := encodeFetch(b, fetchResponse(1, partitions, 1<<20/partitions))
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var r FetchResponse
			for b.Loop() {
				if err := r.Decode(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
