package batch

import (
	"encoding/binary"
	"fmt"
	"math"

	"weir/internal/invariant"
)

// Builder builds one batch after the other. Records are kept encoded but uncompressed until Build. It is not safe for
// concurrent use.
type Builder struct {
	codec   Codec
	level   int
	header  Header
	records []byte // encoded, behind HeaderSize bytes that Build fills
	headers []byte // scratch
	next    int32  // the lowest offset delta that may follow
	last    int32  // what SetLastOffsetDelta said, -1 for the last record's
}

// NewBuilder returns a Builder of batches compressed by the codec at a level, of which 0 is the codec's default and
// others are numbers of Kafka's compression.*.level.
func NewBuilder(codec Codec, level int) *Builder {
	b := &Builder{codec: codec, level: level}
	b.Reset()
	return b
}

// Reset makes b empty and forgets what the setters said; memory is kept.
func (b *Builder) Reset() {
	b.header = Header{
		LeaderEpoch: -1, Magic: Magic, Attributes: Attributes(b.codec),
		BaseTimestamp: NoTimestamp, MaxTimestamp: NoTimestamp,
		ProducerID: NoProducerID, ProducerEpoch: NoProducerEpoch, BaseSequence: NoSequence,
	}
	b.records = append(b.records[:0], make([]byte, HeaderSize)...)
	b.next, b.last = 0, -1
}

// SetBaseOffset sets the offset of delta 0; 0 if it is not called, as clients send it.
func (b *Builder) SetBaseOffset(offset int64) { b.header.BaseOffset = offset }

// SetLeaderEpoch sets the partition leader epoch; -1 if it is not called.
func (b *Builder) SetLeaderEpoch(epoch int32) { b.header.LeaderEpoch = epoch }

// SetProducer sets producer id, epoch and the first record's sequence; none if it is not called.
func (b *Builder) SetProducer(id int64, epoch int16, baseSequence int32) {
	b.header.ProducerID, b.header.ProducerEpoch, b.header.BaseSequence = id, epoch, baseSequence
}

// SetTransactional marks the batch as part of a transaction.
func (b *Builder) SetTransactional() { b.header.Attributes |= transactionalBit }

// SetControl marks the batch as one that holds a marker.
func (b *Builder) SetControl() { b.header.Attributes |= controlBit }

// SetLogAppendTime makes ms every record's timestamp. The deltas of the records' own times stay in them, as in Kafka.
func (b *Builder) SetLogAppendTime(ms int64) {
	b.header.Attributes |= logAppendTimeBit
	b.header.MaxTimestamp = ms
}

// SetLastOffsetDelta sets the last offset delta where it is not that of the last record, as after compaction.
func (b *Builder) SetLastOffsetDelta(delta int32) { b.last = delta }

// Len is the number of records so far.
func (b *Builder) Len() int { return int(b.header.Count) }

// Size is the size in bytes that the batch has so far, uncompressed.
func (b *Builder) Size() int { return len(b.records) }

// Append adds a record at the next offset. A nil key or value is null. The first record's timestamp becomes the batch's
// base timestamp.
func (b *Builder) Append(timestampMs int64, key, value []byte, headers ...RecordHeader) {
	b.headers = appendHeaders(b.headers[:0], headers)
	b.AppendAt(b.next, timestampMs, key, value, Headers{Count: int32(len(headers)), Encoded: b.headers})
}

// AppendAt adds a record at a given offset delta, which must be above that of the record before.
func (b *Builder) AppendAt(offsetDelta int32, timestampMs int64, key, value []byte, headers Headers) {
	if offsetDelta < b.next { // not an argument of Assert: that would allocate for every record
		invariant.Assert(false, "offset delta %d follows %d", offsetDelta, b.next-1)
	}
	if b.header.Count == 0 {
		b.header.BaseTimestamp = timestampMs
	}
	if !b.header.Attributes.LogAppendTime() {
		b.header.MaxTimestamp = max(b.header.MaxTimestamp, timestampMs)
	}
	b.records = appendRecord(b.records, timestampMs-b.header.BaseTimestamp, offsetDelta, key, value, headers)
	b.header.Count++
	b.next = offsetDelta + 1
}

// Build returns the batch. It is the Builder's memory if nothing is compressed: valid until Append or Reset. The error
// is for a codec that does not exist, or a batch that is too large for the format.
func (b *Builder) Build() ([]byte, error) {
	out := b.records
	if b.codec != None {
		packed := make([]byte, HeaderSize, HeaderSize+len(b.records)/2)
		var err error
		if out, err = compress(packed, b.codec, b.level, b.records[HeaderSize:]); err != nil {
			return nil, fmt.Errorf("compress a batch: %w", err)
		}
	}
	if len(out)-LengthEnd > math.MaxInt32 {
		return nil, fmt.Errorf("a batch of %d bytes does not fit the format", len(out))
	}
	b.header.Length = int32(len(out) - LengthEnd)
	b.header.LastOffsetDelta = b.next - 1
	if b.last >= 0 {
		invariant.Assert(b.last >= b.next-1, "last offset delta %d is below %d", b.last, b.next-1)
		b.header.LastOffsetDelta = b.last
	}
	b.header.put(out)
	b.header.CRC = Checksum(out)
	binary.BigEndian.PutUint32(out[crcPos:], b.header.CRC)
	return out, nil
}
