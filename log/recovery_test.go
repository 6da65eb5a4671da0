package log

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// filled makes a log of three segments with four batches each, from an idempotent producer, and returns their bytes.
func filled(t testing.TB, fsys vfs.FS, change ...func(*Options)) (l *Log, stored [][]byte) {
	t.Helper()
	l = openTest(t, fsys, append(change, smallSegments)...)
	for i := range 12 {
		stored = append(stored, appendTest(t, l, batchSpec{size: 100, producer: 9, sequence: int32(i), timestamp: logStart.UnixMilli() + int64(i)}))
	}
	l.SetHighWatermark(12)
	if n := len(l.segments.Load().all); n != 3 {
		t.Fatalf("%d segments", n)
	}
	return l, stored
}

func smallSegments(o *Options) { o.Config.SegmentBytes, o.Config.IndexIntervalBytes = 800, 100 }

var lastSegment = logDir + "/" + segmentName(8, logSuffix)

// The torn tails of K036: all batches before the tear are kept, the file ends behind them, and the log goes on from there.
func TestTornTail(t *testing.T) {
	last := len(batchSpec{size: 100, producer: 9}.build().Bytes)
	for _, c := range []struct {
		name string
		tear func([]byte) []byte
		kept int
	}{
		{"random bytes", func(b []byte) []byte { return append(b, bytes.Repeat([]byte("\x9d\x11\xfe"), 13)...) }, 12},
		{"a few bytes are missing", func(b []byte) []byte { return b[:len(b)-5] }, 11},
		{"all but a few bytes of a batch are missing", func(b []byte) []byte { return b[:len(b)-last+5] }, 11},
		{"a bit of the last batch is wrong", func(b []byte) []byte { b[len(b)-5] ^= 4; return b }, 11},
		{"a bit of the last header is wrong", func(b []byte) []byte { b[len(b)-last+30] ^= 4; return b }, 11},
		{"zeros", func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, 12},
		{"the beginning of the batch before", func(b []byte) []byte { return append(b, b[len(b)-last:len(b)-last+100]...) }, 12},
		{"the whole batch before", func(b []byte) []byte { return append(b, b[len(b)-last:]...) }, 12},
		{"nothing is left", func([]byte) []byte { return nil }, 8},
	} {
		for _, state := range []string{"killed", "killed, flushed before", "clean"} {
			t.Run(c.name+", "+state, func(t *testing.T) {
				mem := vfs.NewMem()
				l, stored := filled(t, mem)
				reopen := func(*Options) {}
				switch state {
				case "clean":
					must(t, l.Close())
					reopen = func(o *Options) { o.CleanShutdown, o.RecoveryPoint = true, 12 }
				case "killed, flushed before":
					l.flushIndexes()
				}
				fsys := mem.Kill()
				changeFile(t, fsys, lastSegment, c.tear)
				l = openTest(t, fsys, smallSegments, reopen)
				if l.EndOffset() != int64(c.kept) || !bytes.Equal(readTest(t, l, 0), bytes.Join(stored[:c.kept], nil)) {
					t.Fatalf("the log ends at %d, not %d", l.EndOffset(), c.kept)
				}
				if lossy := state == "clean" && c.kept < 12; l.Lossy() != lossy {
					t.Errorf("lossy: %v", l.Lossy())
				}
				if size := fileSize(t, fsys, lastSegment); size != l.segments.Load().active().end.Load() {
					t.Errorf("the file has %d bytes", size)
				}
				checkLookups(t, l, c.kept)
				r, err := l.AppendAsLeader(0, batchSpec{producer: 9, sequence: int32(c.kept), size: 50}.build())
				must(t, err)
				if r.BaseOffset != int64(c.kept) || r.Duplicate {
					t.Errorf("appended at %+v", r)
				}
			})
		}
	}
}

// checkLookups checks offsets, times and the producer of a log from filled.
func checkLookups(t *testing.T, l *Log, batches int) {
	t.Helper()
	for i := range int64(batches) {
		r, err := l.Read(ReadRequest{Offset: i, MaxBytes: 1, EndOffset: l.EndOffset(), AtLeastOne: true})
		must(t, err)
		p := make([]byte, r.Len())
		_, err = r.ReadAt(p, 0)
		must(t, err)
		r.Release()
		if h, err := batch.CheckStored(p); err != nil || h.BaseOffset != i {
			t.Errorf("offset %d is read as %d, %v", i, h.BaseOffset, err)
		}
		at, found, err := l.OffsetForTimestamp(logStart.UnixMilli()+i, l.EndOffset())
		must(t, err)
		if !found || at.Offset != i {
			t.Errorf("time %d is found %v at %d", i, found, at.Offset)
		}
	}
	again := batchSpec{size: 100, producer: 9, sequence: int32(batches - 1), timestamp: logStart.UnixMilli() + int64(batches-1)}
	r, err := l.AppendAsLeader(max(l.LatestEpoch(), 0), again.build())
	must(t, err)
	if !r.Duplicate || r.BaseOffset != int64(batches-1) {
		t.Errorf("the last batch, sent again: %+v", r)
	}
}

// The files of K037: whatever happened to them, the log is whole and look-ups are right.
func TestBrokenSideFiles(t *testing.T) {
	garbage := func([]byte) []byte { return bytes.Repeat([]byte("\x00\x00\x7f\x03garbage."), 12) }
	empty := func([]byte) []byte { return nil }
	zeros := func(b []byte) []byte { return make([]byte, 10<<10) }
	odd := func(b []byte) []byte { return append(b, 1, 2, 3) }
	for _, file := range []string{
		segmentName(0, indexSuffix), segmentName(0, timeIndexSuffix), segmentName(4, snapshotSuffix), segmentName(8, indexSuffix),
		segmentName(8, timeIndexSuffix), segmentName(8, snapshotSuffix), segmentName(12, snapshotSuffix), leaderEpochCheckpoint,
	} {
		for name, change := range map[string]func([]byte) []byte{"garbage": garbage, "empty": empty, "zeros": zeros, "odd": odd, "missing": nil} {
			for _, clean := range []bool{true, false} {
				t.Run(file+" "+name+map[bool]string{true: ", clean"}[clean], func(t *testing.T) {
					fsys := vfs.NewMem()
					l, stored := filled(t, fsys)
					must(t, l.Close())
					path := logDir + "/" + file
					if change != nil {
						changeFile(t, fsys, path, change)
					} else {
						must(t, fsys.Remove(path))
					}
					l = openTest(t, fsys, smallSegments, func(o *Options) { o.CleanShutdown, o.RecoveryPoint = clean, 12 })
					if !bytes.Equal(readTest(t, l, 0), bytes.Join(stored, nil)) {
						t.Fatalf("the log is [%d, %d)", l.StartOffset(), l.EndOffset())
					}
					checkLookups(t, l, 12)
					if l.LatestEpoch() != 0 || l.EpochForOffset(5) != 0 {
						t.Errorf("epochs %d, %d", l.LatestEpoch(), l.EpochForOffset(5))
					}
					must(t, l.Close())
				})
			}
		}
	}
}

// Damage below the recovery point is told and left as it is.
func TestCorruptBelowTheRecoveryPoint(t *testing.T) {
	for _, c := range []struct {
		name    string
		segment int64
		change  func([]byte) []byte
		pos     func(stored [][]byte) int64
	}{
		{"a bit in the last segment", 8, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, func(s [][]byte) int64 { return int64(len(s[8]) + len(s[9])) }},
		{"its first bytes", 8, func(b []byte) []byte { copy(b, "damage"); return b }, func([][]byte) int64 { return 0 }},
		{"zeros in the middle", 8, func(b []byte) []byte { clear(b[200:400]); return b }, func(s [][]byte) int64 { return int64(len(s[8])) }},
		{"two batches are cut off", 8, func(b []byte) []byte { return b[:len(b)*5/8] }, func(s [][]byte) int64 { return int64(len(s[8]) + len(s[9])) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			l, stored := filled(t, fsys)
			must(t, l.Close())
			must(t, fsys.Remove(logDir+"/"+segmentName(8, indexSuffix))) // so that all of the segment is read
			path := logDir + "/" + segmentName(c.segment, logSuffix)
			changeFile(t, fsys, path, c.change)
			before, err := vfs.ReadFile(fsys, path)
			must(t, err)
			_, err = tryOpen(t, fsys, smallSegments, func(o *Options) { o.RecoveryPoint = 12 })
			var corrupt ErrCorrupt
			if !errors.As(err, &corrupt) || corrupt.Path != path || corrupt.Pos != c.pos(stored) || kafka.CodeOf(err) != kafka.KafkaStorageError {
				t.Fatalf("opened with %v, want byte %d of %s", err, c.pos(stored), path)
			}
			if after, err := vfs.ReadFile(fsys, path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file has changed (%v)", err)
			}
		})
	}
}

// Damage in a segment that nobody looks at while opening is met by who reads there.
func TestCorruptSealedSegment(t *testing.T) {
	fsys := vfs.NewMem()
	l, stored := filled(t, fsys)
	must(t, l.Close())
	path := logDir + "/" + segmentName(0, logSuffix)
	changeFile(t, fsys, path, func(b []byte) []byte { clear(b[len(stored[0]) : len(stored[0])+20]); return b })
	l = openTest(t, fsys, smallSegments, func(o *Options) { o.CleanShutdown, o.RecoveryPoint = true, 12 })
	_, err := l.Read(ReadRequest{Offset: 1, MaxBytes: 100, EndOffset: 12})
	var corrupt ErrCorrupt
	if !errors.As(err, &corrupt) || corrupt.Path != path || corrupt.Pos != int64(len(stored[0])) {
		t.Errorf("read with %v", err)
	}
	if r, err := l.Read(ReadRequest{Offset: 4, MaxBytes: 1000, EndOffset: 12}); err != nil || r.Len() == 0 {
		t.Errorf("another segment cannot be read: %v", err)
	}
}

// A log whose records were deleted up to above what a crash left begins anew there.
func TestEndBelowStart(t *testing.T) {
	fsys := vfs.NewMem()
	l, _ := filled(t, fsys)
	must(t, l.Sync())
	must(t, fsys.Remove(lastSegment))
	l = openTest(t, fsys.Kill(), smallSegments, func(o *Options) { o.StartOffset = 11 })
	if l.StartOffset() != 11 || l.EndOffset() != 11 || l.HighWatermark() != 11 || l.Size() != 0 {
		t.Errorf("the log is [%d, %d) with high watermark %d and %d bytes", l.StartOffset(), l.EndOffset(), l.HighWatermark(), l.Size())
	}
	r, err := l.AppendAsLeader(1, batchSpec{producer: 9, sequence: 77}.build())
	must(t, err)
	if r.BaseOffset != 11 {
		t.Errorf("appended at %+v", r)
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	fsys := vfs.NewMem()
	l, _ := filled(t, fsys)
	must(t, l.Close())
	leftovers := []string{
		segmentName(20, indexSuffix), segmentName(20, timeIndexSuffix), segmentName(20, txnIndexSuffix), leaderEpochCheckpoint + ".tmp",
		segmentName(0, logSuffix) + deletedSuffix, segmentName(0, logSuffix) + cleanedSuffix, segmentName(99, snapshotSuffix),
	}
	for _, name := range leftovers {
		must(t, vfs.WriteFileAtomic(fsys, logDir+"/"+name, []byte("x"), 0o644, true))
	}
	must(t, vfs.WriteFileAtomic(fsys, logDir+"/notes.txt", []byte("x"), 0o644, true))
	openTest(t, fsys, smallSegments)
	for _, name := range leftovers {
		if _, err := fsys.Stat(logDir + "/" + name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := fsys.Stat(logDir + "/notes.txt"); err != nil {
		t.Errorf("somebody's file: %v", err)
	}
}

// Where Kafka's cleaner died, its work is completed or thrown away, as Kafka does it.
func TestSwap(t *testing.T) {
	cleaned := func(t *testing.T, stored [][]byte) []byte {
		return bytes.Join([][]byte{stored[1], stored[3], stored[6]}, nil)
	}
	for _, c := range []struct {
		name   string
		change func(fsys vfs.FS, swap []byte, write func(name string, content []byte))
		want   []int // batches
	}{
		{"before the old segments were removed", func(_ vfs.FS, swap []byte, write func(string, []byte)) {
			write(segmentName(0, logSuffix)+swapSuffix, swap)
		}, []int{1, 3, 6, 8, 9, 10, 11}},
		{"after that", func(fsys vfs.FS, swap []byte, write func(string, []byte)) {
			write(segmentName(0, logSuffix)+swapSuffix, swap)
			for _, base := range []int64{0, 4} {
				must(t, fsys.Rename(logDir+"/"+segmentName(base, logSuffix), logDir+"/"+segmentName(base, logSuffix)+deletedSuffix))
			}
		}, []int{1, 3, 6, 8, 9, 10, 11}},
		{"when the batches had their name", func(fsys vfs.FS, swap []byte, write func(string, []byte)) {
			must(t, fsys.Remove(logDir+"/"+segmentName(4, logSuffix)))
			write(segmentName(0, logSuffix), swap)
			write(segmentName(0, indexSuffix)+swapSuffix, nil)
			write(segmentName(0, txnIndexSuffix)+swapSuffix, nil)
		}, []int{1, 3, 6, 8, 9, 10, 11}},
		{"while it split a segment", func(_ vfs.FS, swap []byte, write func(string, []byte)) {
			write(segmentName(4, logSuffix)+swapSuffix, swap)
			write(segmentName(2, logSuffix)+cleanedSuffix, swap)
		}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			l, stored := filled(t, fsys)
			must(t, l.Close())
			c.change(fsys, cleaned(t, stored), func(name string, content []byte) {
				must(t, vfs.WriteFileAtomic(fsys, logDir+"/"+name, content, 0o644, true))
			})
			l = openTest(t, fsys, smallSegments, func(o *Options) { o.RecoveryPoint = 12 })
			var want []byte
			for _, i := range c.want {
				want = append(want, stored[i]...)
			}
			if got := readTest(t, l, 0); !bytes.Equal(got, want) || l.EndOffset() != 12 {
				t.Errorf("the log has %d bytes up to %d, not %d", len(got), l.EndOffset(), len(want))
			}
			entries, err := fsys.ReadDir(logDir)
			must(t, err)
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), swapSuffix) || strings.HasSuffix(e.Name(), cleanedSuffix) || strings.HasSuffix(e.Name(), deletedSuffix) {
					t.Errorf("%s is left", e.Name())
				}
			}
		})
	}
}

func TestTopicID(t *testing.T) {
	fsys := vfs.NewMem()
	withID := func(id kafka.TopicID) func(*Options) { return func(o *Options) { o.TopicID = id } }
	must(t, openTest(t, fsys, withID(kafka.TopicID{7})).Close())
	if id := openTest(t, fsys, withID(kafka.TopicID{})).TopicID(); id != (kafka.TopicID{7}) {
		t.Errorf("the id is %v", id)
	}
	if _, err := tryOpen(t, fsys, withID(kafka.TopicID{8})); kafka.CodeOf(err) != kafka.InconsistentTopicID {
		t.Errorf("opened for another topic: %v", err)
	}
	// A broken file is written anew by who knows the id.
	changeFile(t, fsys, logDir+"/"+partitionMetadataFile, func([]byte) []byte { return []byte("version: 0\n") })
	must(t, openTest(t, fsys, withID(kafka.TopicID{9})).Close())
	id, err := ReadPartitionMetadata(fsys, logDir)
	must(t, err)
	if id != (kafka.TopicID{9}) {
		t.Errorf("the id is %v", id)
	}
}

// A log without a Store keeps its recovery point itself: what was synced is not taken for a torn tail after a crash.
func TestOwnCheckpoints(t *testing.T) {
	mem := vfs.NewMem()
	must(t, mem.MkdirAll("/data", 0o755))
	must(t, mem.SyncDir("/"))
	own := func(o *Options) { o.OwnCheckpoints = true }
	l := openTest(t, mem, own)
	for range 3 {
		appendTest(t, l, batchSpec{size: 600 << 10})
		must(t, l.Sync())
	}
	fsys := mem.Crash(vfs.LoseAll())
	path := logDir + "/" + segmentName(0, logSuffix)
	changeFile(t, fsys, path, func(b []byte) []byte { b[700<<10] ^= 1; return b })
	_, err := tryOpen(t, fsys, own)
	if !errors.As(err, new(ErrCorrupt)) {
		t.Errorf("opened with %v", err)
	}
	must(t, l.Close())
	points, err := ReadOffsetCheckpoint(mem, logDir+"/"+RecoveryPointCheckpoint)
	must(t, err)
	if points[logTP] != 3 {
		t.Errorf("after a stop the recovery point is %d", points[logTP])
	}
}

// The offsets that Kafka's rules give for truncation (KAFKA-10706), with what must follow.
func TestTruncate(t *testing.T) {
	fsys := vfs.NewMem()
	l := openTest(t, fsys, smallSegments)
	for i := range 6 {
		must(t, l.AssignEpoch(kafka.LeaderEpoch(i), l.EndOffset()))
		appendTest(t, l, batchSpec{records: 2, size: 100, producer: 9, sequence: int32(2 * i)})
	}
	must(t, l.AssignEpoch(9, 12))
	l.SetHighWatermark(12)
	for _, c := range []struct {
		to, end int64
		epoch   kafka.LeaderEpoch
	}{
		{13, 12, 9}, // above the end: nothing
		{12, 12, 5}, // an epoch without records goes, though nothing is cut
		{10, 10, 4}, // a boundary
		{7, 6, 2},   // inside of a batch, which goes as a whole
		{0, 0, -1},
	} {
		must(t, l.TruncateTo(c.to))
		if l.EndOffset() != c.end || l.LatestEpoch() != c.epoch || l.HighWatermark() != c.end || l.DurableEndOffset() > c.end {
			t.Errorf("to %d: end %d, epoch %d, high watermark %d, durable %d", c.to, l.EndOffset(), l.LatestEpoch(), l.HighWatermark(), l.DurableEndOffset())
		}
		if c.end > 0 {
			r, err := l.AppendAsLeader(9, batchSpec{records: 2, size: 100, producer: 9, sequence: int32(c.end) - 2}.build())
			must(t, err)
			if !r.Duplicate || r.LastOffset != c.end-1 {
				t.Errorf("to %d: the producer's last batch, sent again: %+v", c.to, r)
			}
		}
		again := openTest(t, fsys.Crash(vfs.LoseAll()), smallSegments)
		if again.EndOffset() > c.end {
			t.Errorf("to %d: after a power cut the log ends at %d", c.to, again.EndOffset())
		}
	}
	if err := l.TruncateTo(-1); kafka.CodeOf(err) != kafka.OffsetOutOfRange {
		t.Errorf("to -1: %v", err)
	}
	must(t, l.TruncateFullyAndStartAt(100))
	if l.StartOffset() != 100 || l.EndOffset() != 100 || l.HighWatermark() != 100 || l.Size() != 0 {
		t.Errorf("the log is [%d, %d), high watermark %d, %d bytes", l.StartOffset(), l.EndOffset(), l.HighWatermark(), l.Size())
	}
}

// An index that looks right, but leads to where its batches are not, is found out by who uses it.
func TestMisleadingIndex(t *testing.T) {
	for _, segment := range []int64{0, 8} {
		for name, entry := range map[string][]byte{
			"into a batch":            {0, 0, 0, 1, 0, 0, 0, 200},
			"to a batch behind":       {0, 0, 0, 0, 0, 0, 1, 94},
			"to the offset of before": {0, 0, 0, 2, 0, 0, 0, 175},
		} {
			fsys := vfs.NewMem()
			l, stored := filled(t, fsys)
			must(t, l.Close())
			changeFile(t, fsys, logDir+"/"+segmentName(segment, indexSuffix), func(b []byte) []byte { return append(entry, b[len(b)-8:]...) })
			l = openTest(t, fsys, smallSegments, func(o *Options) { o.CleanShutdown, o.RecoveryPoint = true, 12 })
			l.segments.Load().active().tail.Store(&tail{}) // so that the index is asked
			if !bytes.Equal(readTest(t, l, 0), bytes.Join(stored, nil)) {
				t.Errorf("segment %d, %s: the log is not what it was", segment, name)
			}
			checkLookups(t, l, 12)
		}
	}
}

func TestPreallocate(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	l := openTest(t, faulty, withConfig(func(c *Config) { c.Preallocate, c.SegmentBytes = true, 40<<20 }))
	calls := func() int { return faulty.Calls(vfs.OpPreallocate, "") }
	var counts []int
	for i := range 38 {
		appendTest(t, l, batchSpec{size: 1 << 20})
		if i == 14 || i == 20 || i == 37 {
			counts = append(counts, calls())
		}
	}
	if !equal(counts, []int{0, 1, 2}) {
		t.Errorf("reservations after 15, 21 and 38 MiB: %d", counts)
	}
	trims := faulty.Calls(vfs.OpTruncate, ".log")
	must(t, l.Close())
	if faulty.Calls(vfs.OpTruncate, ".log") != trims+1 {
		t.Error("what was not used is not given back")
	}
	if size := fileSize(t, faulty, logDir+"/"+segmentName(0, logSuffix)); size != l.Size() {
		t.Errorf("the file has %d bytes, the log %d", size, l.Size())
	}
}
