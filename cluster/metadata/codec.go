package metadata

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"

	"weir/internal/kafka"
)

// The encoding of fields; docs/format/metadata.md has the table of notations.

func appendVarint(dst []byte, v int64) []byte {
	return binary.AppendUvarint(dst, uint64(v<<1)^uint64(v>>63))
}

// appendString writes what is not UTF-8 as Java reads it, with U+FFFD for each such byte: clients may name and set what they
// like, and what is written must be readable for ever.
func appendString(dst []byte, s string) []byte {
	s = readable(s)
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendNullable(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, 0)
	}
	text := readable(*s)
	dst = binary.AppendUvarint(dst, uint64(len(text))+1)
	return append(dst, text...)
}

func readable(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendBrokers(dst []byte, ids []kafka.BrokerID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = appendVarint(dst, int64(id))
	}
	return dst
}

func appendUUIDs(dst []byte, ids []kafka.UUID) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = append(dst, id[:]...)
	}
	return dst
}

var (
	errShort     = errors.New("cut short")
	errVarint    = errors.New("varint too long or not in its shortest form")
	errRange     = errors.New("number out of range")
	errBool      = errors.New("bool is neither 0 nor 1")
	errUTF8      = errors.New("string is not UTF-8")
	errCount     = errors.New("count beyond the bytes that follow")
	errLeftOver  = errors.New("bytes left over")
	errLocations = errors.New("number of directories differs from that of replicas")
)

// decoder reads fields off the front of b. The first error sticks; what is read after it are zero values.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
		d.b = nil
	}
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	switch {
	case n == 0:
		d.fail(errShort)
		return 0
	case n < 0, n > 1 && d.b[n-1] == 0:
		d.fail(errVarint)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// bounded reads a uvarint of at most limit.
func (d *decoder) bounded(limit uint64) uint64 {
	v := d.uvarint()
	if v > limit {
		d.fail(errRange)
		return 0
	}
	return v
}

func (d *decoder) int32() int32 {
	v := d.varint()
	if v != int64(int32(v)) {
		d.fail(errRange)
		return 0
	}
	return int32(v)
}

func (d *decoder) uint64() uint64 {
	b := d.bytes(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (d *decoder) bool() bool {
	b := d.bytes(1)
	if b == nil {
		return false
	}
	if b[0] > 1 {
		d.fail(errBool)
	}
	return b[0] == 1
}

func (d *decoder) string() string { return d.text(d.uvarint()) }

func (d *decoder) nullable() *string {
	n := d.uvarint()
	if n == 0 {
		return nil
	}
	s := d.text(n - 1)
	return &s
}

func (d *decoder) text(n uint64) string {
	b := d.bytes(n)
	if !utf8.Valid(b) {
		d.fail(errUTF8)
		return ""
	}
	return string(b)
}

func (d *decoder) uuid() (id kafka.UUID) {
	copy(id[:], d.bytes(uint64(len(id))))
	return id
}

// count reads the length of a list whose elements take at least size bytes each, so that a lie cannot make us allocate.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.fail(errCount)
		return 0
	}
	return int(n)
}

func (d *decoder) brokers() []kafka.BrokerID {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	ids := make([]kafka.BrokerID, n)
	for i := range ids {
		ids[i] = kafka.BrokerID(d.int32())
	}
	return ids
}

func (d *decoder) uuids() []kafka.UUID {
	n := d.count(len(kafka.UUID{}))
	if n == 0 {
		return nil
	}
	ids := make([]kafka.UUID, n)
	for i := range ids {
		ids[i] = d.uuid()
	}
	return ids
}

// end returns the first error, or that something was left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.err = errLeftOver
	}
	return d.err
}
