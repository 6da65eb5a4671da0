package log

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"testing"

	"weir/internal/vfs"
	"weir/protocol/batch"
)

const kafkaSnapshot = "testdata/kafka-4.4/00000000000000000021.snapshot"

func TestReadsSnapshotOfKafka(t *testing.T) {
	s := NewProducerStates(testTP, 0)
	must(t, ReadProducerSnapshot(vfs.OS(), kafkaSnapshot, s, 21, 1796108713709))
	// As the same broker described them.
	want := []ProducerState{
		{ProducerID: 0, Epoch: 1, LastSequence: 0, LastTimestamp: 1796108711737, CoordinatorEpoch: -1, TxnStartOffset: -1},
		{ProducerID: 1, Epoch: 0, LastSequence: 5, LastTimestamp: 1796108712668, CoordinatorEpoch: 0, TxnStartOffset: -1},
		{ProducerID: 2, Epoch: 1, LastSequence: -1, LastTimestamp: 1796108713709, CoordinatorEpoch: 0, TxnStartOffset: -1},
		{ProducerID: 777777, Epoch: 0, LastSequence: 9, LastTimestamp: 1796108711751, CoordinatorEpoch: -1, TxnStartOffset: -1},
		{ProducerID: 888888, Epoch: 3, LastSequence: 2, LastTimestamp: 1796108711759, CoordinatorEpoch: -1, TxnStartOffset: -1},
	}
	if got := s.Active(); !slices.Equal(got, want) || s.EndOffset() != 21 {
		t.Fatalf("end offset %d, producers %+v", s.EndOffset(), got)
	}
	last := batch.Header{ProducerID: 888888, ProducerEpoch: 3, BaseSequence: 0, LastOffsetDelta: 2}
	if previous, err := s.Check(&last); err != nil || previous == nil || *previous != (AppendedBatch{11, 13, 1796108711759}) {
		t.Fatalf("the last batch sent again: %+v, %v", previous, err)
	}
	// Kafka's order is that of a hash map; what is written again has the same entries.
	kafkas, err := os.ReadFile(kafkaSnapshot)
	must(t, err)
	if got := s.AppendSnapshot(nil); fmt.Sprint(snapshotEntries(got)) != fmt.Sprint(snapshotEntries(kafkas)) {
		t.Fatalf("written as\n%x\nread from\n%x", got, kafkas)
	}
}

func snapshotEntries(b []byte) [][]byte {
	entries := slices.Collect(slices.Chunk(b[producerSnapshotEntries:], producerSnapshotEntrySize))
	slices.SortFunc(entries, bytes.Compare)
	return entries
}

func TestEmptySnapshotIsKafkas(t *testing.T) {
	fsys := vfs.NewMem()
	must(t, WriteProducerSnapshot(fsys, "/s", NewProducerStates(testTP, 0)))
	b, err := vfs.ReadFile(fsys, "/s")
	must(t, err)
	if want := "000148674bc700000000"; fmt.Sprintf("%x", b) != want {
		t.Fatalf("%x, want %s", b, want)
	}
}

func TestBrokenSnapshotsAreRefused(t *testing.T) {
	whole, err := os.ReadFile(kafkaSnapshot)
	must(t, err)
	repaired := func(b []byte) []byte { // with a CRC that is right
		crc := crc32.Checksum(b[producerSnapshotCountPos:], castagnoli)
		return append(append(b[:2:2], byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)), b[producerSnapshotCountPos:]...)
	}
	twice := append(bytes.Clone(whole[:producerSnapshotEntries+producerSnapshotEntrySize]), whole[producerSnapshotEntries:producerSnapshotEntries+producerSnapshotEntrySize]...)
	twice[9] = 2
	for name, b := range map[string][]byte{
		"empty":            {},
		"torn":             whole[:len(whole)-1],
		"another version":  append([]byte{0, 2}, whole[2:]...),
		"a flipped bit":    append(bytes.Clone(whole[:100]), append([]byte{whole[100] ^ 4}, whole[101:]...)...),
		"zeros":            make([]byte, 240),
		"too few entries":  repaired(bytes.Clone(whole[:len(whole)-producerSnapshotEntrySize])),
		"bytes at the end": repaired(append(bytes.Clone(whole), 0)),
		"a negative count": repaired([]byte{0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}),
		"a producer twice": repaired(twice),
	} {
		s := NewProducerStates(testTP, 0)
		s.Update(&batch.Header{ProducerID: 1})
		if err := s.LoadSnapshot("/s", b, 21, 0); !errors.As(err, new(ErrBrokenFile)) {
			t.Errorf("%s: %v", name, err)
		}
		if s.Len() != 0 {
			t.Errorf("%s: %d producers came out of it", name, s.Len())
		}
	}
}

func FuzzProducerSnapshot(f *testing.F) {
	whole, err := os.ReadFile(kafkaSnapshot)
	must(f, err)
	f.Add(whole)
	f.Add(whole[:producerSnapshotEntries])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= producerSnapshotEntries { // let the entries be reached
			b = bytes.Clone(b)
			crc := crc32.Checksum(b[producerSnapshotCountPos:], castagnoli)
			b[0], b[1], b[2], b[3], b[4], b[5] = 0, 1, byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
		}
		s := NewProducerStates(testTP, 0)
		if s.LoadSnapshot("/s", b, 21, 0) != nil {
			return
		}
		again := NewProducerStates(testTP, 0)
		must(t, again.LoadSnapshot("/s", s.AppendSnapshot(nil), 21, 0))
		if !slices.Equal(again.Active(), s.Active()) {
			t.Fatalf("%+v\nwritten and read again\n%+v", s.Active(), again.Active())
		}
		for _, p := range s.Active() {
			h := batch.Header{ProducerID: p.ProducerID, ProducerEpoch: p.Epoch, BaseSequence: 1, LastOffsetDelta: 1}
			_, _ = s.Check(&h)
			s.Update(&h)
			s.UpdateMarker(&h, false, 0)
		}
		if offset, ok := s.FirstUnstableOffset(); ok {
			s.Stabilize(2)
			if now, ok := s.FirstUnstableOffset(); ok {
				t.Fatalf("unstable from %d, after all have ended from %d", offset, now)
			}
		}
	})
}
