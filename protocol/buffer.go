package protocol

import (
	"math/bits"
	"sync"
)

// Buffer is bytes from a pool. Whoever holds it frees it once, when nothing refers to its bytes any more.
type Buffer struct {
	B []byte
}

const (
	minBufferShift = 12 // 4 KiB
	maxBufferShift = 23 // 8 MiB; larger ones are left to the garbage collector
)

// pools holds buffers by the power of two that their capacity reaches. Doubling classes waste half at most, which keeps
// the budget of bytes in flight honest.
var pools [maxBufferShift - minBufferShift + 1]sync.Pool

// NewBuffer returns an empty buffer that holds n bytes without growing.
func NewBuffer(n int) *Buffer {
	class := 0
	if n > 1<<minBufferShift {
		class = bits.Len(uint(n-1)) - minBufferShift
	}
	if class >= len(pools) {
		return &Buffer{B: make([]byte, 0, n)}
	}
	if b, ok := pools[class].Get().(*Buffer); ok {
		return b
	}
	return &Buffer{B: make([]byte, 0, 1<<(class+minBufferShift))}
}

// Free gives the buffer back.
func (b *Buffer) Free() {
	poison(b.B[:cap(b.B)])
	class := bits.Len(uint(cap(b.B))) - 1 - minBufferShift // rounded down: a grown buffer serves the class that it fills
	b.B = b.B[:0]
	if class >= 0 && class < len(pools) {
		pools[class].Put(b)
	}
}
