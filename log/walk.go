package log

import (
	"errors"
	"io"
	"sync"

	"weir/protocol/batch"
)

// walkBytes is read at a time when only headers are of interest: two intervals of the sparse index, so that one read
// mostly gets from an index entry to the batch that is looked for.
const walkBytes = 8 << 10

// walker goes from batch to batch by their headers, reading walkBytes at a time and nothing of larger batches but their
// headers. See scanner for one that reads everything.
type walker struct {
	file *openFile
	path string
	pos  int64 // of the next batch
	end  int64

	buf      *[walkBytes]byte
	from, to int64 // what of the file is in buf
}

var walkBuffers = sync.Pool{New: func() any { return new([walkBytes]byte) }}

// walk begins at pos, where a batch begins, and ends at end, where one ends. Release it.
func (s *segment) walk(pos, end int64) (*walker, error) {
	h, err := s.file.acquire()
	if err != nil {
		return nil, err
	}
	w := walkers.Get().(*walker)
	*w = walker{file: h, path: s.file.path, pos: pos, end: end, buf: walkBuffers.Get().(*[walkBytes]byte)}
	return w, nil
}

var walkers = sync.Pool{New: func() any { return new(walker) }}

func (w *walker) release() {
	w.file.release()
	walkBuffers.Put(w.buf)
	*w = walker{}
	walkers.Put(w)
}

// next returns the header of the batch at pos and moves past it; io.EOF at the end. What is no header, or reaches beyond
// the end, is an ErrCorrupt.
func (w *walker) next() (batch.Header, error) {
	if w.pos >= w.end {
		return batch.Header{}, io.EOF
	}
	if w.pos < w.from || w.pos+batch.HeaderSize > w.to {
		n, err := w.file.ReadAt(w.buf[:min(walkBytes, w.end-w.pos)], w.pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return batch.Header{}, err
		}
		w.from, w.to = w.pos, w.pos+int64(n)
	}
	h, err := batch.ParseHeader(w.buf[w.pos-w.from : w.to-w.from])
	if err == nil && int64(h.Size()) > w.end-w.pos {
		err = &batch.TornError{Have: int(w.end - w.pos), Need: h.Size()}
	}
	if err != nil {
		return h, ErrCorrupt{Path: w.path, Pos: w.pos, Err: err}
	}
	w.pos += int64(h.Size())
	return h, nil
}
