package protocol

import "encoding/binary"

// shapeReader walks over a message without decoding it. After an error it is bad and reads nothing more.
type shapeReader struct {
	src      []byte
	flexible bool
	bad      bool
}

func (r *shapeReader) skip(n int) {
	if n < 0 || n > len(r.src) {
		r.bad, r.src = true, nil
		return
	}
	r.src = r.src[n:]
}

func (r *shapeReader) fixed(n int) []byte {
	if n > len(r.src) {
		r.bad, r.src = true, nil
		return make([]byte, 8)[:n]
	}
	b := r.src[:n]
	r.src = r.src[n:]
	return b
}

func (r *shapeReader) uvarint() int {
	v, rest, err := uvarint(r.src)
	if err != nil {
		r.bad, r.src = true, nil
		return 0
	}
	r.src = rest
	return int(v)
}

// skipString skips a nullable string.
func (r *shapeReader) skipString() {
	n := 0
	if r.flexible {
		n = r.uvarint() - 1
	} else {
		n = int(int16(binary.BigEndian.Uint16(r.fixed(2))))
	}
	r.skip(max(n, 0))
}

// skipBytes skips nullable bytes.
func (r *shapeReader) skipBytes() {
	r.skip(max(r.length32(), 0))
}

func (r *shapeReader) length32() int {
	if r.flexible {
		return r.uvarint() - 1
	}
	return int(int32(binary.BigEndian.Uint32(r.fixed(4))))
}

// arrayLen reads an array's length; what cannot be true, or is null, is none.
func (r *shapeReader) arrayLen() int {
	n := r.length32()
	if n > len(r.src) {
		r.bad, r.src = true, nil
		return 0
	}
	return max(n, 0)
}

func (r *shapeReader) skipTags() {
	if !r.flexible || r.bad {
		return
	}
	rest, err := skipTags(r.src)
	r.src, r.bad = rest, err != nil
}
