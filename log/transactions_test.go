package log

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// K021, as far as the log decides it.
func TestLastStableOffset(t *testing.T) {
	l := openTest(t, vfs.NewMem())
	check := func(what string, stable, hw int64) {
		t.Helper()
		if l.LastStableOffset() != stable || l.HighWatermark() != hw {
			t.Errorf("%s: stable %d, high watermark %d, not %d, %d", what, l.LastStableOffset(), l.HighWatermark(), stable, hw)
		}
	}
	appendTest(t, l, batchSpec{producer: 7, txn: true})
	check("an open transaction above the high watermark", 0, 0)
	appendTest(t, l, batchSpec{records: 2})
	l.SetHighWatermark(3)
	check("an open transaction", 0, 3)
	_, err := l.AppendMarker(0, marker(7, 0, batch.Commit), 1)
	must(t, err)
	check("a marker that is not replicated", 0, 3)
	l.SetHighWatermark(4)
	check("a marker", 4, 4)
	if txns, err := l.AbortedTxns(0, 4); err != nil || len(txns) > 0 {
		t.Errorf("aborted: %v, %v", txns, err)
	}
	appendTest(t, l, batchSpec{producer: 7, sequence: 1, txn: true})
	_, err = l.AppendMarker(0, marker(7, 0, batch.Abort), 1)
	must(t, err)
	l.SetHighWatermark(6)
	check("an aborted transaction", 6, 6)
	want := []AbortedTxn{{ProducerID: 7, FirstOffset: 4, LastOffset: 5, LastStableOffset: 6}}
	for _, r := range [][2]int64{{0, 6}, {4, 5}, {5, 6}} {
		if txns, err := l.AbortedTxns(r[0], r[1]); err != nil || !slices.Equal(txns, want) {
			t.Errorf("aborted in [%d, %d): %v, %v", r[0], r[1], txns, err)
		}
	}
	if txns, err := l.AbortedTxns(0, 4); err != nil || len(txns) > 0 {
		t.Errorf("aborted in [0, 4): %v, %v", txns, err)
	}
}

func TestMarkersAreChecked(t *testing.T) {
	l := openTest(t, vfs.NewMem())
	appendTest(t, l, batchSpec{producer: 7, epoch: 3, txn: true})
	for _, c := range []struct {
		name string
		v    batch.Validated
		code kafka.Code
	}{
		{"an old epoch", marker(7, 2, batch.Commit), kafka.InvalidProducerEpoch},
		{"no marker", batchSpec{producer: 7}.build(), kafka.UnknownServerError},
	} {
		if _, err := l.AppendMarker(0, c.v, 1); kafka.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := l.AppendAsLeader(0, batchSpec{producer: 7, epoch: 3, sequence: 1}.build()); kafka.CodeOf(err) != kafka.InvalidTxnState {
		t.Errorf("a batch outside of the producer's transaction: %v", err)
	}
	if l.EndOffset() != 1 {
		t.Errorf("the log ends at %d", l.EndOffset())
	}
}

// aborts makes a log of several segments in which three producers' transactions overlap, the odd ones aborted.
func aborts(t *testing.T, fsys vfs.FS) (*Log, []AbortedTxn) {
	l := openTest(t, fsys, smallSegments)
	sequences := map[int64]int32{}
	for round := range 8 {
		for p := int64(1); p <= 3; p++ {
			appendTest(t, l, batchSpec{producer: p, sequence: sequences[p], txn: true, size: 50})
			sequences[p]++
		}
		for p := int64(3); p >= 1; p-- {
			kind := batch.Commit
			if (int64(round)+p)%2 == 1 {
				kind = batch.Abort
			}
			_, err := l.AppendMarker(0, marker(p, 0, kind), 1)
			must(t, err)
		}
	}
	l.SetHighWatermark(l.EndOffset())
	txns, err := l.AbortedTxns(0, l.EndOffset())
	must(t, err)
	if len(txns) != 12 {
		t.Fatalf("%d aborted transactions", len(txns))
	}
	return l, txns
}

// The aborted transactions are the same after every kind of stop, and whatever happened to an index.
func TestAbortedTxnsSurvive(t *testing.T) {
	for _, way := range []string{"clean", "kill", "power cut", "broken index", "broken index and snapshot", "truncation"} {
		t.Run(way, func(t *testing.T) {
			mem := vfs.NewMem()
			must(t, mem.MkdirAll("/data", 0o755))
			must(t, mem.SyncDir("/"))
			l, want := aborts(t, mem)
			end := l.EndOffset()
			fsys := vfs.FS(mem)
			reopen := func(o *Options) { o.RecoveryPoint, o.HighWatermark = end, end }
			second := l.segments.Load().all[1]
			switch way {
			case "clean":
				must(t, l.Close())
				reopen = func(o *Options) { o.RecoveryPoint, o.HighWatermark, o.CleanShutdown = end, end, true }
			case "kill":
				fsys = mem.Kill()
			case "power cut":
				must(t, l.Sync())
				fsys = mem.Crash(vfs.LoseAll())
			case "broken index":
				must(t, l.Close())
				changeFile(t, mem, second.path(txnIndexSuffix), func(b []byte) []byte { return append(b, 0) })
			case "broken index and snapshot":
				must(t, l.Close())
				changeFile(t, mem, second.path(txnIndexSuffix), func(b []byte) []byte { b[1] = 9; return b })
				changeFile(t, mem, second.path(snapshotSuffix), func(b []byte) []byte { return nil })
			case "truncation":
				end = second.baseOffset + 1
				must(t, l.TruncateTo(end))
				want = slices.DeleteFunc(want, func(x AbortedTxn) bool { return x.LastOffset >= end })
				must(t, l.Close())
			}
			l = openTest(t, fsys, smallSegments, reopen)
			got, err := l.AbortedTxns(0, end)
			must(t, err)
			if !slices.Equal(got, want) {
				t.Errorf("aborted:\n%v, not\n%v", got, want)
			}
			if way != "truncation" && l.LastStableOffset() != end {
				t.Errorf("stable up to %d of %d", l.LastStableOffset(), end)
			}
		})
	}
}

// An abort whose index entry cannot be written takes the log offline: consumers would be handed what was aborted.
func TestAbortThatCannotBeNoted(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	l := openTest(t, faulty)
	appendTest(t, l, batchSpec{producer: 7, txn: true})
	faulty.Inject(vfs.Fault{Op: vfs.OpOpen, Path: txnIndexSuffix, Err: syscall.EIO})
	_, err := l.AppendMarker(0, marker(7, 0, batch.Abort), 1)
	if !errors.Is(err, syscall.EIO) || l.EndOffset() != 1 || l.Offline() == nil {
		t.Errorf("%v, end %d", err, l.EndOffset())
	}
}
