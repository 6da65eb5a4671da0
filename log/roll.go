package log

import "errors"

// rollLocked seals the active segment and begins another at baseOffset. The sealed one's indexes are completed, and the
// producers' state at its end is kept in a snapshot, so that recovery never reads more than one segment for it. Nothing
// is synced here: the next flush does that for the segment, its indexes and the new names.
func (l *Log) rollLocked(baseOffset int64, why string) (*segment, error) {
	set := l.segments.Load()
	old := set.active()
	if old.baseOffset == baseOffset { // empty, and it cannot take what is to come: an offset too far from its base
		return old, nil
	}
	old.next.Store(baseOffset)
	if err := errors.Join(old.trim(), old.seal()); err != nil {
		return nil, err
	}
	l.mu.producers.SetEndOffset(baseOffset)
	if err := l.snapshotProducersLocked(); err != nil {
		return nil, err
	}
	seg, err := l.createSegmentLocked(baseOffset)
	if err != nil {
		return nil, err
	}
	l.mu.unsynced = append(l.mu.unsynced, old)
	l.segments.Store(set.with(seg))
	l.logger.Debug("segment rolled", "partition", l.tp, "base", baseOffset, "why", why)
	return seg, nil
}

// rollBase is where a segment begins that takes batches from baseOffset to lastOffset: where the log ends, so that recovery
// can tell a hole between segments from a gap between batches; or with the batches, if they are too far from there.
func (l *Log) rollBase(baseOffset, lastOffset int64) int64 {
	if end := l.endOffset.Load(); lastOffset-end <= maxRelativeOffset {
		return end
	}
	return baseOffset
}

// createSegmentLocked makes an empty segment.
func (l *Log) createSegmentLocked(baseOffset int64) (*segment, error) {
	seg := newSegment(l, baseOffset)
	if err := seg.file.create(); err != nil {
		return nil, err
	}
	seg.newIndexes()
	l.noteNameLocked(segmentName(baseOffset, logSuffix))
	return seg, nil
}
