package protocol

import "os"

// Body is what a response carries after its header; every kmsg.Response is one.
type Body interface {
	Key() int16
	GetVersion() int16
	IsFlexible() bool
	AppendTo(dst []byte) []byte
}

// PartsBody is a Body that has bytes lying in files, which are sent without passing through one buffer (Fetch).
// AppendParts appends header bytes to buf and closes a part wherever records follow; it returns the grown buffer's parts
// in the order they go out.
type PartsBody interface {
	Body
	// Size is the exact number of bytes that the parts will have.
	Size() int
	AppendParts(dst []Part) []Part
	// Release lets go of the files; called once, when the response is written or dropped.
	Release()
}

// Part is a piece of a response: bytes in memory, or records in a file.
type Part struct {
	Bytes   []byte
	Records Records
}

// Records is a run of record batches that lies in a segment file and stays readable until it is released.
type Records interface {
	Len() int
	// ReadAt reads from byte off of the run; a full read or an error.
	ReadAt(p []byte, off int64) (int, error)
	// OSFile returns the file and the run's position in it for sendfile; ok is false where there is no such file.
	OSFile() (f *os.File, pos int64, ok bool)
}
