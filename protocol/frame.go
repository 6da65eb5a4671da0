package protocol

import (
	"bufio"
	"encoding/binary"
	"io"
)

const (
	sizeFieldBytes = 4
	frameHeadBytes = sizeFieldBytes + 2 + 2 // size, key, version: what decides whether the rest is read

	// FirstStepBytes is how much of a frame is given memory before any of it arrives.
	FirstStepBytes = 64 << 10
	stepFactor     = 4 // then a buffer grows to this many times of what did arrive

	readAheadBytes = 4 << 10 // per connection; larger bodies are read straight into their buffer
)

// FrameReader reads length-prefixed frames: requests as they arrive on one connection. Not safe for concurrent use.
type FrameReader struct {
	r        *bufio.Reader
	maxBytes int32
}

// FrameHead is what a frame says of itself before its body is read.
type FrameHead struct {
	Size         int32 // of the frame without the size field; key and version are its first four bytes
	Key, Version int16
	First        [4]byte // the size as it came
}

// NewFrameReader reads from r frames of at most maxBytes.
func NewFrameReader(r io.Reader, maxBytes int32) *FrameReader {
	return &FrameReader{r: bufio.NewReaderSize(r, readAheadBytes), maxBytes: maxBytes}
}

// Wait returns when the next frame has begun to arrive. The error is io.EOF where the peer ended between frames.
func (f *FrameReader) Wait() error {
	_, err := f.r.Peek(1)
	return err
}

// Head reads a frame's head and leaves it for Body. A size that no request has is a *SizeError, at once: the key that
// would follow is not waited for.
func (f *FrameReader) Head() (FrameHead, error) {
	var h FrameHead
	b, err := f.r.Peek(sizeFieldBytes)
	if err != nil {
		return h, midFrame(err)
	}
	copy(h.First[:], b)
	h.Size = int32(binary.BigEndian.Uint32(b))
	if h.Size < minRequestHeaderSize || h.Size > f.maxBytes {
		return h, &SizeError{Size: h.Size, Limit: f.maxBytes, First: h.First}
	}
	if b, err = f.r.Peek(frameHeadBytes); err != nil {
		return h, midFrame(err)
	}
	h.Key = int16(binary.BigEndian.Uint16(b[sizeFieldBytes:]))
	h.Version = int16(binary.BigEndian.Uint16(b[sizeFieldBytes+2:]))
	return h, nil
}

// Meter watches over one frame as it is read.
type Meter interface {
	// Grow is asked before a frame's buffer grows from have to want bytes. It may wait, or refuse with an error.
	Grow(have, want int) error
	// Progress is told how many bytes have come.
	Progress(n int)
}

// Body reads the frame whose head was read, without its size field. Memory follows what has arrived, not what the head
// claims: FirstStepBytes, then four times what is there. The caller frees the buffer.
func (f *FrameReader) Body(h FrameHead, m Meter) (*Buffer, error) {
	if _, err := f.r.Discard(sizeFieldBytes); err != nil {
		return nil, midFrame(err)
	}
	size := int(h.Size)
	step := min(size, FirstStepBytes)
	if err := m.Grow(0, step); err != nil {
		return nil, err
	}
	buf := NewBuffer(step)
	for {
		n, err := f.fill(buf, step, m)
		if err != nil {
			buf.Free()
			return nil, err
		}
		if n == size {
			return buf, nil
		}
		step = min(size, stepFactor*n)
		if err := m.Grow(n, step); err != nil {
			buf.Free()
			return nil, err
		}
		larger := NewBuffer(step)
		larger.B = append(larger.B, buf.B...)
		buf.Free()
		buf = larger
	}
}

// fill reads until the buffer holds n bytes.
func (f *FrameReader) fill(buf *Buffer, n int, m Meter) (int, error) {
	for len(buf.B) < n {
		got, err := f.r.Read(buf.B[len(buf.B):n])
		if err != nil {
			return 0, midFrame(err)
		}
		buf.B = buf.B[:len(buf.B)+got]
		m.Progress(got)
	}
	return n, nil
}

// midFrame: an end within a frame is not an ordinary one.
func midFrame(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// PeekClientID reads the client id of a frame that will not be read, as far as it is here already; for logs.
func (f *FrameReader) PeekClientID() string {
	b, _ := f.r.Peek(f.r.Buffered())
	const at = sizeFieldBytes + requestHeadSize
	if len(b) < at+2 {
		return ""
	}
	var h RequestHeader
	if _, err := h.readClientID(b[at:]); err != nil || h.ClientID == nil {
		return ""
	}
	return *h.ClientID
}

// Watch waits for the peer to end or to send more. It returns nil when more has come, and the error that the next Wait
// would return when the peer is gone. Only for whoever may read.
func (f *FrameReader) Watch() error {
	if f.r.Buffered() > 0 {
		return nil
	}
	return f.Wait()
}
