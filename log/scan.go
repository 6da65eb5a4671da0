package log

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"weir/protocol/batch"
)

// scanner walks the batches of a segment file in order, reading scanBytes at a time into a pooled buffer. It never holds
// more than the largest whole batch that the file really has, whatever a length field claims.
type scanner struct {
	file  io.ReaderAt
	pos   int64 // of the next batch
	limit int64 // where the file, or what shall be read of it, ends

	buf   *[]byte
	bytes []byte // of buf: what is read from pos on
}

var scanBuffers = sync.Pool{New: func() any {
	b := make([]byte, scanBytes)
	return &b
}}

// newScanner walks [pos, limit). Release it.
func newScanner(file io.ReaderAt, pos, limit int64) *scanner {
	return &scanner{file: file, pos: pos, limit: limit, buf: scanBuffers.Get().(*[]byte)}
}

func (s *scanner) release() {
	if cap(*s.buf) <= 4*scanBytes {
		scanBuffers.Put(s.buf)
	}
	s.buf, s.bytes = nil, nil
}

// next returns the batch at s.pos and moves past it. The bytes are valid until the next call. What is there but is no
// batch comes back as a batch error (torn or corrupt), with what its header says, if it has one, and s.pos left where it
// begins; io.EOF at the limit; other errors are the disk's. The CRC is not checked.
func (s *scanner) next() (batch.Header, []byte, error) {
	if s.pos >= s.limit {
		return batch.Header{}, nil, io.EOF
	}
	if err := s.fill(batch.HeaderSize); err != nil {
		return batch.Header{}, nil, err
	}
	h, err := batch.ParseHeader(s.bytes)
	if err != nil {
		return h, nil, err
	}
	size := h.Size()
	if int64(size) > s.limit-s.pos {
		return h, nil, &batch.TornError{Have: int(s.limit - s.pos), Need: size}
	}
	if err := s.fill(size); err != nil {
		return h, nil, err
	}
	b := s.bytes[:size:size]
	s.pos += int64(size)
	s.bytes = s.bytes[size:]
	return h, b, nil
}

// nextStored is next with everything checked that CheckStored does.
func (s *scanner) nextStored() (batch.Header, []byte, error) {
	at := s.pos
	h, b, err := s.next()
	if err != nil {
		return h, nil, err
	}
	h, err = batch.CheckStored(b)
	if err != nil {
		s.pos, s.bytes = at, nil
		return h, nil, err
	}
	return h, b, nil
}

// fill makes at least n bytes from s.pos on available, or as many as there are before the limit.
func (s *scanner) fill(n int) error {
	if len(s.bytes) >= n {
		return nil
	}
	want := min(max(int64(n), int64(len(*s.buf))), s.limit-s.pos)
	into := *s.buf
	if want > int64(len(into)) {
		into = make([]byte, want)
	}
	have := copy(into, s.bytes)
	*s.buf = into
	read, err := s.file.ReadAt(into[have:want], s.pos+int64(have))
	if err != nil && !(errors.Is(err, io.EOF) && have+read >= min(n, int(want))) {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("file ends at byte %d, before %d: %w", s.pos+int64(have+read), s.limit, io.ErrUnexpectedEOF)
		}
		return err
	}
	s.bytes = into[:have+read]
	return nil
}

// scan calls visit with the batches from a position on, checked, and where each begins. io.EOF from visit ends the scan. A
// batch that is not right is an ErrCorrupt: this is for what lies below the end.
func (s *segment) scan(pos int64, visit func(h *batch.Header, pos int64, b []byte) error) error {
	file, err := s.file.acquire()
	if err != nil {
		return err
	}
	defer file.release()
	sc := newScanner(file, pos, s.end.Load())
	defer sc.release()
	for err == nil {
		var h batch.Header
		var b []byte
		at := sc.pos
		if h, b, err = sc.nextStored(); err == nil {
			err = visit(&h, at, b)
		} else if isDamage(err) {
			err = ErrCorrupt{Path: s.file.path, Pos: at, Err: err}
		}
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// isDamage tells an error in the bytes from one of the disk.
func isDamage(err error) bool {
	var corrupt *batch.CorruptError
	return errors.Is(err, batch.ErrTorn) || errors.As(err, &corrupt)
}
