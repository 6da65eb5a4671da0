package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// recordOf makes a record of raw fields, with a length that fits.
func recordOf(fields ...[]byte) []byte {
	body := slices.Concat(fields...)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

func zigzag(v int64) []byte { return binary.AppendVarint(nil, v) }

func TestRecordParse(t *testing.T) {
	zero, null, end := []byte{0}, []byte{1}, []byte{0}
	for _, c := range []struct {
		name string
		b    []byte
		err  error
	}{
		{"smallest", recordOf(zero, zero, zero, null, null, end), nil},
		{"negative lengths are null", recordOf(zero, zero, zero, zigzag(-2), zigzag(-9), end), nil},
		{"delta of five bytes", recordOf(zero, zero, []byte{0x80, 0x80, 0x80, 0x80, 0x7f}, null, null, end), nil},
		{"delta of six bytes", recordOf(zero, zero, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}, null, null, end), errRecordStructure},
		{"time of ten bytes", recordOf(zero, zigzag(math.MinInt64), zero, null, null, end), nil},
		{"time of eleven bytes", recordOf(zero, slices.Repeat([]byte{0x80}, 10), zero, zero, null, null, end), errRecordStructure},
		{"nothing", nil, errRecordLength},
		{"length cut", []byte{0x80}, errRecordLength},
		{"length negative", []byte{1}, errRecordLength},
		{"length beyond the batch", []byte{100, 0}, errRecordTruncated},
		{"empty", []byte{0}, errRecordStructure},
		{"attributes alone", recordOf(zero), errRecordStructure},
		{"key beyond the batch", recordOf(zero, zero, zero, zigzag(50), null, end), errRecordStructure},
		{"value beyond the batch", recordOf(zero, zero, zero, null, zigzag(math.MaxInt32), end), errRecordStructure},
		{"headers negative", recordOf(zero, zero, zero, null, null, zigzag(-1)), errRecordHeaders},
		{"headers beyond the batch", recordOf(zero, zero, zero, null, null, zigzag(math.MaxInt32)), errRecordHeaders},
		{"header key null", recordOf(zero, zero, zero, null, null, zigzag(1), null, null), errRecordHeaderKey},
		{"header key cut", recordOf(zero, zero, zero, null, null, zigzag(1), zigzag(3), []byte("a")), errRecordStructure},
		{"header value cut", recordOf(zero, zero, zero, null, null, zigzag(1), zigzag(1), []byte("a"), zigzag(1)), errRecordStructure},
		{"bytes after the headers", recordOf(zero, zero, zero, null, null, end, []byte("more")), errRecordLengthWrong},
		{"length one short", append([]byte{6 << 1}, []byte{0, 0, 0, 2, 'k', 1, 0}...), errRecordLengthWrong},
	} {
		var r Record
		n, err := r.parse(c.b)
		if !errors.Is(err, c.err) || (err == nil && n != len(c.b)) {
			t.Errorf("%s: %d bytes, error %v, want %v", c.name, n, err, c.err)
		}
	}
}

// The short way through a record must see what the long way sees.
func TestRecordParseCommon(t *testing.T) {
	sizes := []int{-1, 0, 1, 2, 62, 63, 64, 65, 8190, 8191, 8192, 8193}
	deltas := []int64{0, -1, 1, 63, -64, 64, 8191, -8192, 8192, math.MaxInt32, math.MinInt32}
	field := func(n int) []byte {
		if n < 0 {
			return nil
		}
		return make([]byte, n)
	}
	common := 0
	for _, key := range sizes {
		for _, value := range sizes {
			for _, delta := range deltas {
				for _, headers := range []Headers{{}, EncodeHeaders(RecordHeader{"h", nil})} {
					b := appendRecord(nil, -delta, int32(delta), field(key), field(value), headers)
					if sameAsParse(t, append(b, 9, 9, 9)) {
						common++
					}
				}
			}
		}
	}
	if common < 100 {
		t.Fatalf("only %d records went the short way", common)
	}
}

// sameAsParse reports whether parseCommon took the record, and fails if the general way disagrees.
func sameAsParse(t *testing.T, b []byte) bool {
	t.Helper()
	var short, long Record
	n := short.parseCommon(b)
	if n == 0 {
		return false
	}
	length, start, err := recordLength(b)
	if err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	end, err := long.parseFields(b, start)
	if err != nil || end != n || end-start != int(length) {
		t.Fatalf("%x: %d bytes by the short way, %d of %d and %v by the long", b, n, end, length, err)
	}
	if fmt.Sprintf("%#v", short) != fmt.Sprintf("%#v", long) {
		t.Fatalf("%x:\n%#v by the short way\n%#v by the long", b, short, long)
	}
	return true
}
