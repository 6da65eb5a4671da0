package batch

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// The LZ4 frame format, version 1: magic, flags, block descriptor, optional content size and dictionary id, header
// checksum; blocks with their length before them; a zero length; an optional checksum of the content.
const (
	lz4Magic = 0x184d2204

	lz4VersionMask       = 0xc0
	lz4Version           = 0x40
	lz4IndependentBlocks = 0x20
	lz4BlockChecksum     = 0x10
	lz4ContentSize       = 0x08
	lz4Reserved          = 0x02
	lz4DictionaryID      = 0x01

	lz4StoredBlock = 1 << 31 // in a block's length: the block is not compressed
	lz4Window      = 64 << 10
	maxLZ4Ratio    = 255 // one byte of a match's length stands for 255 bytes
)

// lz4FrameHeader is what appendLZ4 begins with: independent blocks of 64 KiB, no checksums, as Kafka writes it.
var lz4FrameHeader = [...]byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}

type lz4Frame struct {
	flags    byte
	maxBlock int
}

// unlz4 decodes one frame. As Kafka does, it looks neither at the content's checksum (the batch's CRC covers more) nor
// at what follows the frame; other than Kafka it takes linked blocks too. It is written out because a frame reader would
// need a second buffer for every block.
func unlz4(dst *buffer, src []byte, limit int) error {
	f, src, err := parseLZ4Frame(src)
	if err != nil {
		return err
	}
	for {
		if len(src) < 4 {
			return errCompressed
		}
		size := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if size == 0 {
			return nil
		}
		if src, err = f.block(dst, src, size, limit); err != nil {
			return err
		}
	}
}

// parseLZ4Frame reads the frame's header and returns what follows it. A content size is skipped: it is no promise.
func parseLZ4Frame(src []byte) (f lz4Frame, rest []byte, err error) {
	if len(src) < len(lz4FrameHeader) || binary.LittleEndian.Uint32(src) != lz4Magic {
		return f, nil, errFrameHeader
	}
	f.flags = src[4]
	descriptor := src[5]
	if f.flags&(lz4VersionMask|lz4Reserved|lz4DictionaryID) != lz4Version || descriptor&0x8f != 0 || descriptor>>4 < 4 {
		return f, nil, errFrameHeader
	}
	f.maxBlock = 1 << (8 + 2*(descriptor>>4)) // 64 KiB, 256 KiB, 1 MiB, 4 MiB
	end := 6
	if f.flags&lz4ContentSize != 0 {
		end += 8
	}
	if len(src) <= end {
		return f, nil, errFrameHeader
	}
	if src[end] != byte(xxh32(src[4:end])>>8) {
		return f, nil, errFrameChecksum
	}
	return f, src[end+1:], nil
}

// block decodes the block at the start of src, whose length field was size, and returns what follows it.
func (f lz4Frame) block(dst *buffer, src []byte, size uint32, limit int) (rest []byte, err error) {
	stored := size&lz4StoredBlock != 0
	n := int(size &^ lz4StoredBlock)
	if n > len(src) || n > f.maxBlock {
		return nil, errCompressed
	}
	data, rest := src[:n], src[n:]
	if f.flags&lz4BlockChecksum != 0 {
		if len(rest) < 4 {
			return nil, errCompressed
		}
		if binary.LittleEndian.Uint32(rest) != xxh32(data) {
			return nil, errFrameChecksum
		}
		rest = rest[4:]
	}
	start := len(dst.b)
	if stored {
		if n > limit-start {
			return nil, errDecompressed
		}
		dst.room(n)
		dst.b = append(dst.b, data...)
		return rest, nil
	}
	room := min(f.maxBlock, maxLZ4Ratio*n)
	dst.room(room)
	var window []byte
	if f.flags&lz4IndependentBlocks == 0 {
		window = dst.b[max(0, start-lz4Window):start]
	}
	n, err = lz4.UncompressBlockWithDict(data, dst.b[start:start+room], window)
	if err != nil {
		return nil, err
	}
	if n > limit-start {
		return nil, errDecompressed
	}
	dst.b = dst.b[:start+n]
	return rest, nil
}

var (
	lz4Compressors   = sync.Pool{New: func() any { return new(lz4.Compressor) }}
	lz4HCCompressors = sync.Pool{New: func() any { return new(lz4.CompressorHC) }}
)

// kafkaDefaultLZ4Level is the number that means LZ4's fast algorithm to Kafka; all others, below and above it, mean
// the high-compression one.
const kafkaDefaultLZ4Level = 9

func appendLZ4(dst []byte, level int, src []byte) []byte {
	const blockSize = 64 << 10
	dst = append(dst, lz4FrameHeader[:]...)
	pack, done := lz4Packer(level)
	defer done()
	for len(src) > 0 {
		block := src[:min(len(src), blockSize)]
		src = src[len(block):]
		at := len(dst)
		dst = append(dst, make([]byte, 4+len(block))...)
		n, err := pack(block, dst[at+4:])
		if err != nil || n == 0 || n >= len(block) { // it does not get smaller
			n = copy(dst[at+4:], block)
			binary.LittleEndian.PutUint32(dst[at:], uint32(n)|lz4StoredBlock)
		} else {
			binary.LittleEndian.PutUint32(dst[at:], uint32(n))
		}
		dst = dst[:at+4+n]
	}
	return append(dst, 0, 0, 0, 0)
}

func lz4Packer(level int) (pack func(src, dst []byte) (int, error), done func()) {
	if level == 0 || level == kafkaDefaultLZ4Level {
		c := lz4Compressors.Get().(*lz4.Compressor)
		return c.CompressBlock, func() { lz4Compressors.Put(c) }
	}
	levels := [...]lz4.CompressionLevel{lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9}
	c := lz4HCCompressors.Get().(*lz4.CompressorHC)
	c.Level = levels[min(max(level, 1), len(levels))-1]
	return c.CompressBlock, func() { lz4HCCompressors.Put(c) }
}

// xxh32 is the checksum of LZ4 frames, xxHash of 32 bits with seed 0.
func xxh32(b []byte) uint32 {
	const (
		prime1 = 2654435761
		prime2 = 2246822519
		prime3 = 3266489917
		prime4 = 668265263
		prime5 = 374761393
	)
	h := uint32(prime5)
	n := uint32(len(b))
	if len(b) >= 16 {
		var p1, p2 uint32 = prime1, prime2
		v1, v2, v3, v4 := p1+p2, p2, uint32(0), -p1
		for ; len(b) >= 16; b = b[16:] {
			v1 = bits.RotateLeft32(v1+binary.LittleEndian.Uint32(b)*prime2, 13) * prime1
			v2 = bits.RotateLeft32(v2+binary.LittleEndian.Uint32(b[4:])*prime2, 13) * prime1
			v3 = bits.RotateLeft32(v3+binary.LittleEndian.Uint32(b[8:])*prime2, 13) * prime1
			v4 = bits.RotateLeft32(v4+binary.LittleEndian.Uint32(b[12:])*prime2, 13) * prime1
		}
		h = bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	}
	h += n
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*prime3, 17) * prime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*prime5, 11) * prime1
	}
	h = (h ^ h>>15) * prime2
	h = (h ^ h>>13) * prime3
	return h ^ h>>16
}
