package log

import (
	"time"

	"weir/internal/invariant"
)

// segmentInfo is what the choice of segments to delete depends on.
type segmentInfo struct {
	endOffset    int64 // where the next segment begins
	size         int64 // bytes
	maxTimestamp int64 // ms: the newest record's; that of the file's last change if no record has one
}

// retentionLimits bound what is kept. Offsets below startOffset are gone already; nothing at or above highWatermark may
// go, whatever its age or the log's size (KAFKA-5634).
type retentionLimits struct {
	startOffset   int64
	highWatermark int64
	nowMs         int64
	retentionMs   int64 // negative: for ever
	retentionSize int64 // negative: no limit
	byAge, bySize bool
}

// expired is how many of the oldest segments may be deleted. A segment goes if all of it is below the start offset, if
// its newest record is older than retention.ms, or if the log without it still has retention.bytes. The first one that
// stays ends the search: a record with a time far ahead keeps what follows it too, as in Kafka.
func expired(segments []segmentInfo, r retentionLimits) int {
	var total int64
	for _, s := range segments {
		total += s.size
	}
	n := 0
	for _, s := range segments {
		// The active segment, empty, is what every deletion leaves: without it there is nothing to append to.
		if s.endOffset > r.highWatermark || (n == len(segments)-1 && s.size == 0) {
			break
		}
		switch {
		case s.endOffset <= r.startOffset && n < len(segments)-1:
		case r.byAge && r.retentionMs >= 0 && r.nowMs-s.maxTimestamp > r.retentionMs:
		case r.bySize && r.retentionSize >= 0 && total-s.size >= r.retentionSize:
		default:
			return n
		}
		total -= s.size
		n++
	}
	return n
}

// DeleteOldSegments deletes what retention.ms, retention.bytes and the start offset allow, up to the high watermark, and
// moves the start offset. If everything is expired, the active segment is rolled and goes too, so that the log is empty
// but its end stays. It returns how many segments went.
func (l *Log) DeleteOldSegments(now time.Time) (n int, err error) { return l.deleteSegments(now, true) }

// deleteBelowStart deletes the segments that lie below the start offset.
func (l *Log) deleteBelowStart(now time.Time) (n int, err error) { return l.deleteSegments(now, false) }

func (l *Log) deleteSegments(now time.Time, byPolicy bool) (n int, err error) {
	l.mu.Lock()
	if err = l.usable(); err == nil {
		n, err = l.deleteSegmentsLocked(now, byPolicy)
		err = l.failing(err)
	}
	l.mu.Unlock()
	if err != nil {
		l.reportFailure()
	}
	return n, err
}

func (l *Log) deleteSegmentsLocked(now time.Time, byPolicy bool) (int, error) {
	set, c := l.segments.Load(), l.config.Load()
	infos := make([]segmentInfo, len(set.all))
	for i, seg := range set.all {
		newest, err := seg.newest()
		if err != nil {
			return 0, err
		}
		if newest.Timestamp < 0 { // no record has a time: that of the file, as in Kafka
			newest.Timestamp, err = seg.modifiedMs()
		}
		if err != nil {
			return 0, err
		}
		infos[i] = segmentInfo{set.endOf(i, l.endOffset.Load()), seg.end.Load(), newest.Timestamp}
	}
	n := expired(infos, retentionLimits{
		startOffset: l.startOffset.Load(), highWatermark: l.highWatermark.Load(), nowMs: now.UnixMilli(),
		retentionMs: c.RetentionMs, retentionSize: c.RetentionBytes, byAge: byPolicy && c.DeletePolicy, bySize: byPolicy && c.DeletePolicy,
	})
	if n == 0 {
		return 0, nil
	}
	if n == len(set.all) {
		if _, err := l.rollLocked(l.endOffset.Load(), "retention"); err != nil {
			return 0, err
		}
	}
	return n, l.deleteFirstLocked(n)
}

// deleteFirstLocked removes the n oldest segments. The start offset moves first, so that no reader is sent to them; a
// crash in between leaves some of them, which the next pass deletes.
func (l *Log) deleteFirstLocked(n int) error {
	set := l.segments.Load()
	invariant.Assert(n < len(set.all), "%v: delete %d of %d segments", l.tp, n, len(set.all))
	gone := set.all[:n]
	kept := &segmentSet{all: set.all[n:]}
	start := max(l.startOffset.Load(), kept.all[0].baseOffset)
	invariant.Assert(start <= l.highWatermark.Load(), "%v: start offset %d above the high watermark %d", l.tp, start, l.highWatermark.Load())
	if err := l.moveStartLocked(start); err != nil {
		return err
	}
	l.segments.Store(kept)
	l.mu.unsynced = without(l.mu.unsynced, gone)
	for _, seg := range gone {
		if err := l.removeSegment(seg); err != nil {
			return err
		}
	}
	first := kept.all[0].baseOffset
	return l.removeSnapshotsLocked(func(offset int64) bool { return offset < first })
}

// AdvanceStartOffset moves the start of the log forward: DeleteRecords, and the metadata log after a snapshot. What lies
// below cannot be read any more; its segments go with the next DeleteOldSegments. A lower offset is ignored; one above
// the end is ErrOffsetOutOfRange. The caller keeps it at or below the high watermark.
func (l *Log) AdvanceStartOffset(offset int64) error {
	l.mu.Lock()
	err := l.usable()
	switch {
	case err != nil || offset <= l.startOffset.Load():
	case offset > l.endOffset.Load():
		err = ErrOffsetOutOfRange{TP: l.tp, Offset: offset, Start: l.startOffset.Load(), End: l.endOffset.Load()}
	default:
		if offset > l.highWatermark.Load() {
			l.setHighWatermarkLocked(offset)
		}
		err = l.failing(l.moveStartLocked(offset))
	}
	l.mu.Unlock()
	if err != nil {
		l.reportFailure()
	}
	return err
}

// moveStartLocked publishes a higher start offset and forgets what lies below it.
func (l *Log) moveStartLocked(offset int64) error {
	l.startOffset.Store(offset)
	if d := l.home(); d != nil {
		d.startsChanged.Store(true)
	} else if l.opts.OwnCheckpoints {
		if err := l.saveOwnStart(false); err != nil {
			return err
		}
		l.noteNameLocked(LogStartOffsetCheckpoint)
	}
	l.mu.epochs.TruncateFromStart(offset)
	l.publishUnstableLocked()
	return l.flushEpochsLocked()
}
