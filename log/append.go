package log

import (
	"errors"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

// AppendResult says where records went.
type AppendResult struct {
	BaseOffset     int64
	LastOffset     int64 // inclusive
	LogAppendTime  int64 // ms; -1 where the records keep the time of their creation
	LogStartOffset int64
	Duplicate      bool // nothing was written: an idempotent producer sent the batch again, and these are its old offsets
}

// AppendAsLeader appends one validated batch at the log's end, in the leader epoch given. The base offset and the epoch
// are stamped into v.Bytes, and the batch goes to the file in one write. It is then in the page cache: what makes it
// durable is Sync.
//
// Errors: ErrFencedLeaderEpoch; what ProducerStates says about the sequence and the producer's epoch; ErrStorage. None of
// them leaves anything behind.
func (l *Log) AppendAsLeader(epoch kafka.LeaderEpoch, v batch.Validated) (AppendResult, error) {
	l.mu.Lock()
	r, err := l.appendAsLeaderLocked(epoch, &v)
	l.mu.Unlock()
	l.afterAppend(err)
	return r, err
}

func (l *Log) appendAsLeaderLocked(epoch kafka.LeaderEpoch, v *batch.Validated) (AppendResult, error) {
	if err := l.usable(); err != nil {
		return AppendResult{}, err
	}
	latest := l.mu.epochs.Latest()
	if epoch < latest {
		return AppendResult{}, ErrFencedLeaderEpoch{TP: l.tp, Epoch: epoch, Latest: latest}
	}
	h := v.Header
	h.BaseOffset = l.endOffset.Load()
	h.LeaderEpoch = int32(epoch)
	if h.HasProducerID() {
		previous, err := l.checkProducerLocked(&h)
		if err != nil {
			return AppendResult{}, err
		}
		if previous != nil {
			return AppendResult{
				BaseOffset: previous.BaseOffset, LastOffset: previous.LastOffset, LogAppendTime: previous.Timestamp,
				LogStartOffset: l.startOffset.Load(), Duplicate: true,
			}, nil
		}
	}
	batch.SetBaseOffset(v.Bytes, h.BaseOffset)
	batch.SetLeaderEpoch(v.Bytes, h.LeaderEpoch)
	if epoch > latest {
		l.mu.epochs.Assign(epoch, h.BaseOffset)
		if err := l.flushEpochsLocked(); err != nil {
			return AppendResult{}, l.fail(err)
		}
	}
	if err := l.writeLocked(v.Bytes, h.BaseOffset, h.LastOffset(), h.MaxTimestamp); err != nil {
		return AppendResult{}, err
	}
	if err := l.addBatchLocked(&h, v.Bytes); err != nil {
		return AppendResult{}, err
	}
	return AppendResult{
		BaseOffset: h.BaseOffset, LastOffset: h.LastOffset(), LogAppendTime: v.LogAppendTime,
		LogStartOffset: l.startOffset.Load(),
	}, nil
}

// checkProducerLocked is ProducerStates.Check, with a second look where a snapshot may have told too little.
func (l *Log) checkProducerLocked(h *batch.Header) (*AppendedBatch, error) {
	previous, err := l.mu.producers.Check(h)
	if kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
		return previous, err
	}
	recalled, readErr := l.recallLocked(h)
	if readErr != nil {
		return nil, readErr
	}
	if recalled {
		return l.mu.producers.Check(h)
	}
	return nil, err
}

// AppendAsFollower appends batches as the leader sent them: their offsets and epochs are kept, every CRC is checked
// before anything is written. A torn batch at the end, which a leader may send, is left out. Gaps between offsets are
// allowed (compaction leaves them), going back is not.
//
// Errors: CORRUPT_MESSAGE of package batch or ErrUnexpectedOffset, with nothing written; ErrStorage.
func (l *Log) AppendAsFollower(records []byte) (AppendResult, error) {
	records, err := l.checkFollower(records)
	if err != nil {
		return AppendResult{}, err
	}
	l.mu.Lock()
	r, err := l.appendAsFollowerLocked(records)
	l.mu.Unlock()
	l.afterAppend(err)
	return r, err
}

// checkFollower checks what needs no lock, and cuts a torn end off.
func (l *Log) checkFollower(records []byte) ([]byte, error) {
	whole, next := 0, int64(0)
	for b, err := range batch.Batches(records) {
		if errors.Is(err, batch.ErrTorn) {
			break
		}
		if err != nil {
			return nil, err
		}
		h, err := batch.CheckStored(b)
		if err != nil {
			return nil, err
		}
		if h.BaseOffset < next {
			return nil, ErrUnexpectedOffset{TP: l.tp, Offset: h.BaseOffset, Expected: next}
		}
		next = h.NextOffset()
		whole += len(b)
	}
	return records[:whole], nil
}

func (l *Log) appendAsFollowerLocked(records []byte) (AppendResult, error) {
	r := AppendResult{BaseOffset: -1, LastOffset: -1, LogAppendTime: -1, LogStartOffset: l.startOffset.Load()}
	if err := l.usable(); err != nil {
		return r, err
	}
	for len(records) > 0 {
		run := l.nextRun(records)
		if end := l.endOffset.Load(); run.baseOffset < end {
			return r, ErrUnexpectedOffset{TP: l.tp, Offset: run.baseOffset, Expected: end}
		}
		if err := l.writeLocked(run.bytes, run.baseOffset, run.lastOffset, run.maxTimestamp); err != nil {
			return r, err
		}
		for b := range batch.Batches(run.bytes) {
			h, _ := batch.ParseHeader(b) // checked before
			l.mu.epochs.Assign(kafka.LeaderEpoch(h.LeaderEpoch), h.BaseOffset)
			if err := l.addBatchLocked(&h, b); err != nil {
				return r, err
			}
		}
		if err := l.flushEpochsLocked(); err != nil {
			return r, l.fail(err)
		}
		if r.BaseOffset < 0 {
			r.BaseOffset = run.baseOffset
		}
		r.LastOffset = run.lastOffset
		records = records[len(run.bytes):]
	}
	return r, nil
}

// run is batches that go into one segment with one write.
type run struct {
	bytes                  []byte
	baseOffset, lastOffset int64
	maxTimestamp           int64
}

// nextRun takes as many batches from the front as one segment can hold: all of them, unless a leader with a larger
// segment.bytes or a log with wide gaps sent them.
func (l *Log) nextRun(records []byte) run {
	r := run{baseOffset: -1, maxTimestamp: batch.NoTimestamp}
	limit := int(l.config.Load().SegmentBytes)
	size := 0
	for b := range batch.Batches(records) {
		h, _ := batch.ParseHeader(b) // checked before
		if r.baseOffset < 0 {
			r.baseOffset = h.BaseOffset
		} else if size+len(b) > limit || h.LastOffset()-r.baseOffset > maxRelativeOffset {
			break
		}
		size += len(b)
		r.lastOffset = h.LastOffset()
		r.maxTimestamp = max(r.maxTimestamp, h.MaxTimestamp)
	}
	r.bytes = records[:size:size]
	return r
}

// writeLocked puts whole batches at the end of the active segment, rolling it first where that is due. Nothing of it is
// visible yet.
func (l *Log) writeLocked(b []byte, baseOffset, lastOffset, maxTimestamp int64) error {
	c := l.config.Load()
	seg := l.segments.Load().active()
	if why := seg.rollReason(c, int64(len(b)), maxTimestamp, lastOffset, l.clock.Now); why != "" {
		var err error
		if seg, err = l.rollLocked(l.rollBase(baseOffset, lastOffset), why); err != nil {
			return l.fail(err)
		}
	}
	if err := seg.write(b); err != nil {
		return l.fail(err)
	}
	if c.Preallocate {
		seg.reserve(int64(c.SegmentBytes))
	}
	return nil
}

// addBatchLocked takes note of a batch that was just written, and publishes it.
func (l *Log) addBatchLocked(h *batch.Header, b []byte) error {
	seg := l.segments.Load().active()
	if h.HasProducerID() {
		if txn, aborted := l.updateProducers(l.mu.producers, h, b); aborted {
			if err := seg.addAborted(txn); err != nil {
				return l.fail(err)
			}
			l.noteNameLocked(segmentName(seg.baseOffset, txnIndexSuffix))
		}
		l.publishUnstableLocked()
	}
	l.mu.producers.SetEndOffset(h.NextOffset())
	end := seg.add(h, int64(len(b)), l.config.Load().IndexIntervalBytes)
	seg.tail.Load().add(h.NextOffset(), end)
	l.unsyncedBytes.Add(int64(len(b)))
	// In this order: a reader that sees the new end finds the bytes before it.
	seg.end.Store(end)
	l.endOffset.Store(h.NextOffset())
	return nil
}

// afterAppend does what must wait for the log lock to be released.
func (l *Log) afterAppend(err error) {
	if err != nil {
		l.reportFailure()
		return
	}
	if l.unsyncedBytes.Load() >= flushBytes && l.opts.FlushNeeded != nil && l.flushRequested.CompareAndSwap(false, true) {
		l.opts.FlushNeeded(l)
	}
}
