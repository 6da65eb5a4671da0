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
		p := 0
		for range h.Count {
			var key, value []byte
			if key, p = bytesField(h.Encoded, p); p < 0 {
				return
			}
			if value, p = bytesField(h.Encoded, p); p < 0 || !yield(RecordHeader{Key: string(key), Value: value}) {
				return
			}
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
	if end := r.parseCommon(b); end > 0 {
		return end, nil
	}
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

// parseCommon reads what nearly every record is: numbers of at most two bytes and no headers. It returns 0 for all else,
// good or bad, which parse then reads one field at a time; it only spares calls that the compiler does not inline, which
// is two thirds of the time of a walk.
func (r *Record) parseCommon(b []byte) int {
	const fixed = 2 + 1 + 2 + 2 + 2 // length, attributes, timestamp delta, offset delta, key length
	if len(b) < fixed {
		return 0
	}
	length, p := uint(b[0]), 1
	if length >= 0x80 {
		length, p = length&0x7f|uint(b[1])<<7, 2
	}
	end := p + int(length>>1)
	r.Attributes = int8(b[p])
	p++
	timestamp := uint(b[p])
	p++
	if timestamp >= 0x80 {
		timestamp = timestamp&0x7f | uint(b[p])<<7
		p++
	}
	offset := uint(b[p])
	p++
	if offset >= 0x80 {
		offset = offset&0x7f | uint(b[p])<<7
		p++
	}
	key := uint(b[p])
	p++
	if key >= 0x80 {
		key = key&0x7f | uint(b[p])<<7
		p++
	}
	// A third byte would be needed if the second's high bit is set; a length must not be negative.
	if (length|timestamp|offset|key)&(1<<14) != 0 || length&1 != 0 || end > len(b) {
		return 0
	}
	r.Key = nil
	if key&1 == 0 {
		start := p
		if p += int(key >> 1); p > end {
			return 0
		}
		r.Key = b[start:p:p]
	}
	if end-p < 3 { // value length of up to two bytes, header count
		if end-p != 2 || b[p] >= 0x80 {
			return 0
		}
	}
	value := uint(b[p])
	p++
	if value >= 0x80 {
		value = value&0x7f | uint(b[p])<<7
		p++
	}
	r.Value = nil
	if value&1 == 0 {
		start := p
		if p += int(value >> 1); p >= end {
			return 0
		}
		r.Value = b[start:p:p]
	}
	if value&(1<<14) != 0 || p != end-1 || b[p] != 0 {
		return 0
	}
	r.TimestampDelta = int64(timestamp>>1) ^ -int64(timestamp&1)
	r.OffsetDelta = int32(offset>>1) ^ -int32(offset&1)
	r.Headers = Headers{}
	return end
}

// recordLength reads the length field at the start of b; start is where the record's fields begin.
func recordLength(b []byte) (length int32, start int, err error) {
	length, start = varint(b, 0)
	if start < 0 || length < 0 {
		return 0, 0, errRecordLength
	}
	return length, start, nil
}

// parseFields reads the fields that begin at p, whatever the record's length says, and returns where they end. Validation
// spends its time here. The compiler does not inline varint, so what numbers of one byte need is written out.
func (r *Record) parseFields(b []byte, p int) (int, error) {
	if p >= len(b) {
		return 0, errRecordStructure
	}
	r.Attributes = int8(b[p])
	p++
	if p < len(b) && b[p] < 0x80 {
		r.TimestampDelta = int64(unzigzag32(uint32(b[p])))
		p++
	} else if r.TimestampDelta, p = varlong(b, p); p < 0 {
		return 0, errRecordStructure
	}
	if p < len(b) && b[p] < 0x80 {
		r.OffsetDelta = unzigzag32(uint32(b[p]))
		p++
	} else if r.OffsetDelta, p = varint(b, p); p < 0 {
		return 0, errRecordStructure
	}
	if r.Key, p = bytesField(b, p); p < 0 {
		return 0, errRecordStructure
	}
	if r.Value, p = bytesField(b, p); p < 0 {
		return 0, errRecordStructure
	}
	r.Headers = Headers{}
	if p < len(b) && b[p] == 0 {
		return p + 1, nil
	}
	return r.parseHeaders(b, p)
}

func (r *Record) parseHeaders(b []byte, p int) (int, error) {
	count, p := varint(b, p)
	if p < 0 {
		return 0, errRecordStructure
	}
	end, err := skipHeaders(b, p, count)
	if err != nil {
		return 0, err
	}
	r.Headers = Headers{Count: count, Encoded: b[p:end:end]}
	return end, nil
}

// skipHeaders returns where count headers that begin at p end.
func skipHeaders(b []byte, p int, count int32) (int, error) {
	if count < 0 || int(count) > len(b)-p { // a header takes two bytes, so the bytes there are bound the loop
		return 0, errRecordHeaders
	}
	for range count {
		length, next := varint(b, p)
		switch {
		case next < 0:
			return 0, errRecordStructure
		case length < 0:
			return 0, errRecordHeaderKey
		case int(length) > len(b)-next:
			return 0, errRecordStructure
		}
		if _, p = bytesField(b, next+int(length)); p < 0 {
			return 0, errRecordStructure
		}
	}
	return p, nil
}

// The readers of single fields take the bytes and a position, and return the position after the field: -1 if there is no
// field.

// bytesField reads a varint length, null if negative, and so many bytes.
func bytesField(b []byte, p int) (field []byte, next int) {
	var length int32
	if p < len(b) && b[p] < 0x80 {
		length = unzigzag32(uint32(b[p]))
		p++
	} else if length, p = varint(b, p); p < 0 {
		return nil, -1
	}
	if length < 0 {
		return nil, p
	}
	if int(length) > len(b)-p {
		return nil, -1
	}
	next = p + int(length)
	return b[p:next:next], next
}

// varint reads a zigzag varint of 32 bits, in at most five bytes. As in Kafka, bits beyond the 32nd in the fifth byte are
// dropped.
func varint(b []byte, p int) (v int32, next int) {
	if p+1 < len(b) && b[p] >= 0x80 && b[p+1] < 0x80 { // lengths of 64 to 8191: nearly all that get here
		return unzigzag32(uint32(b[p]&0x7f) | uint32(b[p+1])<<7), p + 2
	}
	var u uint32
	for shift := 0; shift < 35 && p < len(b); shift += 7 {
		c := b[p]
		p++
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return unzigzag32(u), p
		}
	}
	return 0, -1
}

// varlong reads a zigzag varint of 64 bits, in at most ten bytes.
func varlong(b []byte, p int) (v int64, next int) {
	var u uint64
	for shift := 0; shift < 70 && p < len(b); shift += 7 {
		c := b[p]
		p++
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), p
		}
	}
	return 0, -1
}

func unzigzag32(u uint32) int32 { return int32(u>>1) ^ -int32(u&1) }

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
