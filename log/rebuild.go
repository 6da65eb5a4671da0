package log

import (
	"errors"
	"io/fs"

	"weir/protocol/batch"
)

// rebuildIndexesLocked makes a segment's sparse indexes again from its batches, and the transaction index too if its file
// is broken. It reads the whole segment under the index lock: what is rare may be slow. The caller holds the index lock.
func (s *segment) rebuildIndexesLocked() error {
	l, sealed := s.owner, s.next.Load() != 0
	endOffset := s.next.Load()
	if !sealed {
		endOffset = l.endOffset.Load()
	}
	var states *ProducerStates
	txns, err := LoadTxnIndex(l.fs, s.path(txnIndexSuffix), s.baseOffset, endOffset)
	if errors.As(err, new(ErrBrokenFile)) {
		txns = NewTxnIndex(l.fs, s.path(txnIndexSuffix), s.baseOffset)
		states, err = l.producersBefore(s)
	}
	if err != nil {
		return err
	}
	offsets := NewOffsetIndex(l.fs, s.path(indexSuffix), s.baseOffset)
	times := NewTimeIndex(l.fs, s.path(timeIndexSuffix), s.baseOffset)
	newest := TimestampOffset{batch.NoTimestamp, s.baseOffset}
	interval, sinceEntry := int64(l.config.Load().IndexIntervalBytes), int64(0)
	err = s.scan(0, func(h *batch.Header, pos int64, b []byte) error {
		if h.MaxTimestamp > newest.Timestamp {
			newest = TimestampOffset{h.MaxTimestamp, h.LastOffset()}
		}
		if sinceEntry > interval {
			offsets.Append(h.LastOffset(), pos)
			times.Append(newest.Timestamp, newest.Offset)
			sinceEntry = 0
		}
		sinceEntry += int64(len(b))
		if states != nil && h.HasProducerID() {
			if txn, aborted := l.updateProducers(states, h, b); aborted {
				txns.Append(txn)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.index.offsets, s.index.times, s.index.txns = offsets, times, txns
	s.index.maxTimestamp, s.index.maxTimestampOffset = newest.Timestamp, newest.Offset
	if !sealed {
		return s.flushIndexesLocked()
	}
	if err := s.completeLocked(); err != nil {
		return err
	}
	return errors.Join(offsets.Seal(), times.Seal(), txns.Seal())
}

// producersBefore is the producers' state where a segment begins: from the snapshot made there, or else from all batches
// before it.
func (l *Log) producersBefore(s *segment) (*ProducerStates, error) {
	states := NewProducerStates(l.tp, l.opts.expirationMs.Load())
	path := s.path(snapshotSuffix)
	err := ReadProducerSnapshot(l.fs, path, states, s.baseOffset, 0)
	if err == nil || !errors.As(err, new(ErrBrokenFile)) && !errors.Is(err, fs.ErrNotExist) {
		return states, err
	}
	states.Reset(0)
	for _, seg := range l.segments.Load().all {
		if seg.baseOffset >= s.baseOffset {
			break
		}
		err := seg.scan(0, func(h *batch.Header, _ int64, b []byte) error {
			if h.HasProducerID() {
				l.updateProducers(states, h, b)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return states, nil
}
