package batch

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Sizes of the format.
const (
	// HeaderSize is the number of bytes before the records.
	HeaderSize = 61
	// LengthEnd is where the length field ends: what must be read to know a batch's size.
	LengthEnd = 12

	minLength = HeaderSize - LengthEnd // a batch without records
)

// Positions in the header; the drawing is in doc.go.
const (
	baseOffsetPos      = 0
	lengthPos          = 8
	leaderEpochPos     = 12
	magicPos           = 16
	crcPos             = 17
	attributesPos      = 21
	lastOffsetDeltaPos = 23
	baseTimestampPos   = 27
	maxTimestampPos    = 35
	producerIDPos      = 43
	producerEpochPos   = 51
	baseSequencePos    = 53
	countPos           = 57
)

// Magic is the only format of batch that is known here.
const Magic = 2

// What a batch has where it has no timestamp or producer.
const (
	NoTimestamp     int64 = -1
	NoProducerID    int64 = -1
	NoProducerEpoch int16 = -1
	NoSequence      int32 = -1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Codec is how the records of a batch are compressed. The numbers are the format's.
type Codec int8

// The codecs of the format. Numbers 5 to 7 fit the attribute bits and mean nothing.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

// String gives the name as compression.type spells it, but for none ("uncompressed" there).
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return "unknown"
}

// Attributes is the batch's attribute field.
type Attributes int16

const (
	codecMask        Attributes = 0x07
	logAppendTimeBit Attributes = 0x08
	transactionalBit Attributes = 0x10
	controlBit       Attributes = 0x20
	deleteHorizonBit Attributes = 0x40
	attributesKnown  Attributes = 0x7f
)

// Codec tells how the records are compressed; it may be a number that is no codec.
func (a Attributes) Codec() Codec { return Codec(a & codecMask) }

// LogAppendTime reports whether every record has the batch's max timestamp, given by the broker.
func (a Attributes) LogAppendTime() bool { return a&logAppendTimeBit != 0 }

// Transactional reports whether the batch belongs to a transaction.
func (a Attributes) Transactional() bool { return a&transactionalBit != 0 }

// Control reports whether the batch holds a marker instead of a client's records.
func (a Attributes) Control() bool { return a&controlBit != 0 }

// HasDeleteHorizon reports whether the base timestamp is the time from which the cleaner may drop tombstones (KIP-534).
func (a Attributes) HasDeleteHorizon() bool { return a&deleteHorizonBit != 0 }

// Header is a batch's header.
type Header struct {
	BaseOffset      int64
	Length          int32 // as on the wire: the bytes after this field
	LeaderEpoch     int32
	Magic           int8
	CRC             uint32
	Attributes      Attributes
	LastOffsetDelta int32
	BaseTimestamp   int64 // ms
	MaxTimestamp    int64 // ms
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// ParseHeader reads the header at the start of b. The error is a TornError if b is too short for one, or a CorruptError
// if the length is below that of an empty batch or the magic is not 2. The CRC and the other fields are not checked:
// CheckStored does.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, &TornError{Have: len(b), Need: HeaderSize}
	}
	h := readHeader(b)
	if h.Length < minLength {
		return h, corruptf(h.BaseOffset, "length %d is less than that of an empty batch, %d", h.Length, minLength)
	}
	if h.Magic != Magic {
		return h, corruptf(h.BaseOffset, "magic is %d, not %d", h.Magic, Magic)
	}
	return h, nil
}

// readHeader decodes the first HeaderSize bytes of b, whatever they are.
func readHeader(b []byte) Header {
	_ = b[HeaderSize-1]
	return Header{
		BaseOffset:      int64(binary.BigEndian.Uint64(b[baseOffsetPos:])),
		Length:          int32(binary.BigEndian.Uint32(b[lengthPos:])),
		LeaderEpoch:     int32(binary.BigEndian.Uint32(b[leaderEpochPos:])),
		Magic:           int8(b[magicPos]),
		CRC:             binary.BigEndian.Uint32(b[crcPos:]),
		Attributes:      Attributes(binary.BigEndian.Uint16(b[attributesPos:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(b[lastOffsetDeltaPos:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(b[baseTimestampPos:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(b[maxTimestampPos:])),
		ProducerID:      int64(binary.BigEndian.Uint64(b[producerIDPos:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(b[producerEpochPos:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(b[baseSequencePos:])),
		Count:           int32(binary.BigEndian.Uint32(b[countPos:])),
	}
}

// put encodes h into the first HeaderSize bytes of b, its CRC included as it stands.
func (h *Header) put(b []byte) {
	_ = b[HeaderSize-1]
	binary.BigEndian.PutUint64(b[baseOffsetPos:], uint64(h.BaseOffset))
	binary.BigEndian.PutUint32(b[lengthPos:], uint32(h.Length))
	binary.BigEndian.PutUint32(b[leaderEpochPos:], uint32(h.LeaderEpoch))
	b[magicPos] = byte(h.Magic)
	binary.BigEndian.PutUint32(b[crcPos:], h.CRC)
	binary.BigEndian.PutUint16(b[attributesPos:], uint16(h.Attributes))
	binary.BigEndian.PutUint32(b[lastOffsetDeltaPos:], uint32(h.LastOffsetDelta))
	binary.BigEndian.PutUint64(b[baseTimestampPos:], uint64(h.BaseTimestamp))
	binary.BigEndian.PutUint64(b[maxTimestampPos:], uint64(h.MaxTimestamp))
	binary.BigEndian.PutUint64(b[producerIDPos:], uint64(h.ProducerID))
	binary.BigEndian.PutUint16(b[producerEpochPos:], uint16(h.ProducerEpoch))
	binary.BigEndian.PutUint32(b[baseSequencePos:], uint32(h.BaseSequence))
	binary.BigEndian.PutUint32(b[countPos:], uint32(h.Count))
}

// Size is the size of the whole batch in bytes. It is an int where that has 64 bits, so it does not wrap.
func (h Header) Size() int { return LengthEnd + int(h.Length) }

// LastOffset is the offset of the last record that the batch had when it was written (inclusive).
func (h Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// NextOffset is the offset after the batch.
func (h Header) NextOffset() int64 { return h.LastOffset() + 1 }

// HasProducerID reports whether an idempotent or transactional producer, or its coordinator, wrote the batch.
func (h Header) HasProducerID() bool { return h.ProducerID > NoProducerID }

// LastSequence is the sequence of the last record, NoSequence where the batch has none.
func (h Header) LastSequence() int32 {
	if h.BaseSequence == NoSequence {
		return NoSequence
	}
	return AddSequence(h.BaseSequence, h.LastOffsetDelta)
}

// RecordOffset is the offset of one of the batch's records.
func (h Header) RecordOffset(r Record) int64 { return h.BaseOffset + int64(r.OffsetDelta) }

// RecordTimestamp is the time of one of the batch's records in ms.
func (h Header) RecordTimestamp(r Record) int64 {
	if h.Attributes.LogAppendTime() {
		return h.MaxTimestamp
	}
	return h.BaseTimestamp + r.TimestampDelta
}

// AddSequence gives the sequence n records after seq: sequences go from 0 to 2^31-1 and begin again at 0.
func AddSequence(seq, n int32) int32 {
	if seq > math.MaxInt32-n {
		return n - (math.MaxInt32 - seq) - 1
	}
	return seq + n
}

// SetBaseOffset stamps the base offset into the batch at the start of b. It lies outside the CRC.
func SetBaseOffset(b []byte, offset int64) {
	binary.BigEndian.PutUint64(b[baseOffsetPos:], uint64(offset))
}

// SetLeaderEpoch stamps the partition leader epoch into the batch at the start of b. It lies outside the CRC.
func SetLeaderEpoch(b []byte, epoch int32) {
	binary.BigEndian.PutUint32(b[leaderEpochPos:], uint32(epoch))
}

// SetMaxTimestamp stamps the kind of timestamp (attribute bit 3) and the max timestamp into the batch that b is, and
// computes its CRC anew. Where both are already so, nothing is written and the CRC stays, right or wrong. Attribute bits
// that mean nothing yet are cleared when anything is written, and only then, as in Kafka.
func SetMaxTimestamp(b []byte, logAppendTime bool, ms int64) {
	attributes := Attributes(binary.BigEndian.Uint16(b[attributesPos:]))
	if attributes.LogAppendTime() == logAppendTime && int64(binary.BigEndian.Uint64(b[maxTimestampPos:])) == ms {
		return
	}
	attributes &= attributesKnown &^ logAppendTimeBit
	if logAppendTime {
		attributes |= logAppendTimeBit
	}
	binary.BigEndian.PutUint16(b[attributesPos:], uint16(attributes))
	binary.BigEndian.PutUint64(b[maxTimestampPos:], uint64(ms))
	binary.BigEndian.PutUint32(b[crcPos:], Checksum(b))
}

// Checksum computes the CRC of the batch that b is: exactly one whole batch.
func Checksum(b []byte) uint32 { return crc32.Checksum(b[attributesPos:], castagnoli) }

// CheckCRC compares the CRC of the batch that b is, exactly one whole batch, with the one in its header.
func CheckCRC(b []byte) error {
	if len(b) < HeaderSize {
		return &TornError{Have: len(b), Need: HeaderSize}
	}
	stored, computed := binary.BigEndian.Uint32(b[crcPos:]), Checksum(b)
	if stored != computed {
		return corruptf(int64(binary.BigEndian.Uint64(b)), "stored CRC is %d, computed %d", stored, computed)
	}
	return nil
}
