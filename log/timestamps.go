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
//
// Errors: ErrInvalidRecord where a record on the way there cannot be read; ErrCorrupt, ErrStorage, ErrClosed.
func (l *Log) OffsetForTimestamp(ts, limit int64) (at OffsetAndTimestamp, found bool, err error) {
	return l.findTime(func(set *segmentSet) (OffsetAndTimestamp, bool, error) {
		return l.firstAtOrAfter(set, ts, limit)
	})
}

func (l *Log) firstAtOrAfter(set *segmentSet, ts, limit int64) (at OffsetAndTimestamp, found bool, err error) {
	start := l.startOffset.Load()
	for _, seg := range set.all[set.floor(start):] {
		if seg.baseOffset >= limit {
			break
		}
		newest, err := seg.newest()
		if err != nil {
			return at, false, err
		}
		if newest.Timestamp < ts {
			continue
		}
		if at, found, err := seg.firstAtOrAfter(ts, start, limit); found || err != nil {
			return at, found, err
		}
	}
	return at, false, nil
}

// MaxTimestamp finds the first record that has the latest time of all (ListOffsets -3, KIP-734). Errors are those of
// OffsetForTimestamp.
func (l *Log) MaxTimestamp() (at OffsetAndTimestamp, found bool, err error) {
	return l.findTime(func(set *segmentSet) (OffsetAndTimestamp, bool, error) {
		start := l.startOffset.Load()
		latest := batch.NoTimestamp
		for _, seg := range set.all[set.floor(start):] {
			newest, err := seg.newestFrom(start)
			if err != nil {
				return OffsetAndTimestamp{}, false, err
			}
			latest = max(latest, newest)
		}
		if latest == batch.NoTimestamp {
			return OffsetAndTimestamp{}, false, nil
		}
		return l.firstAtOrAfter(set, latest, l.endOffset.Load())
	})
}

// newestFrom is the time of the newest record that is not below start.
func (s *segment) newestFrom(start int64) (int64, error) {
	if start <= s.baseOffset {
		newest, err := s.newest()
		return newest.Timestamp, err
	}
	// Records were deleted up to within the segment: the index may tell of one of those.
	newest := batch.NoTimestamp
	from, err := s.find(start)
	if err != nil {
		return newest, err
	}
	err = s.scan(from.pos, func(h *batch.Header, pos int64, b []byte) error {
		if h.MaxTimestamp <= newest {
			return nil
		}
		if h.BaseOffset >= start {
			newest = h.MaxTimestamp
			return nil
		}
		for r, err := range batch.Records(b) {
			if err != nil {
				return s.unreadable(b, pos, err)
			}
			if h.RecordOffset(r) >= start {
				newest = max(newest, h.RecordTimestamp(r))
			}
		}
		return nil
	})
	return newest, err
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
			return at, false, s.unreadable(b, pos, err)
		}
		if ok {
			return OffsetAndTimestamp{Offset: offset, Timestamp: timestamp}, offset < limit, nil
		}
	}
}

// unreadable says whether the file was damaged, or holds what a producer sent, where a record of the batch b cannot be read.
func (s *segment) unreadable(b []byte, pos int64, err error) error {
	if damage := batch.CheckCRC(b); damage != nil {
		return ErrCorrupt{Path: s.file.path, Pos: pos, Err: damage}
	}
	return ErrInvalidRecord{Path: s.file.path, Pos: pos, Err: err}
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
