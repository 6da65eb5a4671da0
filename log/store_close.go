package log

import (
	"errors"
	"io/fs"
	"time"

	"weir/internal/kafka"
)

// checkpoint writes the checkpoints of a directory that are due: the recovery points when enough was flushed since, so
// that recovery never has more to read than a few flushes of the whole directory; the start offsets when one changed.
func (s *Store) checkpoint(d *dataDir, force bool) {
	if d.failure() != nil || !d.holdsPartitions {
		return
	}
	var err error
	if d.flushedBytes.Load() >= flushBytes || force && d.flushedBytes.Load() > 0 {
		err = d.checkpointRecovery()
	}
	if err == nil && d.startsChanged.Load() {
		err = d.checkpointStarts()
	}
	if err == nil && d.namesChanged.Swap(false) {
		err = s.fs.SyncDir(d.path)
	}
	if err != nil {
		s.failDir(d, err)
	}
}

func (s *Store) checkpointHighWatermarks() {
	for _, d := range s.dirs {
		if d.failure() != nil || !d.holdsPartitions || !d.marksChanged.Load() {
			continue
		}
		if err := d.checkpointHighWatermarks(false); err != nil {
			s.failDir(d, err)
		}
	}
}

// flush makes logs durable, in groups by directory. Their index files are brought up to date first.
func (s *Store) flush(logs []*Log) {
	for _, d := range s.dirs {
		var group []*Log
		for _, l := range logs {
			if l.home() == d && l.usable() == nil {
				l.flushIndexes()
				group = append(group, l)
			}
		}
		if len(group) > 0 {
			bytes := d.committer.sync(group, func(*Log, error) {}) // a log that fails says so itself
			d.flushedBytes.Add(max(bytes, 1))
		}
	}
}

// Delete deletes the log of a partition, also one that could not be opened. Its directory is renamed at once and removed
// after file.delete.delay.ms, or at the next start. Records that were read before stay readable until then, and longer
// where they are still open.
func (s *Store) Delete(tp kafka.TopicPartition) error {
	path, delay, err := s.setApart(tp, deleteSuffix)
	if err != nil || path == "" {
		return err
	}
	s.removeLater(path, delay)
	return nil
}

// removeLater has a directory removed that was renamed.
func (s *Store) removeLater(path string, delay time.Duration) {
	e := Event{Deleted: path, Delay: delay}
	select {
	case s.events <- e:
	default: // as where a topic of very many partitions is deleted
		s.overflow.Lock()
		s.overflow.deleted = append(s.overflow.deleted, e)
		s.overflow.Unlock()
	}
}

// takeDeleted returns what removeLater found no place for.
func (s *Store) takeDeleted() []Event {
	s.overflow.Lock()
	defer s.overflow.Unlock()
	deleted := s.overflow.deleted
	s.overflow.deleted = nil
	return deleted
}

// MarkStray puts the log of a partition aside that the cluster's metadata does not know (any more). Nothing is ever removed
// on such evidence: metadata that is wrong for a moment must not cost data. An operator removes the directory.
func (s *Store) MarkStray(tp kafka.TopicPartition) error {
	path, _, err := s.setApart(tp, straySuffix)
	if err == nil && path != "" {
		s.logger.Warn("log of an unknown partition is put aside; nothing removes it", "partition", tp, "dir", path)
	}
	return err
}

// setApart closes a log and renames its directory. Without a log it does nothing, and path is "".
func (s *Store) setApart(tp kafka.TopicPartition, suffix string) (path string, delay time.Duration, err error) {
	s.creating.Lock()
	defer s.creating.Unlock()
	s.mu.Lock()
	l, broken, rivals := s.mu.logs[tp], s.mu.broken[tp], s.mu.rivals[tp]
	s.putLocked(tp, nil)
	delete(s.mu.broken, tp)
	delete(s.mu.rivals, tp)
	s.mu.Unlock()
	if err := errors.Join(s.endMove(tp, suffix), s.setRivalsAside(tp, rivals, suffix)); err != nil {
		s.logger.Error("copy of a log could not be put aside with it", "partition", tp, "err", err)
	}
	d, from, delay := broken.dir, broken.path, s.opts.DefaultConfig.fileDeleteDelay()
	if l != nil {
		l.retire()
		d, from, delay = l.home(), l.Dir(), l.Config().fileDeleteDelay()
	}
	if d == nil {
		return "", 0, nil
	}
	path = d.pathOf(deletedName(tp, suffix))
	d.forget(tp)
	// A power cut before the name is durable brings the log back under its old name. Who opens it then finds that the
	// topic is gone, or has another id.
	err = s.fs.Rename(from, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil // somebody was there before
	}
	if err != nil {
		s.failDir(d, err)
		return "", 0, ErrStorage{TP: tp, Err: err}
	}
	d.namesChanged.Store(true)
	return path, delay, nil
}

// Close writes everything down and makes it durable, with the markers of a good end as the last thing. Run must have ended.
// The broker epoch in the marker is that of the last SetBrokerEpoch.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.mu.closed
	s.mu.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	var errs error
	for _, d := range s.dirs {
		if err := s.closeDir(d); err != nil {
			errs = errors.Join(errs, d.pathError(err))
		}
	}
	s.release()
	return errs
}

// closeDir brings one directory to a good end. The order is what makes the marker true: logs, checkpoints, marker.
func (s *Store) closeDir(d *dataDir) error {
	d.committer.round()
	logs := d.logs()
	defer func() {
		for _, l := range logs {
			l.retire()
		}
	}()
	if err := d.failure(); err != nil {
		return err
	}
	var errs error
	for _, l := range logs {
		errs = errors.Join(errs, l.complete())
	}
	d.committer.sync(logs, func(_ *Log, err error) { errs = errors.Join(errs, err) })
	if errs != nil {
		return errs
	}
	if d.holdsPartitions {
		if err := errors.Join(d.checkpointRecovery(), d.checkpointStarts(), d.checkpointHighWatermarks(false)); err != nil {
			return err
		}
	}
	if s.opts.FsyncPolicy != FsyncNever {
		if err := s.fs.SyncDir(d.path); err != nil {
			return err
		}
	}
	if s.hasBroken(d) {
		return nil // without the marker the next start checks again what could not be opened
	}
	return WriteCleanShutdown(s.fs, d.path, kafka.BrokerEpoch(s.brokerEpoch.Load()))
}

func (s *Store) hasBroken(d *dataDir) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, b := range s.mu.broken {
		if b.dir == d {
			return true
		}
	}
	return s.brokenRivalLocked(d)
}

// SetBrokerEpoch says in which epoch the broker is registered, for the marker of a good end (KIP-966).
func (s *Store) SetBrokerEpoch(epoch kafka.BrokerEpoch) { s.brokerEpoch.Store(int64(epoch)) }
