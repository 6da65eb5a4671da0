package log

import (
	"errors"
	"io"
	"os"
)

// ReadRequest asks for batches.
type ReadRequest struct {
	Offset     int64
	MaxBytes   int
	EndOffset  int64 // exclusive: nothing at or above it is returned. The high watermark, the last stable offset, or the log's end
	AtLeastOne bool  // return the first batch even if it is larger than MaxBytes (KIP-74)
}

// Records is a run of whole batches in a segment file. The zero value is empty. It stays readable, whatever retention
// does, until Release, which must be called exactly once.
type Records struct {
	file *openFile
	pos  int64
	len  int
}

// Len is the run's length in bytes.
func (r Records) Len() int { return r.len }

// ReadAt reads from byte off of the run; a full read or an error. io.EOF at the run's end, as io.ReaderAt says; a follower
// that truncated the log meanwhile makes io.ErrUnexpectedEOF.
func (r Records) ReadAt(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if off < 0 || off >= int64(r.len) {
		return 0, io.EOF
	}
	want := p[:min(len(p), r.len-int(off))]
	n, err := r.file.ReadAt(want, r.pos+off)
	switch {
	case n == len(p):
		return n, nil
	case n == len(want):
		return n, io.EOF
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// OSFile returns the segment's file and the run's position in it, for sendfile. ok is false where there is no file that
// the kernel can send from. The file must not be closed, nor its position moved.
func (r Records) OSFile() (f *os.File, pos int64, ok bool) {
	if r.file == nil || r.file.os == nil {
		return nil, 0, false
	}
	return r.file.os, r.pos, true
}

// Release lets go of the segment's file.
func (r Records) Release() {
	if r.file != nil {
		r.file.release()
	}
}

// Read returns whole batches from the one that holds Offset on (it may begin below Offset; the client skips), out of one
// segment, at most MaxBytes and nothing at or above EndOffset. Offset may be the log's end, or lie between EndOffset and
// there: then the result is empty. It takes no lock that an append holds.
//
// Errors: ErrOffsetOutOfRange, ErrCorrupt, ErrStorage, ErrClosed.
func (l *Log) Read(r ReadRequest) (Records, error) {
	if err := l.usable(); err != nil {
		return Records{}, err
	}
	for {
		// The end is read before the segments, so that the set covers it.
		truncations := l.truncations.Load()
		end := l.endOffset.Load()
		segments := l.segments.Load()
		records, err := l.read(segments, end, r)
		if err != nil && l.changedSince(truncations, segments, err) {
			continue
		}
		if err != nil {
			err = l.readError(err)
		}
		return records, err
	}
}

// readError gives a failed read its type. It does not take the log offline by itself: other segments may be readable,
// and whoever writes meets a disk that is gone.
func (l *Log) readError(err error) error {
	switch err.(type) {
	case ErrOffsetOutOfRange, ErrCorrupt, ErrInvalidRecord:
		return err
	}
	if unusable := l.usable(); unusable != nil {
		return unusable // it was closed or deleted under the reader
	}
	return ErrStorage{TP: l.tp, Err: err}
}

func (l *Log) read(segments *segmentSet, end int64, r ReadRequest) (Records, error) {
	if start := l.startOffset.Load(); r.Offset < start || r.Offset > end {
		return Records{}, ErrOffsetOutOfRange{TP: l.tp, Offset: r.Offset, Start: start, End: end}
	}
	limit := min(r.EndOffset, end)
	if r.Offset >= limit {
		return Records{}, nil
	}
	for i := segments.floor(r.Offset); i < len(segments.all); i++ {
		seg := segments.all[i]
		if seg.baseOffset >= limit {
			break // only a gap lies between the offset and the limit
		}
		first, err := seg.find(r.Offset)
		if err != nil {
			return Records{}, err
		}
		if first.pos >= seg.end.Load() {
			continue // the segment ends in a gap that holds the offset: the next one has what follows
		}
		whole := i+1 < len(segments.all) && segments.all[i+1].baseOffset <= limit
		return seg.slice(first.pos, r, limit, whole)
	}
	return Records{}, nil
}

// slice makes the Records that begin at a position. whole says that all of the segment is below the limit.
func (s *segment) slice(from int64, r ReadRequest, limit int64, whole bool) (Records, error) {
	to, err := s.endPosition(from, r, limit, whole)
	if err != nil || to <= from {
		return Records{}, err
	}
	h, err := s.file.acquire()
	if err != nil {
		return Records{}, err
	}
	return Records{file: h, pos: from, len: int(to - from)}, nil
}

// endPosition finds where a read that begins at from has to end: a boundary between batches.
func (s *segment) endPosition(from int64, r ReadRequest, limit int64, whole bool) (int64, error) {
	upTo := from + int64(max(r.MaxBytes, 0))
	to := s.end.Load()
	if upTo < to {
		// What is bounded by its size mostly ends far below the limit: then the index tells without a search for it.
		if cut, ok := s.cut(upTo, limit); ok && cut > from {
			return cut, nil
		}
	}
	if !whole {
		at, err := s.find(limit)
		if err != nil {
			return 0, err
		}
		to = at.pos
	}
	if to <= upTo {
		return to, nil
	}
	return s.walkTo(from, upTo, to, r.AtLeastOne)
}

// walkTo finds the last boundary in (from, upTo] by way of the headers; if the first batch is larger and atLeastOne, its
// end. end, a boundary, is above upTo.
func (s *segment) walkTo(from, upTo, end int64, atLeastOne bool) (int64, error) {
	w, err := s.walk(from, end)
	if err != nil {
		return 0, err
	}
	defer w.release()
	for {
		h, err := w.next()
		if err != nil {
			return 0, err
		}
		if w.pos > upTo {
			last := w.pos - int64(h.Size())
			if last == from && atLeastOne {
				return w.pos, nil
			}
			return last, nil
		}
	}
}
