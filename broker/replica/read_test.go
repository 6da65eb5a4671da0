package replica

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"testing"

	"weir/internal/kafka"
	"weir/log"
	"weir/protocol/batch"
)

// mislabelled is a compressed batch of one record whose length is wrong, which a leader takes as Kafka's does.
func mislabelled(t *testing.T) []byte {
	t.Helper()
	builder := batch.NewBuilder(batch.Gzip, 0)
	builder.Append(testTime.UnixMilli(), nil, []byte("value"))
	b, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(b[batch.HeaderSize:]))
	if err != nil {
		t.Fatal(err)
	}
	record, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	record[0] += 2 // a byte longer, in zigzag
	var packed bytes.Buffer
	packer := gzip.NewWriter(&packed)
	packer.Write(record)
	packer.Close()
	b = append(bytes.Clone(b[:batch.HeaderSize]), packed.Bytes()...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-batch.LengthEnd))
	binary.BigEndian.PutUint32(b[17:], batch.Checksum(b))
	return b
}

// Clients ask for ever after KAFKA_STORAGE_ERROR.
func TestRecordsThatCannotBeReadAreNoStorageError(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("t", kafka.NewUUID(), self)
	if _, err := p.Append(&AppendRequest{Records: mislabelled(t), Version: 9, Acks: AcksLeader, Now: testTime}); err != nil {
		t.Fatal(err)
	}
	for _, timestamp := range []int64{TimestampMax, 0, testTime.UnixMilli()} {
		if found, err := p.ListOffset(timestamp, ReadUncommitted, kafka.NoLeaderEpoch); kafka.CodeOf(err) != kafka.InvalidRecord {
			t.Errorf("timestamp %d: %+v, %v", timestamp, found, err)
		}
	}
	for timestamp, want := range map[int64]int64{TimestampLatest: 1, TimestampEarliest: 0, testTime.UnixMilli() + 1: -1} {
		if found, err := p.ListOffset(timestamp, ReadUncommitted, kafka.NoLeaderEpoch); err != nil || found.Offset != want {
			t.Errorf("timestamp %d: %+v, %v; want %d", timestamp, found, err, want)
		}
	}
}
