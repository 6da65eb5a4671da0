package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"weir/internal/kafka"
)

const (
	// ChunkBytes is how much of a large message goes in one request.
	ChunkBytes = 1 << 20
	// maxWholeBytes bounds a message that comes in pieces: some ten million partitions' metadata.
	maxWholeBytes = 1 << 30
	// maxSenders is how many messages may be in the making: that of the leader, and of one that it took over from. What
	// is oldest makes room.
	maxSenders = 2

	chunkHeadBytes = 4 * 8
)

// Chunk is a piece of a message that is too large for one request.
type Chunk struct {
	Sender   uint64 // Raft id
	Transfer uint64 // numbers the sender's messages
	Size     uint64 // of the whole, in bytes
	Offset   uint64 // of the first byte of Data in it
	Data     []byte // aliases what it was decoded from
}

// AppendTo appends the wire form: four big-endian numbers, then the bytes.
func (c *Chunk) AppendTo(dst []byte) []byte {
	for _, v := range [...]uint64{c.Sender, c.Transfer, c.Size, c.Offset} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return append(dst, c.Data...)
}

var errChunk = errors.New("a piece of a message is cut short, or lies beyond its end")

// ReadFrom reads the wire form.
func (c *Chunk) ReadFrom(src []byte) error {
	if len(src) < chunkHeadBytes {
		return errChunk
	}
	for i, v := range [...]*uint64{&c.Sender, &c.Transfer, &c.Size, &c.Offset} {
		*v = binary.BigEndian.Uint64(src[8*i:])
	}
	c.Data = src[chunkHeadBytes:]
	if n := uint64(len(c.Data)); n == 0 || n > ChunkBytes || c.Offset > c.Size || n > c.Size-c.Offset {
		return errChunk
	}
	return nil
}

// Assembler puts pieces together, one message of each sender. Memory follows what has come. Not safe for concurrent use.
type Assembler struct {
	parts []*part // the oldest first
}

// part is a message that is not complete.
type part struct {
	sender, transfer, size uint64
	bytes                  []byte
}

// Add takes a piece, and returns the whole when that is complete. A piece that does not follow what came before is refused
// with INVALID_REQUEST: its sender begins again.
func (a *Assembler) Add(c *Chunk) (whole []byte, err error) {
	i := slices.IndexFunc(a.parts, func(p *part) bool { return p.sender == c.Sender })
	if c.Offset == 0 {
		if i >= 0 {
			a.parts = slices.Delete(a.parts, i, i+1)
		}
		if c.Size > maxWholeBytes {
			return nil, kafka.Errorf(kafka.InvalidRequest, "A message of %d bytes is too large; it may have %d.", c.Size, maxWholeBytes)
		}
		if len(a.parts) == maxSenders {
			a.parts = slices.Delete(a.parts, 0, 1)
		}
		i = len(a.parts)
		a.parts = append(a.parts, &part{sender: c.Sender, transfer: c.Transfer, size: c.Size})
	}
	if i < 0 {
		return nil, kafka.Errorf(kafka.InvalidRequest, "Byte %d of a message came, and not the ones before.", c.Offset)
	}
	p := a.parts[i]
	if p.transfer != c.Transfer || p.size != c.Size || uint64(len(p.bytes)) != c.Offset {
		return nil, kafka.Errorf(kafka.InvalidRequest, "Byte %d of message %d came, and byte %d of message %d is next.", c.Offset, c.Transfer, len(p.bytes), p.transfer)
	}
	p.bytes = append(p.bytes, c.Data...)
	if uint64(len(p.bytes)) < p.size {
		return nil, nil
	}
	a.parts = slices.Delete(a.parts, i, i+1)
	return p.bytes, nil
}

// String names the piece, for logs.
func (c *Chunk) String() string {
	return fmt.Sprintf("bytes %d to %d of %d", c.Offset, c.Offset+uint64(len(c.Data)), c.Size)
}
