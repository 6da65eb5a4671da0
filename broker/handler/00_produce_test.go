package handler

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/protocol"
	"weir/protocol/batch"
)

func TestProduceAnswersEveryPartition(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 2)
	f.createTopic("compacted", 1, "cleanup.policy", "compact")
	c := f.client()
	c.mustProduce("t", records(t, 3, 10))
	resp := c.call(9, produceRequestTo(replica.AcksAll,
		topicRecords{"t", 0, records(t, 2, 10)}, topicRecords{"t2", 0, records(t, 1, 10)}, topicRecords{"compacted", 0, records(t, 1, 10)},
		topicRecords{"t", 1, records(t, 1, 10)}, topicRecords{"t", 2, records(t, 1, 10)}, topicRecords{"t", -1, records(t, 1, 10)}, topicRecords{"t", 1<<31 - 1, nil},
	)).(*kmsg.ProduceResponse)
	type row struct {
		topic     string
		partition int32
		code      kafka.Code
		base      int64
	}
	var got []row
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			got = append(got, row{topic.Topic, p.Partition, kafka.Code(p.ErrorCode), p.BaseOffset})
		}
	}
	if want := []row{{"t", 0, 0, 3}, {"t", 1, 0, 0}, {"t", 2, 3, -1}, {"t", -1, 3, -1}, {"t", 1<<31 - 1, 3, -1}, {"t2", 0, 3, -1}, {"compacted", 0, 87, -1}}; !slices.Equal(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
	if e := resp.Topics[2].Partitions[0].ErrorRecords; len(e) != 1 || e[0].RelativeOffset != 0 {
		t.Fatalf("the record without a key is not named: %+v", e)
	}
}

func TestProduceWithoutAcks(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	c := f.client()
	if r := c.start(9, produceRequest("t", replica.AcksNone, records(t, 1, 10))); r.Body() != nil || r.Pending() != nil || r.Err() != nil {
		t.Fatalf("acks=0 is answered: %+v", r)
	}
	if end := f.partition("t", 0).Log().EndOffset(); end != 1 {
		t.Fatalf("end offset %d", end)
	}
	torn := records(t, 1, 10)
	for name, req := range map[string]*kmsg.ProduceRequest{
		"an unknown topic":         produceRequest("nowhere", replica.AcksNone, records(t, 1, 10)),
		"an unknown partition":     produceRequestTo(replica.AcksNone, topicRecords{"t", 9, records(t, 1, 10)}),
		"a torn batch":             produceRequest("t", replica.AcksNone, torn[:len(torn)-1]),
		"one bad partition of two": produceRequestTo(replica.AcksNone, topicRecords{"t", 0, records(t, 1, 10)}, topicRecords{"t", 1, nil}),
	} {
		if r := c.start(9, req); !errors.Is(r.Err(), errProduceUnanswerable) {
			t.Errorf("%s with acks=0: %+v; only closing tells the producer", name, r)
		}
	}
}

func TestProduceRefusesOtherAcks(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	c := f.client()
	for _, acks := range []int16{2, -2, 32767} {
		if row := c.produce("t", acks, records(t, 1, 10)); kafka.Code(row.ErrorCode) != kafka.InvalidRequiredAcks || row.BaseOffset != -1 {
			t.Errorf("acks=%d: %v", acks, kafka.Code(row.ErrorCode))
		}
	}
	if end := f.partition("t", 0).Log().EndOffset(); end != 0 {
		t.Errorf("end offset %d", end)
	}
}

func TestProduceToInternalTopics(t *testing.T) {
	f := newFixture(t)
	f.createTopic(kafka.ConsumerOffsetsTopic, 1)
	c := f.client()
	if row := c.produce(kafka.ConsumerOffsetsTopic, 1, records(t, 1, 10)); kafka.Code(row.ErrorCode) != kafka.InvalidTopic {
		t.Fatalf("a client writes to %s: %v", kafka.ConsumerOffsetsTopic, kafka.Code(row.ErrorCode))
	}
	req := produceRequest(kafka.ConsumerOffsetsTopic, 1, records(t, 1, 10))
	req.SetVersion(9)
	id := adminClientID
	reply := f.handlers.Handle(&Request{Header: protocol.RequestHeader{Key: 0, Version: 9, ClientID: &id}, Body: req, Conn: &c.Conn})
	if row := answer(t, 9, req, reply).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; kafka.Code(row.ErrorCode) == kafka.InvalidTopic {
		t.Fatal("Kafka's admin client is refused")
	}
}

// Acknowledgements wait for the disk under weir.fsync.policy=ack.
func TestProduceIsAcknowledgedWhenDurable(t *testing.T) {
	f := newFixture(t, "weir.fsync.policy=ack")
	f.createTopic("t", 2)
	c := f.client()
	for _, acks := range []int16{replica.AcksAll, replica.AcksLeader} {
		f.disk.shut()
		req := produceRequestTo(acks, topicRecords{"t", 0, records(t, 1, 10)}, topicRecords{"t", 1, records(t, 1, 10)}, topicRecords{"nowhere", 0, nil})
		reply := c.start(9, req)
		if reply.Pending() == nil {
			t.Fatalf("acks=%d is answered before the disk has it", acks)
		}
		f.disk.open()
		resp := answer(t, 9, req, reply).(*kmsg.ProduceResponse)
		for i, want := range []kafka.Code{0, 0} {
			if row := resp.Topics[0].Partitions[i]; kafka.Code(row.ErrorCode) != want || f.partition("t", int32(i)).Log().DurableEndOffset() <= row.BaseOffset {
				t.Errorf("acks=%d, partition %d: %v at offset %d", acks, i, kafka.Code(row.ErrorCode), row.BaseOffset)
			}
		}
		if row := resp.Topics[1].Partitions[0]; kafka.Code(row.ErrorCode) != kafka.UnknownTopicOrPartition {
			t.Errorf("acks=%d: an unknown topic beside: %v", acks, kafka.Code(row.ErrorCode))
		}
	}
	if r := c.start(9, produceRequest("t", replica.AcksNone, records(t, 1, 10))); r.Pending() != nil || r.Err() != nil {
		t.Fatal("acks=0 waits")
	}
}

func TestProduceTimesOut(t *testing.T) {
	f := newFixture(t, "weir.fsync.policy=ack")
	f.createTopic("t", 2)
	c := f.client()
	c.call(9, produceRequestTo(1, topicRecords{"t", 0, records(t, 1, 10)})) // it made the log's directory durable, too
	f.disk.shut()
	req := produceRequestTo(replica.AcksAll, topicRecords{"t", 0, records(t, 1, 10)}, topicRecords{"t", 1, records(t, 1, 10)})
	reply := c.start(9, req)
	f.clock.Advance(time.Duration(req.TimeoutMillis-1) * time.Millisecond)
	select {
	case <-reply.Pending().Done():
		t.Fatal("answered before its timeout")
	default:
	}
	f.clock.Advance(time.Millisecond)
	<-reply.Pending().Done()
	before := reply.Pending().Body().(*kmsg.ProduceResponse).AppendTo(nil)
	rows := answer(t, 9, req, reply).(*kmsg.ProduceResponse).Topics[0].Partitions
	for i, base := range []int64{1, 0} { // the offsets are told, as in Kafka: the records stay
		if kafka.Code(rows[i].ErrorCode) != kafka.RequestTimedOut || rows[i].BaseOffset != base {
			t.Errorf("partition %d: %v at offset %d, want REQUEST_TIMED_OUT at %d", i, kafka.Code(rows[i].ErrorCode), rows[i].BaseOffset, base)
		}
	}
	f.disk.open()
	c.produce("t", replica.AcksAll, records(t, 1, 10)) // acknowledged after what timed out is durable
	if after := reply.Pending().Body().(*kmsg.ProduceResponse).AppendTo(nil); !bytes.Equal(before, after) {
		t.Error("an acknowledgement that came late changed the answer")
	}
	f.disk.shut()
	at0 := produceRequest("t", replica.AcksAll, records(t, 1, 10))
	at0.TimeoutMillis = 0
	if row := answer(t, 9, at0, c.start(9, at0)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; kafka.Code(row.ErrorCode) != kafka.RequestTimedOut {
		t.Errorf("no time at all: %v", kafka.Code(row.ErrorCode))
	}
}

func TestProduceIsForgottenWithItsClient(t *testing.T) {
	f := newFixture(t, "weir.fsync.policy=ack")
	f.createTopic("t", 1)
	c := f.client()
	f.disk.shut()
	left := c.start(9, produceRequest("t", replica.AcksAll, records(t, 1, 10))).Pending()
	left.Abandon()
	f.disk.open()
	c.produce("t", replica.AcksAll, records(t, 1, 10)) // acknowledged after what was before it
	f.clock.Advance(time.Hour)
	select {
	case <-left.Done():
		t.Fatal("an answer that nobody sends was made, and its frame kept for it")
	default:
	}
}

func TestProduceIsToldOfAFailingDisk(t *testing.T) {
	f := newFixture(t, "weir.fsync.policy=ack")
	f.createTopic("t", 1)
	c := f.client()
	f.disk.fail(errors.New("the disk is gone"))
	row := c.produce("t", replica.AcksAll, records(t, 1, 10))
	if kafka.Code(row.ErrorCode) != kafka.KafkaStorageError {
		t.Fatalf("answered with %v", kafka.Code(row.ErrorCode))
	}
	if row := c.produce("t", replica.AcksAll, records(t, 1, 10)); kafka.Code(row.ErrorCode) != kafka.KafkaStorageError {
		t.Fatalf("the next one: %v", kafka.Code(row.ErrorCode))
	}
}

// Of several record sets for a partition the last that is well formed is appended; an error of any is the answer, and
// stays it when the acknowledgement comes.
func TestProduceAnswersAPartitionOnce(t *testing.T) {
	f := newFixture(t, "weir.fsync.policy=ack")
	f.createTopic("t", 1)
	c := f.client()
	two := c.call(9, produceRequestTo(replica.AcksAll, topicRecords{"t", 0, records(t, 1, 10)}, topicRecords{"t", 0, records(t, 5, 10)})).(*kmsg.ProduceResponse)
	if len(two.Topics) != 1 || len(two.Topics[0].Partitions) != 1 || two.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v", two.Topics)
	}
	if end := f.partition("t", 0).Log().EndOffset(); end != 5 {
		t.Fatalf("end offset %d, want that of the second set", end)
	}
	bad := c.call(9, produceRequestTo(replica.AcksAll, topicRecords{"t", 0, records(t, 1, 10)}, topicRecords{"t", 0, nil})).(*kmsg.ProduceResponse)
	if row := bad.Topics[0].Partitions[0]; kafka.Code(row.ErrorCode) != kafka.InvalidRecord || row.BaseOffset != -1 {
		t.Fatalf("%v at offset %d", kafka.Code(row.ErrorCode), row.BaseOffset)
	}
	if end := f.partition("t", 0).Log().EndOffset(); end != 6 {
		t.Fatalf("end offset %d, want that of the well-formed set", end)
	}
}

// A transactional batch without a transactional id fails the whole request, also where another record set for its
// partition would count instead, and before any topic is looked up.
func TestProduceLooksForTransactionsInAllThatCame(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	b := batch.NewBuilder(batch.None, 0)
	b.SetProducer(7, 0, 0)
	b.SetTransactional()
	b.Append(0, nil, []byte("v"))
	transactional, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	magic3 := records(t, 1, 10)
	magic3[16] = 3 // would fail the whole request too, if Kafka looked on
	resp := f.client().call(9, produceRequestTo(replica.AcksAll, topicRecords{"t", 0, transactional}, topicRecords{"t", 0, records(t, 1, 10)},
		topicRecords{"nobody's", 0, magic3})).(*kmsg.ProduceResponse)
	for _, topic := range resp.Topics {
		for _, row := range topic.Partitions {
			if code := kafka.Code(row.ErrorCode); code != kafka.TransactionalIDAuthorizationFailed {
				t.Errorf("%s: %v", topic.Topic, code)
			}
		}
	}
	if end := f.partition("t", 0).Log().EndOffset(); end != 0 {
		t.Errorf("%d records were appended", end)
	}
}

func TestProduceNamesTheLeaderToTurnTo(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two", Port: 9094})
	f.createTopicOn("t", [][]kafka.BrokerID{{2}, {2}, {self}})
	c := f.client()
	resp := c.call(10, produceRequestTo(1, topicRecords{"t", 0, records(t, 1, 10)}, topicRecords{"t", 1, records(t, 1, 10)}, topicRecords{"t", 2, records(t, 1, 10)})).(*kmsg.ProduceResponse)
	for i, leader := range []int32{2, 2, -1} {
		if row := resp.Topics[0].Partitions[i]; row.CurrentLeader.LeaderID != leader || (row.ErrorCode != 0) != (leader == 2) {
			t.Errorf("partition %d: %v, leader %d", i, kafka.Code(row.ErrorCode), row.CurrentLeader.LeaderID)
		}
	}
	if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 2 || resp.Brokers[0].Host != "two" {
		t.Errorf("endpoints %+v, want broker 2, once", resp.Brokers)
	}
}

// The strings of a produce request lie in its frame, which is used again after the reply.
func TestProduceKeepsNothingOfItsFrame(t *testing.T) {
	f := newFixture(t)
	f.createTopic("topic", 1)
	c := f.client()
	sent := produceRequest("topic", replica.AcksAll, records(t, 1, 10))
	sent.SetVersion(9)
	frame := sent.AppendTo(nil)
	var req kmsg.ProduceRequest
	req.SetVersion(9)
	if err := req.UnsafeReadFrom(frame); err != nil {
		t.Fatal(err)
	}
	answer(t, 9, &req, c.start(9, &req))
	for i := range frame {
		frame[i] = 0xff
	}
	if row := c.produce("topic", 1, records(t, 1, 10)); row.ErrorCode != 0 || row.BaseOffset != 1 {
		t.Fatalf("the next one: %v at offset %d", kafka.Code(row.ErrorCode), row.BaseOffset)
	}
	if name := f.handlers.Replicas.All()[0].TP().Topic; name != "topic" {
		t.Fatalf("the partition's topic is %q now", name)
	}
	rows := fetchRows(c.fetch(fetchRequest(0, 0, fetchPartitionOf{topic: "topic"})))
	if want := 2 * len(records(t, 1, 10)); len(rows[0].RecordBatches) != want || bytes.Contains(rows[0].RecordBatches, bytes.Repeat([]byte{0xff}, 20)) {
		t.Fatalf("%d bytes of records, want %d: %x", len(rows[0].RecordBatches), want, rows[0].RecordBatches)
	}
}
