package batch

import (
	"io"
	"sync"
)

// maxPooledBytes is the largest buffer that is kept for the next batch: eight times the default max.message.bytes, so
// that batches of usual size and ratio find one, while one huge batch does not pin its memory.
const maxPooledBytes = 8 << 20

// A buffer is a pooled byte slice. A nil buffer is one that needs no release.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func newBuffer() *buffer { return buffers.Get().(*buffer) }

// release gives the buffer back; nobody may use its bytes afterwards.
func (f *buffer) release() {
	if f == nil || cap(f.b) > maxPooledBytes {
		return
	}
	f.b = f.b[:0]
	buffers.Put(f)
}

// room makes sure that n more bytes fit. It grows by a half at least, so that many small steps are cheap.
func (f *buffer) room(n int) {
	if cap(f.b)-len(f.b) >= n {
		return
	}
	grown := make([]byte, len(f.b), max(len(f.b)+n, cap(f.b)+cap(f.b)/2))
	copy(grown, f.b)
	f.b = grown
}

// readAll reads r to its end, but not past limit bytes in the buffer.
func (f *buffer) readAll(r io.Reader, limit int) error {
	for {
		if len(f.b) == cap(f.b) {
			f.room(max(512, min(cap(f.b), limit+1-len(f.b)))) // one byte over the limit, to see that there is more
		}
		n, err := r.Read(f.b[len(f.b):cap(f.b)])
		f.b = f.b[:len(f.b)+n]
		switch {
		case len(f.b) > limit:
			return errDecompressed
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
