package log

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/vfs"
)

const testIndexPath = "/00000000000000001000.index"

// TestOffsetIndexOfAnyHistory compares with a plain list over appends, truncations, flushes, restarts and kills: look-ups
// are right whether the index is in memory or sealed, and the file is at any time what was flushed last, or behind it.
func TestOffsetIndexOfAnyHistory(t *testing.T) {
	const base = 1000
	rapid.Check(t, func(rt *rapid.T) {
		fsys := vfs.NewMem()
		x := NewOffsetIndex(fsys, testIndexPath, base)
		var want []OffsetPosition
		flushed := 0
		end := OffsetPosition{Offset: base, Position: 0}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1:
				if x.file.sealed {
					break
				}
				for range rapid.IntRange(1, 1500).Draw(rt, "entries") {
					at := OffsetPosition{end.Offset + 3, end.Position + 100}
					x.Append(at.Offset, at.Position)
					want = append(want, at)
					end = OffsetPosition{at.Offset + 1, at.Position + 200}
				}
			case 2:
				offset := rapid.Int64Range(base-1, end.Offset+1).Draw(rt, "truncate to")
				must(t, x.TruncateTo(offset))
				want = slices.DeleteFunc(want, func(e OffsetPosition) bool { return e.Offset >= offset })
				end = OffsetPosition{base, 0}
				if n := len(want); n > 0 {
					end = OffsetPosition{want[n-1].Offset + 1, want[n-1].Position + 200}
				}
				flushed = min(flushed, len(want))
			case 3:
				must(t, x.Flush())
				flushed = len(want)
			case 4:
				must(t, x.Seal())
				flushed = len(want)
			case 5:
				must(t, x.Flush())
				flushed = len(want)
				var err error
				x, err = LoadOffsetIndex(fsys, testIndexPath, base, end.Offset, end.Position)
				must(t, err)
			}
			checkOffsetIndex(rt, x, want, rapid.Int64Range(base-5, end.Offset+5).Draw(rt, "look up"))
		}
		must(t, x.Flush())
		killed, err := OpenOffsetIndex(fsys.Kill(), testIndexPath, base, end.Offset, end.Position)
		must(t, err)
		checkOffsetIndex(rt, killed, want, end.Offset)
	})
}

func checkOffsetIndex(rt *rapid.T, x *OffsetIndex, want []OffsetPosition, offset int64) {
	floor := func(key func(OffsetPosition) int64, at int64) OffsetPosition {
		i, found := slices.BinarySearchFunc(want, at, func(e OffsetPosition, at int64) int { return cmp.Compare(key(e), at) })
		if found {
			return want[i]
		}
		if i == 0 {
			return OffsetPosition{Offset: x.baseOffset}
		}
		return want[i-1]
	}
	if x.Len() != int64(len(want)) {
		rt.Fatalf("%d entries, want %d", x.Len(), len(want))
	}
	byOffset := floor(func(e OffsetPosition) int64 { return e.Offset }, offset)
	if got, err := x.Lookup(offset); got != byOffset || err != nil {
		rt.Fatalf("offset %d of %d entries: %v, %v; want %v", offset, len(want), got, err, byOffset)
	}
	position := (offset - x.baseOffset) * 75
	byPosition := floor(func(e OffsetPosition) int64 { return e.Position }, position)
	if got, err := x.LookupPosition(position); got != byPosition || err != nil {
		rt.Fatalf("position %d of %d entries: %v, %v; want %v", position, len(want), got, err, byPosition)
	}
	newest := OffsetPosition{Offset: x.baseOffset}
	if n := len(want); n > 0 {
		newest = want[n-1]
	}
	if got, err := x.Last(); got != newest || err != nil {
		rt.Fatalf("last of %d entries: %v, %v; want %v", len(want), got, err, newest)
	}
}

// TestIndexFilesAreBehindNeverWrong kills the process at every operation of a flush after a truncation.
func TestIndexFilesAreBehindNeverWrong(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpOpen, vfs.OpTruncate, vfs.OpWrite, vfs.OpClose, "none"} {
		mem := vfs.NewMem()
		fsys := vfs.NewFaulty(mem)
		x := NewOffsetIndex(fsys, testIndexPath, 0)
		for i := range int64(10) {
			x.Append(i, 100*i)
		}
		must(t, x.Flush())
		must(t, x.TruncateTo(5))
		x.Append(6, 555)
		x.Append(8, 666)
		fsys.Inject(vfs.Fault{Op: op, Err: syscall.EIO, Short: offsetEntrySize})
		if err := x.Flush(); (err == nil) != (op == "none") {
			t.Fatalf("flush with a failing %s: %v", op, err)
		}
		content, err := vfs.ReadFile(mem.Kill(), testIndexPath)
		must(t, err)
		// Before the first step the file is as it was, for recovery to compare with the log; then it is never wrong.
		if got := len(content) / offsetEntrySize; op == vfs.OpWrite && got != 6 || op == "none" && got != 7 {
			t.Errorf("after a failing %s the file has %d entries", op, got)
		}
		fsys.Heal()
		must(t, x.Flush())
		again, err := LoadOffsetIndex(fsys, testIndexPath, 0, 9, 667)
		must(t, err)
		if last, err := again.Last(); again.Len() != 7 || last != (OffsetPosition{8, 666}) || err != nil {
			t.Errorf("after a failing %s and another flush: %d entries up to %v, %v", op, again.Len(), last, err)
		}
	}
}

func TestIndexWithoutEntriesMakesNoFile(t *testing.T) {
	fsys := vfs.NewMem()
	x := NewTxnIndex(fsys, "/0.txnindex", 0)
	must(t, x.Flush())
	must(t, x.Seal())
	must(t, x.Sync())
	if _, err := fsys.Stat("/0.txnindex"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("stat: %v", err)
	}
	opened, err := OpenTxnIndex(fsys, "/0.txnindex", 0, 10)
	must(t, err)
	if txns, complete, err := opened.Collect(nil, 0, 10); len(txns) > 0 || complete || err != nil {
		t.Fatalf("%v, %v, %v", txns, complete, err)
	}
	must(t, vfs.WriteFileAtomic(fsys, "/0.txnindex", make([]byte, txnEntrySize), 0o644, true))
	must(t, NewTxnIndex(fsys, "/0.txnindex", 0).Flush())
	if b, err := vfs.ReadFile(fsys, "/0.txnindex"); len(b) > 0 || err != nil {
		t.Fatalf("a new index left %d bytes of an old one, %v", len(b), err)
	}
}

func TestSyncedIndexSurvivesAPowerCut(t *testing.T) {
	fsys := vfs.NewMem()
	x := NewTxnIndex(fsys, "/0.txnindex", 0)
	x.Append(AbortedTxn{1, 2, 3, 4})
	must(t, x.Flush())
	must(t, fsys.SyncDir("/"))
	if _, err := LoadTxnIndex(fsys.Crash(vfs.LoseAll()), "/0.txnindex", 0, 10); err != nil {
		t.Fatal(err)
	}
	must(t, x.Sync())
	after, err := LoadTxnIndex(fsys.Crash(vfs.LoseAll()), "/0.txnindex", 0, 10)
	must(t, err)
	if after.Len() != 1 {
		t.Fatalf("%d entries", after.Len())
	}
}

func TestBrokenIndexesAreRefused(t *testing.T) {
	offsets := func(numbers ...uint32) []byte {
		var b []byte
		for _, n := range numbers {
			b = append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
		}
		return b
	}
	times := func(numbers ...uint32) []byte { return offsets(numbers...) } // high and low half of the time, offset
	for name, content := range map[string][]byte{
		"a torn entry":              offsets(1, 100, 2)[:11],
		"offsets that go back":      offsets(5, 100, 4, 200),
		"offsets that stay":         offsets(5, 100, 5, 200),
		"positions that go back":    offsets(5, 100, 6, 50),
		"an offset at the end":      offsets(5, 100, 50, 200),
		"a position at the end":     offsets(5, 1000),
		"a negative offset":         offsets(0xffffffff, 100),
		"a negative position":       offsets(5, 0x80000000),
		"zeros behind the entries":  offsets(5, 100, 0, 0),
		"zeros instead of a file":   make([]byte, 64),
		"bytes from somewhere else": []byte("1234567890123456"),
	} {
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, testIndexPath, content, 0o644, true))
		if _, err := LoadOffsetIndex(fsys, testIndexPath, 1000, 1050, 1000); !errors.As(err, new(ErrBrokenFile)) {
			t.Errorf("offset index with %s: %v", name, err)
		}
	}
	for name, content := range map[string][]byte{
		"a torn entry":         times(0, 100, 1)[:8],
		"times that go back":   times(0, 100, 1, 0, 99, 2),
		"times that stay":      times(0, 100, 1, 0, 100, 2),
		"offsets that go back": times(0, 100, 2, 0, 101, 1),
		"an offset at the end": times(0, 100, 50),
		"a negative offset":    times(0, 100, 0xffffffff),
		"a negative time":      times(0xffffffff, 0xfffffffe, 1),
		"zeros":                make([]byte, 48),
	} {
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, testIndexPath, content, 0o644, true))
		if _, err := LoadTimeIndex(fsys, testIndexPath, 1000, 1050); !errors.As(err, new(ErrBrokenFile)) {
			t.Errorf("time index with %s: %v", name, err)
		}
	}
	for name, change := range map[string]func(b []byte) []byte{
		"a torn entry":                  func(b []byte) []byte { return b[:len(b)-1] },
		"another version":               func(b []byte) []byte { b[1] = 1; return b },
		"markers that stay":             func(b []byte) []byte { return append(b, b...) },
		"a marker before the segment":   func(b []byte) []byte { b[24], b[25] = 3, 0; return b },
		"a marker at the end":           func(b []byte) []byte { b[24], b[25] = 5, 0; return b },
		"a beginning behind the marker": func(b []byte) []byte { b[16] = 5; return b },
	} {
		fsys := vfs.NewMem()
		x := NewTxnIndex(fsys, testIndexPath, 1000)
		x.Append(AbortedTxn{ProducerID: 1, FirstOffset: 900, LastOffset: 1025, LastStableOffset: 1026})
		must(t, vfs.WriteFileAtomic(fsys, testIndexPath, change(x.file.resident), 0o644, true))
		if _, err := LoadTxnIndex(fsys, testIndexPath, 1000, 1050); !errors.As(err, new(ErrBrokenFile)) {
			t.Errorf("transaction index with %s: %v", name, err)
		}
		if _, err := OpenTxnIndex(fsys, testIndexPath, 1000, 1050); !errors.As(err, new(ErrBrokenFile)) {
			t.Errorf("sealed transaction index with %s: %v", name, err)
		}
	}
}

// TestSealedIndexesLookAtTheirEnd: all that is checked without reading a whole file.
func TestSealedIndexesLookAtTheirEnd(t *testing.T) {
	fsys := vfs.NewMem()
	offsets, times := NewOffsetIndex(fsys, testIndexPath, 0), NewTimeIndex(fsys, "/0.timeindex", 0)
	for i := range int64(5000) {
		offsets.Append(10*i+9, 100*i)
		times.Append(1000+i, 10*i+9)
	}
	must(t, errors.Join(offsets.Seal(), times.Seal()))
	for _, end := range []int64{49_999, 50_000} {
		_, err := OpenOffsetIndex(fsys, testIndexPath, 0, end, 499_901)
		_, err2 := OpenTimeIndex(fsys, "/0.timeindex", 0, end)
		if ok := end == 50_000; (err == nil) != ok || (err2 == nil) != ok {
			t.Errorf("segment ends at %d: %v, %v", end, err, err2)
		}
	}
	if _, err := OpenOffsetIndex(fsys, testIndexPath, 0, 50_000, 499_900); !errors.As(err, new(ErrBrokenFile)) {
		t.Errorf("position at the segment's end: %v", err)
	}
	opened, err := OpenOffsetIndex(fsys, testIndexPath, 0, 50_000, 499_901)
	must(t, err)
	f, err := fsys.OpenFile(testIndexPath, os.O_RDWR, 0)
	must(t, err)
	must(t, f.Truncate(8*100))
	if at, err := opened.Lookup(40_000); !errors.As(err, new(ErrBrokenFile)) {
		t.Errorf("look-up in a file that lost its end: %v, %v", at, err)
	}
	must(t, fsys.Remove(testIndexPath))
	if _, err := opened.Lookup(40_000); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("look-up in a file that was removed: %v", err)
	}
}

func TestTimeIndexFollowsTheNewestTime(t *testing.T) {
	fsys := vfs.NewMem()
	x := NewTimeIndex(fsys, "/1000.timeindex", 1000)
	check := func(want string) {
		t.Helper()
		last, err := x.Last()
		must(t, err)
		got := fmt.Sprint(x.Len(), " last ", last)
		for _, ms := range []int64{-1, 99, 100, 199, 200, 1000} {
			at, err := x.Lookup(ms)
			must(t, err)
			got += fmt.Sprintf(" %d:%v", ms, at)
		}
		if got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
	check("0 last {-1 1000} -1:{-1 1000} 99:{-1 1000} 100:{-1 1000} 199:{-1 1000} 200:{-1 1000} 1000:{-1 1000}")
	x.Append(100, 1004)
	x.Append(100, 1009) // no news
	x.Append(90, 1012)
	x.Append(200, 1015)
	const both = "2 last {200 1015} -1:{-1 1000} 99:{-1 1000} 100:{100 1004} 199:{100 1004} 200:{200 1015} 1000:{200 1015}"
	check(both)
	must(t, x.Seal())
	check(both)
	must(t, x.TruncateTo(1015))
	check("1 last {100 1004} -1:{-1 1000} 99:{-1 1000} 100:{100 1004} 199:{100 1004} 200:{100 1004} 1000:{100 1004}")
	x.Append(150, 1015)
	must(t, x.Flush())
	var err error
	x, err = LoadTimeIndex(fsys, "/1000.timeindex", 1000, 1016)
	must(t, err)
	x.Append(150, 1016) // no news: the newest time is known again
	check("2 last {150 1015} -1:{-1 1000} 99:{-1 1000} 100:{100 1004} 199:{150 1015} 200:{150 1015} 1000:{150 1015}")
	must(t, x.TruncateTo(1000))
	check("0 last {-1 1000} -1:{-1 1000} 99:{-1 1000} 100:{-1 1000} 199:{-1 1000} 200:{-1 1000} 1000:{-1 1000}")
}

// TestCollectFindsTheTransactionsOfAnyRange compares with going through all of them.
func TestCollectFindsTheTransactionsOfAnyRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 0))
	s, fsys := NewProducerStates(testTP, 0), vfs.NewMem()
	x := NewTxnIndex(fsys, "/0.txnindex", 0)
	var all []AbortedTxn
	open := map[int64]bool{}
	const end = 6000
	for offset := range int64(end) {
		pid := rng.Int64N(6)
		h := header(scriptArgs{t: t, values: map[string]string{"at": fmt.Sprint(offset), "pid": fmt.Sprint(pid), "txn": ""}})
		if open[pid] && rng.IntN(2) == 0 {
			if txn, aborted := s.UpdateMarker(h, rng.IntN(3) == 0, 0); aborted {
				x.Append(txn)
				all = append(all, txn)
			}
			open[pid] = false
			continue
		}
		s.Update(h)
		open[pid] = true
	}
	if x.Len() < 2*probeEntries {
		t.Fatalf("only %d transactions", x.Len())
	}
	must(t, x.Flush())
	sealed, err := OpenTxnIndex(fsys, "/0.txnindex", 0, end)
	must(t, err)
	for range 300 {
		from := rng.Int64N(end)
		to := from + rng.Int64N(200)
		var want []AbortedTxn
		for _, txn := range all {
			if txn.LastOffset >= from && txn.FirstOffset < to {
				want = append(want, txn)
			}
		}
		for name, index := range map[string]*TxnIndex{"resident": x, "sealed": sealed} {
			got, complete, err := index.Collect(nil, from, to)
			must(t, err)
			if !slices.Equal(got, want) {
				t.Fatalf("%s, [%d, %d): %v, want %v", name, from, to, got, want)
			}
			if decided := all[len(all)-1].LastStableOffset >= to; complete != decided {
				t.Fatalf("%s, [%d, %d): complete is %v", name, from, to, complete)
			}
		}
	}
	must(t, sealed.TruncateTo(all[100].LastOffset))
	if got, _, err := sealed.Collect(nil, 0, end); !slices.Equal(got, all[:100]) || err != nil {
		t.Fatalf("%d transactions after a truncation, %v", len(got), err)
	}
}

func TestReadsIndexesOfKafka(t *testing.T) {
	const base, end, size = 2468, 3000, 225701
	dir := "testdata/kafka-4.4"
	offsets, err := LoadOffsetIndex(vfs.OS(), filepath.Join(dir, "00000000000000002468.index"), base, end, size)
	must(t, err)
	times, err := LoadTimeIndex(vfs.OS(), filepath.Join(dir, "00000000000000002468.timeindex"), base, end)
	must(t, err)
	txns, err := LoadTxnIndex(vfs.OS(), filepath.Join(dir, "00000000000000000000.txnindex"), 0, 21)
	must(t, err)
	last, err := offsets.Last()
	must(t, err)
	newest, err := times.Last()
	must(t, err)
	aborted, _, err := txns.Collect(nil, 0, 21)
	must(t, err)
	got := fmt.Sprint(offsets.Len(), last, times.Len(), newest, aborted)
	if want := "44 {2999 224004} 12 {1796108773665 2999} [{1 14 16 17}]"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func FuzzIndexes(f *testing.F) {
	for _, name := range []string{"00000000000000002468.index", "00000000000000002468.timeindex", "00000000000000000000.txnindex"} {
		b, err := os.ReadFile(filepath.Join("testdata/kafka-4.4", name))
		must(f, err)
		f.Add(b, int64(2468), int64(3000), int64(225701))
		f.Add(b, int64(0), int64(21), int64(1000))
	}
	f.Fuzz(func(t *testing.T, content []byte, base, end, size int64) {
		if base < 0 || base > 1<<62 {
			return
		}
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, "/x", content, 0o644, false))
		if x, err := LoadOffsetIndex(fsys, "/x", base, end, size); err == nil {
			sealed, err := OpenOffsetIndex(fsys, "/x", base, end, size)
			must(t, err)
			for offset := base; offset < min(end, base+2000); offset += 37 {
				at, err := x.Lookup(offset)
				must(t, err)
				if again, err := sealed.Lookup(offset); again != at || err != nil {
					t.Fatalf("offset %d: resident %v, sealed %v, %v", offset, at, again, err)
				}
				if at.Offset > offset || at.Position < 0 || size > 0 && at.Position >= size {
					t.Fatalf("offset %d is said to be at %v", offset, at)
				}
			}
		}
		if x, err := LoadTimeIndex(fsys, "/x", base, end); err == nil {
			last, err := x.Last()
			must(t, err)
			if x.Len() > 0 && (last.Offset < base || last.Offset >= end) {
				t.Fatalf("newest %v", last)
			}
		}
		if x, err := LoadTxnIndex(fsys, "/x", base, end); err == nil {
			txns, _, err := x.Collect(nil, 0, end)
			must(t, err)
			for _, txn := range txns {
				if txn.LastOffset < base || txn.LastOffset >= end {
					t.Fatalf("marker at %d", txn.LastOffset)
				}
			}
		}
	})
}

func BenchmarkSealedLookup(b *testing.B) {
	x := NewOffsetIndex(vfs.OS(), filepath.Join(b.TempDir(), "0.index"), 0)
	const entries = 262_144 // of a segment of 1 GiB
	for i := range int64(entries) {
		x.Append(10*i+9, 4096*i)
	}
	must(b, x.Seal())
	rng := rand.New(rand.NewPCG(1, 0))
	for b.Loop() {
		if _, err := x.Lookup(rng.Int64N(10 * entries)); err != nil {
			b.Fatal(err)
		}
	}
}
