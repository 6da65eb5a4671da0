package wire

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"weir/compat-tests/harness"
)

// place is where a value was acknowledged.
type place struct {
	value  string
	offset int64
}

// produceUntilGone sends numbered values to a partition, one at a time, until the broker is gone, and returns what was
// acknowledged. count is raised by each.
func produceUntilGone(t *testing.T, address, topic string, partition int32, run int, count *atomic.Int64) (acked []place) {
	c, err := connect(address)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer c.Close()
	for n := 0; ; n++ {
		value := fmt.Sprintf("%d-%d-%s", run, n, strings.Repeat("x", n%1000))
		resp, err := produceRequest(topic, partition, textBatch(value).bytes()).RequestWith(t.Context(), c)
		if err != nil {
			return acked
		}
		p := resp.Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			t.Errorf("Produce: %s", codeName(p.ErrorCode))
			return acked
		}
		acked = append(acked, place{value, p.BaseOffset})
		count.Add(1)
	}
}

// What was acknowledged is there after kill -9, whenever that came, where it was acknowledged; and every start succeeds.
func TestAcknowledgedRecordsSurviveKills(t *testing.T) {
	const partitions = 3
	kills := 8
	if harness.Soak() {
		kills = 200
	}
	s := start(t)
	topic := newTopic(t, s.Address, partitions).name
	acked := make([][]place, partitions)
	for run := range kills {
		var count atomic.Int64
		var wg sync.WaitGroup
		for p := range int32(partitions) {
			wg.Go(func() {
				acked[p] = append(acked[p], produceUntilGone(t, s.Address, topic, p, run, &count)...)
			})
		}
		for deadline := time.Now().Add(replyWithin); count.Load() < 100+37*int64(run%10) && !time.Now().After(deadline); {
			time.Sleep(time.Millisecond)
		}
		s.Kill()
		wg.Wait()
		s.restart(t)
	}
	c := dial(t, s.Address)
	for p := range int32(partitions) {
		stored := make(map[int64]string)
		for _, b := range readAll(t, c, topic, p) {
			for _, r := range b.decoded(t) {
				stored[b.FirstOffset+int64(r.OffsetDelta)] = string(r.Value)
			}
		}
		lost := 0
		for _, a := range acked[p] {
			if stored[a.offset] != a.value {
				lost++
			}
		}
		if lost > 0 || len(acked[p]) < kills {
			t.Errorf("partition %d: of %d acknowledged records %d are not where they were", p, len(acked[p]), lost)
		}
	}
}

// readAll reads a partition from its start to its end.
func readAll(t *testing.T, c *conn, name string, partition int32) []*batch {
	t.Helper()
	var all []*batch
	next := ask(t, c, at(7, listOffsetsRequest(name, earliest, partition))).Topics[0].Partitions[0].Offset
	for end := endOffsetOf(t, c, name, partition); next < end; {
		p := fetch(t, c, name, partition, next)
		got := readBatches(t, p.RecordBatches)
		if p.ErrorCode != 0 || len(got) == 0 {
			t.Fatalf("reading %s[%d] from %d: %s, %d batches", name, partition, next, codeName(p.ErrorCode), len(got))
		}
		all = append(all, got...)
		last := got[len(got)-1]
		next = last.FirstOffset + int64(last.LastOffsetDelta) + 1
	}
	return all
}

// A producer does not notice that the broker crashed, but for a retry: the broker knows its last batches from what is on
// disk. If it did not, the producer would die of a wrong error, or write records twice. (After a stop, in which every
// request was answered, only the last batch of each producer is known, as in Kafka's snapshots.)
func TestProducersGoOnAfterCrashes(t *testing.T) {
	s := start(t)
	topic := newTopic(t, s.Address, 1).name
	c := dial(t, s.Address)
	id, other := newProducerID(t, c), newProducerID(t, c)
	given := map[int64]bool{id: true, other: true}
	runSteps(t, c, topic, []step{{other, 3, 0, nil, 0}})
	next, end := int32(0), int64(1)
	for _, how := range []string{"kill", "kill", "stop", "kill", "stop", "stop", "kill"} {
		for range 6 {
			runSteps(t, c, topic, []step{{id, 0, next, nil, end}})
			next, end = next+1, end+1
		}
		s.end(t, how)
		s.restart(t)
		c = dial(t, s.Address)
		for n := next - 5; n < next; n++ {
			runSteps(t, c, topic, []step{{id, 0, n, nil, end - int64(next-n)}})
		}
		runSteps(t, c, topic, []step{{id, 0, next + 1, kerr.OutOfOrderSequenceNumber, 0}, {other, 2, 1, kerr.InvalidProducerEpoch, 0}, {other, 3, 0, nil, 0}})
		if got := endOffset(t, c, topic); got != end {
			t.Fatalf("after a %s repeated batches moved the end from %d to %d", how, end, got)
		}
		fresh := newProducerID(t, c)
		if given[fresh] {
			t.Errorf("after a %s producer id %d was given a second time", how, fresh)
		}
		given[fresh] = true
	}
}
