package batch

import (
	"bytes"
	"fmt"
	"testing"
)

var everyCodec = []Codec{None, Gzip, Snappy, LZ4, Zstd}

func TestBuilderRoundTrip(t *testing.T) {
	big := bytes.Repeat([]byte("weir "), 40_000) // several blocks of every codec
	for _, codec := range everyCodec {
		t.Run(codec.String(), func(t *testing.T) {
			b := NewBuilder(codec, 0)
			b.SetBaseOffset(100)
			b.SetLeaderEpoch(7)
			b.SetProducer(4000, 3, 2147483646)
			b.SetTransactional()
			b.Append(1000, []byte("k"), []byte("v"), RecordHeader{"h", []byte("x")}, RecordHeader{"null", nil}, RecordHeader{"", []byte{}})
			b.Append(3000, nil, big)
			b.Append(2000, []byte{}, nil)
			got, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			h, err := CheckStored(got)
			if err != nil {
				t.Fatal(err)
			}
			want := Header{
				BaseOffset: 100, Length: int32(len(got) - 12), LeaderEpoch: 7, Magic: 2, CRC: h.CRC,
				Attributes: Attributes(codec) | transactionalBit, LastOffsetDelta: 2, BaseTimestamp: 1000, MaxTimestamp: 3000,
				ProducerID: 4000, ProducerEpoch: 3, BaseSequence: 2147483646, Count: 3,
			}
			if h != want {
				t.Fatalf("header %+v\n  want %+v", h, want)
			}
			if h.LastSequence() != 0 || h.LastOffset() != 102 || h.NextOffset() != 103 || h.Size() != len(got) || !h.HasProducerID() {
				t.Fatalf("derived: sequence %d, offsets %d %d, size %d", h.LastSequence(), h.LastOffset(), h.NextOffset(), h.Size())
			}
			var lines []string
			for r, err := range Records(got) {
				if err != nil {
					t.Fatal(err)
				}
				line := fmt.Sprintf("%d@%d %q null=%v %d null=%v", h.RecordOffset(r), h.RecordTimestamp(r), r.Key, r.Key == nil, len(r.Value), r.Value == nil)
				for header := range r.Headers.All() {
					line += fmt.Sprintf(" %s=%q null=%v", header.Key, header.Value, header.Value == nil)
				}
				lines = append(lines, line)
			}
			wantLines := []string{
				`100@1000 "k" null=false 1 null=false h="x" null=false null="" null=true ="" null=false`,
				`101@3000 "" null=true 200000 null=false`,
				`102@2000 "" null=false 0 null=true`,
			}
			if fmt.Sprint(lines) != fmt.Sprint(wantLines) {
				t.Fatalf("records\n%q\nwant\n%q", lines, wantLines)
			}
		})
	}
}
