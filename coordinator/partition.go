package coordinator

import "weir/internal/kafka"

// Partition is a partition that this broker leads, as far as a shard needs it. It is safe for concurrent use.
type Partition interface {
	// Check says why an append in that leader epoch would be refused now, nil where it would be taken.
	Check(epoch kafka.LeaderEpoch) error
	// Append appends one batch made by a Builder of package batch, as leader of that epoch. After an error nothing is
	// written.
	//
	// The result says whether the batch, and all before it, is committed. If not, committed is called when it is, or with
	// the reason why it is not going to be, by any goroutine, not under a lock and possibly before Append returns. It does
	// not block.
	Append(epoch kafka.LeaderEpoch, b []byte, committed func(error)) (isCommitted bool, err error)
	// Await is Append for records below endOffset that are in the log already.
	Await(epoch kafka.LeaderEpoch, endOffset int64, committed func(error)) (isCommitted bool, err error)
	// MaxBatchBytes is the size of the largest batch that the topic takes.
	MaxBatchBytes() int

	// Offsets are those of the log: of its first record, and the one after its last, committed or not.
	Offsets() (startOffset, endOffset int64)
	// Read returns whole batches from the one that holds offset on, none that begins at or above endOffset: as many as fit
	// into buf's capacity, but at least one, in another buffer if need be. Nothing is returned where no record is left.
	Read(buf []byte, offset, endOffset int64) ([]byte, error)
}
