package batch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"weir/internal/invariant"
	"weir/internal/kafka"
)

// Sizes that decide whether bytes are a batch at all, from the time when a message set could hold other formats.
const (
	minLegacyLength = 14 // of a magic 0 message: a smaller length is corrupt, not torn
	magicEnd        = magicPos + 1
)

// codeUnreadable is the answer to a batch that cannot be decompressed, or not be rewritten for a reason that Kafka does
// not check: an exception of the Java library reaches the client as this. A client does not retry it, which is right; it
// would retry CORRUPT_MESSAGE.
const codeUnreadable = kafka.UnknownServerError

// Validated is a batch that may be appended.
type Validated struct {
	Bytes  []byte // exactly one batch: the producer's own, its timestamps perhaps stamped in place, or a rewritten one
	Header Header // of Bytes

	// MaxTimestamp is the latest of the records, Header.MaxTimestamp; NoTimestamp if no record has one. It belongs to
	// Header.LastOffset in a time index, as in Kafka.
	MaxTimestamp int64
	// OffsetOfMaxTimestampDelta is the offset delta of the first record that has MaxTimestamp, which ListOffsets -3 asks
	// for; -1 if no record has a timestamp. By Rules.HeaderOnly nobody looked, and it is that of the last record.
	OffsetOfMaxTimestampDelta int32
	// LogAppendTime is the broker's time if the topic keeps that, else NoTimestamp. In ms.
	LogAppendTime int64
}

// Validate checks what a producer sent for one partition and makes of it what is appended, as Kafka 4.4 does it in
// ProduceRequest.validateRecords, UnifiedLog.append and LogValidator, with the same codes and texts and in that order.
// What follows the batch and is too short for another is dropped, as Kafka drops it. Base offset and leader epoch are
// left for the log to stamp.
//
// records may be changed in place: max timestamp, attributes and CRC. The result may be records itself; it does not use
// pooled memory. Errors are of type *InvalidError. For an uncompressed batch that is right and not rewritten, nothing is
// allocated.
func Validate(records []byte, r *Rules, nowMs int64) (Validated, error) {
	b, err := OnlyBatch(records, r.ProduceVersion)
	if err != nil {
		return Validated{}, err
	}
	h, err := checkBatch(b, r)
	if err != nil {
		return Validated{}, err
	}
	v := Validated{LogAppendTime: NoTimestamp}
	if r.LogAppendTime {
		v.LogAppendTime = nowMs
	}
	codec := h.Attributes.Codec()
	target := r.Compression.target(codec)
	if r.HeaderOnly && !r.Compacted && target == codec {
		err = v.trustHeader(b, &h, r, nowMs)
	} else {
		err = v.walk(b, &h, r, nowMs, target)
	}
	if err != nil {
		return Validated{}, err
	}
	if r.SegmentBytes > 0 && len(v.Bytes) > int(r.SegmentBytes) {
		return Validated{}, refuse(kafka.RecordListTooLarge,
			"Message batch size is %d bytes in append to partition %v, which exceeds the maximum configured segment size of %d.",
			len(v.Bytes), r.TopicPartition, r.SegmentBytes)
	}
	v.Header = readHeader(v.Bytes)
	return v, nil
}

// Trusted makes a Validated of a batch that the broker built itself, by a Builder or ControlBatch. It panics on bytes
// that are no batch.
func Trusted(b []byte) Validated {
	h, err := ParseHeader(b)
	invariant.Assert(err == nil && len(b) == h.Size(), "%d bytes are no batch: %v", len(b), err)
	v := Validated{Bytes: b, Header: h, MaxTimestamp: h.MaxTimestamp, OffsetOfMaxTimestampDelta: -1, LogAppendTime: NoTimestamp}
	if h.Attributes.LogAppendTime() {
		v.LogAppendTime = h.MaxTimestamp
	}
	if offset, _, ok, err := OffsetOfMaxTimestamp(b); err == nil && ok {
		v.OffsetOfMaxTimestampDelta = int32(offset - h.BaseOffset)
	}
	return v
}

// refuse makes an error whose text the client is not told.
func refuse(code kafka.Code, format string, args ...any) *InvalidError {
	return &InvalidError{code: code, reason: fmt.Sprintf(format, args...)}
}

// cutBatch takes the batch at the start of buf by its length and magic alone. There is none, without an error, if buf
// ends before the batch does.
func cutBatch(buf []byte) (b []byte, reason string) {
	if len(buf) < LengthEnd {
		return nil, ""
	}
	length := int32(binary.BigEndian.Uint32(buf[lengthPos:]))
	if length < minLegacyLength {
		return nil, fmt.Sprintf("Record size %d is less than the minimum record overhead (%d)", length, minLegacyLength)
	}
	if len(buf) < magicEnd {
		return nil, ""
	}
	if magic := int8(buf[magicPos]); magic < 0 || magic > Magic {
		return nil, fmt.Sprintf("Invalid magic found in record: %d", magic)
	}
	size := LengthEnd + int(length)
	if len(buf) < size {
		return nil, ""
	}
	return buf[:size:size], ""
}

// FirstAttributes gives the attributes of the first batch of a produce request's partition, which the handler needs
// before it knows the topic's Rules: a transactional batch needs the transactional id's authorization. ok is false if
// there is no batch of magic 2.
//
// An error means that the bytes begin with no batch of any magic. Kafka stumbles over that while it looks for
// transactional batches and refuses the whole request, every partition with this code and message.
func FirstAttributes(records []byte) (a Attributes, ok bool, err error) {
	b, reason := cutBatch(records)
	switch {
	case reason != "":
		return 0, false, &InvalidError{code: kafka.CorruptMessage, reason: reason, Message: reason}
	case b == nil || b[magicPos] != Magic:
		return 0, false, nil
	}
	return attributesOf(b), true, nil
}

// OnlyBatch finds the one batch of a produce request's partition (KIP-98: exactly one, of magic 2). Validate does it
// first; Kafka does it before it looks at anything but that the topic exists, and its errors are marked Early.
func OnlyBatch(records []byte, produceVersion int16) ([]byte, error) {
	b, err := onlyBatch(records, produceVersion)
	if err != nil {
		err.Early = true
		return nil, err
	}
	return b, nil
}

func onlyBatch(records []byte, produceVersion int16) ([]byte, *InvalidError) {
	b, reason := cutBatch(records)
	switch {
	case reason != "":
		return nil, &InvalidError{code: kafka.CorruptMessage, reason: reason, Message: reason}
	case b == nil:
		return nil, refuse(kafka.InvalidRecord, "Produce requests with version %d must have at least one record batch per partition", produceVersion)
	case b[magicPos] != Magic:
		return nil, refuse(kafka.InvalidRecord, "Produce requests with version %d are only allowed to contain record batches with magic version 2", produceVersion)
	case produceVersion < 7 && attributesOf(b).Codec() == Zstd:
		return nil, refuse(kafka.UnsupportedCompressionType, "Produce requests with version %d are not allowed to use ZStandard compression", produceVersion)
	case produceVersion < 7 && attributesOf(b).Codec() > Zstd: // Kafka looks the codec up here, and has none
		return nil, refuse(codeUnreadable, "Unknown compression type id: %d", attributesOf(b).Codec())
	}
	second, reason := cutBatch(records[len(b):])
	switch {
	case reason != "":
		return nil, refuse(kafka.CorruptMessage, "%s", reason)
	case second != nil:
		return nil, refuse(kafka.InvalidRecord, "Produce requests with version %d are only allowed to contain exactly one record batch per partition", produceVersion)
	}
	return b, nil
}

func attributesOf(b []byte) Attributes {
	return Attributes(binary.BigEndian.Uint16(b[attributesPos:]))
}

// checkBatch checks the batch as a whole. b may be shorter than a header: that is found by its CRC, as it were.
func checkBatch(b []byte, r *Rules) (Header, error) {
	if offset := int64(binary.BigEndian.Uint64(b)); offset != 0 {
		return Header{}, refuse(kafka.InvalidRecord, "The baseOffset of the record batch in the append to %v should be 0, but it is %d", r.TopicPartition, offset)
	}
	if len(b) > int(r.MaxMessageBytes) {
		return Header{}, refuse(kafka.MessageTooLarge,
			"The record batch size in the append to %v is %d bytes which exceeds the maximum configured value of %d.", r.TopicPartition, len(b), r.MaxMessageBytes)
	}
	if stored := binary.BigEndian.Uint32(b[crcPos:]); len(b) < HeaderSize || stored != Checksum(b) {
		return Header{}, refuse(kafka.CorruptMessage, "Record is corrupt (stored crc = %d) in topic partition %v.", stored, r.TopicPartition)
	}
	h := readHeader(b)
	last := h.LastOffset()
	switch {
	case h.Attributes.Codec() > Zstd:
		return h, refuse(codeUnreadable, "Unknown compression type id: %d", h.Attributes.Codec())
	case last < 0:
		return h, refuse(kafka.InvalidRecord, "Batch has an invalid offset range: [0, %d] in topic partition %v", last, r.TopicPartition)
	case h.Count <= 0:
		return h, refuse(kafka.InvalidRecord, "Invalid reported count for record batch: %d in topic partition %v", h.Count, r.TopicPartition)
	case last+1 != int64(h.Count):
		return h, refuse(kafka.InvalidRecord, "Inconsistent batch offset range [0, %d] and count of records %d in topic partition %v", last, h.Count, r.TopicPartition)
	case h.Attributes.Control():
		return h, refuse(kafka.InvalidRecord, "Clients are not allowed to write control records in topic partition %v", r.TopicPartition)
	case h.HasProducerID() && h.BaseSequence < 0:
		return h, refuse(kafka.InvalidRecord, "Invalid sequence number %d in record batch with producerId %d in topic partition %v", h.BaseSequence, h.ProducerID, r.TopicPartition)
	}
	return h, nil
}

// trustHeader takes the header's word for the timestamps.
func (v *Validated) trustHeader(b []byte, h *Header, r *Rules, nowMs int64) error {
	s := scan{rules: r, header: *h, nowMs: nowMs}
	s.checkTimestamp(0, &Record{}, h.BaseTimestamp, false)
	if !h.Attributes.LogAppendTime() {
		s.checkTimestamp(h.LastOffsetDelta, &Record{OffsetDelta: h.LastOffsetDelta}, h.MaxTimestamp, false)
	}
	if err := s.failure(); err != nil {
		return err
	}
	v.stamp(b, h.MaxTimestamp, h.LastOffsetDelta)
	return nil
}

// walk looks at every record and stamps or rewrites the batch.
func (v *Validated) walk(b []byte, h *Header, r *Rules, nowMs int64, target Codec) error {
	codec := h.Attributes.Codec()
	records, buf, err := openRecords(h, b[HeaderSize:])
	if err != nil {
		code := codeUnreadable
		if errors.Is(err, errDecompressed) {
			code = kafka.InvalidRecord
		}
		return refuse(code, "%v in topic partition %v", err, r.TopicPartition)
	}
	defer buf.release()
	s := scan{rules: r, header: *h, nowMs: nowMs, maxTimestamp: NoTimestamp, offsetOfMax: -1}
	if codec != None && r.MaxDecompressedRecordBytes > 0 {
		s.maxRecordBytes = r.MaxDecompressedRecordBytes
	}
	s.loose = codec != None && target == codec
	if err := s.scan(records); err != nil {
		return refuse(kafka.InvalidRecord, "%v in topic partition %v", err, r.TopicPartition)
	}
	if err := s.failure(); err != nil {
		return err
	}
	if target != codec {
		return v.rewrite(h, r, records, target)
	}
	if codec != None && s.misplaced {
		return refuse(codeUnreadable, "Offset deltas of compressed records are not 0 to %d in topic partition %v", h.Count-1, r.TopicPartition)
	}
	v.stamp(b, s.maxTimestamp, s.offsetOfMax)
	return nil
}

// stamp keeps the batch as it came, but for its timestamp: the header's may lie, and the topic says whose time it is.
func (v *Validated) stamp(b []byte, maxTimestamp int64, offsetOfMax int32) {
	if v.LogAppendTime != NoTimestamp {
		maxTimestamp, offsetOfMax = v.LogAppendTime, 0
	}
	SetMaxTimestamp(b, v.LogAppendTime != NoTimestamp, maxTimestamp)
	v.Bytes, v.MaxTimestamp, v.OffsetOfMaxTimestampDelta = b, maxTimestamp, offsetOfMax
}
