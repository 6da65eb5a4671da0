package log

import (
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// tasksWorld is a store whose tasks a test steps.
func tasksWorld(t *testing.T, fsys vfs.FS, change ...func(*StoreOptions)) (s *Store, tick func(time.Duration)) {
	clk := clock.NewManual(logStart)
	s = openStore(t, fsys, append(change, func(o *StoreOptions) { o.Clock = clk })...)
	return s, func(d time.Duration) {
		clk.Advance(d)
		s.Tasks().Step(clk.Now(), Event{})
	}
}

func TestTasksDeleteOldSegments(t *testing.T) {
	s, tick := tasksWorld(t, vfs.NewMem(), func(o *StoreOptions) { o.RetentionCheckInterval = time.Minute })
	c := DefaultConfig()
	c.SegmentBytes, c.RetentionMs = 100, 1000
	l, err := s.Create(partition(0), kafka.TopicID{1}, c)
	must(t, err)
	for range 3 {
		appendTest(t, l, batchSpec{size: 100})
	}
	l.SetHighWatermark(3)
	tick(59 * time.Second)
	if l.StartOffset() != 0 {
		t.Errorf("before the interval the log starts at %d", l.StartOffset())
	}
	tick(time.Second)
	if l.StartOffset() != 3 {
		t.Errorf("after the interval the log starts at %d", l.StartOffset())
	}
}

func TestTasksForgetSilentProducers(t *testing.T) {
	s, tick := tasksWorld(t, vfs.NewMem(), func(o *StoreOptions) { o.ProducerExpirationMs = time.Hour.Milliseconds() })
	l := createTest(t, s, partition(0))
	appendTest(t, l, batchSpec{producer: 5})
	appendTest(t, l, batchSpec{producer: 6, timestamp: logStart.Add(30 * time.Minute).UnixMilli()})
	appendTest(t, l, batchSpec{producer: 4, txn: true})
	ids := func() (ids []int64) {
		for _, p := range l.ActiveProducers() {
			ids = append(ids, p.ProducerID)
		}
		return ids
	}
	tick(30 * time.Minute)
	if !equal(ids(), []int64{4, 5, 6}) {
		t.Errorf("after half an hour: %d", ids())
	}
	tick(31 * time.Minute)
	if !equal(ids(), []int64{4, 6}) { // 4 has an open transaction
		t.Errorf("after an hour: %d", ids())
	}
	s.SetProducerExpiration(50 * time.Minute.Milliseconds())
	tick(20 * time.Minute)
	if !equal(ids(), []int64{4}) {
		t.Errorf("after 51 minutes, when 50 are enough: %d", ids())
	}
	appendTest(t, createTest(t, s, partition(1)), batchSpec{producer: 7, timestamp: logStart.Add(81 * time.Minute).UnixMilli()})
	tick(49 * time.Minute)
	if got := s.Log(partition(1)).ActiveProducers(); len(got) != 1 {
		t.Errorf("a log that was made later has %+v", got)
	}
	tick(10 * time.Minute)
	if got := s.Log(partition(1)).ActiveProducers(); len(got) != 0 {
		t.Errorf("a log that was made later keeps %+v", got)
	}
}

// High watermarks are written every few seconds, and only if one changed.
func TestTasksCheckpointHighWatermarks(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	s, tick := tasksWorld(t, faulty)
	l := createTest(t, s, partition(0))
	appendTest(t, l, batchSpec{records: 9})
	l.SetHighWatermark(9)
	tick(4 * time.Second)
	tick(time.Second)
	marks, err := ReadOffsetCheckpoint(faulty, "/data/a/"+ReplicationOffsetCheckpoint)
	must(t, err)
	if marks[partition(0)] != 9 {
		t.Errorf("the checkpoint says %d", marks[partition(0)])
	}
	before := faulty.Calls(vfs.OpRename, ReplicationOffsetCheckpoint)
	tick(time.Minute)
	if after := faulty.Calls(vfs.OpRename, ReplicationOffsetCheckpoint); after != before {
		t.Error("it was written again, though nothing changed")
	}
}

// A quiet store does nothing to the disk.
func TestTasksAreQuiet(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	s, tick := tasksWorld(t, faulty)
	for i := range int32(10) {
		appendTest(t, createTest(t, s, partition(i)), batchSpec{})
	}
	for range 10 {
		tick(time.Minute)
	}
	count := func() (n int) {
		for _, op := range []vfs.Op{vfs.OpOpen, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpSyncFS, vfs.OpRename} {
			n += faulty.Calls(op, "")
		}
		return n
	}
	before := count()
	for range 10 {
		tick(time.Minute)
	}
	if after := count(); after != before {
		t.Errorf("%d calls", after-before)
	}
}

// K053, as far as the log decides it.
func TestEndOffsetForEpoch(t *testing.T) {
	fsys := vfs.NewMem()
	l := openTest(t, fsys)
	if e, end := l.EndOffsetForEpoch(0); e != kafka.NoLeaderEpoch || end != -1 {
		t.Errorf("in an empty log: %d, %d", e, end)
	}
	for _, e := range []kafka.LeaderEpoch{2, 4} {
		must(t, l.AssignEpoch(e, l.EndOffset()))
		appendTest(t, l, batchSpec{records: 3})
	}
	must(t, l.AssignEpoch(7, 6)) // without records
	check := func(state string, l *Log, latest kafka.LeaderEpoch) {
		t.Helper()
		for _, c := range []struct {
			asked, epoch kafka.LeaderEpoch
			end          int64
		}{{50, -1, -1}, {-1, -1, -1}, {4, 4, 6}, {3, 2, 3}, {2, 2, 3}, {1, 1, 0}, {7, 7, 6}} {
			if c.asked > latest {
				c.epoch, c.end = -1, -1
			}
			if e, end := l.EndOffsetForEpoch(c.asked); e != c.epoch || end != c.end {
				t.Errorf("%s, epoch %d: %d, %d, not %d, %d", state, c.asked, e, end, c.epoch, c.end)
			}
		}
	}
	check("at first", l, 7)
	must(t, l.Sync())
	check("after kill -9", openTest(t, fsys.Kill()), 4) // the epoch without records is assigned again by its leader
}
