package log

import (
	"errors"
	"fmt"
	"io"
	"math"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

// recovery opens the segments of a log and repairs what a crash left. What it has to expect:
//
//   - stopped in good order: everything is durable, the index files are complete, there is a producer snapshot at the
//     end. The batches behind the last index entry are looked at, and that is all.
//   - kill -9: the files hold whole what was written before, in the order of the writes. Index files may be behind; the
//     last batch may be torn if the process died within a write.
//   - power cut: below the recovery point everything is there. Above it a segment may end anywhere, in zeros, or in
//     anything; names may be missing; small files that were not synced may be torn.
//
// So everything from the recovery point on is read and checked, and the log ends before the first batch that is not
// right. Below the recovery point no crash leaves damage: a batch that is broken there is an ErrCorrupt, nothing is cut,
// and the replica stays offline until somebody looks or it is fetched anew. There is one exception, for what disks do
// that promise more than they keep: see tear.
type recovery struct {
	log   *Log
	set   *segmentSet
	point int64 // the recovery point
	next  int64 // the offset after the last batch that was read
	epoch int32 // of the last batch that was read
	lossy bool  // something below the recovery point was cut

	epochsLost bool  // the leader epochs are to be made again from all batches
	txnsFrom   int64 // the transaction indexes are to be made again from here on
	indexEnd   int64 // an index file has, or had, an entry for an offset below this and none for a higher one

	snapshotsGone bool // there were snapshots of an end that the log has not got
}

// recover opens the segments with these base offsets.
func (l *Log) recover(bases []int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.openEpochsLocked(); err != nil {
		return err
	}
	l.mu.producers = NewProducerStates(l.tp, l.opts.expirationMs.Load())
	if len(bases) == 0 {
		return l.beginLocked()
	}
	r := &recovery{log: l, set: &segmentSet{}, point: l.opts.RecoveryPoint, epoch: -1, txnsFrom: math.MaxInt64}
	if err := r.describe(bases); err != nil {
		return err
	}
	l.segments.Store(r.set)
	if err := r.scan(); err != nil {
		return err
	}
	if err := r.settle(); err != nil {
		return err
	}
	if err := r.producers(); err != nil {
		return err
	}
	if err := r.seal(); err != nil {
		return err
	}
	if !l.opts.CleanShutdown {
		r.noteNames()
		return r.forgetTheLost()
	}
	return nil
}

// beginLocked makes the first segment of a new log.
func (l *Log) beginLocked() error {
	start := max(l.opts.StartOffset, 0)
	seg, err := l.createSegmentLocked(start)
	if err != nil {
		return err
	}
	l.segments.Store(&segmentSet{all: []*segment{seg}})
	l.mu.producers.Reset(start)
	l.mu.epochs.Clear()
	l.startOffset.Store(start)
	l.endOffset.Store(start)
	l.highWatermark.Store(start)
	l.recoveryPoint.Store(start)
	l.firstUnstable.Store(noUnstableOffset)
	return l.flushEpochsLocked()
}

// openEpochsLocked reads the leader epochs; if their file is broken, they are made again while the batches are read.
func (l *Log) openEpochsLocked() error {
	epochs, err := OpenLeaderEpochs(l.fs, l.Dir())
	if broken := (ErrBrokenFile{}); errors.As(err, &broken) {
		// A power cut before the file was synced, or a hand.
		l.logger.Warn("leader epochs are broken and are made again from the batches", "path", broken.Path, "why", broken.Reason)
		epochs, err = NewLeaderEpochs(l.fs, l.Dir()), nil
	}
	l.mu.epochs = epochs
	return err
}

// describe finds out how large the segments are.
func (r *recovery) describe(bases []int64) error {
	l := r.log
	for i, base := range bases {
		seg := newSegment(l, base)
		info, err := l.fs.Stat(seg.file.path)
		if err != nil {
			return err
		}
		seg.end.Store(info.Size())
		if i+1 < len(bases) {
			seg.next.Store(bases[i+1])
			seg.tail.Store(newTail(bases[i+1], info.Size()))
		}
		r.set.all = append(r.set.all, seg)
	}
	return nil
}

// scan reads the batches from the recovery point to the end, or, after a stop in good order, from the last index entry.
func (r *recovery) scan() error {
	// One that ends at the recovery point was perhaps sealed after that was reached: then its indexes are not durable yet.
	first := r.set.floor(r.point - 1)
	if r.log.opts.CleanShutdown {
		first = len(r.set.all) - 1
	}
	if r.log.mu.epochs.Latest() == kafka.NoLeaderEpoch && r.set.size() > 0 {
		r.epochsLost = true
		r.log.logger.Warn("leader epochs are made again from the batches", "partition", r.log.tp)
		if err := r.rebuildEpochs(first); err != nil {
			return err
		}
	}
	for i := first; i < len(r.set.all); i++ {
		if base := r.set.all[i].baseOffset; i > first && base > r.next && r.next >= r.point {
			// A power cut took the end of one segment and left the next. (Below the recovery point it is a gap that compaction
			// left.)
			return r.cut(i-1, fmt.Errorf("segment %d follows offset %d", base, r.next-1))
		}
		if err := r.scanSegment(i, i == first); err != nil {
			return err
		}
	}
	return nil
}

// rebuildEpochs reads the epochs of the batches in the segments that are not scanned.
func (r *recovery) rebuildEpochs(first int) error {
	for _, seg := range r.set.all[:first] {
		w, err := seg.walk(0, seg.end.Load())
		if err != nil {
			return err
		}
		for err == nil {
			var h batch.Header
			if h, err = w.next(); err == nil {
				r.log.mu.epochs.Assign(kafka.LeaderEpoch(h.LeaderEpoch), h.BaseOffset)
			}
		}
		w.release()
		if !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// scanSegment reads a segment from the start, or the first one from the last index entry that can be trusted.
func (r *recovery) scanSegment(i int, first bool) error {
	seg, l := r.set.all[i], r.log
	file, err := seg.file.acquire()
	if err != nil {
		return err
	}
	defer file.release()
	size := seg.end.Load()
	start, err := r.scanStart(seg, first)
	if err != nil {
		return err
	}
	r.next = max(r.next, start.offset)
	seg.tail.Store(&tail{}) // where the batch before the first ended is not known
	if start.pos == 0 {
		seg.tail.Load().add(start.offset, 0)
	}
	seg.end.Store(start.pos)
	s := newScanner(file, start.pos, size)
	defer s.release()
	interval := l.config.Load().IndexIntervalBytes
	for {
		at := s.pos
		h, b, err := s.nextStored()
		if err == nil {
			err = r.follows(seg, &h)
		}
		switch {
		case errors.Is(err, io.EOF):
			r.finishSegment(i)
			return nil
		case err != nil && isDamage(err):
			return r.tear(i, at, size, h, err)
		case err != nil:
			return err
		}
		r.next, r.epoch = h.NextOffset(), h.LeaderEpoch
		end := seg.add(&h, int64(len(b)), interval)
		seg.end.Store(end)
		seg.tail.Load().add(h.NextOffset(), end)
		if l.mu.epochs.ForOffset(h.BaseOffset) != kafka.LeaderEpoch(h.LeaderEpoch) {
			l.mu.epochs.TruncateFromEnd(h.BaseOffset) // what the file says from here on is of another time
			l.mu.epochs.Assign(kafka.LeaderEpoch(h.LeaderEpoch), h.BaseOffset)
		}
	}
}

// follows checks that a batch goes on where the one before it ended. What was cut off once, and came back because the
// truncation was lost, has the epoch of an older leader.
func (r *recovery) follows(seg *segment, h *batch.Header) error {
	switch {
	case h.BaseOffset < r.next || !seg.fitsRelative(h.LastOffset()):
		return &batch.CorruptError{BaseOffset: h.BaseOffset, Reason: fmt.Errorf("it follows offset %d in a segment that begins at %d", r.next-1, seg.baseOffset)}
	case h.LeaderEpoch >= 0 && h.LeaderEpoch < r.epoch:
		return &batch.CorruptError{BaseOffset: h.BaseOffset, Reason: fmt.Errorf("its leader epoch %d follows %d", h.LeaderEpoch, r.epoch)}
	}
	return nil
}

// finishSegment ends the scan of a segment that was right up to its end.
func (r *recovery) finishSegment(i int) {
	if i < len(r.set.all)-1 {
		r.log.mu.unsynced = append(r.log.mu.unsynced, r.set.all[i])
	}
}

// tear ends the log before what is no batch, at pos of segment i, if a crash explains it.
func (r *recovery) tear(i int, pos, size int64, h batch.Header, cause error) error {
	seg, l := r.set.all[i], r.log
	if r.next < r.point {
		// No crash damages what was durable, but a disk that reports a flush before it is done does, and a hand that cuts a
		// file. If it is certain that nothing readable lies behind the damage (its own header says that this was the last
		// batch, or there is no room for one), what can be read is kept. That the log is lossy is told, so that this replica
		// does not lead before it was compared with another.
		saysLast := h.BaseOffset >= r.next && h.NextOffset() >= r.point && pos+int64(h.Size()) >= size
		if i < len(r.set.all)-1 || !saysLast && size-pos >= batch.HeaderSize {
			return ErrCorrupt{Path: seg.file.path, Pos: pos, Err: cause}
		}
		r.lossy = true
	}
	l.logger.Warn("log is cut before what is no batch", "path", seg.file.path, "pos", pos, "bytes", size-pos, "end", r.next,
		"recovery point", r.point, "err", cause)
	return r.cut(i, cause)
}

// cut ends the log where segment i ends, as far as it was read. It is durable: as after any truncation, what is cut off
// must not come back behind what is appended now.
func (r *recovery) cut(i int, cause error) error {
	l := r.log
	for j := len(r.set.all) - 1; j > i; j-- {
		// It was written after what is missing, so it is above the recovery point too.
		l.logger.Warn("segment behind the end is removed", "path", r.set.all[j].file.path, "end", r.next, "err", cause)
		if err := l.removeSegment(r.set.all[j]); err != nil {
			return err
		}
	}
	r.set = &segmentSet{all: r.set.all[: i+1 : i+1]}
	l.segments.Store(r.set)
	l.mu.unsynced = without(l.mu.unsynced, r.set.all[i:])
	seg := r.set.active()
	seg.next.Store(0)
	file, err := seg.file.acquire()
	if err != nil {
		return err
	}
	defer file.release()
	if err := file.Truncate(seg.end.Load()); err != nil || l.opts.noSync {
		return err
	}
	return errors.Join(file.Datasync(), l.fs.SyncDir(l.Dir()))
}

// settle publishes the offsets that the batches and the checkpoints give.
func (r *recovery) settle() error {
	l := r.log
	end := max(r.next, r.set.active().baseOffset)
	if end < r.point && !r.lossy {
		// Whole batches are missing that had been made durable: an older copy of the files was put in place.
		l.logger.Warn("log ends below its recovery point", "partition", l.tp, "end", end, "recovery point", r.point)
		r.lossy = true
	}
	l.lossy.Store(r.lossy)
	first := r.set.all[0].baseOffset
	start := max(l.opts.StartOffset, first)
	l.startOffset.Store(start)
	l.endOffset.Store(end)
	if start > end {
		// Records were deleted up to there, and the ones above were lost: nothing of what is left can be read.
		l.logger.Warn("log ends below its start and begins anew", "partition", l.tp, "start", start, "end", end)
		return l.truncateFullyLocked(start)
	}
	l.highWatermark.Store(min(max(l.opts.HighWatermark, start), end))
	l.recoveryPoint.Store(min(r.point, end))
	if l.opts.CleanShutdown && !r.lossy {
		l.recoveryPoint.Store(end)
	}
	// An epoch that began at the end, and in which nothing was written, is known again when its leader writes.
	l.mu.epochs.TruncateFromEnd(end)
	l.mu.epochs.TruncateFromStart(start)
	return l.flushEpochsLocked()
}

// producers makes the producers' state that of the log's end, and the transaction indexes again as far as is needed.
func (r *recovery) producers() error {
	l := r.log
	end := l.endOffset.Load()
	before := len(l.mu.snapshots)
	if err := l.removeSnapshotsLocked(func(offset int64) bool { return offset > end }); err != nil {
		return err
	}
	r.snapshotsGone = len(l.mu.snapshots) < before
	from := min(r.txnsFrom, end)
	if err := l.loadProducersLocked(l.mu.producers, from); err != nil {
		return err
	}
	err := l.replayLocked(l.mu.producers, from, end, func(seg *segment, txn AbortedTxn) error { return seg.addAborted(txn) })
	l.publishUnstableLocked()
	return err
}
