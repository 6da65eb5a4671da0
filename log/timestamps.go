package log

import (
	"errors"
	"io"
	"io/fs"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

// OffsetAndTimestamp is a record that was found by its time.
type OffsetAndTimestamp struct {
	Offset      int64
	Timestamp   int64             // ms
	LeaderEpoch kafka.LeaderEpoch // in which the record was appended, NoLeaderEpoch if that is not known
}

// OffsetForTimestamp finds the first record, by offset, whose time is at or after ts (ms): exactly that record, also inside
// a compressed batch. Only offsets from the log's start up to limit (exclusive) count: the high watermark or the last
// stable offset. Batches with log append time count with that.
func (l *Log) OffsetForTimestamp(ts, limit int64) (at OffsetAndTimestamp, found bool, err error) {
	return l.findTime(func(set *segmentSet) (OffsetAndTimestamp, bool, error) {
		start := l.startOffset.Load()
		for _, seg := range set.all[set.floor(start):] {
			if seg.baseOffset >= limit {
				break
			}
			newest, err := seg.newest()
			if err != nil {
				return OffsetAndTimestamp{}, false, err
			}
			if newest.Timestamp < ts {
				continue
			}
			at, found, err := seg.firstAtOrAfter(ts, start, limit)
			if found || err != nil {
				return at, found, err
			}
		}
		return OffsetAndTimestamp{}, false, nil
	})
}

// MaxTimestamp finds the first record that has the latest time of all (ListOffsets -3, KIP-734).
func (l *Log) MaxTimestamp() (at OffsetAndTimestamp, found bool, err error) {
	return l.findTime(func(set *segmentSet) (OffsetAndTimestamp, bool, error) {
		start := l.startOffset.Load()
		var holder *segment
		latest := TimestampOffset{Timestamp: batch.NoTimestamp}
		for _, seg := range set.all[set.floor(start):] {
			newest, err := seg.newest()
			if err != nil {
				return OffsetAndTimestamp{}, false, err
			}
			if newest.Timestamp > latest.Timestamp {
				holder, latest = seg, newest
			}
		}
		if holder == nil {
			return OffsetAndTimestamp{}, false, nil
		}
		// The index knows the last offset of the batch that has it.
		from, err := holder.find(latest.Offset)
		if err != nil {
			return OffsetAndTimestamp{}, false, err
		}
		b, err := holder.readBatch(from.pos)
		if err != nil {
			return OffsetAndTimestamp{}, false, err
		}
		offset, timestamp, ok, err := batch.OffsetOfMaxTimestamp(b)
		if err != nil {
			err = ErrCorrupt{Path: holder.file.path, Pos: from.pos, Err: err}
		}
		return OffsetAndTimestamp{Offset: max(offset, start), Timestamp: timestamp}, ok, err
	})
}

// findTime runs a look-up on the segments there are, again if a segment goes meanwhile, and adds the leader epoch.
func (l *Log) findTime(find func(*segmentSet) (OffsetAndTimestamp, bool, error)) (at OffsetAndTimestamp, found bool, err error) {
	if err := l.usable(); err != nil {
		return OffsetAndTimestamp{}, false, err
	}
	for {
		truncations, set := l.truncations.Load(), l.segments.Load()
		at, found, err = find(set)
		if err != nil && l.changedSince(truncations, set, err) {
			continue
		}
		break
	}
	switch {
	case err != nil:
		return OffsetAndTimestamp{}, false, l.readError(err)
	case !found:
		return OffsetAndTimestamp{}, false, nil
	}
	at.LeaderEpoch = l.EpochForOffset(at.Offset)
	return at, true, nil
}

// changedSince reports whether a read failed because what it was about has been cut off, or deleted, meanwhile.
func (l *Log) changedSince(truncations int64, set *segmentSet, err error) bool {
	return l.truncations.Load() != truncations || errors.Is(err, fs.ErrNotExist) && l.segments.Load() != set
}

// firstAtOrAfter finds the first record of the segment in [start, limit) whose time is at or after ts.
func (s *segment) firstAtOrAfter(ts, start, limit int64) (at OffsetAndTimestamp, found bool, err error) {
	from, err := s.find(max(start, s.before(ts)))
	if err != nil {
		return at, false, err
	}
	w, err := s.walk(from.pos, s.end.Load())
	if err != nil {
		return at, false, err
	}
	defer w.release()
	for {
		pos := w.pos
		h, err := w.next()
		switch {
		case errors.Is(err, io.EOF):
			return at, false, nil
		case err != nil:
			return at, false, err
		case h.BaseOffset >= limit:
			return at, false, nil
		case h.MaxTimestamp < ts || h.LastOffset() < start:
			continue
		}
		b, err := s.readBatch(pos)
		if err != nil {
			return at, false, err
		}
		offset, timestamp, ok, err := batch.OffsetOfTimestamp(b, ts, start)
		if err != nil {
			return at, false, ErrCorrupt{Path: s.file.path, Pos: pos, Err: err}
		}
		if ok {
			return OffsetAndTimestamp{Offset: offset, Timestamp: timestamp}, offset < limit, nil
		}
	}
}

// before is an offset at or below that of the first record whose time is at or after ts: that of the time index, which an
// error leaves at the segment's start.
func (s *segment) before(ts int64) int64 {
	s.index.Lock()
	defer s.index.Unlock()
	if s.openIndexesLocked() != nil {
		return s.baseOffset
	}
	// The entry for a time below ts: everything up to its offset is older than ts.
	entry, err := s.index.times.Lookup(ts - 1)
	if err != nil {
		return s.baseOffset
	}
	return entry.Offset
}

// readBatch reads the whole batch at a position.
func (s *segment) readBatch(pos int64) ([]byte, error) {
	h, err := s.readHeader(pos)
	if err != nil {
		return nil, err
	}
	if int64(h.Size()) > s.end.Load()-pos {
		return nil, ErrCorrupt{Path: s.file.path, Pos: pos, Err: &batch.TornError{Have: int(s.end.Load() - pos), Need: h.Size()}}
	}
	b := make([]byte, h.Size())
	return b, s.readFull(b, pos)
}
