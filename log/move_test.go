package log

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

const moveFrom, moveTo = "/data/a", "/data/b"

// moveStore has a log in moveFrom with some segments, transactions, epochs and deleted records.
func moveStore(t testing.TB, fsys vfs.FS) (*Store, *Log) {
	t.Helper()
	s := openStore(t, fsys, func(o *StoreOptions) { o.DefaultConfig = moveConfig() })
	l, err := s.Create(partition(0), kafka.TopicID{1}, moveConfig())
	must(t, err)
	for i := range 30 {
		if i%10 == 5 {
			must(t, l.AssignEpoch(kafka.LeaderEpoch(i), l.EndOffset()))
		}
		appendTest(t, l, batchSpec{records: 3, size: 100, producer: int64(7 + i%2), sequence: int32(3 * (i / 2)), txn: i%2 == 1})
	}
	l.SetHighWatermark(l.EndOffset() - 4)
	must(t, l.AdvanceStartOffset(4))
	return s, l
}

func moveConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 2000, 200
	return c
}

// copyAll copies until the copy has caught up.
func copyAll(t testing.TB, s *Store) {
	t.Helper()
	var buf []byte
	for range 1000 {
		_, _, err := s.Copy(s.Future(partition(0)), 1000, &buf)
		must(t, err)
		if s.Future(partition(0)).EndOffset() == s.Log(partition(0)).EndOffset() {
			return
		}
	}
	t.Fatal("the copy never catches up")
}

func promote(t testing.TB, s *Store) {
	t.Helper()
	var buf []byte
	for range 10 {
		done, err := s.Promote(s.Future(partition(0)), &buf)
		must(t, err)
		if done {
			return
		}
		copyAll(t, s)
	}
	t.Fatal("the copy never takes its place")
}

func (s *Store) dirOf(path string) kafka.DirectoryID { return s.DirectoryIDs()[path] }

// A log that moves is the same to everybody: what it holds, where it ends, what it knows of epochs and producers.
func TestALogMovesToAnotherDirectory(t *testing.T) {
	clk := clock.NewManual(logStart)
	mem := vfs.NewMem()
	s, l := moveStore(t, mem)
	must(t, s.BeginMove(partition(0), moveTo))
	must(t, s.BeginMove(partition(0), moveTo)) // once more is nothing
	if f := s.Future(partition(0)); !strings.HasPrefix(f.Dir(), moveTo+"/orders-0.") || !strings.HasSuffix(f.Dir(), "-future") || f.StartOffset() != 4 {
		t.Fatalf("the copy is %s from %d on", f.Dir(), f.StartOffset())
	}
	copyAll(t, s)
	// What comes between the copying and its end, comes along.
	must(t, l.AssignEpoch(40, l.EndOffset()))
	want := readTest(t, l, 4)
	type state struct {
		start, end, hw, lso int64
		epochs              []EpochEntry
		producers           string
	}
	look := func(l *Log) state {
		return state{l.StartOffset(), l.EndOffset(), l.HighWatermark(), l.LastStableOffset(), l.mu.epochs.Entries(), fmt.Sprint(l.ActiveProducers())}
	}
	before := look(l)
	held, err := l.Read(ReadRequest{Offset: 4, MaxBytes: 100, EndOffset: l.EndOffset(), AtLeastOne: true})
	must(t, err)
	promote(t, s)
	if s.Log(partition(0)) != l || l.Dir() != moveTo+"/orders-0" || s.DirectoryOf(l) != s.dirOf(moveTo) || s.Future(partition(0)) != nil {
		t.Fatalf("the log is in %s", l.Dir())
	}
	if after := look(l); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("it was %+v, and is %+v", before, after)
	}
	if !bytes.Equal(readTest(t, l, 4), want) {
		t.Error("it holds something else")
	}
	if _, err := held.ReadAt(make([]byte, 50), 0); err != nil {
		t.Errorf("what was read before cannot be read any more: %v", err)
	}
	held.Release()
	want = append(want, appendTest(t, l, batchSpec{producer: 7, sequence: 45})...)
	if n := dirs(t, mem, moveFrom, "-delete"); n != 1 {
		t.Errorf("%d directories to delete in the old place", n)
	}
	s.StepTasks(clk.Now())
	s.StepTasks(clk.Now().Add(2 * time.Minute))
	if n := dirs(t, mem, moveFrom, "orders"); n != 0 {
		t.Errorf("%d directories remain in the old place", n)
	}
	must(t, s.Close())
	s = openStore(t, mem, func(o *StoreOptions) { o.DefaultConfig = moveConfig() })
	if l := s.Log(partition(0)); !bytes.Equal(readTest(t, l, 4), want) || l.LatestEpoch() != 40 || s.Lossy() {
		t.Errorf("after a restart it ends at %d in epoch %d", l.EndOffset(), l.LatestEpoch())
	}
}

// dirs counts the directories in dir whose names have a part.
func dirs(t testing.TB, fsys vfs.FS, dir, part string) (n int) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if e.IsDir() && strings.Contains(e.Name(), part) {
			n++
		}
	}
	return n
}

// What the log loses while it is copied, the copy loses too.
func TestACopyFollowsItsLog(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, l *Log)
	}{
		{"truncation", func(t *testing.T, l *Log) {
			must(t, l.TruncateTo(50))
			must(t, l.AssignEpoch(60, l.EndOffset()))
			for range 40 {
				appendTest(t, l, batchSpec{records: 2, size: 10})
			}
		}},
		{"truncation and the same number of records in the same epoch", func(t *testing.T, l *Log) {
			end := l.EndOffset()
			must(t, l.TruncateTo(50))
			for l.EndOffset() < end {
				appendTest(t, l, batchSpec{size: 200})
			}
		}},
		{"beginning anew", func(t *testing.T, l *Log) {
			must(t, l.TruncateFullyAndStartAt(1000))
			appendTest(t, l, batchSpec{size: 10})
		}},
		{"beginning anew below", func(t *testing.T, l *Log) {
			must(t, l.TruncateFullyAndStartAt(20))
			appendTest(t, l, batchSpec{size: 10})
		}},
		{"deleted records", func(t *testing.T, l *Log) { must(t, l.AdvanceStartOffset(52)) }},
		{"retention of everything", func(t *testing.T, l *Log) {
			l.SetHighWatermark(l.EndOffset())
			_, err := l.DeleteOldSegments(logStart.Add(1000 * time.Hour))
			must(t, err)
		}},
	} {
		for _, copied := range []string{"nothing", "a part", "all"} {
			t.Run(c.name+" after "+copied, func(t *testing.T) {
				s, l := moveStore(t, vfs.NewMem())
				must(t, s.BeginMove(partition(0), moveTo))
				var buf []byte
				switch copied {
				case "a part":
					for range 8 {
						_, _, err := s.Copy(s.Future(partition(0)), 1000, &buf)
						must(t, err)
					}
				case "all":
					copyAll(t, s)
				}
				c.change(t, l)
				copyAll(t, s)
				want, start, end := readTest(t, l, l.StartOffset()), l.StartOffset(), l.EndOffset()
				promote(t, s)
				if got := readTest(t, l, l.StartOffset()); !bytes.Equal(got, want) || l.StartOffset() != start || l.EndOffset() != end {
					t.Errorf("%d bytes of [%d, %d), and were %d of [%d, %d)", len(got), l.StartOffset(), l.EndOffset(), len(want), start, end)
				}
				appendTest(t, l, batchSpec{})
			})
		}
	}
}

// A follower appends, truncates and begins anew while its log moves to and fro, and a reader reads: in the end it holds what was appended
// and not cut off.
func TestALogMovesWhileItIsTruncated(t *testing.T) {
	s, l := moveStore(t, vfs.NewMem())
	l.SetHighWatermark(l.EndOffset())
	must(t, l.TruncateFullyAndStartAt(0))
	stop, stopped := make(chan struct{}), make(chan struct{})
	var stored [][]byte // by offset; one record each
	go func() {
		defer close(stopped)
		rng := rand.New(rand.NewPCG(1, 2))
		for epoch := int32(50); ; epoch++ {
			select {
			case <-stop:
				return
			default:
			}
			for range 1 + rng.IntN(20) {
				v := batchSpec{size: 20 + rng.IntN(100)}.build()
				batch.SetBaseOffset(v.Bytes, int64(len(stored)))
				batch.SetLeaderEpoch(v.Bytes, epoch)
				if _, err := l.AppendAsFollower(v.Bytes); err != nil {
					t.Error(err)
					return
				}
				stored = append(stored, v.Bytes)
			}
			stored = stored[:len(stored)-rng.IntN(min(len(stored), 25))]
			if err := l.TruncateTo(int64(len(stored))); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(50 * time.Microsecond) // keeps the amount of work within bounds
		}
	}()
	var buf []byte
	for i := range 20 {
		to := []string{moveTo, moveFrom}[i%2]
		must(t, s.BeginMove(partition(0), to))
		for f := s.Future(partition(0)); ; {
			_, caughtUp, err := s.Copy(f, 1000, &buf)
			must(t, err)
			if !caughtUp {
				continue
			}
			if done, err := s.Promote(f, &buf); err != nil {
				t.Fatal(err)
			} else if done {
				break
			}
		}
		if l.Dir() != to+"/orders-0" {
			t.Fatalf("it is in %s", l.Dir())
		}
		if r, err := l.Read(ReadRequest{MaxBytes: 1000, EndOffset: l.EndOffset()}); err != nil {
			t.Fatal(err)
		} else {
			r.Release()
		}
	}
	close(stop)
	<-stopped
	if !bytes.Equal(readTest(t, l, 0), bytes.Join(stored, nil)) || l.EndOffset() != int64(len(stored)) {
		t.Errorf("it ends at %d, and %d records are left", l.EndOffset(), len(stored))
	}
}

// watchedFS calls before ahead of everything that changes names or makes them durable.
type watchedFS struct {
	*vfs.Mem
	before func(op string)
}

func (w watchedFS) Rename(from, to string) error {
	w.before("rename to " + to)
	defer w.before("renamed to " + to)
	return w.Mem.Rename(from, to)
}

func (w watchedFS) SyncDir(dir string) error {
	w.before("sync " + dir)
	defer w.before("synced " + dir)
	return w.Mem.SyncDir(dir)
}

func (w watchedFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	w.before("open " + name)
	return w.Mem.OpenFile(name, flag, perm)
}

// However the process or the machine ends, while the log is copied or the copy takes its place: the next start finds one log, with
// all that was written, or at least all that was durable; and the move goes on or has ended.
func TestACrashWhileALogMoves(t *testing.T) {
	mem := vfs.NewMem()
	type image struct {
		at       string
		fs       *vfs.Mem
		promised bool // the metadata names the new directory
		kill     bool
	}
	var images []image
	promised, n := false, uint64(0)
	watched := watchedFS{Mem: mem, before: func(string) {}}
	s, l := moveStore(t, &watched)
	must(t, l.Sync())
	s.StepTasks(logStart.Add(time.Hour)) // the start, too
	durable := l.EndOffset()
	for range 10 {
		appendTest(t, l, batchSpec{records: 2, size: 50})
	}
	watched.before = func(op string) {
		if n++; strings.HasPrefix(op, "open") && n%8 != 0 {
			return
		}
		images = append(images, image{op, mem.Kill(), promised, true}, image{op + ", all lost", mem.Crash(vfs.LoseAll()), promised, false},
			image{op + ", some lost", mem.Crash(vfs.LoseSome(rand.New(rand.NewPCG(n, 1)))), promised, false})
	}
	must(t, s.BeginMove(partition(0), moveTo))
	copyAll(t, s)
	promised = true
	promote(t, s)
	watched.before = func(string) {}
	want := readTest(t, l, 4)
	var durableLen int
	if r, err := l.Read(ReadRequest{Offset: durable, MaxBytes: 1, EndOffset: l.EndOffset(), AtLeastOne: true}); err == nil {
		r.Release()
		durableLen = bytes.Index(want, readTest(t, l, durable))
	}
	if len(images) < 45 || durableLen <= 0 {
		t.Fatalf("%d images, %d bytes durable", len(images), durableLen)
	}
	both := 0
	for _, i := range images {
		s := openStore(t, i.fs, func(o *StoreOptions) { o.DefaultConfig = moveConfig() })
		if tps := s.Unsettled(); len(tps) > 0 {
			both++
		}
		dir := s.dirOf(moveFrom)
		if i.promised {
			dir = s.dirOf(moveTo)
		}
		must(t, s.Settle(partition(0), dir))
		l := s.Log(partition(0))
		if l == nil {
			t.Fatalf("%s: there is no log", i.at)
		}
		got := readTest(t, l, l.StartOffset())
		whole := bytes.Equal(got, want)
		if i.kill && (!whole || l.StartOffset() != 4) || !bytes.HasPrefix(want, got) && !bytes.HasSuffix(want, got) || len(got) < durableLen {
			t.Fatalf("%s: %d bytes from %d on, of %d, %d of them durable", i.at, len(got), l.StartOffset(), len(want), durableLen)
		}
		// It goes on, whether the wish is new or old.
		if _, err := s.ResumeMove(partition(0)); err != nil {
			t.Fatalf("%s: %v", i.at, err)
		}
		must(t, s.BeginMove(partition(0), moveTo))
		if s.Future(partition(0)) != nil {
			copyAll(t, s)
			promote(t, s)
		}
		if !bytes.Equal(readTest(t, l, l.StartOffset()), got) || s.DirectoryOf(s.Log(partition(0))) != s.dirOf(moveTo) {
			t.Fatalf("%s: it is in %s", i.at, l.Dir())
		}
		must(t, s.Close())
	}
	if both == 0 {
		t.Error("no crash left the log in two directories")
	}
}

// Where a partition is in two directories the metadata says which one it is; the other is kept.
func TestOfTwoLogsTheMetadatasIsTheRightOne(t *testing.T) {
	for _, dir := range []string{moveFrom, moveTo, ""} {
		mem := vfs.NewMem()
		for _, d := range []string{moveFrom, moveTo} {
			s := openStore(t, mem)
			createIn(t, s, d)
			must(t, s.Close())
			must(t, mem.Rename(d+"/orders-0", d+"/orders-0.hidden"))
		}
		for _, d := range []string{moveFrom, moveTo} {
			must(t, mem.Rename(d+"/orders-0.hidden", d+"/orders-0"))
		}
		s := openStore(t, mem)
		if tps := s.Unsettled(); len(tps) != 1 || s.Log(tps[0]) != nil {
			t.Fatalf("unsettled are %v", tps)
		}
		if _, err := s.Create(partition(0), kafka.TopicID{1}, DefaultConfig()); kafka.CodeOf(err) != kafka.KafkaStorageError {
			t.Errorf("a third one is made: %v", err)
		}
		err := s.Settle(partition(0), s.dirOf(dir))
		if dir == "" {
			if kafka.CodeOf(err) != kafka.KafkaStorageError || !strings.Contains(err.Error(), "Duplicate log directories found: ") {
				t.Errorf("with another directory: %v", err)
			}
			must(t, s.MarkStray(partition(0)))
			if n := dirs(t, mem, moveFrom, straySuffix) + dirs(t, mem, moveTo, straySuffix); n != 2 {
				t.Errorf("%d put aside", n)
			}
			continue
		}
		must(t, err)
		if l := s.Log(partition(0)); l.Dir() != dir+"/orders-0" || dirs(t, mem, moveFrom, straySuffix)+dirs(t, mem, moveTo, straySuffix) != 1 {
			t.Errorf("it is %s; there is\n%s", l.Dir(), listing(t, mem, "/data"))
		}
	}
}

// One of two logs that cannot be opened counts as lost, until it is put aside: the metadata may say that it is the right one.
func TestOneOfTwoLogsIsBroken(t *testing.T) {
	mem := vfs.NewMem()
	for _, d := range []string{moveFrom, moveTo} {
		s := openStore(t, mem)
		createIn(t, s, d)
		appendTest(t, s.Log(partition(0)), batchSpec{size: 100})
		appendTest(t, s.Log(partition(0)), batchSpec{size: 100})
		must(t, s.Close())
		must(t, mem.Rename(d+"/orders-0", d+"/orders-0.hidden"))
	}
	for _, d := range []string{moveFrom, moveTo} {
		must(t, mem.Rename(d+"/orders-0.hidden", d+"/orders-0"))
	}
	changeFile(t, mem, moveTo+"/orders-0/"+segmentName(0, logSuffix), func(b []byte) []byte { b[100] ^= 1; return b })
	points := map[kafka.TopicPartition]int64{partition(0): 2}
	must(t, WriteOffsetCheckpoint(mem, moveTo+"/"+RecoveryPointCheckpoint, points, true))
	for i := range 2 {
		s := openStore(t, mem)
		if _, clean := s.CleanShutdown(); clean != (i == 0) || !s.Lossy() {
			t.Errorf("start %d: clean %v, lossy %v", i, clean, s.Lossy())
		}
		if err := s.Settle(partition(0), s.dirOf(moveTo)); !errors.As(err, new(ErrCorrupt)) {
			t.Errorf("settled: %v", err)
		}
		must(t, s.Close())
	}
}

// createIn makes the log of a test in one directory.
func createIn(t testing.TB, s *Store, dir string) {
	t.Helper()
	s.Want(partition(0), dir)
	createTest(t, s, partition(0))
}

// A copy whose log is gone with its disk takes its place where the metadata says that it is there, and is kept otherwise. In both cases
// this broker does not claim to have all that it had.
func TestACopyWithoutItsLog(t *testing.T) {
	for _, promised := range []bool{true, false} {
		mem := vfs.NewMem()
		s, _ := moveStore(t, mem)
		must(t, s.BeginMove(partition(0), moveTo))
		copyAll(t, s)
		want := readTest(t, s.Future(partition(0)), 4)
		must(t, s.Close())
		must(t, mem.RemoveAll(moveFrom+"/orders-0"))
		s = openStore(t, mem)
		if !s.Lossy() {
			t.Error("the broker claims that nothing is lost")
		}
		dir := s.dirOf(moveFrom)
		if promised {
			dir = s.dirOf(moveTo)
		}
		must(t, s.Settle(partition(0), dir))
		l := s.Log(partition(0))
		if promised && (l == nil || !bytes.Equal(readTest(t, l, 4), want)) {
			t.Errorf("the copy did not take its place: %v", l)
		}
		if !promised && (l != nil || dirs(t, mem, moveTo, straySuffix) != 1) {
			t.Errorf("the copy is not put aside:\n%s", listing(t, mem, moveTo))
		}
	}
}

// A disk that is full ends the move, and nothing else.
func TestAFullDiskFailsTheCopyOnly(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	s, l := moveStore(t, faulty)
	must(t, s.BeginMove(partition(0), moveTo))
	faulty.Inject(vfs.Fault{Op: vfs.OpWrite, Path: moveTo + "/orders-0", Nth: 3, Err: syscall.ENOSPC})
	var buf []byte
	var err error
	for range 30 {
		if _, _, err = s.Copy(s.Future(partition(0)), 1000, &buf); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the copy ends with %v", err)
	}
	must(t, s.EndMove(s.Future(partition(0))))
	for _, d := range s.Dirs() {
		if d.Offline != nil {
			t.Errorf("%s is offline: %v", d.Path, d.Offline)
		}
	}
	appendTest(t, l, batchSpec{})
	s.StepTasks(logStart)
	if n := dirs(t, faulty, moveTo, "orders"); n != 0 {
		t.Errorf("%d directories are left", n)
	}
}

// A disk that fails in the last moment leaves the log where it was.
func TestACopyThatCannotTakeItsPlace(t *testing.T) {
	for _, fault := range []vfs.Fault{
		{Op: vfs.OpRename, Path: moveTo + "/orders-0", Times: 1, Err: syscall.EIO},
		{Op: vfs.OpStat, Path: moveTo + "/orders-0/", Times: 1, Err: syscall.EIO},
		{Op: vfs.OpSync, Path: moveTo + "/orders-0.", Times: 1, Err: syscall.EIO},
	} {
		faulty := vfs.NewFaulty(vfs.NewMem())
		s, l := moveStore(t, faulty)
		must(t, s.BeginMove(partition(0), moveTo))
		copyAll(t, s)
		faulty.Inject(fault)
		var buf []byte
		if done, err := s.Promote(s.Future(partition(0)), &buf); done || !errors.Is(err, syscall.EIO) {
			t.Fatalf("%+v: %v, %v", fault, done, err)
		}
		must(t, s.EndMove(s.Future(partition(0))))
		appendTest(t, l, batchSpec{})
		if l.Dir() != moveFrom+"/orders-0" || dirs(t, faulty, moveTo, "orders-0") != dirs(t, faulty, moveTo, deleteSuffix)+dirs(t, faulty, moveTo, futureSuffix) {
			t.Errorf("%+v: it is in %s; there is\n%s", fault, l.Dir(), listing(t, faulty, "/data"))
		}
	}
}

func TestWhatCannotMove(t *testing.T) {
	s, l := moveStore(t, vfs.NewMem())
	for _, c := range []struct {
		tp   kafka.TopicPartition
		path string
		code kafka.Code
	}{
		{partition(0), "/data/c", kafka.LogDirNotFound},
		{partition(1), moveTo, kafka.NotLeaderOrFollower},
		{kafka.TopicPartition{Topic: strings.Repeat("x", 215)}, moveTo, kafka.InvalidTopic},
		{partition(0), moveFrom, kafka.None},
		{partition(0), moveTo + "/", kafka.None},
	} {
		if err := s.BeginMove(c.tp, c.path); kafka.CodeOf(err) != c.code {
			t.Errorf("%v to %s: %v", c.tp, c.path, err)
		}
	}
	// To where it is: the move to elsewhere ends.
	must(t, s.BeginMove(partition(0), moveFrom))
	if s.Future(partition(0)) != nil || l.Dir() != moveFrom+"/orders-0" {
		t.Error("the move goes on")
	}
	must(t, s.BeginMove(partition(0), moveTo))
	must(t, s.Delete(partition(0)))
	if s.Future(partition(0)) != nil {
		t.Error("the copy of a deleted log is still there")
	}
}

// Who asked for a commit before a log moved is answered when the log is durable where it is now.
func TestACommitThatALogIsMovedUnder(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	s, l := moveStore(t, faulty)
	from := l.home()
	must(t, s.BeginMove(partition(0), moveTo))
	copyAll(t, s)
	appendTest(t, l, batchSpec{})
	answered := false
	s.Commit(l, func(err error) {
		must(t, err)
		answered = true
	})
	promote(t, s)
	if answered || l.DurableEndOffset() >= l.EndOffset() {
		t.Fatal("the test is wrong: all is durable already")
	}
	wholeDisk, files := faulty.Calls(vfs.OpSyncFS, ""), faulty.Calls(vfs.OpSync, l.Dir())
	from.committer.round()
	if !answered || l.DurableEndOffset() != l.EndOffset() {
		t.Errorf("answered %v, durable up to %d of %d", answered, l.DurableEndOffset(), l.EndOffset())
	}
	if faulty.Calls(vfs.OpSyncFS, "") != wholeDisk || faulty.Calls(vfs.OpSync, l.Dir()) == files {
		t.Error("what was synced is the disk that the log has left")
	}
}

// The disk that a log has left fails without it.
func TestASyncThatFailsWhereALogWas(t *testing.T) {
	s, l := moveStore(t, vfs.NewMem())
	from := l.home()
	must(t, s.BeginMove(partition(0), moveTo))
	copyAll(t, s)
	appendTest(t, l, batchSpec{})
	renamed, _, err := l.beginSync()
	must(t, err)
	failed := renamed
	promote(t, s)
	must(t, l.endSync(&renamed, renamed.run()))
	if from.failure() != nil {
		t.Errorf("the old place is offline because it was renamed: %v", from.failure())
	}
	must(t, l.endSync(&failed, syscall.EIO))
	if l.Offline() != nil || l.home().failure() != nil || from.failure() == nil {
		t.Errorf("the log: %v, its place: %v, where it was: %v", l.Offline(), l.home().failure(), from.failure())
	}
	appendTest(t, l, batchSpec{})
	must(t, l.Sync())
}

// What a copy is given may be cut off and overwritten between the look for it and the reading.
func TestALogIsTruncatedWhileItIsRead(t *testing.T) {
	var buf []byte
	armed := func() {}
	mem := vfs.NewMem()
	s, l := moveStore(t, overwrittenFS{mem, func(p []byte) {
		if cap(buf) > 0 && len(p) > 0 && &p[0] == &buf[:1][0] {
			armed()
		}
	}})
	must(t, s.BeginMove(partition(0), moveTo))
	buf = make([]byte, 0, 10_000)
	overwrites := 0
	armed = func() {
		if overwrites++; overwrites != 3 {
			return
		}
		must(t, l.TruncateTo(6)) // below what is read just now
		for range 20 {
			appendTest(t, l, batchSpec{size: 37})
		}
	}
	f := s.Future(partition(0))
	for f.EndOffset() < l.EndOffset() {
		_, _, err := s.Copy(f, 500, &buf)
		must(t, err)
	}
	if overwrites < 3 {
		t.Fatal("the test is wrong: nothing was overwritten")
	}
	if !bytes.Equal(readTest(t, f, 4), readTest(t, l, 4)) {
		t.Error("the copy holds something else")
	}
}

// overwrittenFS calls before ahead of every read.
type overwrittenFS struct {
	*vfs.Mem
	before func(p []byte)
}

func (o overwrittenFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := o.Mem.OpenFile(name, flag, perm)
	return overwrittenFile{f, o.before}, err
}

type overwrittenFile struct {
	vfs.File
	before func(p []byte)
}

func (f overwrittenFile) ReadAt(p []byte, off int64) (int, error) {
	f.before(p)
	return f.File.ReadAt(p, off)
}

// A move writes the checkpoint of all logs' starts only where a segment's name does not tell its log's: thousands may move at a time.
func TestWhatAMoveNotesOfStarts(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		faulty := vfs.NewFaulty(vfs.NewMem())
		s := openStore(t, faulty)
		createIn(t, s, moveFrom)
		l := s.Log(partition(0))
		appendTest(t, l, batchSpec{records: 3})
		appendTest(t, l, batchSpec{records: 3})
		l.SetHighWatermark(6)
		if deleted {
			must(t, l.AdvanceStartOffset(4))
		}
		s.partitionDir(moveTo).startsChanged.Store(true) // by another log
		before := faulty.Calls(vfs.OpRename, LogStartOffsetCheckpoint)
		must(t, s.BeginMove(partition(0), moveTo))
		copyAll(t, s)
		promote(t, s)
		if written := faulty.Calls(vfs.OpRename, LogStartOffsetCheckpoint) > before; written != deleted {
			t.Errorf("deleted %v, the checkpoint was written: %v", deleted, written)
		}
		want := map[bool]int64{true: 4}[deleted]
		if starts, err := ReadOffsetCheckpoint(faulty, moveTo+"/"+LogStartOffsetCheckpoint); err != nil || starts[partition(0)] != want || l.StartOffset() != want {
			t.Errorf("the checkpoint has %v, %v; the log begins at %d", starts, err, l.StartOffset())
		}
	}
}
