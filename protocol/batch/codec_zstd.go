package batch

import (
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is the largest window that Kafka's library takes; zstd --ultra -22 needs it.
const maxZstdWindow = 128 << 20

// zstdDecoder is shared by all: it lends out as many block decoders as there are processors, starts no goroutines for
// DecodeAll, and writes no more than fits the buffer it is given.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxWindow(maxZstdWindow),
		zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
})

// maxZstdRatio: a block takes four bytes at least and holds 128 KiB at most.
const maxZstdRatio = 128 << 10 / 4

// unzstd takes several frames one after the other. Streams do not tell their size (Java's never do), so a buffer that
// turns out too small is grown fourfold and the decoding begins again: at worst a third more work, none from a pooled
// buffer of the usual size. What a frame promises is no reason to grow beyond what its bytes can hold.
func unzstd(dst *buffer, src []byte, limit int) error {
	tooLarge := errDecompressed
	if possible := maxZstdRatio * len(src); possible < limit {
		limit, tooLarge = possible, errCompressed
	}
	dst.room(min(max(zstdSize(src), 512), limit)) // a first frame may be empty, and four times nothing never enough
	for {
		room := min(cap(dst.b), limit)
		out, err := zstdDecoder().DecodeAll(src, dst.b[:0:room])
		if err == nil {
			dst.b = dst.b[:len(out)]
			return nil
		}
		if !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return err
		}
		if room == limit {
			return tooLarge
		}
		dst.b = make([]byte, 0, min(4*room, limit))
	}
}

// zstdSize guesses the size that src decompresses to.
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
