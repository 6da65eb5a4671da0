package replica

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol/batch"
)

const dirA, dirB = "/data/a", "/data/b"

var movedTP = kafka.TopicPartition{Topic: "t"}

// mover is a broker with two data directories, and a topic of one partition that it has alone.
type mover struct {
	t       *testing.T
	clock   clock.Clock
	disk    vfs.FS
	store   *log.Store
	manager *Manager
	image   *metadata.Image
	config  TopicConfig
	record  metadata.PartitionRecord
	told    []kafka.DirectoryID // what the controller would have been told
}

func newMover(t *testing.T, disk vfs.FS, policy log.FsyncPolicy) *mover {
	t.Helper()
	m := &mover{t: t, clock: clock.NewManual(testTime), disk: disk, image: metadata.Empty()}
	m.config = TopicConfig{Log: log.DefaultConfig(), MinInsyncReplicas: 1, Rules: batch.Rules{MaxMessageBytes: 1 << 20, SegmentBytes: 1 << 30,
		TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 3_600_000, Compression: batch.Compression{Producer: true}, MaxDecompressedRecordBytes: 1 << 30}}
	m.config.Log.SegmentBytes = 2000
	m.open(policy)
	m.record = metadata.PartitionRecord{TopicID: kafka.TopicID{15: 9}, PartitionRegistration: metadata.PartitionRegistration{Replicas: []kafka.BrokerID{self}, ISR: []kafka.BrokerID{self},
		Leader: self, Directories: []kafka.DirectoryID{m.dir(dirA)}}}
	m.apply(metadata.TopicRecord{ID: m.record.TopicID, Name: "t"}, m.record)
	return m
}

func (m *mover) open(policy log.FsyncPolicy) {
	m.t.Helper()
	store, err := log.OpenStore(log.StoreOptions{FS: m.disk, Clock: m.clock, Dirs: []string{dirA, dirB}, NodeID: self, FsyncPolicy: policy, Logger: slog.New(slog.DiscardHandler),
		DefaultConfig: m.config.Log})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = store.Close() })
	m.store = store
	m.manager = NewManager(Options{Self: self, Logs: store, FsyncPolicy: policy, Clock: m.clock, Logger: slog.New(slog.DiscardHandler),
		TopicConfig: func(*metadata.Image, string) *TopicConfig { return &m.config },
		Misplaced: func(tp kafka.TopicPartition) {
			if p := m.manager.Partition(tp); p != nil {
				m.told = append(m.told, m.manager.Directory(p))
			}
		}})
}

// restart begins anew on what a process left.
func (m *mover) restart(disk vfs.FS, policy log.FsyncPolicy) {
	m.t.Helper()
	m.disk, m.told = disk, nil
	m.open(policy)
	m.manager.Apply(metadata.Diff(metadata.Empty(), m.image), m.image)
	m.manager.SetStraysAside()
}

func (m *mover) apply(records ...metadata.Record) {
	m.t.Helper()
	next, delta, err := m.image.With(records)
	if err != nil {
		m.t.Fatal(err)
	}
	m.image = next
	m.manager.Apply(delta, next)
}

// assign is what the controller does when it is told of a directory.
func (m *mover) assign(dir kafka.DirectoryID) {
	m.t.Helper()
	m.record.Directories = []kafka.DirectoryID{dir}
	m.record.PartitionEpoch++
	m.apply(m.record)
}

func (m *mover) dir(path string) kafka.DirectoryID { return m.store.DirectoryIDs()[path] }

func (m *mover) partition() *Partition { return m.manager.Partition(movedTP) }

// steps steps the moves until they wait, or for n steps at most.
func (m *mover) steps(n int) {
	for range n {
		if next := m.manager.Moves().Step(m.clock.Now()); !next.Equal(m.clock.Now()) {
			return
		}
	}
}

func (m *mover) requireIn(path string) {
	m.t.Helper()
	if have := m.partition().Log().Dir(); have != path+"/t-0" {
		m.t.Errorf("the replica is in %s", have)
	}
}

func (m *mover) move(path string, want kafka.Code) {
	m.t.Helper()
	if err := m.manager.MoveReplica(movedTP, path); kafka.CodeOf(err) != want {
		m.t.Fatalf("moved to %s: %v, want %v", path, err, want)
	}
}

// The controller is told before the copy takes the replica's place, and it does that only when the metadata says so.
func TestAReplicaMovesWhenTheMetadataSaysSo(t *testing.T) {
	m := newMover(t, vfs.NewMem(), log.FsyncBackground)
	for range 50 {
		produce(t, m.partition(), AcksAll, nil)
	}
	m.move(dirB, kafka.None)
	m.steps(100)
	m.requireIn(dirA)
	if !slices.Equal(m.told, []kafka.DirectoryID{m.dir(dirB)}) {
		t.Fatalf("the controller was told %v", m.told)
	}
	produce(t, m.partition(), AcksAll, nil)
	m.steps(100)
	m.requireIn(dirA)
	if f := m.manager.Future(m.partition()); f.EndOffset() != 51 || f.Size() != m.partition().Log().Size() {
		t.Errorf("the copy ends at %d", f.EndOffset())
	}
	m.assign(m.dir(dirB))
	produce(t, m.partition(), AcksAll, nil)
	m.steps(100)
	m.requireIn(dirB)
	produce(t, m.partition(), AcksAll, nil)
	got, err := m.partition().Read(&ReadRequest{Offset: 50, MaxBytes: 1 << 20, AtLeastOne: true, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, Replica: -1})
	if err != nil || got.HighWatermark != 53 || got.Records.Len() == 0 {
		t.Errorf("read %+v, %v", got, err)
	}
	got.Records.Release()
	if m.manager.Future(m.partition()) != nil || m.manager.Directory(m.partition()) != m.dir(dirB) || len(m.told) != 1 {
		t.Errorf("it is still moving; told %v", m.told)
	}
}

func TestWhichMovesAreRefused(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	m := newMover(t, faulty, log.FsyncBackground)
	m.move("/data/c", kafka.LogDirNotFound)
	m.move(dirA, kafka.None)
	if m.manager.Future(m.partition()) != nil {
		t.Error("it moves to where it is")
	}
	// What is not here yet goes where it was wanted.
	other := kafka.TopicPartition{Topic: "t", Partition: 1}
	if err := m.manager.MoveReplica(other, dirB); kafka.CodeOf(err) != kafka.ReplicaNotAvailable {
		t.Errorf("a replica that is not here: %v", err)
	}
	// Alone it would go to the first that has fewest, which is the other one from here on.
	m.apply(metadata.TopicRecord{ID: kafka.TopicID{15: 10}, Name: "u"}, metadata.PartitionRecord{TopicID: kafka.TopicID{15: 10}, PartitionRegistration: m.record.PartitionRegistration})
	second := m.record
	second.Partition = 1
	m.apply(second)
	if have := m.manager.Partition(other).Log().Dir(); have != dirB+"/t-1" {
		t.Errorf("it was made in %s", have)
	}
	// A directory that is offline takes nothing, and nothing moves while there is one.
	faulty.Inject(vfs.Fault{Op: vfs.OpWrite, Path: dirB, Err: syscall.EIO})
	if _, err := m.manager.Partition(other).Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksAll, Now: testTime}); err == nil {
		t.Fatal("the disk does not fail")
	}
	m.move(dirB, kafka.KafkaStorageError)
	m.requireIn(dirA)
	if err := m.manager.MoveReplica(other, dirA); kafka.CodeOf(err) != kafka.KafkaStorageError {
		t.Errorf("a replica that is offline: %v", err)
	}
}

// A move ends with another one, with its topic, and with the disk of its copy; the controller is told if it was told otherwise.
func TestHowAMoveEnds(t *testing.T) {
	for name, end := range map[string]func(m *mover, disk *vfs.Faulty){
		"a move back": func(m *mover, _ *vfs.Faulty) { m.move(dirA, kafka.None) },
		"a disk that fails": func(m *mover, disk *vfs.Faulty) {
			produce(m.t, m.partition(), AcksAll, nil)
			disk.Inject(vfs.Fault{Op: vfs.OpWrite, Path: dirB, Err: syscall.EIO})
		},
		"a full disk": func(m *mover, disk *vfs.Faulty) {
			produce(m.t, m.partition(), AcksAll, nil)
			disk.Inject(vfs.Fault{Op: vfs.OpWrite, Path: dirB, Err: syscall.ENOSPC})
		},
		"a log that fails": func(m *mover, disk *vfs.Faulty) {
			disk.Inject(vfs.Fault{Op: vfs.OpWrite, Path: dirA, Err: syscall.EIO})
			_, _ = m.partition().Append(&AppendRequest{Records: records(m.t, 1), Version: 9, Acks: AcksAll, Now: testTime})
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewFaulty(vfs.NewMem())
			m := newMover(t, disk, log.FsyncBackground)
			produce(t, m.partition(), AcksAll, nil)
			m.move(dirB, kafka.None)
			m.steps(10)
			a, b := m.dir(dirA), m.dir(dirB)
			m.assign(b)
			end(m, disk)
			m.steps(10)
			if !slices.Equal(m.told, []kafka.DirectoryID{b, a}) {
				t.Errorf("the controller was told %v", m.told)
			}
			m.requireIn(dirA)
			if full := name == "a full disk"; full && len(m.store.DirectoryIDs()) != 2 {
				t.Error("a directory is offline")
			}
		})
	}
	t.Run("its topic's end", func(t *testing.T) {
		m := newMover(t, vfs.NewMem(), log.FsyncBackground)
		m.move(dirB, kafka.None)
		m.apply(metadata.RemoveTopicRecord{ID: m.record.TopicID})
		m.steps(10)
		if m.store.Future(movedTP) != nil || m.partition() != nil {
			t.Error("it goes on")
		}
	})
	t.Run("a replica that goes to another broker", func(t *testing.T) {
		m := newMover(t, vfs.NewMem(), log.FsyncBackground)
		m.move(dirB, kafka.None)
		m.record.Replicas, m.record.ISR, m.record.Leader = []kafka.BrokerID{2}, []kafka.BrokerID{2}, 2
		m.record.PartitionEpoch++
		m.apply(m.record)
		m.steps(10)
		if m.store.Future(movedTP) != nil || m.store.Log(movedTP) != nil {
			t.Error("it goes on")
		}
		m.store.StepTasks(m.clock.Now())
		m.store.StepTasks(m.clock.Now().Add(time.Hour))
		for _, dir := range []string{dirA, dirB} {
			entries, _ := m.disk.ReadDir(dir)
			if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "t-0") }) {
				t.Errorf("in %s there is %v", dir, entries)
			}
		}
	})
}

// A move goes on after a restart, however far it was. What the metadata says already, the controller is not told once more.
func TestAMoveGoesOnAfterARestart(t *testing.T) {
	for _, announced := range []bool{false, true} {
		disk := vfs.NewMem()
		m := newMover(t, disk, log.FsyncBackground)
		for range 50 {
			produce(t, m.partition(), AcksAll, nil)
		}
		m.move(dirB, kafka.None)
		if announced {
			m.steps(100)
			m.assign(m.dir(dirB))
			produce(t, m.partition(), AcksAll, nil)
		}
		end := m.partition().Log().EndOffset()
		m.restart(disk.Kill(), log.FsyncBackground)
		m.steps(100)
		if !announced {
			m.requireIn(dirA)
			m.assign(m.dir(dirB))
			m.steps(100)
		} else if len(m.told) > 0 {
			t.Errorf("the controller was told %v", m.told)
		}
		m.requireIn(dirB)
		if have := m.partition().Log().EndOffset(); have != end {
			t.Errorf("it ends at %d, and ended at %d", have, end)
		}
	}
}

// The rate is kept: what is copied too much is made up for.
func TestMovesAreThrottled(t *testing.T) {
	m := newMover(t, vfs.NewMem(), log.FsyncBackground)
	for range 20 {
		produce(t, m.partition(), AcksAll, nil)
	}
	now := m.clock.Now()
	m.manager.Moves().SetRate(now, 0)
	m.move(dirB, kafka.None)
	if next := m.manager.Moves().Step(now); !next.After(now) || m.manager.Future(m.partition()).EndOffset() != 0 {
		t.Errorf("copied without a rate; next at %v", next)
	}
	m.manager.Moves().SetRate(now, 10_000)
	copied := now
	for range 100 {
		next := m.manager.Moves().Step(copied)
		if m.manager.Future(m.partition()).EndOffset() == 20 {
			return
		}
		copied = next
	}
	t.Error("it is never copied")
}

// However many replicas move, a broker that stops does not wait for their turns.
func TestMovesEndWithTheBroker(t *testing.T) {
	m := newMover(t, vfs.NewMem(), log.FsyncBackground)
	produce(t, m.partition(), AcksAll, nil)
	m.move(dirB, kafka.None)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if m.manager.Moves().round(ctx, m.clock.Now()); m.manager.Future(m.partition()).EndOffset() != 0 {
		t.Error("a replica had its turn")
	}
}

// Everything at a time: records are appended and read with each acknowledgement, records are deleted, and the replica moves
// to and fro. All that was acknowledged is there in the end, in its order.
func TestAReplicaMovesWhileItIsUsed(t *testing.T) {
	for _, policy := range []log.FsyncPolicy{log.FsyncBackground, log.FsyncAck} {
		t.Run(string(policy), func(t *testing.T) {
			m := newMover(t, vfs.NewMem(), policy)
			m.config.Log.SegmentBytes = 20_000
			ctx, cancel := context.WithCancel(t.Context())
			var background, work sync.WaitGroup
			background.Go(func() { _ = m.store.Run(ctx) })
			background.Go(func() { m.manager.Moves().Run(ctx, clock.System()) })
			stop := make(chan struct{})
			stopped := func() bool {
				select {
				case <-stop:
					return true
				default:
					return false
				}
			}
			var acknowledged atomic.Int64
			p := m.partition()
			for range 2 {
				work.Go(func() {
					for !stopped() {
						a := newAcks()
						r, err := p.Append(&AppendRequest{Records: records(t, 5), Version: 9, Acks: AcksAll, Now: testTime, Acker: a})
						if err == nil && r.Parked {
							<-a.c
							err = a.errs[0]
						}
						if err != nil {
							t.Errorf("append: %v", err)
							return
						}
						acknowledged.Add(5)
						pace()
					}
				})
			}
			work.Go(func() { readAlong(t, p, stopped) })
			work.Go(func() {
				for !stopped() {
					if _, err := p.DeleteRecords(max(p.log.HighWatermark()-2000, p.log.StartOffset())); err != nil {
						t.Errorf("delete records: %v", err)
						return
					}
					pace()
				}
			})
			for i := range 6 {
				to := []string{dirB, dirA}[i%2]
				m.move(to, kafka.None)
				for p.log.Dir() != to+"/t-0" {
					if dir := m.manager.Directory(p); dir != p.directory() {
						m.assign(dir)
					}
					pace()
				}
			}
			close(stop)
			work.Wait()
			cancel()
			background.Wait()
			if end := p.log.EndOffset(); end != acknowledged.Load() {
				t.Errorf("the log ends at %d, and %d records were acknowledged", end, acknowledged.Load())
			}
			checkOrder(t, p)
		})
	}
}

// readAlong is a consumer that reads to the end again and again.
func readAlong(t *testing.T, p *Partition, stopped func() bool) {
	offset := int64(0)
	for !stopped() {
		got, err := p.Read(&ReadRequest{Offset: offset, MaxBytes: 1 << 16, AtLeastOne: true, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, Replica: -1})
		if kafka.CodeOf(err) == kafka.OffsetOutOfRange {
			offset = p.log.StartOffset()
			continue
		}
		if err != nil {
			t.Errorf("read at %d: %v", offset, err)
			return
		}
		b := make([]byte, got.Records.Len())
		if _, err := got.Records.ReadAt(b, 0); err != nil && err != io.EOF {
			t.Errorf("read at %d: %v", offset, err)
			return
		}
		got.Records.Release()
		for one, err := range batch.Batches(b) {
			h, parseErr := batch.ParseHeader(one)
			if err != nil || parseErr != nil || h.BaseOffset > offset || h.NextOffset() <= offset {
				t.Errorf("at %d there is a batch of [%d, %d), %v, %v", offset, h.BaseOffset, h.NextOffset(), err, parseErr)
				return
			}
			offset = h.NextOffset()
		}
		pace()
	}
}

// pace keeps the amount of work within bounds; nothing depends on it.
func pace() { time.Sleep(100 * time.Microsecond) }

// checkOrder reads the whole log once.
func checkOrder(t *testing.T, p *Partition) {
	t.Helper()
	for offset := p.log.StartOffset(); offset < p.log.EndOffset(); {
		r, err := p.log.Read(log.ReadRequest{Offset: offset, MaxBytes: 1 << 16, EndOffset: p.log.EndOffset(), AtLeastOne: true})
		if err != nil || r.Len() == 0 {
			t.Fatalf("at %d: %d bytes, %v", offset, r.Len(), err)
		}
		b := make([]byte, r.Len())
		if _, err := r.ReadAt(b, 0); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		r.Release()
		for one := range batch.Batches(b) {
			h, err := batch.CheckStored(one)
			if err != nil || h.BaseOffset > offset || h.NextOffset() <= offset {
				t.Fatalf("at %d there is a batch of [%d, %d), %v", offset, h.BaseOffset, h.NextOffset(), err)
			}
			offset = h.NextOffset()
		}
	}
}
