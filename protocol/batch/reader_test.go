package batch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/kafka"
)

// kafkaBatches reads testdata/batches.txt.
func kafkaBatches(tb testing.TB) map[string][]byte {
	tb.Helper()
	text, err := os.ReadFile("testdata/batches.txt")
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "#" {
			continue
		}
		b, err := hex.DecodeString(digits)
		if err != nil {
			tb.Fatal(err)
		}
		all[name] = b
	}
	return all
}

func build(tb testing.TB, b *Builder) []byte {
	tb.Helper()
	out, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return bytes.Clone(out)
}

// oneRecord is a small transactional batch.
func oneRecord(tb testing.TB) []byte {
	b := NewBuilder(None, 0)
	b.SetTransactional()
	b.SetProducer(1, 0, 0)
	b.Append(1000, []byte("k"), []byte("v"))
	return build(tb, b)
}

// printRecords is every record of a batch in a line.
func printRecords(tb testing.TB, b []byte) []string {
	tb.Helper()
	h, err := ParseHeader(b)
	if err != nil {
		tb.Fatal(err)
	}
	text := func(field []byte) string {
		if field == nil {
			return "null"
		}
		return fmt.Sprintf("%q", field)
	}
	var lines []string
	for r, err := range Records(b) {
		if err != nil {
			tb.Fatal(err)
		}
		line := fmt.Sprintf("%d +%dms %s=%s", h.RecordOffset(r), h.RecordTimestamp(r)-h.BaseTimestamp, text(r.Key), text(r.Value))
		for header := range r.Headers.All() {
			line += fmt.Sprintf(" %s:%s", header.Key, text(header.Value))
		}
		lines = append(lines, line)
	}
	return lines
}

func TestRecordsOfKafka(t *testing.T) {
	produced := []string{
		`0 +0ms "first key"="first value, first value, first value" h:"v" second:"w"`,
		`1 +%dms "second key"=null`,
		`2 +%dms null="no key here" h:""`,
	}
	differ := []string{`0 +0ms "k0"="aaabb"`, `1 +10ms "k1"="hhhii"`, `2 +20ms "k2"="ooopp"`}
	want := map[string][]string{
		"broker-gzip": differ, "broker-none": differ,
		"broker-latgzip": {`0 +72429ms "k0"="aaabb"`, `1 +72429ms "k1"="hhhii"`, `2 +72429ms "k2"="ooopp"`},
		"commit":         {`1 +0ms "\x00\x00\x00\x01"="\x00\x00\x00\x00\x00\x00"`},
		"abort":          {`3 +0ms "\x00\x00\x00\x00"="\x00\x00\x00\x00\x00\x00"`},
	}
	for codec, deltas := range map[string][2]int{"none": {26, 27}, "gzip": {21, 22}, "snappy": {102, 102}, "lz4": {180, 180}, "zstd": {205, 207}} {
		want["java-"+codec] = []string{produced[0], fmt.Sprintf(produced[1], deltas[0]), fmt.Sprintf(produced[2], deltas[1])}
	}
	all := kafkaBatches(t)
	for name, b := range all {
		if _, err := CheckStored(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := printRecords(t, b); !slices.Equal(got, want[name]) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want[name], "\n"))
		}
	}
	if len(all) != len(want) {
		t.Fatalf("%d batches, want %d", len(all), len(want))
	}
}

func TestBatches(t *testing.T) {
	all := kafkaBatches(t)
	first, second := all["java-none"], all["commit"]
	buf := slices.Concat(first, second, first)
	var got [][]byte
	for b, err := range Batches(buf) {
		if err != nil {
			t.Fatal(err)
		}
		if cap(b) != len(b) {
			t.Fatalf("%d bytes with a capacity of %d: an append would overwrite the next batch", len(b), cap(b))
		}
		got = append(got, b)
	}
	if !slices.EqualFunc(got, [][]byte{first, second, first}, bytes.Equal) {
		t.Fatalf("%d batches", len(got))
	}
	for range Batches(buf) {
		break // must not go on
	}
	for range Batches(nil) {
		t.Fatal("a batch in nothing")
	}
	// Wherever the buffer ends, whole batches come first and then one error with the rest.
	for end := range len(buf) {
		want := 0
		switch {
		case end >= len(first)+len(second):
			want = 2
		case end >= len(first):
			want = 1
		}
		whole, torn := 0, 0
		for b, err := range Batches(buf[:end]) {
			switch {
			case err == nil:
				whole++
			case errors.Is(err, ErrTorn) && torn == 0 && len(b) > 0:
				torn++
			default:
				t.Fatalf("end %d: %v", end, err)
			}
		}
		atBoundary := end == 0 || end == len(first) || end == len(first)+len(second)
		if whole != want || (torn == 1) == atBoundary {
			t.Fatalf("end %d: %d whole, %d torn", end, whole, torn)
		}
	}
	buf[len(first)+16] = 0 // the second batch's magic
	whole := 0
	for b, err := range Batches(buf) {
		var corrupt *CorruptError
		if err == nil {
			whole++
		} else if !errors.As(err, &corrupt) || len(b) != len(buf)-len(first) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
	}
	if whole != 1 {
		t.Fatalf("%d whole batches", whole)
	}
}

func TestCheckStored(t *testing.T) {
	good := oneRecord(t)
	for name, c := range map[string]struct {
		change func([]byte) []byte
		want   string // in the error; empty for none
	}{
		"good":                     {func(b []byte) []byte { return b }, ""},
		"more after it":            {func(b []byte) []byte { return append(b, 1, 2, 3) }, ""},
		"cut":                      {func(b []byte) []byte { return b[:len(b)-1] }, "torn"},
		"a bit turned":             {func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, "CRC"},
		"a bit of the CRC turned":  {func(b []byte) []byte { b[17] ^= 1; return b }, "CRC"},
		"magic":                    {func(b []byte) []byte { b[16] = 1; return b }, "magic"},
		"base offset negative":     {func(b []byte) []byte { SetBaseOffset(b, -1); return b }, "negative base offset"},
		"offsets beyond the last":  {func(b []byte) []byte { SetBaseOffset(b, math.MaxInt64); return b }, "last offset delta"},
		"last offset delta -1":     {func(b []byte) []byte { return patch(b, 23, math.MaxUint32) }, "last offset delta"},
		"compacted to nothing":     {func(b []byte) []byte { return patch(b[:HeaderSize], 57, 0) }, ""},
		"fewer records":            {func(b []byte) []byte { return patch(b, 23, 100) }, ""},
		"more records than deltas": {func(b []byte) []byte { return patch(b, 57, 2) }, "2 records"},
		"negative count":           {func(b []byte) []byte { return patch(b, 57, 1<<31) }, "records"},
	} {
		_, err := CheckStored(c.change(bytes.Clone(good)))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || kafka.CodeOf(err) != kafka.CorruptMessage):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// patch writes a field of four bytes and makes length and CRC right.
func patch(b []byte, pos int, value uint32) []byte {
	binary.BigEndian.PutUint32(b[pos:], value)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-LengthEnd))
	binary.BigEndian.PutUint32(b[17:], Checksum(b))
	return b
}

func TestRecordsThatAreNone(t *testing.T) {
	b := NewBuilder(None, 0)
	b.Append(1, []byte("key"), []byte("value"), RecordHeader{"h", []byte("v")})
	b.Append(2, nil, []byte("second"))
	good := build(t, b)
	for name, c := range map[string]struct {
		b    []byte
		good int // records before the error
	}{
		"cut within the second":  {patch(bytes.Clone(good[:len(good)-2]), 57, 2), 1},
		"cut before the second":  {patch(bytes.Clone(good[:len(good)-13]), 57, 2), 1},
		"one more than there is": {patch(bytes.Clone(good), 57, 3), 2},
		"one fewer":              {patch(bytes.Clone(good), 57, 1), 1},
		"torn":                   {good[:len(good)-1], 0},
		"unknown codec":          {func() []byte { x := bytes.Clone(good); x[22] = 6; return x }(), 0},
		"not compressed":         {func() []byte { x := bytes.Clone(good); x[22] = 1; return x }(), 0},
	} {
		records, failed := 0, 0
		for _, err := range Records(c.b) {
			if err != nil {
				failed++
				if kafka.CodeOf(err) != kafka.CorruptMessage {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			records++
		}
		if records != c.good || failed != 1 {
			t.Errorf("%s: %d records and %d errors, want %d and 1", name, records, failed, c.good)
		}
	}
}

func TestRecordsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops pooled buffers")
	}
	for _, codec := range []Codec{None, Snappy, LZ4, Zstd} {
		b := produced(t, codec, 10_000, 100)
		allocs := testing.AllocsPerRun(50, func() {
			for _, err := range Records(b) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		if allocs >= 1 {
			t.Errorf("%v: %v allocations", codec, allocs)
		}
	}
}
