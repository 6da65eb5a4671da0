package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"weir/internal/kafka"
)

// moving is what a Store knows of logs on their way between directories. Guarded by its lock.
type moving struct {
	futures map[kafka.TopicPartition]*Log     // copies that are being made, or that a process before began
	rivals  map[kafka.TopicPartition][]rival  // found at start in several directories; see Settle
	wanted  map[kafka.TopicPartition]*dataDir // where replicas shall be that are not here yet
}

func newMoving() moving {
	return moving{map[kafka.TopicPartition]*Log{}, map[kafka.TopicPartition][]rival{}, map[kafka.TopicPartition]*dataDir{}}
}

// rival is one of several logs of a partition.
type rival struct {
	foundLog
	log *Log
	err error // why it could not be opened
}

// maxWanted bounds what clients can have remembered of partitions that may never come.
const maxWanted = 10_000

// all returns the logs of Logs, and those that only the Store knows.
func (s *Store) all() []*Log {
	logs := s.Logs()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.mu.futures)+len(s.mu.rivals) == 0 {
		return logs
	}
	logs = slices.Clip(logs)
	for _, f := range s.mu.futures {
		logs = append(logs, f)
	}
	for _, rivals := range s.mu.rivals {
		for _, r := range rivals {
			if r.log != nil {
				logs = append(logs, r.log)
			}
		}
	}
	return logs
}

// Future returns the copy of a partition's log that is being made in another directory, nil if there is none.
func (s *Store) Future(tp kafka.TopicPartition) *Log {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.futures[tp]
}

// CheckMove says why a replica cannot be put into a data directory: INVALID_TOPIC_EXCEPTION where the name of the copy would be
// too long for a file system, LOG_DIR_NOT_FOUND, or KAFKA_STORAGE_ERROR where it is offline.
func (s *Store) CheckMove(tp kafka.TopicPartition, path string) error {
	if len(futureName(tp)) > longestName {
		return kafka.Errorf(kafka.InvalidTopic, "The topic name is too long.")
	}
	d := s.partitionDir(path)
	if d == nil {
		return kafka.Errorf(kafka.LogDirNotFound, "Log dir '%s' is not found in the config.", path)
	}
	if d.failure() != nil {
		return kafka.Errorf(kafka.KafkaStorageError, "Log directory %s is offline", path)
	}
	return nil
}

// partitionDir finds one of log.dirs.
func (s *Store) partitionDir(path string) *dataDir {
	path = filepath.Clean(path)
	for _, d := range s.dirs {
		if d.path == path && d.holdsPartitions {
			return d
		}
	}
	return nil
}

// Want has the log of a partition that is not here be made in a data directory, should it ever be made. It is forgotten with the
// process, as in Kafka.
func (s *Store) Want(tp kafka.TopicPartition, path string) {
	d := s.partitionDir(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if d != nil && s.mu.logs[tp] == nil && len(s.mu.wanted) < maxWanted {
		s.mu.wanted[tp] = d
	}
}

// BeginMove begins a copy of a log in another data directory, which Copy fills. One that was begun in the same directory goes on,
// one in another ends. Where the log is there already, that is all.
//
// Errors: those of CheckMove; KAFKA_STORAGE_ERROR, too, while any directory is offline.
func (s *Store) BeginMove(tp kafka.TopicPartition, path string) error {
	if err := s.CheckMove(tp, path); err != nil {
		return err
	}
	s.creating.Lock()
	defer s.creating.Unlock()
	l, f, d := s.Log(tp), s.Future(tp), s.partitionDir(path)
	if l == nil {
		return ErrClosed{TP: tp}
	}
	if f != nil && f.home() == d {
		return nil
	}
	if err := s.endMove(tp, deleteSuffix); err != nil || l.home() == d {
		return err
	}
	for _, other := range s.dirs {
		if other.failure() != nil {
			return kafka.Errorf(kafka.KafkaStorageError, "Can not create log for %v because log directories %s are offline", tp, other.path)
		}
	}
	if err := d.prepare(tp); err != nil {
		s.failDir(d, err)
		return ErrStorage{TP: tp, Err: err}
	}
	_ = l.takeCut() // what is cut off from here on is cut off the copy, too
	o := s.logOptions(d, d.pathOf(futureName(tp)), tp, l.TopicID(), l.Config())
	o.Failed, o.StartOffset = s.copyFailed, l.StartOffset()
	f, err := Open(o)
	if err != nil {
		return err
	}
	f.savedStart.Store(0) // the checkpoint tells nothing of it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.futures[tp] = f
	return nil
}

// ResumeMove has a copy go on that a process before began. It reports whether there is one.
func (s *Store) ResumeMove(tp kafka.TopicPartition) (bool, error) {
	l, f := s.Log(tp), s.Future(tp)
	if l == nil || f == nil {
		return false, nil
	}
	if l.TopicID() != f.TopicID() {
		return false, s.setFutureAside(tp)
	}
	_ = l.takeCut()
	return true, l.compareCopy(f)
}

// EndMove gives up a copy, if it is not given up yet.
func (s *Store) EndMove(f *Log) error {
	s.creating.Lock()
	defer s.creating.Unlock()
	if s.Future(f.tp) != f {
		return nil
	}
	return s.endMove(f.tp, deleteSuffix)
}

// setFutureAside keeps a copy for the operator, who may have nothing else left.
func (s *Store) setFutureAside(tp kafka.TopicPartition) error {
	s.creating.Lock()
	defer s.creating.Unlock()
	return s.endMove(tp, straySuffix)
}

// endMove closes a copy and renames its directory. The caller holds creating.
func (s *Store) endMove(tp kafka.TopicPartition, suffix string) error {
	s.mu.Lock()
	f := s.mu.futures[tp]
	delete(s.mu.futures, tp)
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	f.retire()
	d := f.home()
	d.forget(tp)
	path := d.pathOf(deletedName(tp, suffix))
	err := s.fs.Rename(f.Dir(), path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err != nil && d.failure() != nil:
		return nil // a directory that failed is as it is
	case err != nil:
		s.failDir(d, err)
		return ErrStorage{TP: tp, Err: err}
	}
	d.namesChanged.Store(true)
	if suffix == deleteSuffix {
		s.removeLater(path, 0) // nobody reads there
	} else {
		s.logger.Warn("copy of a log is put aside; nothing removes it", "partition", tp, "dir", path)
	}
	return nil
}

// Copy copies what a log has more than its copy f, at most maxBytes, and at least one batch. caughtUp says that this was all, but for
// so little that Promote can copy it. buf is memory that is used again.
//
// Errors: ErrClosed where the log or the copy is gone; those of the disks. If that of the copy is full, only the copy has failed.
func (s *Store) Copy(f *Log, maxBytes int, buf *[]byte) (n int, caughtUp bool, err error) {
	l := s.Log(f.tp)
	if l == nil || s.Future(f.tp) != f {
		return 0, false, ErrClosed{TP: f.tp}
	}
	f.SetConfig(l.Config())
	if usage, err := s.fs.Usage(f.home().path); err == nil && usage.Usable < int64(maxBytes)+copyReserve {
		return 0, false, fmt.Errorf("data directory %s has %d bytes left: %w", f.home().path, usage.Usable, syscall.ENOSPC)
	}
	if n, err = l.copyTo(f, maxBytes, buf); err != nil {
		return n, false, err
	}
	behind, err := l.bytesFrom(f.EndOffset())
	return n, err == nil && behind <= lastCopyBytes/4, nil // else it is too far behind, or was truncated just now
}

// copyFailed: a full disk is no reason to give up what lies on it; whoever copies gives up the copy.
func (s *Store) copyFailed(f *Log, err error) {
	if isFull(err) {
		return
	}
	s.failDir(f.home(), err)
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Promote has a copy that has caught up take the place of its log; done says that it has. What the log was is removed after
// file.delete.delay.ms. The log itself is still the same to everybody: see takePlaceOf.
//
// A crash finds the log in the old directory; then in both, which Settle decides by the metadata, where whoever moves has had the
// new one noted before; then in the new one.
func (s *Store) Promote(f *Log, buf *[]byte) (done bool, err error) {
	tp := f.tp
	l := s.Log(tp)
	if l == nil || s.Future(tp) != f {
		return false, ErrClosed{TP: tp}
	}
	durable := l.hold()
	defer l.release()
	for f.EndOffset() < durable {
		if n, err := l.copyTo(f, lastCopyBytes, buf); err != nil || n == 0 {
			return false, err
		}
	}
	d, to := f.home(), f.home().pathOf(tp.String())
	if err := f.Sync(); err != nil {
		return false, err
	}
	if !f.startSaved() { // what was deleted stays deleted
		if err := d.checkpointStarts(); err != nil {
			s.failDir(d, err)
			return false, ErrStorage{TP: tp, Err: err}
		}
	}
	s.creating.Lock()
	defer s.creating.Unlock()
	if s.Log(tp) != l || s.Future(tp) != f {
		return false, ErrClosed{TP: tp}
	}
	f.reported.Store(true) // not under the log lock: see below
	old, err := l.takePlaceOf(f, to, buf)
	if errors.Is(err, errNotYet) && f.usable() == nil {
		f.reported.Store(false)
		return false, nil
	}
	if err != nil {
		if failure := f.Offline(); failure != nil {
			s.copyFailed(f, failure)
		}
		if _, statErr := s.fs.Stat(to); !errors.Is(statErr, fs.ErrNotExist) {
			s.failDir(d, err) // there are two logs now, and this one must not be taken for the right one
		}
		return false, err
	}
	s.mu.Lock()
	delete(s.mu.futures, tp)
	s.mu.Unlock()
	s.leave(l, old)
	return true, nil
}

// leave removes what a log left behind, once it is certain that the log is found where it is now.
func (s *Store) leave(l *Log, old left) {
	d := l.home()
	if s.opts.FsyncPolicy != FsyncNever {
		if err := s.fs.SyncDir(d.path); err != nil {
			s.failDir(d, err)
		}
	}
	if err := d.failure(); err != nil { // while the log was on its way
		_ = l.fail(fmt.Errorf("data directory %s failed: %w", d.path, err))
		return
	}
	for _, seg := range old.segments.all {
		seg.retire()
	}
	old.data.forget(l.tp)
	path := old.data.pathOf(deletedName(l.tp, deleteSuffix))
	if err := s.fs.Rename(old.dir, path); err != nil {
		if old.data.failure() == nil {
			s.failDir(old.data, err)
		}
		return
	}
	old.data.namesChanged.Store(true)
	s.removeLater(path, l.Config().fileDeleteDelay())
}

// startSaved reports whether the start offset survives a power cut: by the first segment's name, or a checkpoint.
func (l *Log) startSaved() bool {
	start := l.startOffset.Load()
	return start <= l.segments.Load().all[0].baseOffset || start == l.savedStart.Load()
}

// takeCut returns how far a log was cut since that was asked for last.
func (l *Log) takeCut() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	cut := l.mu.cutTo
	l.mu.cutTo = noCut
	return cut
}

// longestName is how long a name may be in usual file systems, bytes.
const longestName = 255

// futureName is Kafka's name of a copy's directory; another one for each.
func futureName(tp kafka.TopicPartition) string {
	id := kafka.NewUUID()
	return fmt.Sprintf("%v.%x%s", tp, id[:], futureSuffix)
}

// parseFutureDir takes a name like topic-0.0123456789abcdef0123456789abcdef-future apart.
func parseFutureDir(name string) (kafka.TopicPartition, bool) {
	name, ok := strings.CutSuffix(name, futureSuffix)
	i := strings.LastIndexByte(name, '.')
	if !ok || i < 0 {
		return kafka.TopicPartition{}, false
	}
	return parsePartitionDir(name[:i])
}
