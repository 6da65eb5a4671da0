package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"weir/internal/kafka"
)

// seeds are batches of every codec by Kafka and by the Builder.
func seeds(f *testing.F) [][]byte {
	var all [][]byte
	for _, b := range kafkaBatches(f) {
		all = append(all, b)
	}
	for _, codec := range everyCodec {
		all = append(all, produced(f, codec, 2000, 100), sent(f, codec, 1, 2, 3))
	}
	return all
}

func FuzzParseHeader(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b[:HeaderSize])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(b)
		if err != nil {
			if kafka.CodeOf(err) != kafka.CorruptMessage {
				t.Fatal(err)
			}
			return
		}
		again := make([]byte, HeaderSize)
		h.put(again)
		if !bytes.Equal(again, b[:HeaderSize]) {
			t.Fatalf("%x is written as %x", b[:HeaderSize], again)
		}
		_, _, _, _ = h.LastOffset(), h.NextOffset(), h.LastSequence(), h.HasProducerID()
	})
}

// FuzzBatches reads a segment or fetch response in every way there is.
func FuzzBatches(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(append(bytes.Clone(b), b[:len(b)/2]...), int64(1000))
	}
	f.Fuzz(func(t *testing.T, buf []byte, ts int64) {
		left := len(buf)
		for b, err := range Batches(buf) {
			if left -= len(b); left < 0 || len(b) == 0 {
				t.Fatalf("%d bytes too many", -left)
			}
			if err != nil {
				if left != 0 || kafka.CodeOf(err) != kafka.CorruptMessage {
					t.Fatalf("%d bytes after %v", left, err)
				}
				return
			}
			readStored(t, b, ts)
		}
		if left != 0 {
			t.Fatalf("%d bytes are no batch and no error", left)
		}
	})
}

func readStored(t *testing.T, b []byte, ts int64) {
	h, err := CheckStored(b)
	if err == nil && (h.Size() != len(b) || h.LastOffset() < h.BaseOffset || h.NextOffset() < 0) {
		t.Fatalf("%d bytes, %+v", len(b), h)
	}
	count := 0
	for r, err := range Records(b) {
		if err != nil {
			if kafka.CodeOf(err) != kafka.CorruptMessage {
				t.Fatal(err)
			}
			break
		}
		headers := 0
		for range r.Headers.All() {
			headers++
		}
		if headers != int(r.Headers.Count) {
			t.Fatalf("%d headers of %d", headers, r.Headers.Count)
		}
		_, _ = ParseEndTxnMarker(r)
		count++
	}
	if count > max(int(h.Count), 0) {
		t.Fatalf("%d records of %d", count, h.Count)
	}
	if _, found, ok, _ := OffsetOfTimestamp(b, ts, h.BaseOffset); ok && found < ts {
		t.Fatalf("%d is before %d", found, ts)
	}
	_, _, _, _ = OffsetOfMaxTimestamp(b)
}

// FuzzValidate makes length and CRC right, so that the checks behind them are reached too.
func FuzzValidate(f *testing.F) {
	for i, b := range seeds(f) {
		f.Add(b, byte(i*7), true)
		f.Add(b, byte(i*31), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, choice byte, seal bool) {
		if seal && len(b) >= HeaderSize {
			binary.BigEndian.PutUint64(b, 0)
			b[magicPos] = Magic
			binary.BigEndian.PutUint32(b[lengthPos:], uint32(len(b)-LengthEnd))
			binary.BigEndian.PutUint32(b[crcPos:], Checksum(b))
		}
		r := openRules()
		r.TimestampAfterMaxMs = math.MaxInt64
		r.Compacted, r.LogAppendTime, r.HeaderOnly = choice&1 != 0, choice&2 != 0, choice&4 != 0
		if choice&8 != 0 {
			r.Compression = Compression{Codec: Codec(choice >> 4 % 5)}
		}
		sent := bytes.Clone(b)
		_, found, noBatch := FirstAttributes(b)
		v, err := Validate(b, r, testNow)
		if err == nil && !found || noBatch != nil && kafka.CodeOf(err) != kafka.CorruptMessage {
			t.Fatalf("found a batch: %v (%v), validated: %v", found, noBatch, err)
		}
		if err != nil {
			var invalid *InvalidError
			if !errors.As(err, &invalid) || invalid.Code() == kafka.None || invalid.Error() == "" || len(v.Bytes) != 0 {
				t.Fatalf("%+v, %v", v, err)
			}
			if !bytes.Equal(b, sent) {
				t.Fatal("a refused batch was changed")
			}
			return
		}
		h, err := CheckStored(v.Bytes)
		if err != nil || h != v.Header || h.Size() != len(v.Bytes) || h.MaxTimestamp != v.MaxTimestamp || h.Attributes.LogAppendTime() != r.LogAppendTime {
			t.Fatalf("%+v, %+v, %v", v, h, err)
		}
		if target := r.Compression.target(h.Attributes.Codec()); h.Attributes.Codec() != target {
			t.Fatalf("stored as %v, not %v", h.Attributes.Codec(), target)
		}
		rewritten := len(v.Bytes) > 0 && &v.Bytes[0] != &b[0]
		if h.Attributes.Codec() == None && !r.HeaderOnly || rewritten {
			for _, err := range Records(v.Bytes) {
				if err != nil {
					t.Fatalf("accepted, but %v", err)
				}
			}
		}
	})
}

func FuzzDecompress(f *testing.F) {
	for _, codec := range everyCodec[1:] {
		for _, content := range [][]byte{nil, []byte("content"), bytes.Repeat([]byte("abcd"), 40_000)} {
			packed, err := compress(nil, codec, 0, content)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(byte(codec), packed)
			f.Add(byte(codec), append(packed, packed...))
		}
	}
	f.Add(byte(Zstd), zstdBomb(40))
	f.Fuzz(func(t *testing.T, codec byte, src []byte) {
		const limit = 1 << 20
		var dst buffer
		err := decompress(&dst, Codec(codec%5), src, limit)
		if err == nil && len(dst.b) > limit {
			t.Fatalf("%d bytes", len(dst.b))
		}
		if most := 2*limit + 4<<20; cap(dst.b) > most { // LZ4 needs room for a whole block, of 4 MiB at most
			t.Fatalf("a buffer of %d bytes", cap(dst.b))
		}
	})
}

func FuzzCompress(f *testing.F) {
	f.Add(byte(1), 0, []byte("content"))
	f.Add(byte(2), 9, bytes.Repeat([]byte("abc"), 30_000))
	f.Add(byte(3), 17, bytes.Repeat([]byte{0}, 70_000))
	f.Add(byte(4), -5, []byte{})
	f.Fuzz(func(t *testing.T, codec byte, level int, content []byte) {
		packed, err := compress(nil, 1+Codec(codec%4), level, content)
		if err != nil {
			t.Fatal(err)
		}
		var dst buffer
		if err := decompress(&dst, 1+Codec(codec%4), packed, len(content)); err != nil || !bytes.Equal(dst.b, content) {
			t.Fatalf("%d bytes of %d: %v", len(dst.b), len(content), err)
		}
	})
}

// FuzzRecordParse compares the two ways to read a record, and reads again what it reads.
func FuzzRecordParse(f *testing.F) {
	for _, b := range seeds(f) {
		if readHeader(b).Attributes.Codec() == None {
			f.Add(b[HeaderSize:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sameAsParse(t, b)
		var r, again Record
		if n, err := r.parse(b); err != nil || n <= 0 || n > len(b) {
			return
		}
		written := appendRecord(nil, r.TimestampDelta, r.OffsetDelta, r.Key, r.Value, r.Headers)
		if n, err := again.parse(written); err != nil || n != len(written) || again.TimestampDelta != r.TimestampDelta || again.OffsetDelta != r.OffsetDelta ||
			!bytes.Equal(again.Key, r.Key) || (again.Key == nil) != (r.Key == nil) || !bytes.Equal(again.Value, r.Value) || (again.Value == nil) != (r.Value == nil) ||
			again.Headers.Count != r.Headers.Count || !bytes.Equal(again.Headers.Encoded, r.Headers.Encoded) {
			t.Fatalf("%+v is read again as %+v, %v", r, again, err)
		}
	})
}

func FuzzParseEndTxnMarker(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 9})
	f.Add([]byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		m, err := ParseEndTxnMarker(Record{Key: key, Value: value})
		if err != nil {
			return
		}
		for r, err := range Records(ControlBatch(m, 1, 2, 3, 4)) {
			if again, err2 := ParseEndTxnMarker(r); err != nil || err2 != nil || again != m {
				t.Fatalf("%+v is read again as %+v, %v, %v", m, again, err, err2)
			}
		}
	})
}
