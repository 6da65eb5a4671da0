package log

import (
	"errors"
	"io"
	"io/fs"
	"slices"

	"weir/protocol/batch"
)

// Producer snapshots of a log. There is one at the base offset of each segment, made when the segment before was sealed,
// and one at the end if the log was closed in good order. So recovery, and truncation, read less than one segment to know
// the producers again, however long the log is.

// snapshotProducersLocked writes the state down if no snapshot is as new.
func (l *Log) snapshotProducersLocked() error {
	offset := l.mu.producers.EndOffset()
	if n := len(l.mu.snapshots); n > 0 && l.mu.snapshots[n-1] >= offset || offset == l.segments.Load().all[0].baseOffset {
		return nil
	}
	name := segmentName(offset, snapshotSuffix)
	if err := WriteProducerSnapshot(l.fs, l.path(name), l.mu.producers); err != nil {
		return err
	}
	l.noteNameLocked(name)
	// One that is at no segment's start has served its purpose: recovery begins at the new one.
	set := l.segments.Load()
	err := l.removeSnapshotsLocked(func(at int64) bool {
		return !slices.ContainsFunc(set.all, func(s *segment) bool { return s.baseOffset == at })
	})
	l.mu.snapshots = append(l.mu.snapshots, offset)
	return err
}

// removeSnapshotsLocked removes the snapshots at offsets that meet a condition.
func (l *Log) removeSnapshotsLocked(gone func(offset int64) bool) error {
	kept := l.mu.snapshots[:0]
	var errs error
	for _, offset := range l.mu.snapshots {
		if !gone(offset) {
			kept = append(kept, offset)
			continue
		}
		if err := l.fs.Remove(l.path(segmentName(offset, snapshotSuffix))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	l.mu.snapshots = kept
	return errs
}

// loadProducersLocked makes states what they were when the log ended at offset: by the newest snapshot that is not above
// it and can be read, and the batches from there on. A snapshot that is broken (a crash tore it before it was synced) is
// removed with a warning.
func (l *Log) loadProducersLocked(states *ProducerStates, offset int64) error {
	nowMs := l.clock.Now().UnixMilli()
	from := l.segments.Load().all[0].baseOffset
	states.Reset(from)
	for i := len(l.mu.snapshots) - 1; i >= 0; i-- {
		at := l.mu.snapshots[i]
		if at > offset || at < from {
			continue
		}
		path := l.path(segmentName(at, snapshotSuffix))
		err := ReadProducerSnapshot(l.fs, path, states, at, nowMs)
		if err == nil {
			from = at
			break
		}
		broken := ErrBrokenFile{}
		if !errors.As(err, &broken) {
			return err
		}
		l.logger.Warn("producer snapshot is broken and is removed; the producers are known from the batches", "path", path, "why", broken.Reason)
		if err := l.removeSnapshotsLocked(func(o int64) bool { return o == at }); err != nil {
			return err
		}
		states.Reset(from)
	}
	return l.replayLocked(states, from, offset, nil)
}

// replayLocked updates states by the batches in [from, to). aborted, where it is not nil, is told of aborted transactions
// and the segment that holds the marker.
func (l *Log) replayLocked(states *ProducerStates, from, to int64, aborted func(*segment, AbortedTxn) error) error {
	set := l.segments.Load()
	for i := set.floor(from); i < len(set.all) && from < to; i++ {
		seg := set.all[i]
		if seg.baseOffset >= to {
			break
		}
		if err := l.replaySegment(states, seg, from, to, aborted); err != nil {
			return err
		}
	}
	states.SetEndOffset(to)
	return nil
}

func (l *Log) replaySegment(states *ProducerStates, seg *segment, from, to int64, aborted func(*segment, AbortedTxn) error) error {
	first, err := seg.find(from)
	if err != nil {
		return err
	}
	return seg.scan(first.pos, func(h *batch.Header, _ int64, b []byte) error {
		if h.BaseOffset >= to {
			return io.EOF
		}
		if !h.HasProducerID() {
			return nil
		}
		txn, isAborted := l.updateProducers(states, h, b)
		if isAborted && aborted != nil {
			return aborted(seg, txn)
		}
		return nil
	})
}

// reloadProducersLocked makes the producers' state that of the log's end again, after a truncation.
func (l *Log) reloadProducersLocked() error {
	end := l.endOffset.Load()
	if err := l.removeSnapshotsLocked(func(offset int64) bool { return offset > end }); err != nil {
		return err
	}
	if err := l.loadProducersLocked(l.mu.producers, end); err != nil {
		return err
	}
	l.publishUnstableLocked()
	return nil
}
