package batch

import (
	"iter"
	"math"
)

// Batches iterates over the whole batches that lie one after the other in buf, as in a fetch response or a stretch of a
// segment. Each is a slice of buf with no capacity beyond itself. Only lengths and magic are checked, see CheckStored.
//
// If buf ends within a batch, or a header is no header, the error comes with the bytes from there to the end, and is the
// last thing yielded: a TornError (errors.Is ErrTorn) or a CorruptError.
func Batches(buf []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for len(buf) > 0 {
			h, err := ParseHeader(buf)
			if err == nil && len(buf) < h.Size() {
				err = &TornError{Have: len(buf), Need: h.Size()}
			}
			if err != nil {
				yield(buf, err)
				return
			}
			size := h.Size()
			if !yield(buf[:size:size], nil) {
				return
			}
			buf = buf[size:]
		}
	}
}

// CheckStored checks one batch that a leader sent or that lies in a segment, and returns its header. b begins with the
// batch and may go on after it. What a leader assigned must be sound: whole, magic 2, the CRC right, the offsets a range
// that is not negative. The records themselves are the leader's responsibility.
func CheckStored(b []byte) (Header, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return h, err
	}
	if len(b) < h.Size() {
		return h, &TornError{Have: len(b), Need: h.Size()}
	}
	if err := CheckCRC(b[:h.Size()]); err != nil {
		return h, err
	}
	switch {
	case h.BaseOffset < 0:
		return h, corruptf(h.BaseOffset, "negative base offset")
	case h.LastOffsetDelta < 0 || h.BaseOffset > math.MaxInt64-1-int64(h.LastOffsetDelta):
		return h, corruptf(h.BaseOffset, "last offset delta is %d", h.LastOffsetDelta)
	case h.Count < 0 || int64(h.Count) > int64(h.LastOffsetDelta)+1:
		return h, corruptf(h.BaseOffset, "%d records in offsets up to delta %d", h.Count, h.LastOffsetDelta)
	}
	return h, nil
}

// Records iterates over the records of the batch that b is, exactly one whole batch whose CRC was checked before.
// Compressed records are decompressed first, see Decompress. The slices in a Record are valid until the loop goes on or
// ends.
//
// The error is a CorruptError and the last thing yielded: a record that cannot be read, or fewer or more records than
// the header counts.
func Records(b []byte) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		h, err := ParseHeader(b)
		if err == nil && len(b) < h.Size() {
			err = &TornError{Have: len(b), Need: h.Size()}
		}
		if err != nil {
			yield(Record{}, err)
			return
		}
		records, buf, err := openRecords(&h, b[HeaderSize:h.Size()])
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer buf.release()
		var r Record
		for range h.Count {
			n, err := r.parse(records)
			if err != nil {
				yield(Record{}, corruptf(h.BaseOffset, "%w", err))
				return
			}
			records = records[n:]
			if !yield(r, nil) {
				return
			}
		}
		if len(records) > 0 {
			yield(Record{}, corruptf(h.BaseOffset, "%d bytes after the last of %d records", len(records), h.Count))
		}
	}
}
