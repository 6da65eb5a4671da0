package batch

import (
	"encoding/binary"
	"errors"
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

// Why bytes are no record. They are made once, so that finding one allocates nothing.
var (
	errRecordLength      = errors.New("record length is missing or negative")
	errRecordTruncated   = errors.New("record is longer than the rest of the batch")
	errRecordStructure   = errors.New("record structure is invalid")
	errRecordHeaders     = errors.New("number of record headers is invalid")
	errRecordHeaderKey   = errors.New("record header key is null")
	errRecordLengthWrong = errors.New("record's fields do not fill its length")
)

// parse reads the record at the start of b and returns the bytes it takes. On an error r is undefined.
func (r *Record) parse(b []byte) (int, error) {
	length, start, err := recordLength(b)
	if err != nil {
		return 0, err
	}
	if int(length) > len(b)-start {
		return 0, errRecordTruncated
	}
	end, err := r.parseFields(b, start)
	if err != nil {
		return 0, err
	}
	if end-start != int(length) {
		return 0, errRecordLengthWrong
	}
	return end, nil
}

// recordLength reads the length field at the start of b; start is where the record's fields begin.
func recordLength(b []byte) (length int32, start int, err error) {
	length, start = varint(b)
	if start <= 0 || length < 0 {
		return 0, 0, errRecordLength
	}
	return length, start, nil
}

// parseFields reads the fields that begin at p, whatever the record's length says, and returns where they end.
func (r *Record) parseFields(b []byte, p int) (int, error) {
	if p >= len(b) {
		return p, errRecordStructure
	}
	r.Attributes = int8(b[p])
	p++
	var n int
	if r.TimestampDelta, n = varlong(b[p:]); n <= 0 {
		return p, errRecordStructure
	}
	p += n
	if r.OffsetDelta, n = varint(b[p:]); n <= 0 {
		return p, errRecordStructure
	}
	p += n
	var ok bool
	if r.Key, n, ok = bytesField(b[p:]); !ok {
		return p, errRecordStructure
	}
	p += n
	if r.Value, n, ok = bytesField(b[p:]); !ok {
		return p, errRecordStructure
	}
	p += n
	if r.Headers.Count, n = varint(b[p:]); n <= 0 {
		return p, errRecordStructure
	}
	p += n
	if r.Headers.Count == 0 {
		r.Headers.Encoded = nil
		return p, nil
	}
	end, err := skipHeaders(b, p, r.Headers.Count)
	if err != nil {
		return p, err
	}
	r.Headers.Encoded = b[p:end:end]
	return end, nil
}

// skipHeaders returns where count headers that begin at p end.
func skipHeaders(b []byte, p int, count int32) (int, error) {
	if count < 0 || int(count) > len(b)-p { // a header takes two bytes, so the bytes there are bound the loop
		return p, errRecordHeaders
	}
	for range count {
		length, n := varint(b[p:])
		switch {
		case n <= 0:
			return p, errRecordStructure
		case length < 0:
			return p, errRecordHeaderKey
		case int(length) > len(b)-p-n:
			return p, errRecordStructure
		}
		p += n + int(length)
		_, n, ok := bytesField(b[p:])
		if !ok {
			return p, errRecordStructure
		}
		p += n
	}
	return p, nil
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
