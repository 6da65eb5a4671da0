package batch

import (
	"bytes"
	"sync"

	"weir/internal/kafka"
)

var builders = sync.Pool{New: func() any { return NewBuilder(None, 0) }}

// rewrite stores the records, which were scanned, in another codec. Offset deltas become the records' indexes, and of
// the header only the producer and the transactional bit are kept.
func (v *Validated) rewrite(h *Header, r *Rules, records []byte, target Codec) error {
	if reason := cannotRewrite(h); reason != "" {
		return refuse(codeUnreadable, "%s in topic partition %v", reason, r.TopicPartition)
	}
	b := builders.Get().(*Builder)
	defer b.recycle()
	b.codec, b.level = target, r.Compression.Level
	b.Reset()
	b.SetProducer(h.ProducerID, h.ProducerEpoch, h.BaseSequence)
	if h.Attributes.Transactional() {
		b.SetTransactional()
	}
	if r.LogAppendTime {
		b.SetLogAppendTime(v.LogAppendTime)
	}
	offsetOfMax := int32(-1)
	var record Record
	for index := range h.Count {
		n, err := record.parse(records)
		if err != nil {
			return refuse(kafka.InvalidRecord, "%v in topic partition %v", err, r.TopicPartition)
		}
		records = records[n:]
		timestamp := h.RecordTimestamp(record)
		if timestamp < NoTimestamp {
			return refuse(codeUnreadable, "Invalid negative timestamp %d in topic partition %v", timestamp, r.TopicPartition)
		}
		if timestamp > b.header.MaxTimestamp {
			offsetOfMax = index
		}
		b.AppendAt(index, timestamp, record.Key, record.Value, record.Headers)
	}
	out, err := b.Build()
	if err != nil {
		return refuse(codeUnreadable, "%v in topic partition %v", err, r.TopicPartition)
	}
	if len(out) > int(r.MaxMessageBytes) {
		return refuse(kafka.MessageTooLarge, "Message batch size is %d bytes in append to partition %v which exceeds the maximum configured size of %d.",
			len(out), r.TopicPartition, r.MaxMessageBytes)
	}
	if target == None { // the builder's own memory
		out = bytes.Clone(out)
	}
	if r.LogAppendTime {
		offsetOfMax = 0
	}
	v.Bytes, v.MaxTimestamp, v.OffsetOfMaxTimestampDelta = out, b.header.MaxTimestamp, offsetOfMax
	return nil
}

// cannotRewrite names what Kafka's builder of batches refuses and its validation of them does not.
func cannotRewrite(h *Header) string {
	switch {
	case h.ProducerID == NoProducerID && h.Attributes.Transactional():
		return "Cannot write transactional messages without a valid producer ID"
	case h.ProducerID == NoProducerID:
		return ""
	case h.ProducerEpoch == NoProducerEpoch:
		return "Invalid negative producer epoch"
	case h.BaseSequence < 0:
		return "Invalid negative sequence number used"
	}
	return ""
}

// recycle puts a Builder into the pool, unless one huge batch made it large.
func (b *Builder) recycle() {
	if cap(b.records) <= maxPooledBytes {
		builders.Put(b)
	}
}
