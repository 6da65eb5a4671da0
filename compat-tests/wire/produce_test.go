package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// gzipped compresses b into one member.
func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b) // into memory
	w.Close()
	return out.Bytes()
}

// messageSet is records as producers before Kafka 0.11 sent them.
func messageSet(magic byte, value string) []byte {
	message := []byte{magic, 0}
	if magic == 1 {
		message = binary.BigEndian.AppendUint64(message, uint64(time.Now().UnixMilli()))
	}
	message = binary.BigEndian.AppendUint32(message, 0xffffffff) // no key
	message = binary.BigEndian.AppendUint32(message, uint32(len(value)))
	message = append(message, value...)
	b := make([]byte, 8) // offset 0
	b = binary.BigEndian.AppendUint32(b, uint32(len(message))+4)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(message))
	return append(b, message...)
}

// change makes a batch of two records wrong; its length and checksum are right.
func change(f func(*batch)) []byte {
	b := textBatch("a", "b")
	f(b)
	return b.bytes()
}

// A broker that appends what is no ordinary batch serves it to every consumer from then on, and some of them stop there
// for ever. So nothing of it is appended, the answer says what is wrong in the code that clients know, and the
// connection goes on.
func TestOnlyOneOrdinaryBatchIsAppended(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	mustProduce(t, c, topic.name, 0, textBatch("first"))
	good := textBatch("a", "b").bytes()
	badCRC := slices.Clone(good)
	badCRC[18] ^= 4
	for name, b := range map[string]struct {
		records []byte
		want    *kerr.Error
	}{
		"two batches":                            {slices.Concat(good, good), kerr.InvalidRecord},
		"no bytes":                               {[]byte{}, kerr.InvalidRecord},
		"a torn batch":                           {good[:len(good)-1], kerr.InvalidRecord},
		"less than a header":                     {good[:20], kerr.InvalidRecord},
		"a wrong checksum":                       {badCRC, kerr.CorruptMessage},
		"magic 3":                                {change(func(b *batch) { b.Magic = 3 }), kerr.CorruptMessage},
		"a control batch":                        {change(func(b *batch) { b.Attributes = control }), kerr.InvalidRecord},
		"a transaction's marker without an id":   {change(func(b *batch) { b.Attributes = control | transactional }), kerr.TransactionalIDAuthorizationFailed},
		"a transaction's batch without an id":    {change(func(b *batch) { b.Attributes = transactional }), kerr.TransactionalIDAuthorizationFailed},
		"a base offset":                          {change(func(b *batch) { b.FirstOffset = 1 }), kerr.InvalidRecord},
		"no records":                             {newBatch().bytes(), kerr.InvalidRecord},
		"one record more than there is":          {change(func(b *batch) { b.NumRecords, b.LastOffsetDelta = 3, 2 }), kerr.InvalidRecord},
		"one record less than there is":          {change(func(b *batch) { b.NumRecords, b.LastOffsetDelta = 1, 0 }), kerr.InvalidRecord},
		"a last offset beyond the records":       {change(func(b *batch) { b.LastOffsetDelta = 7 }), kerr.InvalidRecord},
		"a last offset below the first":          {change(func(b *batch) { b.LastOffsetDelta = -1 }), kerr.InvalidRecord},
		"2^31-1 records":                         {change(func(b *batch) { b.NumRecords, b.LastOffsetDelta = 1<<31-1, 1<<31-2 }), kerr.InvalidRecord},
		"-1 records":                             {change(func(b *batch) { b.NumRecords = -1 }), kerr.InvalidRecord},
		"a producer without a sequence":          {change(func(b *batch) { b.from(77, 0, -1) }), kerr.InvalidRecord},
		"records that are no records":            {change(func(b *batch) { clear(b.Records) }), kerr.InvalidRecord},
		"a message set of magic 0, in version 9": {messageSet(0, "v"), kerr.InvalidRecord},
		"a message set of magic 1, in version 9": {messageSet(1, "v"), kerr.InvalidRecord},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, "produce", produce(t, c, topic.name, 0, b.records).ErrorCode, b.want)
			if end := endOffset(t, c, topic.name); end != 1 {
				t.Errorf("the log ends at %d, want 1", end)
			}
		})
	}
	for magic := range byte(2) {
		resp := ask(t, c, at(3, produceRequest(topic.name, 0, messageSet(magic, "v"))))
		wantCode(t, "an old message set in version 3", resp.Topics[0].Partitions[0].ErrorCode, kerr.InvalidRecord)
	}
	if offset := mustProduce(t, c, topic.name, 0, textBatch("second")); offset != 1 {
		t.Errorf("the next record is at offset %d, want 1", offset)
	}
}

// A null where records belong is answered like no bytes; Kafka 4.4 trips over it and never answers.
func TestNullRecordsAreAnswered(t *testing.T) {
	needOwn(t)
	address := harness.Shared(t).Bootstrap
	c, topic := dial(t, address), newTopic(t, address, 1)
	wantCode(t, "null", produce(t, c, topic.name, 0, nil).ErrorCode, kerr.InvalidRecord)
}

// acks has three values. Another one is an error of the whole request, and is not taken for one of them.
func TestUnknownAcksAreRefused(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	for _, acks := range []int16{2, -2, 32767} {
		req := produceRequest(topic.name, 0, textBatch("a").bytes())
		req.Acks = acks
		wantCode(t, "acks", ask(t, c, req).Topics[0].Partitions[0].ErrorCode, kerr.InvalidRequiredAcks)
	}
	if end := endOffset(t, c, topic.name); end != 0 {
		t.Errorf("the log ends at %d", end)
	}
}

// The leader epoch in a producer's batch is whatever the client has there: -1, 0, or what it last heard. The broker writes
// its own over it, outside the checksum, and consumers detect truncation by that.
func TestTheBrokerStampsItsLeaderEpoch(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	for _, epoch := range []int32{7, -1, 0, 1<<31 - 1} {
		b := textBatch("a")
		b.PartitionLeaderEpoch = epoch
		offset := mustProduce(t, c, topic.name, 0, b)
		got := readBatches(t, fetch(t, c, topic.name, 0, offset).RecordBatches)
		if len(got) != 1 || got[0].PartitionLeaderEpoch != 0 || got[0].FirstOffset != offset {
			t.Errorf("epoch %d: %d batches, epoch %d, offset %d", epoch, len(got), got[0].PartitionLeaderEpoch, got[0].FirstOffset)
		}
	}
}

// max.message.bytes bounds the batch as it is stored: a few kilobytes that decompress to megabytes are fine, and where
// the broker compresses anew what comes out counts.
func TestTheSizeLimitIsThatOfTheStoredBatch(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	value := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return b
	}
	zeros := newBatch(record{1, nil, make([]byte, 5<<20)})
	small := newBatch(record{1, nil, make([]byte, 5<<20)}).compressed(codecGzip, gzipped(zeros.Records))
	const limit = 1048588                          // the default
	const overhead = batchOverhead + 3 + 4 + 3 + 1 // of one record with a value of that size and no key
	for _, c2 := range []struct {
		name     string
		settings []string
		batch    *batch
		want     *kerr.Error
	}{
		{"5 MiB compressed to 5 KiB", nil, small, nil},
		{"as large as the default allows", nil, newBatch(record{1, nil, value(limit - overhead)}), nil},
		{"one byte larger", nil, newBatch(record{1, nil, value(limit - overhead + 1)}), kerr.MessageTooLarge},
		{"above the topic's limit", []string{"max.message.bytes", "100"}, newBatch(record{1, nil, value(90)}), kerr.MessageTooLarge},
		{"above the topic's limit when compressed anew", []string{"max.message.bytes", "1000000", "compression.type", "uncompressed"}, small, kerr.MessageTooLarge},
	} {
		topic := newTopic(t, broker.Bootstrap, 1, c2.settings...)
		wantCode(t, c2.name, produce(t, c, topic.name, 0, c2.batch.bytes()).ErrorCode, c2.want)
		if end := endOffset(t, c, topic.name); (end == 1) != (c2.want == nil) {
			t.Errorf("%s: the log ends at %d", c2.name, end)
		}
	}
}

// One record from the future would keep its segment from ever being deleted by age. The answer says which record it is.
// That a record has no time, or the time 0, is no reason to refuse it.
func TestTimestampsOnProduce(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	now := time.Now().UnixMilli()
	p := produce(t, c, topic.name, 0, newBatch(record{now, nil, nil}, record{now + 7200_000, nil, nil}).bytes())
	wantCode(t, "two hours ahead", p.ErrorCode, kerr.InvalidTimestamp)
	if len(p.ErrorRecords) != 1 || p.ErrorRecords[0].RelativeOffset != 1 || p.ErrorRecords[0].ErrorMessage == nil || p.ErrorMessage == nil {
		t.Errorf("errors of records: %+v, message %s", p.ErrorRecords, text(p.ErrorMessage))
	}
	if p.BaseOffset != -1 || p.LogAppendTime != -1 {
		t.Errorf("base offset %d, append time %d", p.BaseOffset, p.LogAppendTime)
	}
	for _, ms := range []int64{-1, 0, now + 3000_000} {
		if p := produce(t, c, topic.name, 0, newBatch(record{ms, nil, nil}).bytes()); p.ErrorCode != 0 || p.LogAppendTime != -1 {
			t.Errorf("time %d: %s, append time %d", ms, codeName(p.ErrorCode), p.LogAppendTime)
		}
	}
}

// With message.timestamp.type=LogAppendTime the broker's time is in the answer and in the batch, and the checksum is that
// of the batch as it is now: consumers check it.
func TestLogAppendTimeIsStamped(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1, "message.timestamp.type", "LogAppendTime")
	before := time.Now().UnixMilli()
	plain, packed := newBatch(record{1000, []byte("k"), []byte("v")}), newBatch(record{1000, []byte("k"), []byte("v")})
	packed.compressed(codecGzip, gzipped(packed.Records))
	for _, b := range []*batch{plain, packed} {
		p := produce(t, c, topic.name, 0, b.bytes())
		wantCode(t, "produce", p.ErrorCode, nil)
		got := readBatches(t, fetch(t, c, topic.name, 0, p.BaseOffset).RecordBatches)[0] // checks the checksum
		if p.LogAppendTime < before || got.MaxTimestamp != p.LogAppendTime || got.Attributes&logAppendTime == 0 {
			t.Errorf("answered %d, stored max timestamp %d, attributes %#x", p.LogAppendTime, got.MaxTimestamp, got.Attributes)
		}
		if found := listOffset(t, c, topic.name, before); found.Offset != 0 || found.Timestamp < before {
			t.Errorf("looking the time up gives offset %d, timestamp %d", found.Offset, found.Timestamp)
		}
	}
}

// What does not exist fails by itself; its neighbours in the request do not, and nothing is created by producing.
func TestProducingToWhatDoesNotExist(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	records := textBatch("a").bytes()
	req := produceRequest(topic.name, 99, records)
	addProduce(req, topic.name, 0, records)
	addProduce(req, topic.name, -1, records)
	resp := ask(t, c, req).Topics[0]
	if len(resp.Partitions) != 3 {
		t.Fatalf("%d partitions in the answer", len(resp.Partitions))
	}
	for _, p := range resp.Partitions {
		want := kerr.UnknownTopicOrPartition
		if p.Partition == 0 {
			want = nil
		}
		wantCode(t, "partition", p.ErrorCode, want)
	}
	unknown := harness.TopicName(t)
	wantCode(t, "an unknown topic", produce(t, c, unknown, 0, records).ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "and afterwards", metadataOf(t, c, unknown).ErrorCode, kerr.UnknownTopicOrPartition)
	byID := at(13, produceRequest("", 0, records))
	byID.Topics[0].TopicID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}
	wantCode(t, "an unknown topic id", ask(t, c, byID).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicID)
	byID.Topics[0].TopicID = topic.id
	wantCode(t, "a known one", ask(t, c, byID).Topics[0].Partitions[0].ErrorCode, nil)
	if end := endOffset(t, c, topic.name); end != 2 {
		t.Errorf("the log ends at %d, want 2", end)
	}
}

// With acks=0 there is no reply: one too many would be taken for the next request's, and so on for ever. What fails can
// only be told by closing the connection.
func TestProduceWithoutAcknowledgement(t *testing.T) {
	broker := harness.Shared(t)
	topic := newTopic(t, broker.Bootstrap, 1)
	c := dial(t, broker.Bootstrap)
	req := at(7, produceRequest(topic.name, 0, textBatch("a").bytes()))
	req.Acks = 0
	c.send(t, c.frame(req))
	c.wantAlive(t) // by the correlation id of its reply
	awaitEnd(t, c, topic.name, 1)

	// A hundred requests in one write, half of them without a reply.
	var frames []byte
	var expected []int32
	for i := range 100 {
		req := produceRequest(topic.name, 0, textBatch("b").bytes())
		req.Acks = int16(i % 2)
		frames = append(frames, c.frame(req)...)
		if req.Acks == 1 {
			expected = append(expected, c.sent)
		}
	}
	c.send(t, frames)
	for i, id := range expected {
		resp, err := c.receive(produceRequest("", 0, nil), id, replyWithin)
		if err != nil {
			t.Fatal(err)
		}
		if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(2+2*i) {
			t.Errorf("%s at offset %d, want %d", codeName(p.ErrorCode), p.BaseOffset, 2+2*i)
		}
	}
	awaitEnd(t, c, topic.name, 101)

	for name, req := range map[string]*kmsg.ProduceRequest{
		"an unknown topic":     produceRequest(harness.TopicName(t), 0, textBatch("a").bytes()),
		"an unknown partition": produceRequest(topic.name, 5, textBatch("a").bytes()),
		"a bad batch":          produceRequest(topic.name, 0, textBatch("a").bytes()[:69]),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, broker.Bootstrap)
			req.Acks = 0
			c.send(t, c.frame(req))
			c.wantClosed(t)
		})
	}
}

// awaitEnd waits until partition 0 ends at an offset.
func awaitEnd(t *testing.T, c *conn, name string, want int64) {
	t.Helper()
	deadline := time.Now().Add(replyWithin)
	for {
		end := endOffset(t, c, name)
		if end == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log ends at %d, want %d", end, want)
		}
		time.Sleep(time.Millisecond)
	}
}
