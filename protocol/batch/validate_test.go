package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"weir/internal/kafka"
)

const testNow = 1_700_000_100_000

// openRules are those of a topic with the default configuration.
func openRules() *Rules {
	return &Rules{
		TopicPartition: kafka.TopicPartition{Topic: "orders", Partition: 3}, ProduceVersion: 9,
		MaxMessageBytes: 1048588, SegmentBytes: 1 << 30, TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: 3600000,
		Compression: Compression{Producer: true}, MaxDecompressedRecordBytes: 2147483639,
	}
}

// sent makes a batch as a client does, of records with these timestamps, "key" and "value".
func sent(tb testing.TB, codec Codec, timestamps ...int64) []byte {
	b := NewBuilder(codec, 0)
	for _, ms := range timestamps {
		b.Append(ms, []byte("key"), []byte("value"))
	}
	return build(tb, b)
}

// Codes and texts of single checks; what Kafka answers to many more batches is in kafka_test.go.
func TestValidateRefuses(t *testing.T) {
	good := sent(t, None, testNow, testNow)
	reseal := func(change func(b []byte)) []byte {
		b := bytes.Clone(good)
		change(b)
		binary.BigEndian.PutUint32(b[17:], Checksum(b))
		return b
	}
	put := func(pos int, v uint32) []byte {
		return reseal(func(b []byte) { binary.BigEndian.PutUint32(b[pos:], v) })
	}
	rules := func(change func(r *Rules)) *Rules { r := openRules(); change(r); return r }
	flipped := bytes.Clone(good)
	flipped[17] ^= 1
	for name, c := range map[string]struct {
		b      []byte
		rules  *Rules
		code   kafka.Code
		reason string
	}{
		"nothing":                {nil, nil, kafka.InvalidRecord, "version 9 must have at least one record batch"},
		"torn":                   {good[:len(good)-1], nil, kafka.InvalidRecord, "at least one record batch"},
		"two":                    {slices.Concat(good, good), nil, kafka.InvalidRecord, "exactly one record batch"},
		"corrupt second":         {append(bytes.Clone(good), make([]byte, 20)...), nil, kafka.CorruptMessage, "Record size 0"},
		"magic 0":                {reseal(func(b []byte) { b[16] = 0 }), nil, kafka.InvalidRecord, "magic version 2"},
		"magic 1":                {reseal(func(b []byte) { b[16] = 1 }), nil, kafka.InvalidRecord, "magic version 2"},
		"magic 3":                {reseal(func(b []byte) { b[16] = 3 }), nil, kafka.CorruptMessage, "Invalid magic found in record: 3"},
		"length 13":              {put(8, 13), nil, kafka.CorruptMessage, "Record size 13 is less than the minimum record overhead (14)"},
		"length 40":              {put(8, 40)[:52], nil, kafka.CorruptMessage, "Record is corrupt (stored crc = "},
		"zstd in version 6":      {sent(t, Zstd, testNow), rules(func(r *Rules) { r.ProduceVersion = 6 }), kafka.UnsupportedCompressionType, "version 6 are not allowed to use ZStandard"},
		"base offset":            {put(4, 7), nil, kafka.InvalidRecord, "append to orders-3 should be 0, but it is 7"},
		"too large":              {good, rules(func(r *Rules) { r.MaxMessageBytes = int32(len(good)) - 1 }), kafka.MessageTooLarge, "orders-3 is 91 bytes which exceeds the maximum configured value of 90"},
		"larger than a segment":  {good, rules(func(r *Rules) { r.SegmentBytes = int32(len(good)) - 1 }), kafka.RecordListTooLarge, "orders-3, which exceeds the maximum configured segment size of 90"},
		"CRC":                    {flipped, nil, kafka.CorruptMessage, "in topic partition orders-3"},
		"codec 5":                {put(21, 5<<16), nil, kafka.UnknownServerError, "Unknown compression type id: 5"},
		"last offset delta -1":   {put(23, math.MaxUint32), nil, kafka.InvalidRecord, "invalid offset range: [0, -1]"},
		"count 0":                {put(57, 0), nil, kafka.InvalidRecord, "Invalid reported count for record batch: 0"},
		"count -1":               {put(57, math.MaxUint32), nil, kafka.InvalidRecord, "Invalid reported count for record batch: -1"},
		"count 2^31-1":           {put(57, math.MaxInt32), nil, kafka.InvalidRecord, "[0, 1] and count of records 2147483647"},
		"both 2^31-1":            {func() []byte { b := put(57, math.MaxInt32); return patch(b, 23, math.MaxInt32-1) }(), nil, kafka.InvalidRecord, "fewer records than its header says"},
		"one record more":        {func() []byte { b := put(57, 3); return patch(b, 23, 2) }(), nil, kafka.InvalidRecord, "fewer records"},
		"one record fewer":       {func() []byte { b := put(57, 1); return patch(b, 23, 0) }(), nil, kafka.InvalidRecord, "bytes after its last record"},
		"control":                {reseal(func(b []byte) { b[22] |= 0x20 }), nil, kafka.InvalidRecord, "not allowed to write control records"},
		"producer, no sequence":  {reseal(func(b []byte) { binary.BigEndian.PutUint64(b[43:], 5) }), nil, kafka.InvalidRecord, "Invalid sequence number -1 in record batch with producerId 5"},
		"not gzip":               {reseal(func(b []byte) { b[22] = 1 }), nil, kafka.UnknownServerError, "gzip"},
		"record too large":       {sent(t, Gzip, testNow), rules(func(r *Rules) { r.MaxDecompressedRecordBytes = 12 }), kafka.InvalidRecord, "maximum decompressed size"},
		"grows beyond the limit": {sent(t, Gzip, slices.Repeat([]int64{testNow}, 20)...), rules(func(r *Rules) { r.Compression = Compression{}; r.MaxMessageBytes = 200 }), kafka.MessageTooLarge, "exceeds the maximum configured size of 200"},
	} {
		r := c.rules
		if r == nil {
			r = openRules()
		}
		_, err := Validate(bytes.Clone(c.b), r, testNow)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Code() != c.code || !strings.Contains(invalid.Error(), c.reason) {
			t.Errorf("%s: %v %v, want %v ... %s", name, kafka.CodeOf(err), err, c.code, c.reason)
		}
		if told := invalid != nil && invalid.Message != ""; told != (name == "magic 3" || name == "length 13") {
			t.Errorf("%s: tells the client %q", name, invalid.Message)
		}
	}
	if _, err := Validate(bytes.Clone(good), openRules(), testNow); err != nil {
		t.Errorf("good: %v", err)
	}
}

func TestFirstAttributes(t *testing.T) {
	good := oneRecord(t)
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"transactional":  {good, "true true <nil>"},
		"with a second":  {append(bytes.Clone(good), 1, 2, 3), "true true <nil>"},
		"plain":          {sent(t, Zstd, 1), "false true <nil>"},
		"nothing":        {nil, "false false <nil>"},
		"torn":           {good[:len(good)-1], "false false <nil>"},
		"magic 1":        {append(append(bytes.Clone(good[:16]), 1), good[17:]...), "false false <nil>"},
		"magic 3":        {append(append(bytes.Clone(good[:16]), 3), good[17:]...), "false false Invalid magic found in record: 3"},
		"nothing but 0s": {make([]byte, 40), "false false Record size 0 is less than the minimum record overhead (14)"},
	} {
		a, ok, err := FirstAttributes(c.b)
		if got := fmt.Sprint(a.Transactional(), ok, err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if err != nil && kafka.CodeOf(err) != kafka.CorruptMessage {
			t.Errorf("%s: %v", name, kafka.CodeOf(err))
		}
	}
}

// What Kafka's builder of batches refuses is refused when a batch is rewritten, and only then.
func TestValidateCannotRewrite(t *testing.T) {
	for name, c := range map[string]func(b *Builder){
		"transactional without a producer": func(b *Builder) { b.SetTransactional(); b.Append(1, nil, nil) },
		"producer without an epoch":        func(b *Builder) { b.SetProducer(5, -1, 0); b.Append(1, nil, nil) },
		"no sequence":                      func(b *Builder) { b.SetProducer(-2, 0, -1); b.Append(1, nil, nil) },
		"negative timestamp":               func(b *Builder) { b.Append(-2, nil, nil) },
	} {
		b := NewBuilder(Snappy, 0)
		c(b)
		in := build(t, b)
		if _, err := Validate(bytes.Clone(in), openRules(), testNow); err != nil {
			t.Errorf("%s, kept: %v", name, err)
		}
		r := openRules()
		r.Compression = Compression{Codec: LZ4}
		if _, err := Validate(in, r, testNow); kafka.CodeOf(err) != kafka.UnknownServerError {
			t.Errorf("%s, rewritten: %v", name, err)
		}
	}
}

func TestValidateRecordErrors(t *testing.T) {
	b := NewBuilder(None, 0)
	b.Append(testNow, nil, []byte("a"))
	b.Append(testNow, []byte("k"), []byte("b"))
	b.Append(testNow+2*3600_000, nil, nil) // one error a record: the key's
	b.Append(testNow+2*3600_000, []byte("k"), nil)
	b.Append(testNow-11, []byte("k"), nil)
	keyless := build(t, b)

	r := openRules()
	r.Compacted = true
	r.TimestampBeforeMaxMs = 10
	_, err := Validate(keyless, r, testNow)
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	const key = "Compacted topic cannot accept message without key in topic partition orders-3"
	const time = "Timestamp %d of message with offset %d is out of range. The timestamp should be within [1700000099990, 1700003700000]"
	want := []RecordError{{0, key}, {2, key}, {3, fmt.Sprintf(time, testNow+7200_000, 3)}, {4, fmt.Sprintf(time, testNow-11, 4)}}
	if invalid.Code() != kafka.InvalidTimestamp || !slices.Equal(invalid.RecordErrors, want) ||
		invalid.Message != "One or more records have been rejected due to invalid timestamp" {
		t.Errorf("%v %q\n%q\nwant\n%q", invalid.Code(), invalid.Message, invalid.RecordErrors, want)
	}

	r.TimestampBeforeMaxMs, r.TimestampAfterMaxMs = math.MaxInt64, math.MaxInt64
	_, err = Validate(keyless, r, testNow)
	errors.As(err, &invalid)
	wantMessage := "One or more records have been rejected due to 2 record errors in total, and only showing the first three errors at most: " +
		"[RecordError(batchIndex=0, message='" + key + "'), RecordError(batchIndex=2, message='" + key + "')]"
	if invalid.Code() != kafka.InvalidRecord || !slices.Equal(invalid.RecordErrors, want[:2]) || invalid.Message != wantMessage {
		t.Errorf("%v %q\n%q", invalid.Code(), invalid.Message, invalid.RecordErrors)
	}
}

func TestRecordErrorsAreBounded(t *testing.T) {
	b := NewBuilder(None, 0)
	for range 3 * maxRecordErrors {
		b.Append(testNow, nil, nil)
	}
	r := openRules()
	r.Compacted = true
	_, err := Validate(build(t, b), r, testNow)
	var invalid *InvalidError
	if !errors.As(err, &invalid) || len(invalid.RecordErrors) != maxRecordErrors || !strings.Contains(invalid.Message, "due to 3000 record errors") {
		t.Fatalf("%v", err)
	}
}

// What follows a batch and is too short for another is dropped (as Kafka drops it), not stored.
func TestValidateDropsATornTail(t *testing.T) {
	good := sent(t, None, testNow)
	for n := range len(good) {
		v, err := Validate(append(bytes.Clone(good), good[:n]...), openRules(), testNow)
		if err != nil || !bytes.Equal(v.Bytes, good) || cap(v.Bytes) != len(good) {
			t.Fatalf("%d bytes more: %d bytes, %v", n, len(v.Bytes), err)
		}
	}
}

func TestValidateStamps(t *testing.T) {
	for _, codec := range everyCodec {
		lying := sent(t, codec, 1000, 3000, 2000, 3000)
		SetMaxTimestamp(lying, false, 2500)
		v, err := Validate(lying, openRules(), testNow)
		if err != nil || &v.Bytes[0] != &lying[0] {
			t.Fatalf("%v: %v", codec, err)
		}
		if v.MaxTimestamp != 3000 || v.Header.MaxTimestamp != 3000 || v.OffsetOfMaxTimestampDelta != 1 || v.LogAppendTime != NoTimestamp || v.Header != readHeader(v.Bytes) {
			t.Errorf("%v: %+v", codec, v)
		}
		if err := CheckCRC(v.Bytes); err != nil {
			t.Error(err)
		}

		r := openRules()
		r.LogAppendTime = true
		v, err = Validate(sent(t, codec, 1000, 3000), r, testNow)
		if err != nil || !v.Header.Attributes.LogAppendTime() || v.MaxTimestamp != testNow || v.Header.MaxTimestamp != testNow ||
			v.LogAppendTime != testNow || v.OffsetOfMaxTimestampDelta != 0 {
			t.Errorf("%v: %+v, %v", codec, v, err)
		}
		if err := CheckCRC(v.Bytes); err != nil {
			t.Error(err)
		}

		v, err = Validate(sent(t, codec, -1, -1), openRules(), testNow)
		if err != nil || v.MaxTimestamp != NoTimestamp || v.OffsetOfMaxTimestampDelta != -1 {
			t.Errorf("%v without timestamps: %+v, %v", codec, v, err)
		}
	}
}

func TestValidateRewrites(t *testing.T) {
	for _, source := range everyCodec {
		for _, target := range everyCodec {
			for _, appendTime := range []bool{false, true} {
				b := NewBuilder(source, 0)
				b.SetProducer(7, 1, 5)
				b.SetTransactional()
				b.Append(1000, []byte("k"), []byte("v"), RecordHeader{"h", nil}, RecordHeader{"\xff", []byte("not UTF-8")})
				b.Append(3000, nil, nil)
				b.Append(2000, []byte{}, []byte{})
				in := build(t, b)
				r := openRules()
				r.Compression = Compression{Codec: target, Level: 1}
				r.LogAppendTime = appendTime
				was := printRecords(t, in)
				v, err := Validate(in, r, testNow)
				if err != nil {
					t.Fatalf("%v to %v: %v", source, target, err)
				}
				want := Header{
					Length: int32(len(v.Bytes) - LengthEnd), LeaderEpoch: -1, Magic: 2, CRC: v.Header.CRC, Attributes: Attributes(target) | transactionalBit,
					LastOffsetDelta: 2, BaseTimestamp: 1000, MaxTimestamp: 3000, ProducerID: 7, ProducerEpoch: 1, BaseSequence: 5, Count: 3,
				}
				wantOffset := int32(1)
				if appendTime {
					want.Attributes |= logAppendTimeBit
					want.MaxTimestamp, wantOffset = testNow, 0
					was = nil
				}
				if v.Header != want || v.MaxTimestamp != want.MaxTimestamp || v.OffsetOfMaxTimestampDelta != wantOffset {
					t.Errorf("%v to %v: %+v\nwant %+v", source, target, v, want)
				}
				if err := CheckCRC(v.Bytes); err != nil {
					t.Error(err)
				}
				if got := printRecords(t, v.Bytes); was != nil && !slices.Equal(got, was) {
					t.Errorf("%v to %v: %q, was %q", source, target, got, was)
				}
				if (&v.Bytes[0] == &in[0]) != (source == target) {
					t.Errorf("%v to %v: rewritten or not, wrongly", source, target)
				}
			}
		}
	}
}

// A rewritten batch must not lie in memory that the next one uses.
func TestRewrittenIsNotPooled(t *testing.T) {
	for _, target := range everyCodec {
		r := openRules()
		r.Compression = Compression{Codec: target}
		first, err := Validate(sent(t, (target+1)%5, testNow), r, testNow)
		if err != nil {
			t.Fatal(err)
		}
		was := bytes.Clone(first.Bytes)
		if _, err := Validate(sent(t, (target+1)%5, 1, 2, 3), r, testNow); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes, was) {
			t.Errorf("%v: the second batch overwrote the first", target)
		}
	}
}

func TestValidateHeaderOnly(t *testing.T) {
	r := openRules()
	r.HeaderOnly = true
	unreadable := sent(t, Gzip, 1000, 2000)
	unreadable[HeaderSize] ^= 1
	patch(unreadable, 57, 2)
	v, err := Validate(bytes.Clone(unreadable), r, testNow)
	if err != nil || v.MaxTimestamp != 2000 || v.OffsetOfMaxTimestampDelta != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	for name, c := range map[string]struct {
		change func(r *Rules)
		b      []byte
		code   kafka.Code
	}{
		"a compacted topic needs the keys":     {func(r *Rules) { r.Compacted = true }, unreadable, kafka.UnknownServerError},
		"another codec needs the records":      {func(r *Rules) { r.Compression = Compression{Codec: LZ4} }, unreadable, kafka.UnknownServerError},
		"the CRC is not trusted":               {func(r *Rules) {}, append(bytes.Clone(unreadable[:len(unreadable)-1]), 0xee), kafka.CorruptMessage},
		"nor is a max timestamp in the future": {func(r *Rules) {}, sent(t, None, 1000, testNow+2*3600_000), kafka.InvalidTimestamp},
		"nor is a base timestamp in the past":  {func(r *Rules) { r.TimestampBeforeMaxMs = 10 }, sent(t, None, testNow-11, testNow), kafka.InvalidTimestamp},
		"nor the producer's append time":       {func(r *Rules) { r.LogAppendTime = true }, func() []byte { b := sent(t, None, 5); SetMaxTimestamp(b, true, 5); return b }(), kafka.InvalidTimestamp},
	} {
		r := openRules()
		r.HeaderOnly = true
		c.change(r)
		if _, err := Validate(bytes.Clone(c.b), r, testNow); kafka.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.LogAppendTime = true
	v, err = Validate(bytes.Clone(unreadable), r, testNow)
	if err != nil || v.LogAppendTime != testNow || v.Header.MaxTimestamp != testNow || CheckCRC(v.Bytes) != nil {
		t.Errorf("%+v, %v", v, err)
	}
}

// Five KiB that stand for 160 MiB must be refused before that much memory is taken.
func TestValidateDecompressionBomb(t *testing.T) {
	if raceEnabled {
		t.Skip("writing 128 MiB takes seconds under the race detector")
	}
	b := sent(t, None, testNow)
	b = append(b[:HeaderSize], zstdBomb(1280)...)
	b[22] = byte(Zstd)
	patch(b, 57, 1)
	_, err := Validate(b, openRules(), testNow)
	if kafka.CodeOf(err) != kafka.InvalidRecord || !strings.Contains(err.Error(), errDecompressed.Error()) {
		t.Fatal(err)
	}
}

func TestTrusted(t *testing.T) {
	marker := ControlBatch(EndTxnMarker{Type: Commit}, 1, 2, 3, 4)
	v := Trusted(marker)
	if &v.Bytes[0] != &marker[0] || v.Header != readHeader(marker) || v.MaxTimestamp != 4 || v.OffsetOfMaxTimestampDelta != 0 || v.LogAppendTime != NoTimestamp {
		t.Errorf("%+v", v)
	}
	stamped := sent(t, Zstd, 5, 6)
	SetMaxTimestamp(stamped, true, 9)
	if v := Trusted(stamped); v.LogAppendTime != 9 || v.MaxTimestamp != 9 || v.OffsetOfMaxTimestampDelta != 0 {
		t.Errorf("%+v", v)
	}
	defer func() {
		if recover() == nil {
			t.Error("took a torn batch")
		}
	}()
	Trusted(marker[:len(marker)-1])
}

func TestValidateAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector drops pooled buffers")
	}
	for _, appendTime := range []bool{false, true} {
		r := openRules()
		r.LogAppendTime = appendTime
		for _, codec := range everyCodec {
			b := produced(t, codec, 16<<10, 100)
			fresh := bytes.Clone(b)
			allocs := testing.AllocsPerRun(50, func() {
				copy(b, fresh)
				if _, err := Validate(b, r, testNow); err != nil {
					t.Fatal(err)
				}
			})
			if allocs >= 1 {
				t.Errorf("%v, append time %v: %v allocations", codec, appendTime, allocs)
			}
		}
	}
}
