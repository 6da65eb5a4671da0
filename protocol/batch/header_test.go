package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"weir/internal/kafka"
)

func TestHeaderOfKafka(t *testing.T) {
	b := kafkaBatches(t)["java-zstd"]
	h, err := ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	want := Header{ // as kafka-dump-log prints it
		Length: 144, Magic: 2, CRC: 1769569515, Attributes: Attributes(Zstd), LastOffsetDelta: 2,
		BaseTimestamp: 1796108919038, MaxTimestamp: 1796108919245, ProducerID: 10, Count: 3,
	}
	if h != want || h.Size() != 156 || h.LastSequence() != 2 {
		t.Fatalf("header %+v\n  want %+v", h, want)
	}
	if err := CheckCRC(b); err != nil {
		t.Fatal(err)
	}
	again := make([]byte, HeaderSize)
	h.put(again)
	if !bytes.Equal(again, b[:HeaderSize]) {
		t.Fatalf("put gives\n%x, was\n%x", again, b[:HeaderSize])
	}
}

func TestParseHeaderErrors(t *testing.T) {
	good := oneRecord(t)
	for n := range HeaderSize {
		_, err := ParseHeader(good[:n])
		var torn *TornError
		if !errors.As(err, &torn) || !errors.Is(err, ErrTorn) || torn.Have != n || torn.Need != HeaderSize {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	for name, change := range map[string]func([]byte){
		"length -1":   func(b []byte) { binary.BigEndian.PutUint32(b[8:], math.MaxUint32) },
		"length 48":   func(b []byte) { binary.BigEndian.PutUint32(b[8:], 48) },
		"length min":  func(b []byte) { binary.BigEndian.PutUint32(b[8:], 1<<31) },
		"magic 1":     func(b []byte) { b[16] = 1 },
		"magic 3":     func(b []byte) { b[16] = 3 },
		"magic 0x82":  func(b []byte) { b[16] = 0x82 },
		"all the end": func(b []byte) { clear(b) },
	} {
		b := bytes.Clone(good)
		change(b)
		_, err := ParseHeader(b)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || kafka.CodeOf(err) != kafka.CorruptMessage || errors.Is(err, ErrTorn) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStampsLieOutsideTheCRC(t *testing.T) {
	b := oneRecord(t)
	SetBaseOffset(b, 1<<40)
	SetLeaderEpoch(b, 77)
	h, err := CheckStored(b)
	if err != nil || h.BaseOffset != 1<<40 || h.LeaderEpoch != 77 {
		t.Fatalf("%+v, %v", h, err)
	}
}

func TestSetMaxTimestamp(t *testing.T) {
	b := oneRecord(t)
	b[21] = 0x40 // bits 7 and 14 mean nothing
	b[22] |= 0x90
	binary.BigEndian.PutUint32(b[17:], Checksum(b))
	was := bytes.Clone(b)

	SetMaxTimestamp(b, false, readHeader(b).MaxTimestamp)
	if !bytes.Equal(b, was) {
		t.Fatal("a batch that needs no stamp was changed")
	}
	SetMaxTimestamp(b, true, 555)
	h, err := CheckStored(b)
	if err != nil || h.MaxTimestamp != 555 || h.Attributes != logAppendTimeBit|transactionalBit {
		t.Fatalf("%+v, %v", h, err)
	}
	SetMaxTimestamp(b, false, 556)
	h, err = CheckStored(b)
	if err != nil || h.MaxTimestamp != 556 || h.Attributes != transactionalBit {
		t.Fatalf("%+v, %v", h, err)
	}
}

func TestAddSequence(t *testing.T) {
	for _, c := range []struct{ seq, n, want int32 }{
		{0, 0, 0}, {0, 4, 4}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 2, 5, 2}, {1, math.MaxInt32, 0},
	} {
		if got := AddSequence(c.seq, c.n); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.seq, c.n, got, c.want)
		}
	}
	if s := (Header{BaseSequence: NoSequence, LastOffsetDelta: 5}).LastSequence(); s != NoSequence {
		t.Errorf("last sequence of a batch without: %d", s)
	}
}

func TestDeleteHorizonBit(t *testing.T) {
	if !Attributes(0x40).HasDeleteHorizon() || Attributes(^0x40).HasDeleteHorizon() {
		t.Error("bit 6 it is (KIP-534)")
	}
}

func TestCodecNames(t *testing.T) {
	var names []string
	for c := range Codec(6) {
		names = append(names, c.String())
	}
	if want := []string{"none", "gzip", "snappy", "lz4", "zstd", "unknown"}; !slices.Equal(names, want) {
		t.Fatalf("%q", names)
	}
}
