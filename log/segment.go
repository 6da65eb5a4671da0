package log

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/protocol/batch"
)

// Suffixes of a segment's files, after its base offset in twenty digits. They are Kafka's.
const (
	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
	snapshotSuffix  = ".snapshot"
)

// segmentName is the name of a file that belongs to a base offset.
func segmentName(baseOffset int64, suffix string) string {
	return fmt.Sprintf("%020d%s", baseOffset, suffix)
}

// segment is one file of batches with its indexes. Only the log's last one grows, under the log lock. Readers take what
// lies below end; those bytes change by truncation only.
type segment struct {
	owner      *Log
	dir        string
	baseOffset int64
	file       segmentFile
	end        atomic.Int64         // bytes of whole batches; published after they are written
	next       atomic.Int64         // of a sealed segment: the offset after its last batch, or above
	tail       atomic.Pointer[tail] // the last boundaries

	// Guarded by the log lock.
	created              time.Time // when the segment was made or opened: rolls batches without a timestamp
	firstTimestamp       int64     // max timestamp of the first batch: what segment.ms counts from
	firstTimestampRead   bool      // firstTimestamp is known; it is read from the file when it is first needed
	bytesSinceIndexEntry int64
	reserved             int64 // bytes that space was reserved for
	jitterMs             int64 // taken from segment.ms

	// index is a leaf lock: nothing is locked and no lasting I/O is done under it but look-ups in index files.
	index struct {
		sync.Mutex
		offsets            *OffsetIndex
		times              *TimeIndex
		txns               *TxnIndex
		maxTimestamp       int64 // of all batches, NoTimestamp if none has one
		maxTimestampOffset int64 // last offset of the first batch that has it, as Kafka notes it
		retired            bool  // the files are no longer this segment's
	}
}

// newSegment describes a segment of a log; its files may or may not exist.
func newSegment(l *Log, baseOffset int64) *segment {
	s := &segment{owner: l, dir: l.Dir(), baseOffset: baseOffset, created: l.clock.Now(), firstTimestamp: batch.NoTimestamp}
	s.file.cache, s.file.path, s.file.unused = l.files, s.path(logSuffix), s.dropWindow
	s.index.maxTimestamp = batch.NoTimestamp
	s.tail.Store(newTail(baseOffset, 0))
	s.setJitter(l.config.Load())
	return s
}

// setJitter takes a part of segment.jitter.ms from segment.ms: different for each segment, so that not all logs roll at
// once, but the same whenever it is opened.
func (s *segment) setJitter(c *Config) {
	if limit := min(c.SegmentJitterMs, c.SegmentMs); limit > 0 {
		seed := fnv.New64a()
		_, _ = io.WriteString(seed, s.file.path) // a hash takes everything
		s.jitterMs = int64(seed.Sum64() % uint64(limit))
	}
}

func (s *segment) path(suffix string) string {
	return filepath.Join(s.dir, segmentName(s.baseOffset, suffix))
}

// readFull reads len(p) bytes at pos of the segment's file.
func (s *segment) readFull(p []byte, pos int64) error {
	h, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	_, err = h.ReadAt(p, pos)
	return err
}

// readHeader reads the header of the batch at pos.
func (s *segment) readHeader(pos int64) (batch.Header, error) {
	var b [batch.HeaderSize]byte
	err := s.readFull(b[:], pos)
	if errors.Is(err, io.EOF) {
		return batch.Header{}, ErrCorrupt{Path: s.file.path, Pos: pos, Err: &batch.TornError{Have: int(s.end.Load() - pos), Need: len(b)}}
	}
	if err != nil {
		return batch.Header{}, err
	}
	h, err := batch.ParseHeader(b[:])
	if err != nil {
		return h, ErrCorrupt{Path: s.file.path, Pos: pos, Err: err}
	}
	return h, nil
}

// write puts p behind the last batch. A failure leaves the file as long as it was, as far as the disk lets it: nothing
// half-visible remains for recovery to find.
func (s *segment) write(p []byte) error {
	h, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	end := s.end.Load()
	n, err := h.WriteAt(p, end)
	if err == nil && n == len(p) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("write %s: %d of %d bytes", s.file.path, n, len(p))
	}
	if n > 0 {
		err = errors.Join(err, h.Truncate(end))
	}
	return err
}

// fitsRelative reports whether an offset can be an index entry, which holds int32 relative to the base offset.
func (s *segment) fitsRelative(offset int64) bool {
	return offset >= s.baseOffset && offset-s.baseOffset <= maxRelativeOffset
}

// rollReason says why a segment must not take the next batches, or "" if it may. The conditions are Kafka's
// (LogSegment.shouldRoll): the time that counts is that of the batches, so that replicas roll alike.
func (s *segment) rollReason(c *Config, size int64, maxTimestamp, lastOffset int64, now func() time.Time) string {
	end := s.end.Load()
	if !s.fitsRelative(lastOffset) {
		return "offset"
	}
	if end == 0 {
		return "" // an empty segment takes a batch of any size: another would be as empty
	}
	switch {
	case end > int64(c.SegmentBytes)-size, end > maxSegmentSize-size:
		return "size"
	case s.timeWaited(maxTimestamp, now) > c.SegmentMs-s.jitterMs:
		return "time"
	case s.indexFull(c.IndexBytes):
		return "index"
	}
	return ""
}

// timeWaited is how long, in ms, the segment has been filling when a batch with maxTimestamp comes.
func (s *segment) timeWaited(maxTimestamp int64, now func() time.Time) int64 {
	if !s.firstTimestampRead && s.end.Load() > 0 {
		if h, err := s.readHeader(0); err == nil { // if it cannot be read, the segment's age is as good
			s.firstTimestamp = h.MaxTimestamp
		}
		s.firstTimestampRead = true
	}
	if s.firstTimestamp >= 0 {
		return maxTimestamp - s.firstTimestamp
	}
	return now().Sub(s.created).Milliseconds()
}

// reserve asks the disk for space ahead of the end, once the segment has grown enough to be worth it.
func (s *segment) reserve(segmentBytes int64) {
	end := s.end.Load()
	if end < preallocateStep || end+preallocateStep/4 < s.reserved || s.reserved >= segmentBytes {
		return
	}
	upTo := min(max(s.reserved, end)+preallocateStep, segmentBytes)
	if h, err := s.file.acquire(); err == nil {
		// A reservation is a favour to the disk: without it the next write fails by itself if there is no space.
		_ = h.Preallocate(end, upTo-end)
		h.release()
	}
	s.reserved = upTo
}

// trim gives back the space that was reserved and not used: a truncation to the size that the file has.
func (s *segment) trim() error {
	if s.reserved <= s.end.Load() {
		return nil
	}
	s.reserved = 0
	h, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	return h.Truncate(s.end.Load())
}

// retire ends the use of the segment's files: they were removed, or the log was closed. Records that were read stay
// readable.
func (s *segment) retire() {
	s.file.retire()
	s.index.Lock()
	defer s.index.Unlock()
	s.index.retired = true
	s.dropIndexesLocked()
}

// modifiedMs is when the file was last written to, in ms.
func (s *segment) modifiedMs() (int64, error) {
	info, err := s.owner.fs.Stat(s.file.path)
	if err != nil {
		return 0, err
	}
	return info.ModTime().UnixMilli(), nil
}
