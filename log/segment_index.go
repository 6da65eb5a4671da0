package log

import (
	"errors"
	"io"
	"io/fs"

	"weir/protocol/batch"
)

// The indexes of a growing segment are resident and complete. Those of a sealed one are opened by the first look-up;
// what is missing or wrong then is made again from the batches, with a warning.

// add takes note of a batch that was written at the segment's end, and returns the new end, which the caller publishes.
// The indexes get an entry where Kafka's LogSegment.append makes one.
func (s *segment) add(h *batch.Header, size int64, interval int32) (end int64) {
	pos := s.end.Load()
	if pos == 0 {
		s.firstTimestamp, s.firstTimestampRead = h.MaxTimestamp, true
	}
	s.index.Lock()
	s.noteTimeLocked(h)
	if s.bytesSinceIndexEntry > int64(interval) {
		s.index.offsets.Append(h.LastOffset(), pos)
		s.index.times.Append(s.index.maxTimestamp, s.index.maxTimestampOffset)
		s.bytesSinceIndexEntry = 0
	}
	s.index.Unlock()
	s.bytesSinceIndexEntry += size
	return pos + size
}

// addAborted puts a transaction into the segment's index. It is written at once: an entry that were missing after a
// crash below the recovery point would hand out what was aborted.
func (s *segment) addAborted(txn AbortedTxn) error {
	s.index.Lock()
	defer s.index.Unlock()
	s.index.txns.Append(txn)
	return s.index.txns.Flush()
}

// aborted lists the transactions in the segment's index that overlap [from, to); complete says that later segments have
// none.
func (s *segment) aborted(txns []AbortedTxn, from, to int64) (_ []AbortedTxn, complete bool, err error) {
	s.index.Lock()
	defer s.index.Unlock()
	if err := s.openIndexesLocked(); err != nil {
		return nil, false, err
	}
	return s.index.txns.Collect(txns, from, to)
}

// newIndexes begins empty indexes, for a segment without batches or before all of it is scanned.
func (s *segment) newIndexes() {
	s.index.Lock()
	defer s.index.Unlock()
	s.newIndexesLocked()
}

func (s *segment) newIndexesLocked() {
	s.index.offsets = NewOffsetIndex(s.owner.fs, s.path(indexSuffix), s.baseOffset)
	s.index.times = NewTimeIndex(s.owner.fs, s.path(timeIndexSuffix), s.baseOffset)
	s.index.txns = NewTxnIndex(s.owner.fs, s.path(txnIndexSuffix), s.baseOffset)
	s.index.maxTimestamp, s.index.maxTimestampOffset = batch.NoTimestamp, 0
}

// loadIndexes makes the indexes of a segment that will grow resident, as far as their files go. The segment ends at
// endOffset, or above. ErrBrokenFile says that one of them is no index of this segment.
func (s *segment) loadIndexes(endOffset int64) error {
	s.index.Lock()
	defer s.index.Unlock()
	var err error
	if s.index.offsets, err = LoadOffsetIndex(s.owner.fs, s.path(indexSuffix), s.baseOffset, endOffset, s.end.Load()); err != nil {
		return err
	}
	if s.index.times, err = LoadTimeIndex(s.owner.fs, s.path(timeIndexSuffix), s.baseOffset, endOffset); err != nil {
		return err
	}
	if s.index.txns, err = LoadTxnIndex(s.owner.fs, s.path(txnIndexSuffix), s.baseOffset, endOffset); err != nil {
		return err
	}
	newest, err := s.index.times.Last()
	s.index.maxTimestamp, s.index.maxTimestampOffset = newest.Timestamp, newest.Offset
	return err
}

// openIndexesLocked opens the indexes of a sealed segment, unless that is done.
func (s *segment) openIndexesLocked() error {
	if s.index.retired {
		return &fs.PathError{Op: "open", Path: s.path(indexSuffix), Err: fs.ErrNotExist}
	}
	if s.index.offsets != nil {
		return nil
	}
	err := s.openSealedIndexesLocked()
	if err == nil {
		err = s.missesEntriesLocked()
	}
	if broken := (ErrBrokenFile{}); errors.As(err, &broken) {
		s.owner.logger.Warn("index is broken and is made again from the batches", "path", broken.Path, "why", broken.Reason)
		return s.rebuildIndexesLocked()
	}
	if err != nil {
		s.dropIndexesLocked()
	}
	return err
}

func (s *segment) openSealedIndexesLocked() (err error) {
	next := s.next.Load()
	if s.index.offsets, err = OpenOffsetIndex(s.owner.fs, s.path(indexSuffix), s.baseOffset, next, s.end.Load()); err != nil {
		return err
	}
	if s.index.times, err = OpenTimeIndex(s.owner.fs, s.path(timeIndexSuffix), s.baseOffset, next); err != nil {
		return err
	}
	if s.index.txns, err = OpenTxnIndex(s.owner.fs, s.path(txnIndexSuffix), s.baseOffset, next); err != nil {
		return err
	}
	newest, err := s.index.times.Last()
	s.index.maxTimestamp, s.index.maxTimestampOffset = newest.Timestamp, newest.Offset
	return err
}

// missesEntriesLocked tells a sparse index that needs no entries from one whose file was lost: an ErrBrokenFile then.
func (s *segment) missesEntriesLocked() error {
	end := s.end.Load()
	if end == 0 {
		return nil
	}
	if s.index.offsets.Len() > 0 && s.index.times.Len() > 0 {
		return s.missesTimesLocked()
	}
	w, err := s.walk(0, end)
	if err != nil {
		return err
	}
	defer w.release()
	interval := int64(s.owner.config.Load().IndexIntervalBytes)
	for {
		at := w.pos
		h, err := w.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if s.index.times.Len() == 0 && h.MaxTimestamp >= 0 {
			return brokenAt(s.path(timeIndexSuffix), 0, "no entry, though there are batches with a time")
		}
		if at > interval {
			if s.index.offsets.Len() == 0 {
				return brokenAt(s.path(indexSuffix), 0, "no entry in a segment of %d bytes", end)
			}
			return nil
		}
	}
}

// missesTimesLocked tells a time index that was cut, or overwritten with older times, by the last batch that the offset
// index knows.
func (s *segment) missesTimesLocked() error {
	last, err := s.index.offsets.Last()
	if err != nil {
		return err
	}
	h, err := s.readHeader(last.Position)
	if err == nil && h.MaxTimestamp > s.index.maxTimestamp {
		return brokenAt(s.path(timeIndexSuffix), 0, "ends at time %d, though a batch has %d", s.index.maxTimestamp, h.MaxTimestamp)
	}
	return nil // an index that leads to no batch is found when it is used
}

// lookup finds in the index where to begin to look for offset.
func (s *segment) lookup(offset int64) (OffsetPosition, error) {
	s.index.Lock()
	defer s.index.Unlock()
	if err := s.openIndexesLocked(); err != nil {
		return OffsetPosition{}, err
	}
	return s.index.offsets.Lookup(offset)
}

// find returns where the batch begins that holds offset: in a gap it is the next batch, above the last batch the segment's
// end. The boundary's offset is where the batch before ended.
func (s *segment) find(offset int64) (boundary, error) {
	if b, ok := s.tail.Load().at(offset); ok {
		return b, nil
	}
	from, err := s.lookup(offset - 1) // so that it is not yet the batch itself
	if err != nil {
		return boundary{}, err
	}
	b, err := s.seek(from.Position, offset)
	if from.Position == 0 || !errors.As(err, new(ErrCorrupt)) {
		return b, err
	}
	// The index led to where no batch begins, or a later one. Without it, the segment's start leads there.
	s.owner.logger.Warn("index does not fit the batches and is made again from them", "path", s.path(indexSuffix), "err", err)
	s.index.Lock()
	err = s.rebuildIndexesLocked()
	s.index.Unlock()
	if err != nil {
		return boundary{}, err
	}
	if from, err = s.lookup(offset - 1); err != nil {
		return boundary{}, err
	}
	return s.seek(from.Position, offset)
}

// seek walks from a batch's position to the batch that holds offset.
func (s *segment) seek(pos, offset int64) (boundary, error) {
	w, err := s.walk(pos, s.end.Load())
	if err != nil {
		return boundary{}, err
	}
	defer w.release()
	next := s.baseOffset
	for {
		at := w.pos
		h, err := w.next()
		if errors.Is(err, io.EOF) {
			return boundary{next, at}, nil
		}
		if err != nil {
			return boundary{}, err
		}
		if at == pos && pos > 0 && h.LastOffset() >= offset {
			return boundary{}, ErrCorrupt{Path: s.path(indexSuffix), Pos: pos, Err: errors.New("entry is not below its batch")}
		}
		if h.LastOffset() >= offset {
			return boundary{next, at}, nil
		}
		next = h.NextOffset()
	}
}

// cut finds a boundary at or before upTo with nothing at or above limit before it: the last one that the tail or the
// index knows.
func (s *segment) cut(upTo, limit int64) (int64, bool) {
	if b, ok := s.tail.Load().before(upTo); ok {
		return b.pos, b.offset <= limit
	}
	s.index.Lock()
	defer s.index.Unlock()
	if s.openIndexesLocked() != nil {
		return 0, false // who walks the batches instead meets the error, if it is more than the index's
	}
	e, err := s.index.offsets.LookupPosition(upTo)
	return e.Position, err == nil && e.Position > 0 && e.Offset < limit
}

// indexFull reports whether an index has as many entries as segment.index.bytes allows. Kafka keeps a last place in the
// time index for the newest time, which is noted when the segment is sealed.
func (s *segment) indexFull(indexBytes int32) bool {
	s.index.Lock()
	defer s.index.Unlock()
	return s.index.offsets.Len() >= int64(indexBytes)/offsetEntrySize || s.index.times.Len() >= int64(indexBytes)/timeEntrySize-1
}

// newest is the time of the segment's newest record in ms, NoTimestamp if no record has one.
func (s *segment) newest() (TimestampOffset, error) {
	s.index.Lock()
	defer s.index.Unlock()
	if err := s.openIndexesLocked(); err != nil {
		return TimestampOffset{}, err
	}
	return TimestampOffset{s.index.maxTimestamp, s.index.maxTimestampOffset}, nil
}

// flushIndexes writes what the index files lack.
func (s *segment) flushIndexes() error {
	s.index.Lock()
	defer s.index.Unlock()
	if s.index.retired {
		return nil
	}
	return s.flushIndexesLocked()
}

func (s *segment) flushIndexesLocked() error {
	// The offsets last: so recovery after kill -9 finds that the time index knows at least as much.
	return errors.Join(s.index.txns.Flush(), s.index.times.Flush(), s.index.offsets.Flush())
}

// complete brings the index files up to the segment's end, the newest time included.
func (s *segment) complete() error {
	s.index.Lock()
	defer s.index.Unlock()
	return s.completeLocked()
}

func (s *segment) completeLocked() error {
	if s.index.maxTimestamp >= 0 {
		s.index.times.Append(s.index.maxTimestamp, s.index.maxTimestampOffset)
		if err := s.index.offsets.Ensure(); err != nil {
			return err
		}
	}
	return s.flushIndexesLocked()
}

// seal completes the index files and frees their memory. The segment grows no more.
func (s *segment) seal() error {
	s.index.Lock()
	defer s.index.Unlock()
	if err := s.completeLocked(); err != nil {
		return err
	}
	return errors.Join(s.index.offsets.Seal(), s.index.times.Seal(), s.index.txns.Seal())
}

// syncIndexes makes durable what was flushed to the index files.
func (s *segment) syncIndexes() error {
	s.index.Lock()
	offsets, times, txns, retired := s.index.offsets, s.index.times, s.index.txns, s.index.retired
	s.index.Unlock()
	if retired || offsets == nil {
		return nil // removed meanwhile; or sealed by a process before and not changed since
	}
	return errors.Join(offsets.Sync(), times.Sync(), txns.Sync())
}

// truncateIndexes drops what belongs to batches at or above offset, which is at byte end. The segment is the active one
// from now on. What the batches behind the last entry add to the newest time is read from them.
func (s *segment) truncateIndexes(offset, end int64) error {
	s.index.Lock()
	defer s.index.Unlock()
	if err := s.openIndexesLocked(); err != nil {
		return err
	}
	if err := s.truncateIndexesLocked(offset, offset); err != nil {
		return err
	}
	last, err := s.index.offsets.Last()
	if err != nil {
		return err
	}
	s.bytesSinceIndexEntry = end - last.Position
	w, err := s.walk(last.Position, end)
	if err != nil {
		return err
	}
	defer w.release()
	for {
		h, err := w.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.noteTimeLocked(&h)
	}
}

// noteTimeLocked takes note of a batch's newest time.
func (s *segment) noteTimeLocked(h *batch.Header) {
	if h.MaxTimestamp > s.index.maxTimestamp {
		s.index.maxTimestamp, s.index.maxTimestampOffset = h.MaxTimestamp, h.LastOffset()
	}
}

func (s *segment) truncateIndexesLocked(offset, txnOffset int64) error {
	err := errors.Join(s.index.offsets.TruncateTo(offset), s.index.times.TruncateTo(offset), s.index.txns.TruncateTo(txnOffset))
	if err != nil {
		return err
	}
	newest, err := s.index.times.Last()
	s.index.maxTimestamp, s.index.maxTimestampOffset = newest.Timestamp, newest.Offset
	return errors.Join(err, s.flushIndexesLocked())
}

// dropWindow frees the part of a sealed index that look-ups keep in memory. It is called where another segment's index may
// be locked, so it does not wait: if the lock is taken, somebody looks something up, and the window is in use.
func (s *segment) dropWindow() {
	if s.index.TryLock() {
		defer s.index.Unlock()
		if s.index.offsets != nil {
			s.index.offsets.file.dropWindow()
		}
	}
}

func (s *segment) dropIndexesLocked() { s.index.offsets, s.index.times, s.index.txns = nil, nil, nil }
