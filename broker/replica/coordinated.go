package replica

import (
	"io"

	"weir/internal/kafka"
	"weir/log"
)

// Coordinated makes a partition what a coordinator's shard needs of the one that it lives in (coordinator.Partition).
type Coordinated struct{ *Partition }

// committed is the Acker of a coordinator's append.
type committed struct{ tell func(error) }

func (c *committed) Acked(_ int, err error) { c.tell(err) }

// Check says why Append would be refused now.
func (p Coordinated) Check(epoch kafka.LeaderEpoch) error { return p.CheckAppend(epoch) }

// Append appends a batch in a leader epoch. Unless it is committed already, tell is told once when it is, or that it will not be.
func (p Coordinated) Append(epoch kafka.LeaderEpoch, b []byte, tell func(error)) (isCommitted bool, err error) {
	result, err := p.AppendOwn(epoch, b, &committed{tell}, 0)
	return !result.Parked, err
}

// Await waits likewise for what lies below endOffset.
func (p Coordinated) Await(epoch kafka.LeaderEpoch, endOffset int64, tell func(error)) (isCommitted bool, err error) {
	parked, err := p.Partition.Await(epoch, endOffset, &committed{tell}, 0)
	return !parked, err
}

// MaxBatchBytes is how large a batch may be.
func (p Coordinated) MaxBatchBytes() int {
	c := p.Config()
	return int(min(c.Rules.MaxMessageBytes, c.Log.SegmentBytes))
}

// Offsets is where the log begins, and where it ends (exclusive).
func (p Coordinated) Offsets() (startOffset, endOffset int64) {
	l := p.Log()
	return l.StartOffset(), l.EndOffset()
}

// Read reads whole batches from the one that holds offset, none at or above endOffset, into buf or, where one batch is larger, into new memory.
func (p Coordinated) Read(buf []byte, offset, endOffset int64) ([]byte, error) {
	records, err := p.Log().Read(log.ReadRequest{Offset: offset, MaxBytes: cap(buf), EndOffset: endOffset, AtLeastOne: true})
	if err != nil {
		return nil, err
	}
	defer records.Release()
	n := records.Len()
	if n > cap(buf) {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := records.ReadAt(buf, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return buf, nil
}
