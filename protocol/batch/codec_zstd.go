package batch

import (
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is the largest window that Kafka's library takes; zstd --ultra -22 needs it.
const maxZstdWindow = 128 << 20

// newZstdDecoder returns a decoder of at most limit bytes at a time. It starts no goroutines for DecodeAll.
func newZstdDecoder(concurrency, limit int) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(concurrency), zstd.WithDecoderMaxWindow(maxZstdWindow),
		zstd.WithDecoderMaxMemory(uint64(limit)))
	if err != nil {
		panic(err) // the options are constants, but for the limit, which is not 0
	}
	return d
}

// zstdDecoder is shared by all; it lends out as many block decoders as there are processors.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder { return newZstdDecoder(0, maxDecompressedBytes) })

const (
	zstdBlockSize = 128 << 10         // the most that a block holds
	maxZstdRatio  = zstdBlockSize / 4 // the least that it takes is four bytes
)

// unzstd takes several frames one after the other. A decoder's limit cannot be changed: batches so large that theirs is
// above that of the shared decoder get one of their own.
func unzstd(dst *buffer, src []byte, limit int) error {
	d := zstdDecoder()
	if limit > maxDecompressedBytes {
		d = newZstdDecoder(1, limit)
		defer d.Close()
	}
	// With a block's room to spare the decoder needs no checks at the end of the buffer.
	dst.room(min(zstdSize(src), limit) + 2*zstdBlockSize)
	out, err := d.DecodeAll(src, dst.b)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded) || err == nil && len(out) > limit:
		return errDecompressed
	case err != nil:
		return err
	}
	dst.b = out
	return nil
}

// zstdSize guesses the size that src decompresses to. Streams do not tell it (Java's never do), and what a frame
// promises is believed as far as its bytes can hold it.
func zstdSize(src []byte) int {
	var h zstd.Header
	if err := h.Decode(src); err == nil && h.HasFCS && h.FrameContentSize <= uint64(maxZstdRatio*len(src)) {
		return int(h.FrameContentSize)
	}
	return 4 * len(src)
}

// zstdEncoders holds one encoder for each of the library's levels; each is shared by all, as the decoder is.
var zstdEncoders = func() (e [zstd.SpeedBestCompression + 1]func() *zstd.Encoder) {
	for level := range e {
		e[level] = sync.OnceValue(func() *zstd.Encoder {
			w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevel(level)), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
			if err != nil {
				panic(err) // the options are constants
			}
			return w
		})
	}
	return e
}()

func appendZstd(dst []byte, level int, src []byte) []byte {
	speed := zstd.SpeedDefault
	if level != 0 {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	return zstdEncoders[speed]().EncodeAll(src, dst)
}
