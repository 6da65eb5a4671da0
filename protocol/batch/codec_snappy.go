package batch

import (
	"bytes"
	"encoding/binary"

	"github.com/klauspost/compress/snappy"
)

// The framing of snappy-java, which Java clients and brokers write: magic, version and the lowest compatible version,
// then blocks with their compressed length before them. Streams may follow one another.
const (
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeaderSize = len(xerialMagic) + 4 + 4
	xerialBlockSize  = 32 << 10 // of uncompressed bytes
)

const maxSnappyRatio = 32 // three bytes copy at most 64

// unsnappy takes both what the Java library writes and one raw block, as librdkafka and most others send.
func unsnappy(dst *buffer, src []byte, limit int) error {
	if len(src) < xerialHeaderSize || string(src[:len(xerialMagic)]) != xerialMagic {
		return unsnappyBlock(dst, src, limit)
	}
	for len(src) > 0 {
		if bytes.HasPrefix(src, []byte(xerialMagic)) { // no block is this long: the length would be negative
			if len(src) < xerialHeaderSize {
				return errCompressed
			}
			src = src[xerialHeaderSize:]
			continue
		}
		if len(src) < 4 { // no block; the Java library takes it for the end
			return nil
		}
		size := int(int32(binary.BigEndian.Uint32(src)))
		src = src[4:]
		if size < 0 || size > len(src) {
			return errCompressed
		}
		if err := unsnappyBlock(dst, src[:size], limit); err != nil {
			return err
		}
		src = src[size:]
	}
	return nil
}

func unsnappyBlock(dst *buffer, src []byte, limit int) error {
	n, err := snappy.DecodedLen(src)
	switch {
	case err != nil:
		return err
	case n > limit-len(dst.b):
		return errDecompressed
	case n > maxSnappyRatio*len(src):
		return errCompressed
	}
	dst.room(n)
	start := len(dst.b)
	if _, err := snappy.Decode(dst.b[start:start+n], src); err != nil {
		return err
	}
	dst.b = dst.b[:start+n]
	return nil
}

// appendSnappy writes the Java framing, which every client reads (Kafka's brokers write it too).
func appendSnappy(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1) // version, lowest compatible version
	for len(src) > 0 {
		block := src[:min(len(src), xerialBlockSize)]
		src = src[len(block):]
		at := len(dst)
		dst = append(dst, make([]byte, 4+snappy.MaxEncodedLen(len(block)))...)
		size := len(snappy.Encode(dst[at+4:], block))
		binary.BigEndian.PutUint32(dst[at:], uint32(size))
		dst = dst[:at+4+size]
	}
	return dst
}
