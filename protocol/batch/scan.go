package batch

import (
	"errors"
	"fmt"
	"strings"

	"weir/internal/kafka"
)

var (
	errRecordsMissing = errors.New("batch has fewer records than its header says")
	errRecordsLeft    = errors.New("batch has bytes after its last record")
	errRecordTooLarge = errors.New("record exceeds the maximum decompressed size")
)

// scan is one walk over a producer's records.
type scan struct {
	rules  *Rules
	header Header
	nowMs  int64

	maxRecordBytes int32 // 0 is no limit
	// loose ignores whether a record's length fits its fields. Kafka skips through compressed records that it keeps, and
	// does not look; to be stricter would refuse batches that it takes.
	loose bool

	maxTimestamp int64
	offsetOfMax  int32 // delta of the first record that has maxTimestamp
	// misplaced: a record's offset delta is not its index. Kafka keeps an uncompressed batch so (no broker and no client
	// uses the deltas there but a consumer, who would see them), numbers the records when it rewrites the batch, and
	// fails where a compressed one is kept.
	misplaced bool

	errors     []RecordError
	errorCount int
	timestamps bool // one of the errors is a timestamp's
}

// scan walks over all records. The error is for bytes that are no record, or not as many as the header says; failure
// has what is wrong with records that can be read.
func (s *scan) scan(records []byte) error {
	var r Record
	for index := range s.header.Count {
		if len(records) == 0 {
			return errRecordsMissing
		}
		n, err := s.parse(&r, records)
		if err != nil {
			return err
		}
		records = records[n:]
		s.record(index, &r)
	}
	if len(records) > 0 {
		return errRecordsLeft
	}
	return nil
}

func (s *scan) parse(r *Record, b []byte) (int, error) {
	if s.maxRecordBytes == 0 && !s.loose {
		return r.parse(b)
	}
	length, start, err := recordLength(b)
	switch {
	case err != nil:
		return 0, err
	case s.maxRecordBytes > 0 && length > s.maxRecordBytes:
		return 0, errRecordTooLarge
	case s.loose:
		return r.parseFields(b, start)
	}
	return r.parse(b)
}

func (s *scan) record(index int32, r *Record) {
	timestamp := s.header.BaseTimestamp + r.TimestampDelta
	if s.header.Attributes.LogAppendTime() {
		timestamp = s.header.MaxTimestamp
	}
	if s.rules.Compacted && r.Key == nil {
		s.fail(index, "Compacted topic cannot accept message without key in topic partition %v", s.rules.TopicPartition)
		return
	}
	if !s.checkTimestamp(index, r, timestamp, s.loose) {
		return
	}
	if timestamp > s.maxTimestamp {
		s.maxTimestamp, s.offsetOfMax = timestamp, r.OffsetDelta
	}
	if r.OffsetDelta != index {
		s.misplaced = true
	}
}

// checkTimestamp reports whether a record's time is allowed. Differences wrap as Java's do, so that the default limit,
// the largest number, lets every time pass.
func (s *scan) checkTimestamp(index int32, r *Record, timestamp int64, partial bool) bool {
	if !s.rules.LogAppendTime && timestamp != NoTimestamp {
		age := s.nowMs - timestamp
		if age > s.rules.TimestampBeforeMaxMs || -age > s.rules.TimestampAfterMaxMs {
			s.timestamps = true
			s.fail(index, "Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]",
				timestamp, s.header.RecordOffset(*r), s.nowMs-s.rules.TimestampBeforeMaxMs, s.nowMs+s.rules.TimestampAfterMaxMs)
			return false
		}
		return true
	}
	if s.header.Attributes.LogAppendTime() {
		s.timestamps = true
		s.fail(index, "Invalid timestamp type in message %s. Producer should not set timestamp type to LogAppendTime.",
			describeRecord(s.header.RecordOffset(*r), timestamp, r, partial))
		return false
	}
	return true
}

// describeRecord prints a record as Kafka does, which has two classes for one.
func describeRecord(offset, timestamp int64, r *Record, partial bool) string {
	name, key, value := "DefaultRecord", len(r.Key), len(r.Value)
	if partial {
		name, key, value = "PartialDefaultRecord", sizeOrNull(r.Key), sizeOrNull(r.Value)
	}
	return fmt.Sprintf("%s(offset=%d, timestamp=%d, key=%d bytes, value=%d bytes)", name, offset, timestamp, key, value)
}

func sizeOrNull(field []byte) int {
	if field == nil {
		return -1
	}
	return len(field)
}

func (s *scan) fail(index int32, format string, args ...any) {
	s.errorCount++
	if len(s.errors) < maxRecordErrors {
		s.errors = append(s.errors, RecordError{BatchIndex: index, Message: fmt.Sprintf(format, args...)})
	}
}

// failure makes one error of those of the records; nil if there are none.
func (s *scan) failure() error {
	if s.errorCount == 0 {
		return nil
	}
	e := &InvalidError{RecordErrors: s.errors}
	if s.timestamps {
		e.code = kafka.InvalidTimestamp
		e.Message = "One or more records have been rejected due to invalid timestamp"
	} else {
		e.code = kafka.InvalidRecord
		var first []string
		for _, r := range s.errors[:min(len(s.errors), 3)] {
			first = append(first, fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", r.BatchIndex, r.Message))
		}
		e.Message = fmt.Sprintf("One or more records have been rejected due to %d record errors in total, and only showing the first three errors at most: [%s]",
			s.errorCount, strings.Join(first, ", "))
	}
	e.reason = e.Message
	return e
}
