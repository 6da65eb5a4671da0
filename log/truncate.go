package log

import (
	"errors"
	"io/fs"
	"math"

	"weir/internal/invariant"
	"weir/protocol/batch"
)

// TruncateTo cuts everything at and above offset off. If offset lies inside a batch, that batch goes as a whole, and the
// log ends below offset, where the batch before it ends: so a follower fetches again what went with the batch (Kafka's log
// then ends at offset, with a gap). Leader epochs that begin at or above offset are forgotten even if the log ends below
// it: a follower may have been told of an epoch that has no records yet (KAFKA-10706). The high watermark and the recovery
// point move back with the end.
//
// When it returns, the truncation is durable: a power cut must not bring back what was cut off behind what was appended
// since, which would make a log that never was. A crash in between leaves a log that ends somewhere between offset and the
// old end: the highest segments go first. The replica truncates again when it meets its leader.
func (l *Log) TruncateTo(offset int64) error {
	return l.truncating(offset, func(end int64) (cut bool, err error) {
		set := l.segments.Load()
		switch {
		case offset >= l.endOffset.Load():
			l.mu.epochs.TruncateFromEnd(offset)
			return false, l.flushEpochsLocked()
		case offset < set.all[0].baseOffset:
			return true, l.truncateFullyLocked(offset)
		}
		return true, l.cutLocked(set, end)
	})
}

// TruncateFullyAndStartAt removes everything and begins anew at offset: a follower whose leader's log begins above its
// own end does that, and one that is given a snapshot. It is durable when it returns.
func (l *Log) TruncateFullyAndStartAt(offset int64) error {
	return l.truncating(offset, func(int64) (bool, error) { return true, l.truncateFullyLocked(offset) })
}

// truncating runs a truncation to offset under the log lock, once no checkpoint has a recovery point or a start above it
// any more, and makes it durable.
func (l *Log) truncating(offset int64, truncate func(end int64) (cut bool, err error)) error {
	if offset < 0 {
		return ErrOffsetOutOfRange{TP: l.tp, Offset: offset, Start: l.StartOffset(), End: l.EndOffset()}
	}
	end, err := l.prepareTruncation(offset)
	cut := false
	l.mu.Lock()
	if err == nil {
		err = l.usable()
	}
	if err == nil {
		cut, err = truncate(end)
		err = l.failing(err)
	}
	active := l.segments.Load().active()
	l.mu.truncatingTo = math.MaxInt64
	l.mu.Unlock()
	if cut && err == nil && !l.opts.noSync {
		err = l.failing(errors.Join(l.syncSegment(active, true), l.fs.SyncDir(l.Dir())))
		if err == nil {
			err = l.Sync()
		}
	}
	if err != nil {
		l.reportFailure()
	}
	return err
}

// prepareTruncation finds where the log is going to end, and moves recovery point, start and high watermark down to that, in
// the checkpoints too. Otherwise a crash could leave them above what is written after the truncation, and recovery would take
// that for durable, for deleted, or for committed.
func (l *Log) prepareTruncation(offset int64) (end int64, err error) {
	l.mu.Lock()
	if err := l.usable(); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	set := l.segments.Load()
	end = offset
	if offset < l.endOffset.Load() && offset >= set.all[0].baseOffset {
		var at boundary
		at, err = set.all[set.floor(offset)].find(offset)
		end = at.offset
	}
	l.truncations.Add(1) // a sync that is under way does not move the recovery point up again
	l.mu.truncatingTo = end
	l.recoveryPoint.Store(min(l.recoveryPoint.Load(), end))
	l.startOffset.Store(min(l.startOffset.Load(), end))
	l.highWatermark.Store(min(l.highWatermark.Load(), end))
	l.mu.Unlock()
	if err != nil {
		return 0, l.readError(err)
	}
	return end, l.failing(l.saveCheckpoints(end))
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
	// Readers stop at the new end before anything is taken away.
	l.lowerEndLocked(offset)
	l.mu.cutTo = min(l.mu.cutTo, offset)
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

// truncateFullyLocked: a crash in between leaves the lower part of the old log, or no segment at all.
func (l *Log) truncateFullyLocked(offset int64) error {
	set := l.segments.Load()
	l.lowerEndLocked(offset)
	l.mu.cutTo = cutAll
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
	if d := l.home(); d != nil {
		d.marksChanged.Store(true)
		d.startsChanged.Store(true)
	}
}

// removeSegment removes a segment's files, the batches first: indexes without batches are removed at start.
func (l *Log) removeSegment(seg *segment) error {
	if err := seg.file.remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	seg.retire()
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
	if pos == 0 {
		s.firstTimestampRead, s.firstTimestamp = false, batch.NoTimestamp
	}
	if err := s.truncateIndexes(offset, pos); err != nil {
		return err
	}
	return h.Truncate(pos)
}
