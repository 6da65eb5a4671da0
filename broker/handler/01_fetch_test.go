package handler

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// recordsSize is that of a batch of one record of 100 bytes, which these tests send.
func recordsSize(t *testing.T) int32 { return int32(len(records(t, 1, 100))) }

// fetchAtOnce fails where the handler waits.
func (c *client) fetchAtOnce(version int16, req *kmsg.FetchRequest) *kmsg.FetchResponse {
	c.f.t.Helper()
	replies := c.later(version, req)
	select {
	case reply := <-replies:
		return answer(c.f.t, version, req, reply).(*kmsg.FetchResponse)
	case <-c.waits:
		c.f.t.Fatal("the fetch waits")
	}
	return nil
}

// fetchWaiting returns when the handler waits.
func (c *client) fetchWaiting(version int16, req *kmsg.FetchRequest) <-chan Reply {
	c.f.t.Helper()
	replies := c.later(version, req)
	select {
	case <-replies:
		c.f.t.Fatal("the fetch is answered at once")
	case <-c.waits:
	}
	return replies
}

func TestFetchIsAnsweredAtOnce(t *testing.T) {
	f := newFixture(t)
	f.createTopic("data", 1)
	f.createTopic("empty", 1)
	c := f.client()
	c.mustProduce("data", records(t, 1, 100))
	data, empty := fetchPartitionOf{topic: "data"}, fetchPartitionOf{topic: "empty"}
	fenced := fetchRequest(1, 1000, empty, data)
	fenced.Topics[0].Partitions[0].CurrentLeaderEpoch = 7
	outOfRange := fetchPartitionOf{topic: "empty", offset: 5}
	for _, test := range []struct {
		name string
		req  *kmsg.FetchRequest
		want []kafka.Code
	}{
		{"enough bytes", fetchRequest(recordsSize(t), 1000, empty, data), []kafka.Code{0, 0}},
		{"no maximum wait", fetchRequest(1<<20, 0, empty, data), []kafka.Code{0, 0}},
		{"no minimum", fetchRequest(0, 1000, empty), []kafka.Code{0}},
		{"negative minimum", fetchRequest(-1, 1000, empty), []kafka.Code{0}},
		{"negative maximum wait", fetchRequest(1, -1, empty), []kafka.Code{0}},
		{"nothing is asked", fetchRequest(1, 1000), nil},
		{"an error beside", fetchRequest(1<<20, 1000, data, outOfRange), []kafka.Code{0, kafka.OffsetOutOfRange}},
		{"a leader epoch of the future", fenced, []kafka.Code{kafka.UnknownLeaderEpoch, 0}},
		{"unknown topics alone", fetchRequest(1, 1000, fetchPartitionOf{topic: "nowhere"}, fetchPartitionOf{topic: "data", partition: -1}),
			[]kafka.Code{kafka.UnknownTopicOrPartition, kafka.UnknownTopicOrPartition}},
	} {
		resp := c.fetchAtOnce(fetchVersion, test.req)
		rows := fetchRows(resp)
		if len(rows) != len(test.want) || resp.ErrorCode != 0 {
			t.Fatalf("%s: error %d, %d rows, want %d", test.name, resp.ErrorCode, len(rows), len(test.want))
		}
		for i, row := range rows {
			if kafka.Code(row.ErrorCode) != test.want[i] {
				t.Errorf("%s: row %d: %v, want %v", test.name, i, kafka.Code(row.ErrorCode), test.want[i])
			}
			if row.RecordBatches == nil {
				t.Errorf("%s: row %d has null records, which some clients cannot read", test.name, i)
			}
		}
	}
}

func TestFetchWaitsUntilEnoughBytesCame(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 2)
	c, producer := f.client(), f.client()
	size := recordsSize(t)
	req := fetchRequest(2*size, 1000, fetchPartitionOf{topic: "t"}, fetchPartitionOf{topic: "t", partition: 1})
	replies := c.fetchWaiting(fetchVersion, req)
	producer.mustProduce("t", records(t, 1, 100))
	select {
	case <-replies:
		t.Fatal("half the bytes are answered")
	default:
	}
	producer.call(9, produceRequestTo(1, topicRecords{"t", 1, records(t, 1, 100)}))
	rows := fetchRows(answer(t, fetchVersion, req, <-replies).(*kmsg.FetchResponse))
	for i, row := range rows {
		if int32(len(row.RecordBatches)) != size || row.HighWatermark != 1 {
			t.Errorf("partition %d: %d bytes, high watermark %d; want %d, 1", i, len(row.RecordBatches), row.HighWatermark, size)
		}
	}
}

func TestFetchIsCountedOnceHoweverOftenItLooks(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 2)
	c, producer := f.client(), f.client()
	size := int64(recordsSize(t))
	req := fetchRequest(int32(size), 1000, fetchPartitionOf{topic: "t", partition: 1})
	replies := c.fetchWaiting(fetchVersion, req)
	producer.call(9, produceRequestTo(1, topicRecords{"t", 1, records(t, 1, 100)}))
	answer(t, fetchVersion, req, <-replies)
	refused := fetchRequest(0, 0, fetchPartitionOf{topic: "t"}, fetchPartitionOf{topic: "t", partition: 1}, fetchPartitionOf{topic: "t", partition: 7})
	refused.ReplicaID = 2 // which follows neither
	c.call(fetchVersion, refused)
	counts, _ := f.handlers.Replicas.Traffic()
	if got := counts["t"]; got.FetchRequests != 3 || got.BytesOut != size || got.BytesIn != size || got.ProduceRequests != 1 || got.FailedFetchRequests != 0 {
		t.Errorf("%+v", got)
	}
}

func TestFetchAnswersWhatThereIsAfterMaxWait(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	c, producer := f.client(), f.client()
	// The unknown topic's error is in hand all the time, and answered with the rest (measured on Kafka).
	req := fetchRequest(1<<20, 500, fetchPartitionOf{topic: "nowhere"}, fetchPartitionOf{topic: "t"})
	replies := c.fetchWaiting(fetchVersion, req)
	producer.mustProduce("t", records(t, 1, 100))
	f.clock.Advance(500 * time.Millisecond)
	rows := fetchRows(answer(t, fetchVersion, req, <-replies).(*kmsg.FetchResponse))
	if len(rows) != 2 || int32(len(rows[0].RecordBatches)) != recordsSize(t) || kafka.Code(rows[1].ErrorCode) != kafka.UnknownTopicOrPartition {
		t.Fatalf("%+v", rows)
	}
}

// A read gives whole batches; min_bytes is compared with the bytes that are there.
func TestFetchDoesNotWaitForWhatCannotBeAdded(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1, "segment.bytes", "1048576")
	c := f.client()
	for range 3 { // the third one is in another segment
		c.mustProduce("t", records(t, 1, 400<<10))
	}
	batch := int32(len(records(t, 1, 400<<10)))
	limited := fetchRequest(600<<10, 1000, fetchPartitionOf{topic: "t", maxBytes: 600 << 10})
	if got := len(fetchRows(c.fetchAtOnce(fetchVersion, limited))[0].RecordBatches); int32(got) != batch {
		t.Errorf("as much as the partition may give: %d bytes, want one batch of %d", got, batch)
	}
	oldSegment := fetchRequest(10<<20, 1000, fetchPartitionOf{topic: "t", maxBytes: 20 << 20})
	if got := len(fetchRows(c.fetchAtOnce(fetchVersion, oldSegment))[0].RecordBatches); int32(got) != 2*batch {
		t.Errorf("all of a segment that is not the last: %d bytes, want two batches of %d", got, batch)
	}
	replies := c.fetchWaiting(fetchVersion, fetchRequest(600<<10, 1000, fetchPartitionOf{topic: "t", offset: 2, maxBytes: 600 << 10}))
	close(c.gone)
	<-replies
}

func TestFetchEndsWithItsClientOrTheBroker(t *testing.T) {
	f := newFixture(t)
	f.createTopic("data", 1)
	f.createTopic("empty", 1)
	producer := f.client()
	producer.mustProduce("data", records(t, 1, 100))
	req := func() *kmsg.FetchRequest {
		return fetchRequest(1<<20, 1000, fetchPartitionOf{topic: "data"}, fetchPartitionOf{topic: "empty"})
	}
	leaving := f.client()
	replies := leaving.fetchWaiting(fetchVersion, req())
	close(leaving.gone)
	if r := <-replies; r.Body() != nil || r.Pending() != nil || r.Err() != nil {
		t.Fatalf("a client that is gone is answered %+v", r)
	}
	staying := f.client()
	replies = staying.fetchWaiting(fetchVersion, req())
	close(f.stopping)
	rows := fetchRows(answer(t, fetchVersion, req(), <-replies).(*kmsg.FetchResponse))
	if len(rows) != 2 || int32(len(rows[0].RecordBatches)) != recordsSize(t) {
		t.Fatalf("a stopping broker answers %+v", rows)
	}
	if _, err := f.node.Submit(t.Context(), controller.DeleteTopics{Topics: []controller.TopicRef{{Name: &[]string{"data"}[0]}}}); err != nil {
		t.Fatal(err) // so that the records that were not released would keep a file open
	}
}

func TestFetchIsToldThatItsTopicWasDeleted(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	c := f.client()
	req := fetchRequest(1, 1000, fetchPartitionOf{topic: "t"})
	replies := c.fetchWaiting(fetchVersion, req)
	name := "t"
	if _, err := f.node.Submit(t.Context(), controller.DeleteTopics{Topics: []controller.TopicRef{{Name: &name}}}); err != nil {
		t.Fatal(err)
	}
	if row := fetchRows(answer(t, fetchVersion, req, <-replies).(*kmsg.FetchResponse))[0]; kafka.Code(row.ErrorCode) != kafka.NotLeaderOrFollower {
		t.Fatalf("answered with %v", kafka.Code(row.ErrorCode))
	}
}

func TestFetchGivesTheFirstBatchWhateverTheLimits(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 4)
	c := f.client()
	for partition := range int32(3) {
		for range 3 {
			c.call(9, produceRequestTo(1, topicRecords{"t", partition, records(t, 1, 100)}))
		}
	}
	size := recordsSize(t)
	empty, first, second := fetchPartitionOf{"t", 3, 0, 0}, fetchPartitionOf{"t", 0, 0, 0}, fetchPartitionOf{"t", 1, 0, 0}
	limited := func(p fetchPartitionOf, maxBytes int32) fetchPartitionOf {
		p.maxBytes = maxBytes
		return p
	}
	for _, test := range []struct {
		name     string
		maxBytes int32
		of       []fetchPartitionOf
		batches  []int32
	}{
		{"all of it", 50 << 20, []fetchPartitionOf{first, second}, []int32{3, 3}},
		{"of the partition", 50 << 20, []fetchPartitionOf{limited(first, 1), limited(second, 1)}, []int32{1, 0}},
		{"of the request", 1, []fetchPartitionOf{first, second}, []int32{1, 0}},
		{"the first that has any", 1, []fetchPartitionOf{empty, second, first}, []int32{0, 1, 0}},
		{"the rest counts whole batches", 4*size + size/2, []fetchPartitionOf{first, second}, []int32{3, 1}},
		{"a partition's limit", 50 << 20, []fetchPartitionOf{limited(first, 2*size), second}, []int32{2, 3}},
		{"zero of the request", 0, []fetchPartitionOf{first, second}, []int32{1, 0}},
		{"inside the log", 50 << 20, []fetchPartitionOf{{"t", 0, 2, 0}}, []int32{1}},
	} {
		req := fetchRequest(1, 1000, test.of...)
		req.MaxBytes = test.maxBytes
		for i, row := range fetchRows(c.fetchAtOnce(fetchVersion, req)) {
			if got := int32(len(row.RecordBatches)); got != test.batches[i]*size {
				t.Errorf("%s: row %d has %d bytes, want %d batches of %d", test.name, i, got, test.batches[i], size)
			}
		}
	}
	negative := fetchRequest(1, 1000, limited(first, -1))
	if row := fetchRows(c.fetchAtOnce(fetchVersion, negative))[0]; kafka.Code(row.ErrorCode) != kafka.UnknownServerError {
		t.Errorf("a negative limit: %v", kafka.Code(row.ErrorCode))
	}
}

func TestFetchAnswersAPartitionOnce(t *testing.T) {
	f := newFixture(t)
	f.createTopic("a", 2)
	f.createTopic("b", 1)
	c := f.client()
	c.call(9, produceRequestTo(1, topicRecords{"a", 0, records(t, 1, 100)}))
	// Kafka's clients rotate partitions, and so name a topic more than once; nobody names a partition twice, whose last
	// values count then.
	req := fetchRequest(0, 0, fetchPartitionOf{"a", 0, 99, 0}, fetchPartitionOf{"b", 0, 0, 0}, fetchPartitionOf{"a", 1, 0, 0}, fetchPartitionOf{"a", 0, 0, 0})
	resp := c.fetch(req)
	if len(resp.Topics) != 3 || resp.Topics[0].Topic != "a" || resp.Topics[1].Topic != "b" || resp.Topics[2].Topic != "a" {
		t.Fatalf("topics %+v", resp.Topics)
	}
	if row := resp.Topics[0].Partitions[0]; row.ErrorCode != 0 || len(row.RecordBatches) == 0 {
		t.Fatalf("the offset that was named first counts: %v", kafka.Code(row.ErrorCode))
	}
}

// A consumer is told of unknown ids before unknown partitions, a broker of both in the order of its request.
func TestFetchAnswersUnknownIDsBeforeUnknownPartitions(t *testing.T) {
	f := newFixture(t)
	id := f.createTopic("t", 1)
	for _, test := range []struct {
		replica int32
		want    []int32
	}{{-1, []int32{0, 1, 5, 6}}, {7, []int32{0, 5, 1, 6}}} {
		req := fetchRequest(0, 0, fetchPartitionOf{"", 5, 0, 0}, fetchPartitionOf{"", 0, 0, 0}, fetchPartitionOf{"", 1, 0, 0}, fetchPartitionOf{"", 6, 0, 0})
		for _, i := range []int{0, 1, 3} {
			req.Topics[i].TopicID = id
		}
		req.Topics[2].TopicID = kafka.NewUUID()
		req.ReplicaID = test.replica
		var got []int32
		for _, row := range fetchRows(f.client().call(13, req).(*kmsg.FetchResponse)) {
			got = append(got, row.Partition)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("replica %d: partitions %v, want %v", test.replica, got, test.want)
		}
	}
}

func TestFetchSession(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 2)
	c := f.client()
	a, b := fetchPartitionOf{"t", 0, 0, 0}, fetchPartitionOf{"t", 1, 0, 0}
	in := func(id, epoch int32, of ...fetchPartitionOf) *kmsg.FetchRequest {
		req := fetchRequest(0, 0, of...)
		req.SessionID, req.SessionEpoch = id, epoch
		return req
	}
	full := c.fetch(in(0, 0, a, b))
	id := full.SessionID
	if id == 0 || len(fetchRows(full)) != 2 {
		t.Fatalf("full fetch: session %d, %d rows", id, len(fetchRows(full)))
	}
	if rows := fetchRows(c.fetch(in(id, 1))); len(rows) != 0 {
		t.Fatalf("nothing is new, but told: %+v", rows)
	}
	c.call(9, produceRequestTo(1, topicRecords{"t", 1, records(t, 1, 100)}))
	if rows := fetchRows(c.fetch(in(id, 2))); len(rows) != 1 || rows[0].Partition != 1 || len(rows[0].RecordBatches) == 0 {
		t.Fatalf("one partition is new, told: %+v", rows)
	}
	b.offset = 1
	if rows := fetchRows(c.fetch(in(id, 3, b))); len(rows) != 0 {
		t.Fatalf("all is read, but told: %+v", rows)
	}
	wrong := c.fetch(in(id, 77))
	if kafka.Code(wrong.ErrorCode) != kafka.InvalidFetchSessionEpoch || wrong.SessionID != 0 {
		t.Fatalf("wrong epoch: %v, session %d", kafka.Code(wrong.ErrorCode), wrong.SessionID)
	}
	if resp := c.call(13, in(id, 4)).(*kmsg.FetchResponse); kafka.Code(resp.ErrorCode) != kafka.FetchSessionTopicIDError {
		t.Fatalf("a session of names asked by id: %v", kafka.Code(resp.ErrorCode))
	}
	for epoch := range int32(2) { // an error is told every time
		far := fetchPartitionOf{"t", 0, 50, 0}
		if rows := fetchRows(c.fetch(in(id, 4+epoch, far))); len(rows) != 1 || kafka.Code(rows[0].ErrorCode) != kafka.OffsetOutOfRange {
			t.Fatalf("out of range: %+v", rows)
		}
	}
	if rows := fetchRows(c.fetch(in(id, 6, a))); len(rows) != 1 || rows[0].ErrorCode != 0 || rows[0].HighWatermark != 0 {
		t.Fatalf("the error ended, and it is told once: %+v", rows)
	}
	forget := in(id, 7)
	forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{0, 1}}}
	if resp := c.fetch(forget); resp.SessionID != 0 || resp.ErrorCode != 0 {
		t.Fatalf("the last partition was forgotten: session %d, %v", resp.SessionID, kafka.Code(resp.ErrorCode))
	}
	if resp := c.fetch(in(id, 8)); kafka.Code(resp.ErrorCode) != kafka.FetchSessionIDNotFound {
		t.Fatalf("the session is over: %v", kafka.Code(resp.ErrorCode))
	}
}

func TestFetchSessionWaitsForAnyOfItsPartitions(t *testing.T) {
	f := newFixture(t)
	id := f.createTopic("t", 2)
	c, producer := f.client(), f.client()
	const byID = 13
	full := fetchRequest(0, 0, fetchPartitionOf{"", 0, 0, 0}, fetchPartitionOf{"", 1, 0, 0})
	full.SessionEpoch = 0
	for i := range full.Topics {
		full.Topics[i].TopicID = id
	}
	session := c.call(byID, full).(*kmsg.FetchResponse).SessionID
	next := fetchRequest(1, 1000)
	next.SessionID, next.SessionEpoch = session, 1
	replies := c.fetchWaiting(byID, next)
	producer.call(9, produceRequestTo(1, topicRecords{"t", 1, records(t, 1, 100)}))
	resp := answer(t, byID, next, <-replies).(*kmsg.FetchResponse)
	if rows := fetchRows(resp); len(rows) != 1 || rows[0].Partition != 1 || resp.Topics[0].TopicID != id {
		t.Fatalf("%+v", resp.Topics)
	}
}

func TestFetchOfOneSessionOnTwoConnectionsKeepsNoFileOpen(t *testing.T) {
	f := newFixture(t)
	f.createTopic("data", 1)
	f.createTopic("empty", 1)
	c, other := f.client(), f.client()
	c.mustProduce("data", records(t, 1, 100))
	full := fetchRequest(0, 0, fetchPartitionOf{topic: "data"}, fetchPartitionOf{topic: "empty"})
	full.SessionEpoch = 0
	id := c.fetch(full).SessionID
	in := func(epoch, minBytes int32) *kmsg.FetchRequest {
		req := fetchRequest(minBytes, 1000)
		req.SessionID, req.SessionEpoch = id, epoch
		return req
	}
	replies := c.fetchWaiting(fetchVersion, in(1, 1<<20)) // with a batch in hand
	other.fetch(in(2, 0))
	f.clock.Advance(time.Second)
	if resp := answer(t, fetchVersion, in(1, 0), <-replies).(*kmsg.FetchResponse); kafka.Code(resp.ErrorCode) != kafka.InvalidFetchSessionEpoch {
		t.Fatalf("the overtaken fetch: %v", kafka.Code(resp.ErrorCode))
	}
}

func TestFetchNamesTheLeaderToTurnTo(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two", Port: 9094})
	f.addBroker(3, metadata.Endpoint{Name: "OTHER", Host: "three", Port: 9095})
	id := f.createTopicOn("t", [][]kafka.BrokerID{{2}, {2}, {3}, {self}})
	c := f.client()
	var all []fetchPartitionOf
	for partition := range int32(4) {
		all = append(all, fetchPartitionOf{"", partition, 0, 0})
	}
	req := fetchRequest(0, 0, all...)
	for i := range req.Topics {
		req.Topics[i].TopicID = id
	}
	req.Topics[3].Partitions[0].CurrentLeaderEpoch = 99
	resp := c.call(16, req).(*kmsg.FetchResponse)
	for i, want := range []struct {
		code   kafka.Code
		leader int32
	}{{kafka.NotLeaderOrFollower, 2}, {kafka.NotLeaderOrFollower, 2}, {kafka.NotLeaderOrFollower, 3}, {kafka.UnknownLeaderEpoch, -1}} {
		row := fetchRows(resp)[i]
		if kafka.Code(row.ErrorCode) != want.code || row.CurrentLeader.LeaderID != want.leader {
			t.Errorf("partition %d: %v, leader %d; want %v, %d", i, kafka.Code(row.ErrorCode), row.CurrentLeader.LeaderID, want.code, want.leader)
		}
	}
	if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 2 || resp.Brokers[0].Host != "two" || resp.Brokers[0].Port != 9094 {
		t.Errorf("endpoints %+v, want that of broker 2, once; 3 is not on this listener", resp.Brokers)
	}
}

func TestFetchIsolation(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	c := f.client()
	for level, want := range map[int8]struct {
		code    kafka.Code
		aborted bool
	}{0: {0, false}, 1: {0, true}, 7: {kafka.UnknownServerError, true}} {
		req := fetchRequest(0, 0, fetchPartitionOf{topic: "t"})
		req.IsolationLevel = level
		resp := c.fetch(req)
		row := fetchRows(resp)[0]
		if kafka.Code(row.ErrorCode) != want.code || kafka.Code(resp.ErrorCode) != want.code || (row.AbortedTransactions != nil) != want.aborted {
			t.Errorf("isolation level %d: %v, aborted transactions %v", level, kafka.Code(row.ErrorCode), row.AbortedTransactions)
		}
	}
}

// Whatever the interleaving, a fetch that wants all that several producers send is answered when all has come: nobody moves
// the clock.
func TestFetchMissesNothingThatComesMeanwhile(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 2)
	size := recordsSize(t)
	const producers, rounds = 4, 200
	consumer := f.client()
	consumer.waits = make(chan struct{}, rounds*producers*3)
	var offsets [2]int64
	for range rounds {
		req := fetchRequest(producers*size, 1000, fetchPartitionOf{"t", 0, offsets[0], 0}, fetchPartitionOf{"t", 1, offsets[1], 0})
		replies := consumer.later(fetchVersion, req)
		for i := range producers {
			go func() {
				f.client().call(9, produceRequestTo(1, topicRecords{"t", int32(i % 2), records(t, 1, 100)}))
			}()
		}
		for i, row := range fetchRows(answer(t, fetchVersion, req, <-replies).(*kmsg.FetchResponse)) {
			offsets[i] += int64(len(row.RecordBatches)) / int64(size)
		}
	}
	if offsets != [2]int64{rounds * producers / 2, rounds * producers / 2} {
		t.Fatalf("read up to %v", offsets)
	}
}
