package batch

import (
	"bytes"
	"fmt"
	"math"
	"slices"
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

// What Java wrote must come out to the byte.
func TestBuilderAsJava(t *testing.T) {
	all := kafkaBatches(t)
	want := all["java-none"]
	h := readHeader(want)
	b := NewBuilder(None, 0)
	b.SetLeaderEpoch(0)
	b.SetProducer(h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	b.Append(h.BaseTimestamp, []byte("first key"), []byte("first value, first value, first value"), RecordHeader{"h", []byte("v")}, RecordHeader{"second", []byte("w")})
	b.Append(h.BaseTimestamp+26, []byte("second key"), nil)
	b.Append(h.BaseTimestamp+27, nil, []byte("no key here"), RecordHeader{"h", []byte{}})
	if got := build(t, b); !bytes.Equal(got, want) {
		t.Errorf("\n%x, Java writes\n%x", got, want)
	}

	want = all["broker-none"]
	h = readHeader(want)
	b = NewBuilder(None, 0)
	b.SetLeaderEpoch(0)
	for i, kv := range [][2]string{{"k0", "aaabb"}, {"k1", "hhhii"}, {"k2", "ooopp"}} {
		b.Append(h.BaseTimestamp+int64(i)*10, []byte(kv[0]), []byte(kv[1]))
	}
	if got := build(t, b); !bytes.Equal(got, want) {
		t.Errorf("\n%x, Kafka writes\n%x", got, want)
	}
}

// A cleaner keeps offsets, and the last offset of a batch whose last record is gone.
func TestBuilderKeepsOffsets(t *testing.T) {
	b := NewBuilder(Zstd, 3)
	b.SetBaseOffset(1000)
	b.AppendAt(2, 50, []byte("a"), nil, EncodeHeaders(RecordHeader{"h", nil}))
	b.AppendAt(7, 40, []byte("b"), nil, Headers{})
	b.SetLastOffsetDelta(9)
	got := build(t, b)
	h, err := CheckStored(got)
	if err != nil || h.LastOffset() != 1009 || h.Count != 2 || h.BaseTimestamp != 50 || h.MaxTimestamp != 50 {
		t.Fatalf("%+v, %v", h, err)
	}
	if lines := printRecords(t, got); !slices.Equal(lines, []string{`1002 +0ms "a"=null h:null`, `1007 +-10ms "b"=null`}) {
		t.Fatalf("%q", lines)
	}

	b.Reset()
	b.SetLastOffsetDelta(9) // and a batch of no records, kept for its producer
	if h, err := CheckStored(build(t, b)); err != nil || h.Count != 0 || h.LastOffsetDelta != 9 || h.BaseOffset != 0 || h.MaxTimestamp != NoTimestamp {
		t.Fatalf("%+v, %v", h, err)
	}
}

func TestBuilderReset(t *testing.T) {
	b := NewBuilder(None, 0)
	b.SetProducer(1, 2, 3)
	b.SetTransactional()
	b.SetControl()
	b.SetLogAppendTime(77)
	b.Append(5, []byte("long key"), []byte("long value"))
	if h := readHeader(build(t, b)); h.MaxTimestamp != 77 || h.Attributes != transactionalBit|controlBit|logAppendTimeBit {
		t.Fatalf("%+v", h)
	}
	b.Reset()
	b.Append(6, nil, nil)
	if b.Len() != 1 || b.Size() != HeaderSize+7 {
		t.Errorf("%d records, %d bytes", b.Len(), b.Size())
	}
	fresh := NewBuilder(None, 0)
	fresh.Append(6, nil, nil)
	if got, want := build(t, b), build(t, fresh); !bytes.Equal(got, want) {
		t.Errorf("\n%x after Reset, new\n%x", got, want)
	}
}

func TestBuilderPanicsOnOffsets(t *testing.T) {
	for name, misuse := range map[string]func(b *Builder){
		"same offset":    func(b *Builder) { b.AppendAt(3, 0, nil, nil, Headers{}) },
		"last too small": func(b *Builder) { b.SetLastOffsetDelta(2); _, _ = b.Build() },
		"negative":       func(b *Builder) { b.AppendAt(-1, 0, nil, nil, Headers{}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBuilder(None, 0)
			b.AppendAt(3, 0, nil, nil, Headers{})
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse(b)
		})
	}
}

func TestBuilderWideNumbers(t *testing.T) {
	b := NewBuilder(None, 0)
	b.AppendAt(0, math.MaxInt64, nil, nil, Headers{})
	b.AppendAt(math.MaxInt32-1, -1, nil, nil, Headers{})
	got := build(t, b)
	h := readHeader(got)
	var timestamps []int64
	for r, err := range Records(got) {
		if err != nil {
			t.Fatal(err)
		}
		timestamps = append(timestamps, h.RecordTimestamp(r))
	}
	if !slices.Equal(timestamps, []int64{math.MaxInt64, -1}) || h.LastOffsetDelta != math.MaxInt32-1 || h.MaxTimestamp != math.MaxInt64 {
		t.Fatalf("%d, %+v", timestamps, h)
	}
}
