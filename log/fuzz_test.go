package log

import (
	"bytes"
	"errors"
	"testing"

	"weir/internal/vfs"
	"weir/protocol/batch"
)

// FuzzRecovery opens a log behind whose valid batches, or in whose files, there is anything. Recovery must end, keep the
// valid prefix where it is allowed to cut at all, and leave a log that can be written and read.
func FuzzRecovery(f *testing.F) {
	last := batchSpec{size: 100, producer: 9, sequence: 3}.build().Bytes
	batch.SetBaseOffset(last, 4)
	for _, tail := range [][]byte{nil, make([]byte, 200), last, last[:70], last[:7], append(bytes.Clone(last), last...)} {
		f.Add(tail, []byte(nil), []byte(nil), []byte(nil), []byte(nil), uint8(0))
		f.Add(tail, []byte{0, 0, 0, 1, 0, 0, 0, 170}, make([]byte, 24), []byte("0\n1\n0 0\n"), []byte{0, 1}, uint8(3))
	}
	f.Fuzz(func(t *testing.T, tail, index, timeIndex, epochs, snapshot []byte, flags uint8) {
		fsys := vfs.NewMem()
		l := openTest(quiet{t}, fsys, smallSegments)
		var stored []byte
		for i := range 4 {
			stored = append(stored, appendTest(t, l, batchSpec{size: 100, producer: 9, sequence: int32(i)})...)
		}
		must(t, l.Close())
		write := func(name string, content []byte) {
			if flags&1 != 0 {
				must(t, vfs.WriteFileAtomic(fsys, logDir+"/"+name, content, 0o644, true))
			}
		}
		write(segmentName(0, indexSuffix), index)
		write(segmentName(0, timeIndexSuffix), timeIndex)
		write(segmentName(4, snapshotSuffix), snapshot)
		write(leaderEpochCheckpoint, epochs)
		changeFile(t, fsys, logDir+"/"+segmentName(0, logSuffix), func(b []byte) []byte { return append(b, tail...) })
		l, err := tryOpen(quiet{t}, fsys, smallSegments, func(o *Options) {
			o.CleanShutdown = flags&2 != 0
			o.RecoveryPoint = int64(flags >> 4)
		})
		if errors.As(err, new(ErrCorrupt)) && flags>>4 > 4 {
			return // the recovery point is beyond what there is, and the tail is no batch
		}
		must(t, err)
		if got := readTest(t, l, 0); !bytes.HasPrefix(got, stored) {
			t.Fatalf("of %d valid bytes %d are left", len(stored), len(got))
		}
		end := l.EndOffset()
		if _, err := l.AppendAsLeader(max(l.LatestEpoch(), 0), batchSpec{size: 10}.build()); err != nil {
			t.Fatal(err)
		}
		if l.EndOffset() != end+1 {
			t.Fatalf("appended at %d, not %d", l.EndOffset()-1, end)
		}
		_, _, err = l.OffsetForTimestamp(logStart.UnixMilli(), l.EndOffset())
		must(t, err)
		must(t, l.Close())
		if again := openTest(quiet{t}, fsys, smallSegments); again.EndOffset() != end+1 {
			t.Fatalf("opened again, the log ends at %d, not %d", again.EndOffset(), end+1)
		}
	})
}

// FuzzAppendAsFollower appends anything. What is refused leaves nothing behind; what is taken is valid and read as it was.
func FuzzAppendAsFollower(f *testing.F) {
	b := batchSpec{records: 3, size: 20}.build().Bytes
	f.Add(b)
	f.Add(append(bytes.Clone(b), b[:30]...))
	f.Add(marker(5, 0, batch.Abort).Bytes)
	f.Add(make([]byte, 70))
	f.Fuzz(func(t *testing.T, records []byte) {
		l := openTest(quiet{t}, vfs.NewMem())
		r, err := l.AppendAsFollower(bytes.Clone(records))
		got := readTest(t, l, l.StartOffset())
		if err != nil && len(got) > 0 {
			t.Fatalf("refused with %v, but there are %d bytes", err, len(got))
		}
		if !bytes.HasPrefix(records, got) {
			t.Fatalf("what is read is not what was appended")
		}
		if err == nil && r.LastOffset >= 0 && l.EndOffset() != r.LastOffset+1 {
			t.Fatalf("the log ends at %d: %+v", l.EndOffset(), r)
		}
	})
}

// quiet is a test that keeps the log's messages to itself: thousands of runs write too many.
type quiet struct{ testing.TB }

func (quiet) Log(...any) {}
