package log

import (
	"errors"
	"syscall"
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

// How many files are synced one by one, and how many with the file system.
func TestGroupCommit(t *testing.T) {
	for _, c := range []struct {
		logs, fsyncs, syncfs int
		fileOnly             bool
	}{{1, 1, 0, false}, {4, 4, 0, false}, {5, 0, 1, false}, {40, 0, 1, false}, {40, 40, 0, true}} {
		faulty := vfs.NewFaulty(vfs.NewMem())
		s := openStore(t, faulty, func(o *StoreOptions) {
			o.Dirs, o.FsyncPolicy, o.FsyncFileOnly = []string{"/data"}, FsyncAck, c.fileOnly
		})
		var logs []*Log
		for i := range c.logs {
			l := createTest(t, s, partition(int32(i)))
			appendTest(t, l, batchSpec{})
			must(t, l.Sync()) // the names, and the first epoch
			logs = append(logs, l)
		}
		count := func() (int, int) {
			return faulty.Calls(vfs.OpSync, ".log"), faulty.Calls(vfs.OpSyncFS, "")
		}
		syncs, fss := count()
		answers := 0
		for _, l := range logs {
			for range 3 {
				appendTest(t, l, batchSpec{})
				if !s.NeedsCommit(l) {
					t.Error("no commit is needed")
				}
				s.Commit(l, func(err error) {
					must(t, err)
					answers++
				})
			}
		}
		if answers != 0 {
			t.Errorf("%d answers before the commit", answers)
		}
		if n := logs[0].home().committer.round(); n != 3*c.logs || answers != n {
			t.Errorf("%d requests, %d answers", n, answers)
		}
		for _, l := range logs {
			if l.DurableEndOffset() != 4 {
				t.Errorf("%v is durable up to %d", l.TP(), l.DurableEndOffset())
			}
			s.Commit(l, func(err error) {
				must(t, err)
				answers++
			})
		}
		if answers != 4*c.logs {
			t.Errorf("what is durable waits: %d answers", answers)
		}
		syncsAfter, fssAfter := count()
		if syncsAfter-syncs != c.fsyncs || fssAfter-fss != c.syncfs {
			t.Errorf("%d logs: %d fsyncs, %d syncfs", c.logs, syncsAfter-syncs, fssAfter-fss)
		}
	}
}

// flush.messages asks for a commit when so many records would be in memory only.
func TestFlushMessages(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	l := createTest(t, s, partition(0))
	appendTest(t, l, batchSpec{records: 2})
	if s.NeedsCommit(l) {
		t.Error("by default a commit is needed")
	}
	c := DefaultConfig()
	c.FlushMessages = 5
	l.SetConfig(c)
	for _, need := range []bool{false, true} {
		appendTest(t, l, batchSpec{})
		appendTest(t, l, batchSpec{})
		if s.NeedsCommit(l) != need {
			t.Errorf("with %d records in memory a commit is needed: %v", l.EndOffset(), !need)
		}
	}
	c.FlushMessages = 1
	l.SetConfig(c)
	must(t, l.Sync())
	if s.NeedsCommit(l) {
		t.Error("a commit is needed though all is durable")
	}
}

// A failed sync is answered to all who wait, and never tried again.
func TestFailedCommit(t *testing.T) {
	for _, logs := range []int{1, 9} {
		faulty := vfs.NewFaulty(vfs.NewMem())
		s := openStore(t, faulty, func(o *StoreOptions) { o.Dirs, o.FsyncPolicy = []string{"/data"}, FsyncAck })
		for i := range logs {
			must(t, createTest(t, s, partition(int32(i))).Sync())
		}
		faulty.Inject(vfs.Fault{Op: vfs.OpSync, Err: syscall.EIO})
		faulty.Inject(vfs.Fault{Op: vfs.OpSyncFS, Err: syscall.EIO})
		answers := 0
		failed := func(err error) {
			answers++
			if kafka.CodeOf(err) != kafka.KafkaStorageError || !errors.Is(err, syscall.EIO) {
				t.Errorf("the answer is %v", err)
			}
		}
		for _, l := range s.Logs() {
			appendTest(t, l, batchSpec{})
			s.Commit(l, failed)
			s.Commit(l, failed)
		}
		s.dirs[0].committer.round()
		faulty.Heal()
		for _, l := range s.Logs() {
			s.Commit(l, failed)
			if l.DurableEndOffset() != 0 {
				t.Errorf("%v is durable up to %d", l.TP(), l.DurableEndOffset())
			}
		}
		s.dirs[0].committer.round()
		if answers != 3*logs {
			t.Errorf("%d answers", answers)
		}
	}
}
