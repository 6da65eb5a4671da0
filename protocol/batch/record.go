package batch

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// Record is one record of a batch. Its slices are of the batch, or of a pooled buffer, and belong to whoever handed it
// out.
type Record struct {
	Attributes     int8 // no bit has a meaning yet
	OffsetDelta    int32
	TimestampDelta int64  // ms after the batch's base timestamp
	Key            []byte // nil is null
	Value          []byte // nil is null, a tombstone in a compacted topic
	Headers        Headers
}

// Headers are a record's headers as they lie in it: the count and the encoded list.
type Headers struct {
	Count   int32
	Encoded []byte // without the count
}

// RecordHeader is one header of a record.
type RecordHeader struct {
	Key   string
	Value []byte // nil is null
}

// All iterates over the headers in their order. Keys are copied, values are slices of the record. Headers of a Record
// that was handed out without an error are whole, so there is no error here.
func (h Headers) All() iter.Seq[RecordHeader] {
	return func(yield func(RecordHeader) bool) {
		b := h.Encoded
		for range h.Count {
			key, n, ok := bytesField(b)
			if !ok {
				return
			}
			value, m, ok := bytesField(b[n:])
			if !ok || !yield(RecordHeader{Key: string(key), Value: value}) {
				return
			}
			b = b[n+m:]
		}
	}
}

// A recordFault is why bytes are no record. It is a number and no error, so that finding one allocates nothing; its text
// is made when somebody asks.
type recordFault int8

const (
	faultNone recordFault = iota // never on disk or wire
	faultNoLength
	faultTruncated
	faultStructure
	faultHeaderCount
	faultManyHeaders
	faultHeaderKey
	faultLength
)

// parse reads the record at the start of b and returns the bytes it takes. On a fault r is undefined.
func (r *Record) parse(b []byte) (int, recordFault) {
	length, start := varint(b)
	if start <= 0 {
		return 0, faultNoLength
	}
	if int64(len(b)-start) < int64(length) {
		return 0, faultTruncated
	}
	// Negative lengths, and lengths that the fields do not fill, are found at the end: Kafka reads the fields first, as
	// far as the batch goes, and says what is wrong with them rather than with the length.
	p, fault := r.parseFields(b, start)
	if fault == faultNone && p-start != int(length) {
		fault = faultLength
	}
	return p, fault
}

func (r *Record) parseFields(b []byte, p int) (int, recordFault) {
	if p >= len(b) {
		return p, faultStructure
	}
	r.Attributes = int8(b[p])
	p++
	var n int
	if r.TimestampDelta, n = varlong(b[p:]); n <= 0 {
		return p, faultStructure
	}
	p += n
	if r.OffsetDelta, n = varint(b[p:]); n <= 0 {
		return p, faultStructure
	}
	p += n
	var ok bool
	if r.Key, n, ok = bytesField(b[p:]); !ok {
		return p, faultStructure
	}
	p += n
	if r.Value, n, ok = bytesField(b[p:]); !ok {
		return p, faultStructure
	}
	p += n
	if r.Headers.Count, n = varint(b[p:]); n <= 0 {
		return p, faultStructure
	}
	p += n
	if r.Headers.Count == 0 {
		r.Headers.Encoded = nil
		return p, faultNone
	}
	end, fault := skipHeaders(b, p, r.Headers.Count)
	if fault != faultNone {
		return p, fault
	}
	r.Headers.Encoded = b[p:end:end]
	return end, faultNone
}

// skipHeaders returns where count headers that begin at p end.
func skipHeaders(b []byte, p int, count int32) (int, recordFault) {
	if count < 0 {
		return p, faultHeaderCount
	}
	if int(count) > len(b)-p { // a header takes two bytes at least; the loop is bounded by the bytes there are
		return p, faultManyHeaders
	}
	for range count {
		length, n := varint(b[p:])
		switch {
		case n <= 0:
			return p, faultStructure
		case length < 0:
			return p, faultHeaderKey
		case int(length) > len(b)-p-n:
			return p, faultStructure
		}
		p += n + int(length)
		_, n, ok := bytesField(b[p:])
		if !ok {
			return p, faultStructure
		}
		p += n
	}
	return p, faultNone
}

// bytesField reads a varint length, null if negative, and so many bytes; n is what both take.
func bytesField(b []byte) (field []byte, n int, ok bool) {
	length, n := varint(b)
	if n <= 0 {
		return nil, 0, false
	}
	if length < 0 {
		return nil, n, true
	}
	if int(length) > len(b)-n {
		return nil, 0, false
	}
	end := n + int(length)
	return b[n:end:end], end, true
}

// describe gives the text of a fault that parse found at the start of b.
func (f recordFault) describe(b []byte) string {
	length, start := varint(b)
	var r Record
	switch f {
	case faultNoLength:
		return "Incorrect declared batch size, premature EOF reached"
	case faultTruncated:
		return fmt.Sprintf("Invalid record size: expected %d bytes in record payload, but instead the buffer has only %d remaining bytes.", length, len(b)-start)
	case faultHeaderCount:
		r.parse(b)
		return fmt.Sprintf("Found invalid number of record headers %d", r.Headers.Count)
	case faultManyHeaders:
		r.parse(b)
		return fmt.Sprintf("Found invalid number of record headers. %d is larger than the remaining size of the buffer", r.Headers.Count)
	case faultHeaderKey:
		return "Invalid negative header key size"
	case faultLength:
		end, _ := r.parse(b)
		return fmt.Sprintf("Invalid record size: expected to read %d bytes in record payload, but instead read %d", length, end-start)
	}
	return "Found invalid record structure"
}

// varint reads a zigzag varint of 32 bits. n is the bytes it takes, 0 if there are too few, -1 if it goes on after five:
// as in Kafka, bits beyond the 32nd in the fifth byte are dropped.
func varint(b []byte) (v int32, n int) {
	if len(b) > 0 && b[0] < 0x80 { // lengths below 64 and deltas of small batches: nearly always
		u := uint32(b[0])
		return int32(u>>1) ^ -int32(u&1), 1
	}
	var u uint32
	for i, c := range b {
		if i == 5 {
			return 0, -1
		}
		u |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i + 1
		}
	}
	if len(b) >= 5 {
		return 0, -1
	}
	return 0, 0
}

// varlong reads a zigzag varint of 64 bits; n as in varint, after ten bytes.
func varlong(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		u := uint64(b[0])
		return int64(u>>1) ^ -int64(u&1), 1
	}
	var u uint64
	for i, c := range b {
		if i == binary.MaxVarintLen64 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	if len(b) >= binary.MaxVarintLen64 {
		return 0, -1
	}
	return 0, 0
}

// appendRecord encodes a record, its length first.
func appendRecord(dst []byte, timestampDelta int64, offsetDelta int32, key, value []byte, headers Headers) []byte {
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) + fieldSize(key) + fieldSize(value) +
		varintSize(int64(headers.Count)) + len(headers.Encoded)
	dst = binary.AppendVarint(dst, int64(size))
	dst = append(dst, 0) // attributes
	dst = binary.AppendVarint(dst, timestampDelta)
	dst = binary.AppendVarint(dst, int64(offsetDelta))
	dst = appendField(dst, key)
	dst = appendField(dst, value)
	dst = binary.AppendVarint(dst, int64(headers.Count))
	return append(dst, headers.Encoded...)
}

// EncodeHeaders makes the encoded form of headers.
func EncodeHeaders(headers ...RecordHeader) Headers {
	return Headers{Count: int32(len(headers)), Encoded: appendHeaders(nil, headers)}
}

func appendHeaders(dst []byte, headers []RecordHeader) []byte {
	for i := range headers {
		dst = binary.AppendVarint(dst, int64(len(headers[i].Key)))
		dst = append(dst, headers[i].Key...)
		dst = appendField(dst, headers[i].Value)
	}
	return dst
}

func appendField(dst, field []byte) []byte {
	if field == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(field))), field...)
}

func fieldSize(field []byte) int {
	if field == nil {
		return 1
	}
	return varintSize(int64(len(field))) + len(field)
}

func varintSize(v int64) int {
	n := 1
	for u := uint64(v<<1) ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
