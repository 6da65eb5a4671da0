package metadata

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// NoBase is the base of an entry that is applied to nothing: offset 0, and the parts of a snapshot.
const NoBase int64 = -1

// UnknownRecordError is a record that this version of the program cannot read. Going on without it would be to hold
// another truth than the nodes that can.
type UnknownRecordError struct {
	Kind, Version uint64
}

func (e *UnknownRecordError) Error() string {
	return fmt.Sprintf("metadata record of kind %d version %d is not known to this version of weir", e.Kind, e.Version)
}

// CorruptEntryError is an entry that is not what any version writes.
type CorruptEntryError struct {
	Ordinal int // of the record within its entry; -1 where it is the entry's frame
	Kind    uint64
	Err     error
}

func (e *CorruptEntryError) Error() string {
	if e.Ordinal < 0 {
		return fmt.Sprintf("metadata entry is corrupt: %v", e.Err)
	}
	return fmt.Sprintf("metadata entry is corrupt: record %d of kind %d: %v", e.Ordinal, e.Kind, e.Err)
}

func (e *CorruptEntryError) Unwrap() error { return e.Err }

// AppendEntry appends the value of a metadata entry: what Raft carries as the entry's data. Base is the index of the image
// that the records were decided on.
func AppendEntry(dst []byte, base int64, records []Record) []byte {
	dst = appendVarint(dst, base)
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	var body []byte
	for _, r := range records {
		body = r.appendBody(body[:0])
		dst = binary.AppendUvarint(dst, uint64(r.Kind()))
		dst = binary.AppendUvarint(dst, uint64(r.Version()))
		dst = binary.AppendUvarint(dst, uint64(len(body)))
		dst = append(dst, body...)
	}
	return dst
}

// Entry is the decoded frame of a metadata entry.
type Entry struct {
	Base int64
	n    int
	rest []byte
}

// ParseEntry reads the frame of an entry's value; its records are decoded by Records.
func ParseEntry(value []byte) (Entry, error) {
	d := decoder{b: value}
	e := Entry{Base: d.varint()}
	e.n = d.count(3)
	e.rest = d.b
	if d.err == nil && e.Base < NoBase {
		d.err = errRange
	}
	if d.err != nil {
		return Entry{}, &CorruptEntryError{Ordinal: -1, Err: d.err}
	}
	return e, nil
}

// Len is the number of records.
func (e Entry) Len() int { return e.n }

// Records decodes the records in order. An *UnknownRecordError or a *CorruptEntryError is the last thing that it yields.
func (e Entry) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		d := decoder{b: e.rest}
		for i := range e.n {
			kind, version := d.uvarint(), d.uvarint()
			body := d.bytes(d.uvarint())
			if d.err != nil {
				yield(nil, &CorruptEntryError{Ordinal: i, Kind: kind, Err: d.err})
				return
			}
			r, known, err := decodeRecord(kind, version, body)
			switch {
			case !known:
				err = &UnknownRecordError{Kind: kind, Version: version}
			case err != nil:
				err = &CorruptEntryError{Ordinal: i, Kind: kind, Err: err}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
		if err := d.end(); err != nil {
			yield(nil, &CorruptEntryError{Ordinal: -1, Err: err})
		}
	}
}
