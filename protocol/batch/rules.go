package batch

import "weir/internal/kafka"

// Rules are what a leader asks of a producer's batch: the topic's configuration and the request's version.
type Rules struct {
	TopicPartition kafka.TopicPartition // for the texts of errors
	ProduceVersion int16                // before 7 a producer may not use zstd (KIP-110)

	MaxMessageBytes      int32 // max.message.bytes: of the whole batch as it is stored
	SegmentBytes         int32 // segment.bytes; 0 is no limit
	Compacted            bool  // cleanup.policy has compact: every record needs a key
	LogAppendTime        bool  // message.timestamp.type
	TimestampBeforeMaxMs int64 // message.timestamp.before.max.ms; not for LogAppendTime
	TimestampAfterMaxMs  int64 // message.timestamp.after.max.ms; not for LogAppendTime
	Compression          Compression

	// MaxDecompressedRecordBytes is max.decompressed.message.bytes, the limit of one record of a compressed batch;
	// 0 is no limit.
	MaxDecompressedRecordBytes int32

	// HeaderOnly trusts header and CRC and leaves the records alone (weir.record.validation=batch), where nothing else
	// needs them: a compacted topic and another codec do. Kafka has no such mode.
	HeaderOnly bool
}

// Compression is compression.type with its level.
type Compression struct {
	Producer bool  // keep the producer's codec; Codec and Level mean nothing
	Codec    Codec // else every batch is stored in this one
	Level    int   // 0 is the codec's default; others are Kafka's compression.*.level
}

// target is the codec in which a batch that came in source is stored.
func (c Compression) target(source Codec) Codec {
	if c.Producer {
		return source
	}
	return c.Codec
}

// RecordError is what is wrong with one record.
type RecordError struct {
	BatchIndex int32 // of the record in its batch
	Message    string
}

// InvalidError says why a producer's batch is refused.
type InvalidError struct {
	// Message is the error_message of Produce v8 and later. It is empty, null on the wire, where Kafka tells the client
	// nothing but the code; Error says the reason all the same.
	Message string
	// RecordErrors are the record_errors of Produce v8 and later (KIP-467), at most maxRecordErrors.
	RecordErrors []RecordError
	// Early says that the request alone was looked at, not the partition's log or its topic's configuration.
	Early bool

	code   kafka.Code
	reason string
}

// Error gives the reason.
func (e *InvalidError) Error() string { return e.reason }

// Code gives the code to answer with.
func (e *InvalidError) Code() kafka.Code { return e.code }

// maxRecordErrors bounds the errors in an answer, which is otherwise a hundred bytes for each record of a few bytes.
// Kafka has no bound; a client shows the first few.
const maxRecordErrors = 1000
