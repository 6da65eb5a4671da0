package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// A batch is stored and served as one piece. A consumer that begins in its middle gets all of it and skips what it has
// seen; a broker that cut it, or sent nothing, would leave the consumer without a way on.
func TestFetchFromTheMiddleOfABatch(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	mustProduce(t, c, topic.name, 0, textBatch("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"))
	mustProduce(t, c, topic.name, 0, textBatch("10", "11"))
	for _, r := range []struct{ offset, base int64 }{{0, 0}, {1, 0}, {3, 0}, {9, 0}, {10, 10}, {11, 10}} {
		p := fetch(t, c, topic.name, 0, r.offset)
		wantCode(t, "fetch", p.ErrorCode, nil)
		got := readBatches(t, p.RecordBatches)
		if len(got) == 0 || got[0].FirstOffset != r.base || got[len(got)-1].FirstOffset != 10 {
			t.Fatalf("from offset %d: %d batches", r.offset, len(got))
		}
		if n := got[0].NumRecords; n != map[int64]int32{0: 10, 10: 2}[r.base] || int(n) != len(got[0].values(t)) {
			t.Errorf("from offset %d: the first batch has %d records", r.offset, n)
		}
	}
}

// A batch that is larger than all limits of the request is served all the same if it is the first (KIP-74): its consumer
// would be stuck for ever. What comes behind it has to fit.
func TestTheFirstBatchIsServedWhateverItsSize(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 3)
	big := newBatch(record{1, nil, make([]byte, 1000)})
	for p := range int32(3) {
		mustProduce(t, c, topic.name, p, big)
		mustProduce(t, c, topic.name, p, big)
	}
	size := len(big.bytes())
	for _, limits := range []struct {
		partition, whole int32
		want             [3]int // batches of each partition
	}{
		{1, 1, [3]int{1, 0, 0}},
		{1, 50 << 20, [3]int{1, 0, 0}},
		{1 << 20, 1, [3]int{1, 0, 0}},
		{int32(size), 1 << 20, [3]int{1, 1, 1}},
		{int32(2*size - 1), 1 << 20, [3]int{1, 1, 1}},
		{1 << 20, int32(3 * size), [3]int{2, 1, 0}},
		{1 << 20, int32(4*size - 1), [3]int{2, 1, 0}},
	} {
		req := fetchRequest(topic.name, 0, 0)
		addFetch(req, topic.name, 1, 0)
		addFetch(req, topic.name, 2, 0)
		req.MaxBytes = limits.whole
		for i := range req.Topics[0].Partitions {
			req.Topics[0].Partitions[i].PartitionMaxBytes = limits.partition
		}
		var got [3]int
		for _, p := range ask(t, c, req).Topics[0].Partitions {
			got[p.Partition] = len(readBatches(t, p.RecordBatches[:len(p.RecordBatches)/size*size])) // Kafka sends a torn one behind
		}
		if got != limits.want {
			t.Errorf("partition limit %d, limit %d: %v batches, want %v", limits.partition, limits.whole, got, limits.want)
		}
	}
	// The partition that is asked for first is served first: consumers turn their list so that none starves.
	req := fetchRequest(topic.name, 2, 0)
	addFetch(req, topic.name, 0, 0)
	req.MaxBytes = 1
	for _, p := range ask(t, c, req).Topics[0].Partitions {
		if (len(p.RecordBatches) > 0) != (p.Partition == 2) {
			t.Errorf("partition %d: %d bytes", p.Partition, len(p.RecordBatches))
		}
	}
}

// An empty answer has empty records, where null makes clients fail, and the offsets that consumers measure their lag by.
func TestAFetchWithoutRecordsTellsWhereTheLogIs(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	mustProduce(t, c, topic.name, 0, textBatch("a", "b", "c"))
	for _, isolation := range []int8{0, 1} {
		req := fetchRequest(topic.name, 0, 3)
		req.IsolationLevel, req.MaxWaitMillis = isolation, 100
		started := time.Now()
		p := ask(t, c, req).Topics[0].Partitions[0]
		if waited := time.Since(started); waited < 100*time.Millisecond {
			t.Errorf("answered after %v, before the time was over: a client would ask without pause", waited)
		}
		wantCode(t, "at the end", p.ErrorCode, nil)
		if p.RecordBatches == nil || len(p.RecordBatches) != 0 {
			t.Errorf("records: %v", p.RecordBatches)
		}
		if p.HighWatermark != 3 || p.LastStableOffset != 3 || p.LogStartOffset != 0 {
			t.Errorf("high watermark %d, last stable offset %d, log start %d", p.HighWatermark, p.LastStableOffset, p.LogStartOffset)
		}
		if (p.AbortedTransactions == nil) != (isolation == 0) {
			t.Errorf("isolation %d: aborted transactions %v", isolation, p.AbortedTransactions)
		}
	}
}

// longWait is a MaxWaitMillis that no case waits for to its end.
const longWait = 60_000

// A waiting fetch ends when records come to any of its partitions, and not before there are as many bytes as it wants.
func TestAWaitingFetchIsWokenByAnAppend(t *testing.T) {
	broker := harness.Shared(t)
	topic := newTopic(t, broker.Bootstrap, 3)
	producer := dial(t, broker.Bootstrap)
	mustProduce(t, producer, topic.name, 2, textBatch("old"))
	first := textBatch("one")
	for name, c2 := range map[string]struct {
		minBytes int32
		batches  int // that it takes
	}{
		"one byte":               {1, 1},
		"one batch":              {int32(len(first.bytes())), 1},
		"more than one batch":    {int32(len(first.bytes())) + 1, 2},
		"as much as two batches": {2 * int32(len(first.bytes())), 2},
	} {
		t.Run(name, func(t *testing.T) {
			at := endOffsetOf(t, producer, topic.name, 2)
			c := dial(t, broker.Bootstrap)
			req := fetchRequest(topic.name, 0, 0)
			addFetch(req, topic.name, 1, 0)
			addFetch(req, topic.name, 2, at)
			req.MaxWaitMillis, req.MinBytes = longWait, c2.minBytes
			c.send(t, c.frame(req))
			for range c2.batches {
				if _, err := c.receive(req, c.sent, 50*time.Millisecond); err == nil {
					t.Fatal("answered too early")
				}
				mustProduce(t, producer, topic.name, 2, first)
			}
			resp, err := c.receive(req, c.sent, replyWithin)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range resp.(*kmsg.FetchResponse).Topics[0].Partitions {
				if n := len(readBatches(t, p.RecordBatches)); n != map[int32]int{2: c2.batches}[p.Partition] {
					t.Errorf("partition %d: %d batches", p.Partition, n)
				}
			}
		})
	}
}

// endOffsetOf returns the end of a partition.
func endOffsetOf(t *testing.T, c *conn, name string, partition int32) int64 {
	t.Helper()
	p := ask(t, c, at(7, listOffsetsRequest(name, latest, partition))).Topics[0].Partitions[0]
	wantCode(t, "ListOffsets", p.ErrorCode, nil)
	return p.Offset
}

// Where nothing is to be waited for the answer comes at once: an error is news, and so is what is there already.
func TestAFetchDoesNotWaitForNothing(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 2)
	mustProduce(t, c, topic.name, 0, textBatch("a", "b", "c"))
	for name, r := range map[string]struct {
		offset  int64
		minimum int32
		wait    int32
		want    *kerr.Error
	}{
		"an offset beyond the end":    {1_000_000, 1, longWait, kerr.OffsetOutOfRange},
		"an offset below the start":   {-1, 1, longWait, kerr.OffsetOutOfRange},
		"an offset just past the end": {4, 1, longWait, kerr.OffsetOutOfRange},
		"records that are there":      {0, 1, longWait, nil},
		"no bytes wanted":             {3, 0, longWait, nil},
		"no time to wait":             {3, 1, 0, nil},
	} {
		req := fetchRequest(topic.name, 1, 0)
		addFetch(req, topic.name, 0, r.offset)
		req.MaxWaitMillis, req.MinBytes = r.wait, r.minimum
		for _, p := range ask(t, c, req).Topics[0].Partitions {
			if p.Partition == 1 {
				continue
			}
			wantCode(t, name, p.ErrorCode, r.want)
			if p.RecordBatches == nil {
				t.Errorf("%s: null records", name)
			}
			if r.want != nil && (p.HighWatermark != -1 || p.LastStableOffset != -1 || p.LogStartOffset != -1 || len(p.RecordBatches) > 0) {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
}

// Partitions and topics that do not exist are told one by one, in each way to name them.
func TestFetchingWhatDoesNotExist(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	mustProduce(t, c, topic.name, 0, textBatch("a"))
	req := fetchRequest(topic.name, 0, 0)
	addFetch(req, topic.name, 99, 0)
	addFetch(req, topic.name, -1, 0)
	addFetch(req, harness.TopicName(t), 0, 0)
	rows := 0
	for _, row := range ask(t, c, req).Topics {
		for _, p := range row.Partitions {
			rows++
			want := kerr.UnknownTopicOrPartition
			if row.Topic == topic.name && p.Partition == 0 {
				want = nil
			}
			wantCode(t, fmt.Sprintf("%s[%d]", row.Topic, p.Partition), p.ErrorCode, want)
		}
	}
	if rows != 4 {
		t.Errorf("%d partitions in the answer", rows)
	}
	byID := at(13, fetchRequest("", 0, 0))
	byID.Topics[0].TopicID = topic.id
	wantCode(t, "a known id", ask(t, c, byID).Topics[0].Partitions[0].ErrorCode, nil)
	byID.Topics[0].TopicID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}
	wantCode(t, "an unknown id", ask(t, c, byID).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicID)
}

// A client of the public that says it is a replica must not count as one: with such fetches it could make the broker
// believe that records are replicated which are not (CVE-2018-1288).
func TestAFetchCannotPoseAsAReplica(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	mustProduce(t, c, topic.name, 0, textBatch("a"))
	req := fetchRequest(topic.name, 0, 0)
	req.ReplicaID = 4711
	p := ask(t, c, req).Topics[0].Partitions[0]
	if p.ErrorCode == 0 || len(p.RecordBatches) > 0 {
		t.Errorf("%s, %d bytes", codeName(p.ErrorCode), len(p.RecordBatches))
	}
}

// Many partitions of which each may give a megabyte must not be read before the limit of the request is looked at, or a
// few consumers with a thousand partitions take all memory.
func TestFetchOfManyPartitionsReadsNoMoreThanItSends(t *testing.T) {
	const partitions, size, limit = 200, 200 << 10, 500 << 10
	measure(t, func(t *testing.T, address string) {
		c := dial(t, address)
		topic := newTopic(t, address, partitions)
		b := newBatch(record{1, nil, make([]byte, size)})
		req := fetchRequest(topic.name, 0, 0)
		req.MaxBytes = limit
		for p := range int32(partitions) {
			mustProduce(t, c, topic.name, p, b)
			if p > 0 {
				addFetch(req, topic.name, p, 0)
			}
		}
		var conns []*conn
		for range 20 {
			conns = append(conns, dial(t, address))
		}
		for _, c := range conns {
			c.send(t, c.frame(req))
		}
		for _, c := range conns {
			resp, err := c.receive(req, c.sent, replyWithin)
			if err != nil {
				t.Fatal(err)
			}
			bytes, rows := 0, 0
			for _, p := range resp.(*kmsg.FetchResponse).Topics[0].Partitions {
				bytes += len(p.RecordBatches)
				rows++
			}
			if rows != partitions || bytes == 0 || bytes > limit+len(b.bytes()) {
				t.Errorf("%d partitions with %d bytes in all, for a limit of %d", rows, bytes, limit)
			}
		}
	})
}
