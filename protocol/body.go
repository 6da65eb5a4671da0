package protocol

import "os"

// Body is what a response carries after its header: a MessageBody or a PartsBody.
type Body interface {
	Key() int16
	GetVersion() int16
	IsFlexible() bool
}

// MessageBody is a Body in memory; every kmsg.Response is one.
type MessageBody interface {
	Body
	AppendTo(dst []byte) []byte
}

// PartsBody is a Body that has records lying in files, which are sent without passing through one buffer (Fetch).
type PartsBody interface {
	Body
	// AppendParts appends the body to p.
	AppendParts(p *Parts)
	// Release lets go of the files. It is called once, when the response is written or dropped; the body is not used
	// after it.
	Release()
}

// Parts is a response on its way out: bytes in memory, and runs of records that go between them.
type Parts struct {
	Bytes []byte
	Runs  []Run
}

// Run is records that go out before Bytes[At]; At never falls from one run to the next.
type Run struct {
	At      int
	Records Records
}

// Len is the size of the whole in bytes.
func (p *Parts) Len() int {
	n := len(p.Bytes)
	for i := range p.Runs {
		n += p.Runs[i].Records.Len()
	}
	return n
}

// Reset empties p and keeps its memory.
func (p *Parts) Reset() {
	clear(p.Runs) // they hold segments
	p.Bytes, p.Runs = p.Bytes[:0], p.Runs[:0]
}

// Records is a run of record batches that lies in a segment file and stays readable until it is released.
type Records interface {
	Len() int
	// ReadAt reads from byte off of the run; a full read or an error.
	ReadAt(p []byte, off int64) (int, error)
	// OSFile returns the file and the run's position in it for sendfile; ok is false where there is no such file.
	OSFile() (f *os.File, pos int64, ok bool)
	// Release lets go of the file, once.
	Release()
}

// AppendBody appends the whole body to dst, records included. The server writes PartsBody without this; it is for those
// who want the bytes of one.
func AppendBody(dst []byte, body Body) ([]byte, error) {
	if m, ok := body.(MessageBody); ok {
		return m.AppendTo(dst), nil
	}
	var p Parts
	body.(PartsBody).AppendParts(&p)
	from := 0
	for _, run := range p.Runs {
		dst = append(dst, p.Bytes[from:run.At]...)
		from = run.At
		n := len(dst)
		dst = append(dst, make([]byte, run.Records.Len())...)
		if _, err := run.Records.ReadAt(dst[n:], 0); err != nil {
			return nil, err
		}
	}
	return append(dst, p.Bytes[from:]...), nil
}
