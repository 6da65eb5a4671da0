package replica

import (
	"testing"

	"weir/internal/kafka"
)

// BenchmarkReplicatedAppend is what a batch takes at a leader with two followers: the append, their fetches, which read it
// and move the high watermark, and the acknowledgement.
func BenchmarkReplicatedAppend(b *testing.B) {
	l := newLeaders(b, 2, 1, 2, 3)
	p := l.partition(1)
	batch := records(b, 1)
	var told counting
	b.ReportAllocs()
	for b.Loop() {
		clear(batch[:8]) // as it came from a client: not stamped
		r, err := p.Append(&AppendRequest{Records: batch, Version: 9, Acks: AcksAll, Now: testTime, Acker: &told})
		if err != nil || !r.Parked {
			b.Fatal(r, err)
		}
		for follower := kafka.BrokerID(2); follower <= 3; follower++ {
			for offset := r.BaseOffset; offset <= r.BaseOffset+1; offset++ {
				read := ReadRequest{Offset: offset, MaxBytes: 1 << 20, Replica: follower, ReplicaEpoch: brokerEpoch(follower), LastFetchedEpoch: -1, Fetched: testTime}
				got, err := p.Read(&read)
				if err != nil {
					b.Fatal(err)
				}
				got.Records.Release()
			}
		}
		if r.BaseOffset%4096 == 4095 { // memory is the disk
			_ = p.Log().AdvanceStartOffset(p.Log().EndOffset())
			_, _ = p.Log().DeleteOldSegments(testTime)
		}
	}
	if int(told) != b.N {
		b.Fatalf("%d of %d are acknowledged", told, b.N)
	}
}

type counting int

func (c *counting) Acked(int, error) { *c++ }
