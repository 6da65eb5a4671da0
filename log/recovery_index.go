package log

import (
	"errors"
	"math"
	"slices"
)

// What recovery has to do with the files beside the batches: where in them a scan can begin, and what of them must become
// durable before the log goes on.

// scanStart prepares the indexes of a segment for the scan, and says where that begins.
func (r *recovery) scanStart(seg *segment, first bool) (boundary, error) {
	start := boundary{offset: seg.baseOffset}
	if first && !r.epochsLost {
		at, err := r.trustedEntry(seg)
		broken := ErrBrokenFile{}
		if !errors.As(err, &broken) {
			return at, err
		}
		// Kafka, if it did not stop in good order, leaves index files that are filled up with zeros; a power cut may leave
		// anything; somebody may have emptied them.
		r.log.logger.Warn("index is broken and is made again from the batches", "path", broken.Path, "why", broken.Reason)
	}
	seg.newIndexes()
	r.txnsFrom = min(r.txnsFrom, seg.baseOffset)
	r.indexEnd = math.MaxInt64
	return start, nil
}

// trustedEntry loads a segment's indexes and returns the place of the last batch that they know for certain: where the scan
// begins. What they have beyond is dropped; the scan finds it again.
func (r *recovery) trustedEntry(seg *segment) (boundary, error) {
	if err := seg.loadIndexes(math.MaxInt64); err != nil {
		return boundary{}, err
	}
	seg.index.Lock()
	defer seg.index.Unlock()
	last, err := seg.index.offsets.Last()
	if err != nil {
		return boundary{}, err
	}
	lastTime, err := seg.index.times.Last()
	if err != nil {
		return boundary{}, err
	}
	entry := last
	if !r.log.opts.CleanShutdown {
		// The time index may have lost more than the offset index: what is behind its last entry it may not know.
		if entry, err = seg.index.offsets.Lookup(min(r.point-1, lastTime.Offset)); err != nil {
			return boundary{}, err
		}
	}
	at := boundary{seg.baseOffset, entry.Position}
	if entry.Position > 0 {
		if at.offset, err = r.verifyEntry(seg, entry, lastTime); err != nil {
			return at, err
		}
	} else if interval := int64(r.log.config.Load().IndexIntervalBytes); seg.end.Load() > 4*interval && seg.index.offsets.Len() == 0 {
		r.log.logger.Warn("index has no entries and is made again from the batches", "path", seg.path(indexSuffix))
	}
	if r.log.opts.CleanShutdown {
		return at, nil
	}
	r.txnsFrom = at.offset
	r.indexEnd = max(r.indexEnd, last.Offset+1, lastTime.Offset+1)
	drop := seg.baseOffset
	if entry.Position > 0 {
		drop = entry.Offset + 1
	}
	return at, seg.truncateIndexesLocked(drop, at.offset)
}

// verifyEntry checks that an index entry leads to its batch, and that the time index does not end before that batch's time.
// It returns the batch's base offset.
func (r *recovery) verifyEntry(seg *segment, entry OffsetPosition, lastTime TimestampOffset) (int64, error) {
	h, err := seg.readHeader(entry.Position)
	switch {
	case errors.As(err, new(ErrCorrupt)), err == nil && (h.LastOffset() != entry.Offset || h.BaseOffset < seg.baseOffset):
		return 0, brokenAt(seg.path(indexSuffix), 0, "an entry leads to byte %d for offset %d, which is not there", entry.Position, entry.Offset)
	case err != nil:
		return 0, err
	case h.MaxTimestamp > lastTime.Timestamp:
		return 0, brokenAt(seg.path(timeIndexSuffix), 0, "it ends before time %d of offset %d", h.MaxTimestamp, entry.Offset)
	}
	return h.BaseOffset, nil
}

// noteNames has the next sync make durable what the process before had written, but perhaps not synced when it was killed.
func (r *recovery) noteNames() {
	l := r.log
	for _, seg := range append(slices.Clip(l.mu.unsynced), l.segments.Load().active()) {
		l.noteNameLocked(segmentName(seg.baseOffset, logSuffix))
		l.noteNameLocked(segmentName(seg.baseOffset, txnIndexSuffix))
	}
	for _, offset := range l.mu.snapshots {
		l.noteNameLocked(segmentName(offset, snapshotSuffix))
	}
	for _, name := range []string{leaderEpochCheckpoint, partitionMetadataFile, ownName} {
		l.noteNameLocked(name)
	}
}

// forgetTheLost makes durable that the small files no longer tell of batches that a power cut took: otherwise another one
// may bring back index entries or a snapshot that do not fit what was appended since. Where nothing was lost, and after
// kill -9, there is nothing to do.
func (r *recovery) forgetTheLost() error {
	l, active := r.log, r.log.segments.Load().active()
	if r.indexEnd <= l.endOffset.Load() && !r.snapshotsGone || l.opts.noSync {
		return nil
	}
	if err := active.flushIndexes(); err != nil {
		return err
	}
	return errors.Join(active.syncIndexes(), l.fs.SyncDir(l.Dir()))
}

// seal completes the indexes of the segments that were scanned, but for the active one.
func (r *recovery) seal() error {
	for _, seg := range r.log.mu.unsynced {
		if err := seg.seal(); err != nil {
			return err
		}
	}
	return nil
}
