package wire

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Attributes of a batch, beside the codec in the lowest three bits.
const (
	codecNone   = 0
	codecGzip   = 1
	codecSnappy = 2
	codecLZ4    = 3
	codecZstd   = 4

	logAppendTime = 1 << 3
	transactional = 1 << 4
	control       = 1 << 5
)

const batchOverhead = 61 // bytes before the records

// record is one record to send, or one that was fetched.
type record struct {
	timestamp  int64 // ms
	key, value []byte
}

// batch is a record batch in which every field may be made wrong.
type batch struct{ kmsg.RecordBatch }

// newBatch returns the batch that a good producer without idempotence would send.
func newBatch(records ...record) *batch {
	b := &batch{kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(records)) - 1, NumRecords: int32(len(records)),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, FirstTimestamp: -1, MaxTimestamp: -1}}
	for i, r := range records {
		if i == 0 {
			b.FirstTimestamp = r.timestamp
		}
		b.MaxTimestamp = max(b.MaxTimestamp, r.timestamp)
		b.Records = appendRecord(b.Records, kmsg.Record{OffsetDelta: int32(i), TimestampDelta64: r.timestamp - b.FirstTimestamp, Key: r.key, Value: r.value})
	}
	return b
}

// appendRecord encodes a record, whose length it fills in.
func appendRecord(dst []byte, r kmsg.Record) []byte {
	r.Length = int32(len(r.AppendTo(nil))) - 1 // without its own length, which takes one byte while it is 0
	return r.AppendTo(dst)
}

// textBatch is a batch of records with these values, a key each, and the time of now.
func textBatch(values ...string) *batch {
	now := time.Now().UnixMilli()
	records := make([]record, len(values))
	for i, v := range values {
		records[i] = record{now, []byte("k"), []byte(v)}
	}
	return newBatch(records...)
}

// from makes the batch an idempotent producer's.
func (b *batch) from(producerID int64, epoch int16, sequence int32) *batch {
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = producerID, epoch, sequence
	return b
}

// compressed puts a payload in the place of the records, which it must decompress to.
func (b *batch) compressed(codec int16, payload []byte) *batch {
	b.Attributes |= codec
	b.Records = payload
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bytes encodes the batch with its right length and checksum.
func (b *batch) bytes() []byte {
	b.Length = int32(batchOverhead - 12 + len(b.Records))
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], castagnoli))
	return out
}

// readBatches takes what a fetch returned apart and checks what a consumer checks: whole batches with right checksums.
func readBatches(t *testing.T, b []byte) []*batch {
	t.Helper()
	var out []*batch
	for len(b) > 0 {
		if len(b) < batchOverhead || len(b) < 12+int(binary.BigEndian.Uint32(b[8:])) {
			t.Fatalf("%d bytes at the end are no whole batch", len(b))
		}
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		one := new(batch)
		if err := one.ReadFrom(b[:size]); err != nil {
			t.Fatal(err)
		}
		if want := crc32.Checksum(b[21:size], castagnoli); uint32(one.CRC) != want {
			t.Fatalf("the batch at offset %d has checksum %08x, want %08x", one.FirstOffset, uint32(one.CRC), want)
		}
		out = append(out, one)
		b = b[size:]
	}
	return out
}

// values returns the values of an uncompressed batch's records.
func (b *batch) values(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, r := range b.decoded(t) {
		out = append(out, string(r.Value))
	}
	return out
}

// decoded returns an uncompressed batch's records.
func (b *batch) decoded(t *testing.T) []kmsg.Record {
	t.Helper()
	if b.Attributes&7 != codecNone {
		t.Fatalf("the batch is compressed: attributes %#x", b.Attributes)
	}
	var out []kmsg.Record
	for rest := b.Records; len(rest) > 0; {
		var r kmsg.Record
		if err := r.ReadFrom(rest); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
		rest = rest[len(binary.AppendVarint(nil, int64(r.Length)))+int(r.Length):]
	}
	return out
}
