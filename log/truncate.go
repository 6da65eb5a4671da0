package log

import (
	"errors"
	"io/fs"
	"math"

	"weir/internal/invariant"
	"weir/protocol/batch"
)

// TruncateTo cuts everything at and above offset off. If offset lies inside a batch, that batch goes as a whole, and the
// log still ends at offset. Leader epochs that begin at or above offset are forgotten even if the log ends below it: a
// follower may have been told of an epoch that has no records yet (KAFKA-10706). The high watermark and the recovery
// point move back with the end.
//
// A crash in between leaves a log that ends somewhere between offset and the old end: the highest segments go first. The
// replica truncates again when it meets its leader.
func (l *Log) TruncateTo(offset int64) error {
	return l.truncating(offset, func() error { return l.truncateLocked(offset) })
}

// truncating runs a truncation to offset under the log lock, once no checkpoint has a recovery point above it any more.
func (l *Log) truncating(offset int64, truncate func() error) error {
	l.mu.Lock()
	err := l.usable()
	if err == nil {
		l.recoveryPoint.Store(min(l.recoveryPoint.Load(), offset))
		l.truncations.Add(1) // a sync that is under way does not move it up again
		l.mu.truncatingTo = offset
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	err = l.failing(l.saveRecoveryPoint(offset))
	l.mu.Lock()
	if err == nil {
		err = l.usable()
	}
	if err == nil {
		err = truncate()
	}
	l.mu.truncatingTo = math.MaxInt64
	l.mu.Unlock()
	if err != nil {
		l.reportFailure()
	}
	return err
}

func (l *Log) truncateLocked(offset int64) error {
	if offset < 0 {
		return ErrOffsetOutOfRange{TP: l.tp, Offset: offset, Start: l.startOffset.Load(), End: l.endOffset.Load()}
	}
	set := l.segments.Load()
	if offset >= l.endOffset.Load() {
		l.mu.epochs.TruncateFromEnd(offset)
		return l.failing(l.flushEpochsLocked())
	}
	if offset < set.all[0].baseOffset {
		return l.failing(l.truncateFullyLocked(offset))
	}
	return l.failing(l.cutLocked(set, offset))
}

// failing takes the log offline if err is not nil.
func (l *Log) failing(err error) error {
	if err == nil {
		return nil
	}
	return l.fail(err)
}

// cutLocked truncates to an offset below the end and not below the first segment.
func (l *Log) cutLocked(set *segmentSet, offset int64) error {
	keep := set.floor(offset)
	l.truncations.Add(1)
	// Readers stop at the new end before anything is taken away.
	l.lowerEndLocked(offset)
	kept := &segmentSet{all: set.all[: keep+1 : keep+1]}
	active := kept.active()
	at, err := active.find(offset)
	if err != nil {
		return err
	}
	l.segments.Store(kept)
	for i := len(set.all) - 1; i > keep; i-- {
		if err := l.removeSegment(set.all[i]); err != nil {
			return err
		}
	}
	l.mu.unsynced = without(l.mu.unsynced, set.all[keep:])
	if err := active.truncate(at.pos, offset); err != nil {
		return err
	}
	l.mu.epochs.TruncateFromEnd(offset)
	if err := l.flushEpochsLocked(); err != nil {
		return err
	}
	return l.reloadProducersLocked()
}

// TruncateFullyAndStartAt removes everything and begins anew at offset: a follower whose leader's log begins above its
// own end does that, and one that is given a snapshot.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	return l.truncating(offset, func() error { return l.failing(l.truncateFullyLocked(offset)) })
}

// truncateFullyLocked: a crash in between leaves the lower part of the old log, or no segment at all.
func (l *Log) truncateFullyLocked(offset int64) error {
	set := l.segments.Load()
	l.truncations.Add(1)
	l.lowerEndLocked(offset)
	for i := len(set.all) - 1; i >= 0; i-- {
		if err := l.removeSegment(set.all[i]); err != nil {
			return err
		}
	}
	seg, err := l.createSegmentLocked(offset)
	if err != nil {
		return err
	}
	l.mu.unsynced = nil
	l.segments.Store(&segmentSet{all: []*segment{seg}})
	l.startOffset.Store(offset)
	l.endOffset.Store(offset)
	l.highWatermark.Store(offset)
	l.recoveryPoint.Store(offset)
	l.mu.epochs.Clear()
	if err := l.flushEpochsLocked(); err != nil {
		return err
	}
	l.mu.producers.Reset(offset)
	l.publishUnstableLocked()
	return l.removeSnapshotsLocked(func(int64) bool { return true })
}

// lowerEndLocked moves the end, and what must not be above it, back to offset.
func (l *Log) lowerEndLocked(offset int64) {
	l.highWatermark.Store(min(l.highWatermark.Load(), offset))
	l.recoveryPoint.Store(min(l.recoveryPoint.Load(), offset))
	l.startOffset.Store(min(l.startOffset.Load(), offset))
	l.endOffset.Store(min(l.endOffset.Load(), offset))
}

// removeSegment removes a segment's files, the batches first: indexes without batches are removed at start.
func (l *Log) removeSegment(seg *segment) error {
	if err := seg.file.remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	seg.dropIndexes()
	for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix} {
		if err := l.fs.Remove(seg.path(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func without(from, gone []*segment) []*segment {
	var kept []*segment
	for _, s := range from {
		if !(&segmentSet{all: gone}).has(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// truncate cuts the segment at a boundary. It is, or becomes, the active one.
func (s *segment) truncate(pos, offset int64) error {
	invariant.Assert(pos <= s.end.Load(), "%s: truncate to byte %d of %d", s.file.path, pos, s.end.Load())
	h, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	s.end.Store(pos)
	s.tail.Store(newTail(offset, pos))
	s.next.Store(0)
	s.reserved = 0
	s.bytesSinceIndexEntry = 0 // an entry a little late at worst
	if pos == 0 {
		s.firstTimestampRead, s.firstTimestamp = false, batch.NoTimestamp
	}
	if err := s.truncateIndexes(offset); err != nil {
		return err
	}
	return h.Truncate(pos)
}
