package wire

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// newProducerID asks for a producer id without a transactional id. Kafka may have to fetch some first, which a case of
// its own does not allow Weir.
func newProducerID(t *testing.T, c *conn) int64 {
	t.Helper()
	resp := ask(t, c, at(4, kmsg.NewPtrInitProducerIDRequest()))
	for resp.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
		time.Sleep(10 * time.Millisecond)
		resp = ask(t, c, at(4, kmsg.NewPtrInitProducerIDRequest()))
	}
	if resp.ErrorCode != 0 || resp.ProducerID < 0 || resp.ProducerEpoch != 0 {
		t.Fatalf("InitProducerId: %s, id %d, epoch %d", codeName(resp.ErrorCode), resp.ProducerID, resp.ProducerEpoch)
	}
	return resp.ProducerID
}

// step is one batch of one record of an idempotent producer, and what has to come of it.
type step struct {
	producer int64
	epoch    int16
	sequence int32
	want     *kerr.Error
	offset   int64 // where want is nil
}

func runSteps(t *testing.T, c *conn, name string, steps []step) {
	t.Helper()
	for i, s := range steps {
		p := produce(t, c, name, 0, textBatch(fmt.Sprint(i)).from(s.producer, s.epoch, s.sequence).bytes())
		what := fmt.Sprintf("step %d: producer %d, epoch %d, sequence %d", i, s.producer, s.epoch, s.sequence)
		wantCode(t, what, p.ErrorCode, s.want)
		if s.want == nil && p.BaseOffset != s.offset {
			t.Errorf("%s: offset %d, want %d", what, p.BaseOffset, s.offset)
		}
	}
}

// A producer sends a batch again when it heard nothing of it. The broker knows the last five of each producer and answers
// a repeated one with the offset it has already; a gap would be a lost record and is refused; after 2^31-1 comes 0. A
// broker that errs here kills the producer or writes records twice.
func TestIdempotentProducerSequences(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	a, b, nobodys := newProducerID(t, c), newProducerID(t, c), int64(1)<<40
	var steps []step
	for n := range int32(7) {
		steps = append(steps, step{a, 0, n, nil, int64(n)})
	}
	for _, n := range []int32{6, 5, 4, 3, 2, 6} { // the five that are remembered
		steps = append(steps, step{a, 0, n, nil, int64(n)})
	}
	runSteps(t, c, topic.name, append(steps, step{a, 0, 0, kerr.OutOfOrderSequenceNumber, 0}, step{a, 0, 9, kerr.OutOfOrderSequenceNumber, 0}))
	if end := endOffset(t, c, topic.name); end != 7 {
		t.Fatalf("after the repeated ones the log ends at %d, want 7", end)
	}
	runSteps(t, c, topic.name, []step{
		{a, 0, 7, nil, 7},
		{a, 1, 3, kerr.OutOfOrderSequenceNumber, 0}, // a new epoch begins at 0
		{a, 1, 0, nil, 8},
		{a, 0, 8, kerr.InvalidProducerEpoch, 0}, // and ends the one before
		{a, 1, 1, nil, 9},
		{nobodys, 0, 9, nil, 10}, // whose state expired, or who writes to this partition for the first time
		{nobodys, 0, 10, nil, 11},
		{b, 0, 1<<31 - 2, nil, 12},
		{b, 0, 1<<31 - 1, nil, 13},
		{b, 0, 0, nil, 14},
		{b, 0, 1, nil, 15},
		{b, 0, 1<<31 - 1, nil, 13},
		{b, 0, -1, kerr.InvalidRecord, 0},
	})
	if end := endOffset(t, c, topic.name); end != 16 {
		t.Errorf("the log ends at %d, want 16", end)
	}
}

// Five batches in flight on one connection is what clients send by default. They are appended in the order sent.
func TestPipelinedBatchesOfAProducerKeepTheirOrder(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	id := newProducerID(t, c)
	const rounds, inFlight = 40, 5
	for r := range int32(rounds) {
		var frames []byte
		first := c.sent + 1
		for i := range int32(inFlight) {
			n := r*inFlight + i
			frames = append(frames, c.frame(produceRequest(topic.name, 0, textBatch(fmt.Sprint(n)).from(id, 0, n).bytes()))...)
		}
		c.send(t, frames)
		for i := range int32(inFlight) {
			resp, err := c.receive(produceRequest("", 0, nil), first+i, replyWithin)
			if err != nil {
				t.Fatal(err)
			}
			p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != int64(r*inFlight+i) {
				t.Fatalf("batch %d: %s at offset %d", r*inFlight+i, codeName(p.ErrorCode), p.BaseOffset)
			}
		}
	}
	var got []string
	for _, b := range readBatches(t, fetch(t, c, topic.name, 0, 0).RecordBatches) {
		got = append(got, b.values(t)...)
	}
	var want []string
	for n := range rounds * inFlight {
		want = append(want, fmt.Sprint(n))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log holds %v", got)
	}
}

// A producer id belongs to one producer, whoever else asks at the same time. Every Java producer since 3.0 asks for one
// when it starts.
func TestProducerIDsAreNeverGivenTwice(t *testing.T) {
	broker := harness.Shared(t)
	newProducerID(t, dial(t, broker.Bootstrap))
	const connections, each = 8, 50
	ids := make([][]int64, connections)
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			c, err := connect(broker.Bootstrap)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for len(ids[i]) < each {
				resp, err := at(4, kmsg.NewPtrInitProducerIDRequest()).RequestWith(t.Context(), c)
				if err == nil && resp.ErrorCode == kerr.CoordinatorLoadInProgress.Code {
					continue // clients ask again
				}
				if err != nil || resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || resp.ProducerID < 0 {
					t.Errorf("InitProducerId: %v, %+v", err, resp)
					return
				}
				ids[i] = append(ids[i], resp.ProducerID)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(ids...)
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != connections*each {
		t.Errorf("%d different ids were given, want %d", n, connections*each)
	}
}

// A producer that names an id has to name its epoch, too (KIP-360). A transactional id may not be empty, and a
// transaction may not be open for longer than the broker allows: Flink asks for an hour and must be told.
func TestInitProducerIDRefuses(t *testing.T) {
	c := dial(t, harness.Shared(t).Bootstrap)
	for name, r := range map[string]struct {
		id        *string
		timeoutMs int32
		producer  int64
		epoch     int16
		want      *kerr.Error
	}{
		"an id without an epoch":      {nil, 0, 5, -1, kerr.InvalidRequest},
		"an epoch without an id":      {nil, 0, -1, 5, kerr.InvalidRequest},
		"an empty transactional id":   {new(string), 60000, -1, -1, kerr.InvalidRequest},
		"a transaction of an hour":    {kmsg.StringPtr(harness.TopicName(t)), 3600_000, -1, -1, kerr.InvalidTransactionTimeout},
		"a transaction of no time":    {kmsg.StringPtr(harness.TopicName(t)), 0, -1, -1, kerr.InvalidTransactionTimeout},
		"a transaction of less":       {kmsg.StringPtr(harness.TopicName(t)), -1, -1, -1, kerr.InvalidTransactionTimeout},
		"no time, no transaction":     {nil, 0, -1, -1, nil},
		"an hour, but no transaction": {nil, 3600_000, -1, -1, nil},
	} {
		req := at(4, kmsg.NewPtrInitProducerIDRequest())
		req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = r.id, r.timeoutMs, r.producer, r.epoch
		resp := ask(t, c, req)
		wantCode(t, name, resp.ErrorCode, r.want)
		if r.want != nil && (resp.ProducerID != -1 || resp.ProducerEpoch != -1) {
			t.Errorf("%s: id %d, epoch %d", name, resp.ProducerID, resp.ProducerEpoch)
		}
	}
}
