package peer

import (
	"encoding/binary"
	"io"
)

const (
	sizeFieldBytes = 4
	minFrameBytes  = 4        // a correlation id
	firstStepBytes = 64 << 10 // how much of a frame is given memory before any of it arrives,
	stepFactor     = 4        // and how many times as much as what did arrive then
)

// readFrame reads one answer, without its size, into *memory, or into larger memory that it leaves there. What fits is
// read straight to its place; beyond that, memory follows what has arrived.
func readFrame(r io.Reader, memory *[]byte, limit int) ([]byte, error) {
	head := growTo(memory, 0, sizeFieldBytes)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head)))
	if size < minFrameBytes || size > limit {
		return nil, &frameError{size, limit}
	}
	have, step := 0, min(size, max(cap(*memory), firstStepBytes))
	for {
		frame := growTo(memory, have, step)
		if _, err := io.ReadFull(r, frame[have:]); err != nil {
			return nil, midFrame(err)
		}
		if have = step; have == size {
			return frame, nil
		}
		step = min(size, stepFactor*have)
	}
}

// growTo returns n bytes of *memory, the first of which are kept.
func growTo(memory *[]byte, keep, n int) []byte {
	if cap(*memory) < n {
		larger := make([]byte, n)
		copy(larger, (*memory)[:keep])
		*memory = larger
	}
	return (*memory)[:n]
}

// midFrame: an end within a frame is not an ordinary one.
func midFrame(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
