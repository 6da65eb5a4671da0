package log

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"weir/internal/kafka"
)

// What is found at start of logs that were on their way between directories when a process ended.

// sortOut marks logs that were found in several directories. Of a copy that is there twice, or beside its own log, nobody knows
// which one was meant: none goes on.
func (s *Store) sortOut(found []foundLog) []foundLog {
	logs, copies := map[kafka.TopicPartition][]int{}, map[kafka.TopicPartition][]int{}
	for i, f := range found {
		if f.future {
			copies[f.tp] = append(copies[f.tp], i)
		} else {
			logs[f.tp] = append(logs[f.tp], i)
		}
	}
	for _, at := range logs {
		for _, i := range at {
			found[i].rival = len(at) > 1
		}
	}
	var kept []foundLog
	for _, f := range found {
		beside := slices.ContainsFunc(logs[f.tp], func(i int) bool { return found[i].dir == f.dir })
		if f.future && (len(copies[f.tp]) > 1 || beside) {
			s.setFoundAside(f, errors.New("it is there twice"))
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// setFoundAside keeps a directory that is not opened, or could not be.
func (s *Store) setFoundAside(f foundLog, why error) {
	path := f.dir.pathOf(deletedName(f.tp, straySuffix))
	s.logger.Warn("copy of a log cannot go on and is put aside; nothing removes it", "dir", f.path, "as", path, "why", why)
	if err := s.fs.Rename(f.path, path); err != nil {
		s.logger.Error("it could not be put aside", "dir", f.path, "err", err)
		return
	}
	f.dir.namesChanged.Store(true)
}

// keepLocked takes note of a log that was found at start and was opened, or could not be.
func (s *Store) keepLocked(f foundLog, l *Log, err error) {
	switch {
	case f.rival:
		s.mu.rivals[f.tp] = append(s.mu.rivals[f.tp], rival{f, l, err})
	case f.future && err != nil:
		s.setFoundAside(f, err)
	case f.future:
		s.mu.futures[f.tp] = l
	case err != nil:
		// The log alone: other partitions in the directory may be whole.
		s.logger.Error("log cannot be opened and is offline", "dir", f.path, "err", err)
		s.mu.broken[f.tp] = brokenLog{f, err}
	default:
		s.putLocked(f.tp, l)
	}
}

// orphans reports whether there are copies whose logs are gone.
func (s *Store) orphans() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for tp := range s.mu.futures {
		_, broken := s.mu.broken[tp]
		if s.mu.logs[tp] == nil && !broken && len(s.mu.rivals[tp]) == 0 {
			return true
		}
	}
	return false
}

// brokenRival reports whether one of several logs of a partition could not be opened, in a directory or, with nil, in any.
func (s *Store) brokenRival(d *dataDir) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.brokenRivalLocked(d)
}

func (s *Store) brokenRivalLocked(d *dataDir) bool {
	for _, rivals := range s.mu.rivals {
		if slices.ContainsFunc(rivals, func(r rival) bool { return r.err != nil && (d == nil || r.dir == d) }) {
			return true
		}
	}
	return false
}

// Unsettled returns the partitions that Settle has something to decide for.
func (s *Store) Unsettled() []kafka.TopicPartition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var tps []kafka.TopicPartition
	for tp := range s.mu.rivals {
		tps = append(tps, tp)
	}
	for tp := range s.mu.futures {
		if s.mu.logs[tp] == nil && s.mu.rivals[tp] == nil {
			tps = append(tps, tp)
		}
	}
	slices.SortFunc(tps, func(a, b kafka.TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return tps
}

// Settle decides what a crash left undecided, by the directory that the metadata says the replica is in. Of two logs, which are there
// if the process ended while a copy took its log's place, that directory's is the right one, and the other is put aside. A copy
// whose log is gone, with the disk that it was on, takes its place if the metadata says so already; else it is put aside, too.
//
// Errors: KAFKA_STORAGE_ERROR where the metadata names none of them.
func (s *Store) Settle(tp kafka.TopicPartition, dir kafka.DirectoryID) error {
	s.creating.Lock()
	defer s.creating.Unlock()
	s.mu.RLock()
	rivals, f := s.mu.rivals[tp], s.mu.futures[tp]
	_, broken := s.mu.broken[tp]
	orphan := f != nil && s.mu.logs[tp] == nil && !broken && len(rivals) == 0
	s.mu.RUnlock()
	switch {
	case len(rivals) > 0:
		return s.settleRivals(tp, rivals, dir)
	case orphan && !slices.ContainsFunc(s.dirs, func(d *dataDir) bool { return d.failure() != nil }):
		if f.home().id != dir {
			return s.endMove(tp, straySuffix)
		}
		return s.adoptOrphan(tp, f)
	}
	return nil // where a directory is offline it has the log
}

func (s *Store) settleRivals(tp kafka.TopicPartition, rivals []rival, dir kafka.DirectoryID) error {
	i := slices.IndexFunc(rivals, func(r rival) bool { return r.dir.id == dir })
	if i < 0 {
		return kafka.Errorf(kafka.KafkaStorageError, "Duplicate log directories found: %s, %s", rivals[0].path, rivals[1].path)
	}
	if err := rivals[i].err; err != nil {
		return err // then both stay where they are
	}
	s.mu.Lock()
	delete(s.mu.rivals, tp)
	s.putLocked(tp, rivals[i].log)
	s.mu.Unlock()
	s.logger.Warn("partition was found in several directories; the metadata says which one it is", "partition", tp, "dir", rivals[i].path)
	return s.setRivalsAside(tp, slices.Delete(slices.Clone(rivals), i, i+1), straySuffix)
}

// setRivalsAside closes and renames logs.
func (s *Store) setRivalsAside(tp kafka.TopicPartition, rivals []rival, suffix string) error {
	var errs error
	for _, r := range rivals {
		if r.log != nil {
			r.log.retire()
		}
		r.dir.forget(tp)
		path := r.dir.pathOf(deletedName(tp, suffix))
		if err := s.fs.Rename(r.path, path); err != nil {
			errs = errors.Join(errs, ErrStorage{TP: tp, Err: err})
			continue
		}
		r.dir.namesChanged.Store(true)
		if suffix == deleteSuffix {
			s.removeLater(path, s.opts.DefaultConfig.fileDeleteDelay())
		} else {
			s.logger.Warn("log is put aside; nothing removes it", "partition", tp, "dir", path)
		}
	}
	return errs
}

// adoptOrphan makes a copy the log.
func (s *Store) adoptOrphan(tp kafka.TopicPartition, f *Log) error {
	d := f.home()
	err := f.complete()
	if err == nil {
		err = f.Sync()
	}
	f.retire()
	s.mu.Lock()
	delete(s.mu.futures, tp)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	l, err := f.reopenAt(d.pathOf(tp.String()), f.Config())
	if err != nil {
		return ErrStorage{TP: tp, Err: err}
	}
	l.opts.Failed = s.logFailed
	d.namesChanged.Store(true)
	s.logger.Warn("log is gone, and a copy that was made of it takes its place", "partition", tp, "dir", l.Dir(), "end", l.EndOffset())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(tp, l)
	return nil
}
