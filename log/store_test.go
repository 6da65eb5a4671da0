package log

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

func tryStore(t testing.TB, fsys vfs.FS, change ...func(*StoreOptions)) (*Store, error) {
	o := StoreOptions{
		FS: fsys, Clock: clock.NewManual(logStart), Dirs: []string{"/data/a", "/data/b"}, NodeID: 1,
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil)),
	}
	for _, f := range change {
		f(&o)
	}
	return OpenStore(o)
}

func openStore(t testing.TB, fsys vfs.FS, change ...func(*StoreOptions)) *Store {
	t.Helper()
	s, err := tryStore(t, fsys, change...)
	must(t, err)
	return s
}

func partition(n int32) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: "orders", Partition: n}
}

func createTest(t testing.TB, s *Store, tp kafka.TopicPartition) *Log {
	t.Helper()
	l, err := s.Create(tp, kafka.TopicID{1}, DefaultConfig())
	must(t, err)
	return l
}

func TestNewPartitionsGoWhereFewestAre(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	var dirs []string
	for i := range int32(4) {
		dirs = append(dirs, createTest(t, s, partition(i)).Dir())
	}
	if !equal(dirs, []string{"/data/a/orders-0", "/data/b/orders-1", "/data/a/orders-2", "/data/b/orders-3"}) {
		t.Errorf("they went to %s", dirs)
	}
	must(t, s.Delete(partition(0)))
	must(t, s.Delete(partition(2)))
	for i := range int32(2) {
		if l := createTest(t, s, partition(10+i)); !strings.HasPrefix(l.Dir(), "/data/a/") {
			t.Errorf("the next went to %s", l.Dir())
		}
	}
}

func TestCreateReturnsWhatThereIs(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	l := createTest(t, s, partition(0))
	c := DefaultConfig()
	c.RetentionMs = 5
	again, err := s.Create(partition(0), kafka.TopicID{1}, c)
	must(t, err)
	if again != l || l.Config().RetentionMs != 5 {
		t.Error("it is another log, or has the old configuration")
	}
	if _, err := s.Create(partition(0), kafka.TopicID{2}, c); kafka.CodeOf(err) != kafka.InconsistentTopicID {
		t.Errorf("for another topic of that name: %v", err)
	}
	if _, err := s.Create(kafka.TopicPartition{Topic: "../x"}, kafka.TopicID{2}, c); kafka.CodeOf(err) != kafka.InvalidTopic {
		t.Errorf("for a name that is a path: %v", err)
	}
}

func TestStoreSurvives(t *testing.T) {
	for _, way := range []string{"clean", "kill"} {
		t.Run(way, func(t *testing.T) {
			mem := vfs.NewMem()
			s := openStore(t, mem)
			if _, clean := s.CleanShutdown(); clean {
				t.Error("a new store was stopped in good order")
			}
			id, ids := s.ClusterID(), s.DirectoryIDs()
			want := map[kafka.TopicPartition][]byte{}
			for i := range int32(5) {
				l := createTest(t, s, partition(i))
				want[partition(i)] = append(appendTest(t, l, batchSpec{size: 10}), appendTest(t, l, batchSpec{})...)
			}
			l := s.Log(partition(1))
			l.SetHighWatermark(2)
			must(t, l.AdvanceStartOffset(1))
			fsys := mem
			if way == "clean" {
				s.SetBrokerEpoch(42)
				must(t, s.Close())
			} else {
				s.Tasks().Step(logStart.Add(10*time.Second), Event{})
				fsys = mem.Kill()
			}
			s = openStore(t, fsys)
			epoch, clean := s.CleanShutdown()
			if clean != (way == "clean") || clean && epoch != 42 || s.Lossy() {
				t.Errorf("clean %v, epoch %d, lossy %v", clean, epoch, s.Lossy())
			}
			if s.ClusterID() != id || len(s.DirectoryIDs()) != 2 {
				t.Errorf("cluster %s, directories %v", s.ClusterID(), s.DirectoryIDs())
			}
			for path, dir := range s.DirectoryIDs() {
				if ids[path] != dir {
					t.Errorf("%s has the id %v, and had %v", path, dir, ids[path])
				}
			}
			for tp, records := range want {
				l := s.Log(tp)
				if l == nil || l.TopicID() != (kafka.TopicID{1}) || !bytes.HasSuffix(records, readTest(t, l, l.StartOffset())) || l.EndOffset() != 2 {
					t.Errorf("%v is not what it was", tp)
				}
			}
			if l := s.Log(partition(1)); l.StartOffset() != 1 || l.HighWatermark() != 2 {
				t.Errorf("start %d, high watermark %d", l.StartOffset(), l.HighWatermark())
			}
			// The marker is gone while the store is open.
			if _, clean, err := ReadCleanShutdown(fsys, "/data/a"); clean || err != nil {
				t.Errorf("the marker is there (%v)", err)
			}
		})
	}
}

// A disk that fails takes its directory's logs offline, and no others.
func TestFailedDirectory(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	var failed []string
	s := openStore(t, faulty, func(o *StoreOptions) {
		o.DirFailed = func(dir string, err error) {
			failed = append(failed, fmt.Sprintf("%s: %v", dir, errors.Is(err, syscall.EIO)))
		}
	})
	var logs []*Log
	for i := range int32(4) {
		logs = append(logs, createTest(t, s, partition(i)))
	}
	appendTest(t, logs[1], batchSpec{})
	faulty.Inject(vfs.Fault{Op: vfs.OpSync, Path: "/data/b/", Err: syscall.EIO})
	if err := logs[1].Sync(); !errors.Is(err, syscall.EIO) || kafka.CodeOf(err) != kafka.KafkaStorageError {
		t.Errorf("sync: %v", err)
	}
	faulty.Heal() // a later sync would succeed, and prove nothing
	for i, l := range logs {
		_, err := l.AppendAsLeader(0, batchSpec{}.build())
		if want := map[bool]kafka.Code{true: kafka.KafkaStorageError}[i%2 == 1]; kafka.CodeOf(err) != want {
			t.Errorf("append to %v: %v", l.TP(), err)
		}
		if err := l.Sync(); (err != nil) != (i%2 == 1) {
			t.Errorf("sync of %v: %v", l.TP(), err)
		}
	}
	if !equal(failed, []string{"/data/b: true"}) {
		t.Errorf("told: %s", failed)
	}
	if infos := s.Dirs(); infos[0].Offline != nil || infos[1].Offline == nil || len(s.DirectoryIDs()) != 1 {
		t.Errorf("%+v", infos)
	}
	if err := s.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("close: %v", err)
	}
	if _, clean, _ := ReadCleanShutdown(faulty, "/data/b"); clean {
		t.Error("the failed directory has the marker of a good end")
	}
	if _, clean, _ := ReadCleanShutdown(faulty, "/data/a"); !clean {
		t.Error("the other directory lacks it")
	}
}

// One log that is corrupt is offline; it is left as it is, and the others work.
func TestBrokenLog(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys)
	for i := range int32(2) {
		for range 3 {
			appendTest(t, createTest(t, s, partition(i)), batchSpec{size: 50})
		}
	}
	must(t, s.Close())
	path := "/data/a/orders-0/" + segmentName(0, logSuffix)
	changeFile(t, fsys, path, func(b []byte) []byte { b[100] ^= 1; return b })
	for i := range 3 {
		fsys = fsys.Kill() // the second time after an unclean stop: the recovery point must have stayed
		s = openStore(t, fsys)
		var corrupt ErrCorrupt
		if err := s.Broken()[partition(0)]; !errors.As(err, &corrupt) || corrupt.Path != path || !s.Lossy() {
			t.Fatalf("broken: %v, lossy %v", s.Broken(), s.Lossy())
		}
		if s.Log(partition(0)) != nil || s.Log(partition(1)) == nil {
			t.Fatalf("logs: %v", s.Logs())
		}
		if _, err := s.Create(partition(0), kafka.TopicID{1}, DefaultConfig()); !errors.As(err, &corrupt) {
			t.Errorf("create: %v", err)
		}
		appendTest(t, s.Log(partition(1)), batchSpec{})
		s.Tasks().Step(logStart.Add(2*time.Minute), Event{})
		if i == 1 {
			must(t, s.Close()) // which must not make the next start trust it
		}
	}
	// Who knows that the topic is gone, or has another replica, puts it aside.
	must(t, s.Delete(partition(0)))
	if l := createTest(t, s, partition(0)); l.EndOffset() != 0 || len(s.Broken()) != 0 {
		t.Errorf("the new log ends at %d; broken: %v", l.EndOffset(), s.Broken())
	}
}

func TestDelete(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys)
	c := DefaultConfig()
	c.FileDeleteDelayMs = 5000
	l, err := s.Create(partition(0), kafka.TopicID{1}, c)
	must(t, err)
	stored := appendTest(t, l, batchSpec{})
	l.SetHighWatermark(1)
	r, err := l.Read(ReadRequest{MaxBytes: 100, EndOffset: 1})
	must(t, err)
	must(t, s.Delete(partition(0)))
	if s.Log(partition(0)) != nil {
		t.Error("the log is still there")
	}
	if _, err := l.AppendAsLeader(0, batchSpec{}.build()); kafka.CodeOf(err) != kafka.NotLeaderOrFollower {
		t.Errorf("append to a deleted log: %v", err)
	}
	p := make([]byte, r.Len())
	_, err = r.ReadAt(p, 0)
	must(t, err)
	r.Release()
	if !bytes.Equal(p, stored) {
		t.Error("the records have changed")
	}
	// The name is free at once, for another topic.
	again, err := s.Create(partition(0), kafka.TopicID{2}, c)
	must(t, err)
	if again.EndOffset() != 0 {
		t.Errorf("the new log ends at %d", again.EndOffset())
	}
	deleted := func() (names []string) {
		for _, dir := range []string{"/data/a", "/data/b"} {
			entries, err := fsys.ReadDir(dir)
			must(t, err)
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), deleteSuffix) {
					names = append(names, e.Name())
				}
			}
		}
		return names
	}
	s.Tasks().Step(logStart, <-s.events)
	if names := deleted(); len(names) != 1 || !strings.HasPrefix(names[0], "orders-0.") {
		t.Fatalf("to be removed: %s", names)
	}
	s.Tasks().Step(logStart.Add(4999*time.Millisecond), Event{})
	if len(deleted()) != 1 {
		t.Error("removed too early")
	}
	s.Tasks().Step(logStart.Add(5*time.Second), Event{})
	if len(deleted()) != 0 {
		t.Error("not removed in time")
	}
	// What a process did not come to remove, the next one does.
	must(t, s.Delete(partition(0)))
	must(t, s.Close())
	s = openStore(t, fsys)
	if len(deleted()) != 0 || len(s.Logs()) != 0 {
		t.Errorf("after a start there are %s and %v", deleted(), s.Logs())
	}
	must(t, s.Delete(partition(0))) // there is none
}

func TestDeletedNameFits(t *testing.T) {
	long := kafka.TopicPartition{Topic: strings.Repeat("x", 249), Partition: 123456}
	if name := deletedName(long, deleteSuffix); len(name) != 255 || !strings.HasSuffix(name, deleteSuffix) {
		t.Errorf("%d letters: %s", len(name), name)
	}
}

// Nothing is removed because its topic is not known.
func TestStray(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys)
	appendTest(t, createTest(t, s, partition(0)), batchSpec{})
	must(t, s.MarkStray(partition(0)))
	if s.Log(partition(0)) != nil {
		t.Error("the log is still there")
	}
	for range 2 {
		must(t, s.Close())
		s = openStore(t, fsys)
		s.Tasks().Step(logStart.Add(24*time.Hour), Event{})
	}
	entries, err := fsys.ReadDir("/data/a")
	must(t, err)
	found := 0
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), straySuffix) {
			found++
			if size := fileSize(t, fsys, "/data/a/"+e.Name()+"/"+segmentName(0, logSuffix)); size == 0 {
				t.Error("its records are gone")
			}
		}
	}
	if found != 1 || len(s.Logs()) != 0 {
		t.Errorf("%d stray directories, logs %v", found, s.Logs())
	}
}

func TestForeignNamesAreLeftAlone(t *testing.T) {
	fsys := vfs.NewMem()
	must(t, openStore(t, fsys).Close())
	names := []string{"lost+found", "orders", "orders-x", "-1", "orders-01", "a b-0", "orders-0.0123456789abcdef-future"}
	for _, name := range names {
		must(t, fsys.MkdirAll("/data/a/"+name, 0o755))
	}
	must(t, vfs.WriteFileAtomic(fsys, "/data/a/file-0", nil, 0o644, true))
	s := openStore(t, fsys)
	if len(s.Logs()) != 0 || len(s.Broken()) != 0 {
		t.Errorf("logs %v, broken %v", s.Logs(), s.Broken())
	}
	must(t, s.Close())
	for _, name := range names {
		if _, err := fsys.Stat("/data/a/" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The background flush makes durable what was written a second ago, and its recovery point survives a crash once 64 MiB
// have been flushed, or after the checkpoint interval.
func TestBackgroundFlush(t *testing.T) {
	mem := vfs.NewMem()
	clk := clock.NewManual(logStart)
	s := openStore(t, mem, func(o *StoreOptions) { o.Clock = clk })
	l := createTest(t, s, partition(0))
	c := DefaultConfig()
	c.FlushMs = 100
	quick, err := s.Create(partition(1), kafka.TopicID{1}, c)
	must(t, err)
	tick := func(d time.Duration) {
		clk.Advance(d)
		s.Tasks().Step(clk.Now(), Event{})
	}
	tick(time.Second)
	appendTest(t, l, batchSpec{})
	appendTest(t, quick, batchSpec{})
	tick(120 * time.Millisecond)
	if l.DurableEndOffset() != 0 || quick.DurableEndOffset() != 1 {
		t.Errorf("after 120 ms durable up to %d, with flush.ms=100 up to %d", l.DurableEndOffset(), quick.DurableEndOffset())
	}
	tick(900 * time.Millisecond)
	if l.DurableEndOffset() != 1 {
		t.Errorf("after a second durable up to %d", l.DurableEndOffset())
	}
	point := func() int64 {
		points, err := ReadOffsetCheckpoint(mem.Crash(vfs.LoseAll()), "/data/a/"+RecoveryPointCheckpoint)
		must(t, err)
		return points[partition(0)]
	}
	if point() != 0 {
		t.Errorf("the checkpoint says %d", point())
	}
	tick(time.Minute)
	if point() != 1 {
		t.Errorf("after a minute the checkpoint says %d", point())
	}
	asked := false
	for range 70 {
		appendTest(t, l, batchSpec{size: 1 << 20})
		select {
		case e := <-s.events:
			asked = true
			if e.Flush != l {
				t.Errorf("asked for %+v", e)
			}
			s.Tasks().Step(clk.Now(), e)
		default:
		}
	}
	if !asked || l.DurableEndOffset() < 60 || point() < 60 {
		t.Errorf("after 70 MiB: asked %v, durable up to %d, checkpoint %d", asked, l.DurableEndOffset(), point())
	}
}

func TestNeverIsNeverFlushed(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	s := openStore(t, faulty, func(o *StoreOptions) { o.FsyncPolicy = FsyncNever })
	l := createTest(t, s, partition(0))
	before := faulty.Calls(vfs.OpSync, "") + faulty.Calls(vfs.OpSyncFS, "")
	for i := range 5 {
		appendTest(t, l, batchSpec{})
		s.Tasks().Step(logStart.Add(time.Duration(i)*time.Minute), Event{})
	}
	if s.NeedsCommit(l) {
		t.Error("an acknowledgement waits for the disk")
	}
	if after := faulty.Calls(vfs.OpSync, "") + faulty.Calls(vfs.OpSyncFS, ""); after != before {
		t.Errorf("%d syncs", after-before)
	}
}

// Run ends when it is told to, and whoever waits for a commit then is answered.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenStore(StoreOptions{
		FS: vfs.OS(), Dirs: []string{dir + "/a", dir + "/b"}, NodeID: 1, Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil)),
		FlushInterval: time.Millisecond,
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var logs []*Log
	for i := range int32(8) {
		logs = append(logs, createTest(t, s, partition(i)))
	}
	answers := make(chan error, 400)
	for range 50 {
		for _, l := range logs {
			appendTest(t, l, batchSpec{})
			end := l.EndOffset()
			s.Commit(l, func(err error) {
				if err == nil && l.DurableEndOffset() < end {
					err = fmt.Errorf("%v is durable up to %d, not %d", l.TP(), l.DurableEndOffset(), end)
				}
				answers <- err
			})
		}
	}
	for range 400 {
		must(t, <-answers)
	}
	must(t, s.Delete(partition(7)))
	cancel()
	must(t, <-ended)
	must(t, s.Close())
	must(t, s.Close())
	if _, err := os.Stat(dir + "/a/" + cleanShutdownFile); err != nil {
		t.Error(err)
	}
}

// However many logs are deleted at a time, none of them keeps its space until the next start.
func TestVeryManyDeletions(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys)
	paths := make([]string, eventQueue+10)
	for i := range paths {
		paths[i] = fmt.Sprintf("/data/a/orders-%d.x%s", i, deleteSuffix)
		must(t, fsys.MkdirAll(paths[i], 0o755))
		s.removeLater(paths[i], time.Second)
	}
	s.StepTasks(logStart)
	s.StepTasks(logStart.Add(time.Second))
	for _, path := range paths {
		if _, err := fsys.Stat(path); err == nil {
			t.Fatalf("%s is still there", path)
		}
	}
}
