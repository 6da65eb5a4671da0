package log

import (
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/vfs"
)

// A store that nobody runs does all the same what was asked of it, when its owner steps it.
func TestSteppedStore(t *testing.T) {
	clk := clock.NewManual(logStart)
	fsys := vfs.NewMem()
	s := openStore(t, fsys, func(o *StoreOptions) { o.Clock, o.FsyncPolicy = clk, FsyncAck })
	l := createTest(t, s, partition(0))
	appendTest(t, l, batchSpec{})
	again := 0
	s.Commit(l, func(err error) {
		must(t, err)
		appendTest(t, l, batchSpec{})
		s.Commit(l, func(err error) {
			must(t, err)
			again++
		})
	})
	if n := s.StepCommits(); n != 1 || l.DurableEndOffset() != 1 || again != 0 {
		t.Fatalf("%d commits served, durable up to %d", n, l.DurableEndOffset())
	}
	if n := s.StepCommits(); n != 1 || l.DurableEndOffset() != 2 || again != 1 {
		t.Fatalf("%d commits served, durable up to %d", n, l.DurableEndOffset())
	}
	if n := s.StepCommits(); n != 0 {
		t.Fatalf("%d commits served that nobody asked for", n)
	}

	dir := s.Dirs()[0].Path
	must(t, s.Delete(partition(0)))
	next := s.StepTasks(clk.Now())
	due := clk.Now().Add(DefaultConfig().fileDeleteDelay())
	if next.After(due) {
		t.Fatalf("wants to be called at %v, and a directory is due at %v", next, due)
	}
	if got := directories(t, fsys, dir); got != 1 {
		t.Fatalf("%d directories before the delay is over", got)
	}
	clk.Advance(time.Minute)
	s.StepTasks(clk.Now())
	if got := directories(t, fsys, dir); got != 0 {
		t.Fatalf("%d directories after the delay", got)
	}
}

func directories(t *testing.T, fsys vfs.FS, dir string) (n int) {
	t.Helper()
	found, err := fsys.ReadDir(dir)
	must(t, err)
	for _, e := range found {
		if e.IsDir() {
			n++
		}
	}
	return n
}
