package wire

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// Replies of a connection come in the order of its requests: clients match them by that. A request that waits holds back
// what was sent behind it.
func TestRepliesComeInTheOrderOfRequests(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1).name
	const wait = 300
	metadata, waiting, versions := at(4, kmsg.NewPtrMetadataRequest()), fetchRequest(topic, 0, 0), kmsg.NewPtrApiVersionsRequest()
	waiting.MaxWaitMillis = wait
	requests := []kmsg.Request{metadata, waiting, versions, produceRequest(topic, 0, textBatch("a").bytes()), fetchRequest(topic, 0, 0), versions}
	var frames []byte
	for _, r := range requests {
		frames = append(frames, c.frame(r)...)
	}
	started := time.Now()
	c.send(t, frames)
	for i, r := range requests {
		resp, err := c.receive(r, int32(i+1), replyWithin)
		if err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		if waited := time.Since(started); i == 1 && waited < wait*time.Millisecond {
			t.Errorf("the fetch was answered after %v", waited)
		}
		// The record was produced behind the first fetch, and before the second.
		if f, ok := resp.(*kmsg.FetchResponse); ok && (len(f.Topics[0].Partitions[0].RecordBatches) > 0) != (i == 4) {
			t.Errorf("reply %d has %d bytes of records", i, len(f.Topics[0].Partitions[0].RecordBatches))
		}
	}
}

// A request that is whole is answered, whatever has come of the next one; and a client that leaves in the middle of that
// has written nothing by it.
func TestATornRequestHoldsNothingBack(t *testing.T) {
	broker := harness.Shared(t)
	topic := newTopic(t, broker.Bootstrap, 1).name
	for _, torn := range []int{0, 1, 5, 20} {
		c := dial(t, broker.Bootstrap)
		req := produceRequest(topic, 0, textBatch("a").bytes())
		frames := c.frame(req)
		frames = append(frames, c.frame(req)[:torn]...)
		c.send(t, frames)
		resp, err := c.receive(req, 1, replyWithin)
		if err != nil {
			t.Fatalf("with %d bytes of the next request: %v", torn, err)
		}
		wantCode(t, "produce", resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, nil)
		c.Close()
	}
	if end := endOffset(t, dial(t, broker.Bootstrap), topic); end != 4 {
		t.Errorf("the log ends at %d, want 4", end)
	}
}

// Bytes come as the network cuts them: one at a time, or many requests in one piece.
func TestRequestsInPieces(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1).name
	req := produceRequest(topic, 0, textBatch("a").bytes())
	for _, b := range c.frame(req) {
		c.send(t, []byte{b})
	}
	if _, err := c.receive(req, c.sent, replyWithin); err != nil {
		t.Fatal(err)
	}
	const n = 500
	var frames []byte
	for range n {
		frames = append(frames, c.frame(req)...)
	}
	go c.Write(frames) // the replies may have to be read before all is taken
	for i := range int32(n) {
		resp, err := c.receive(req, 2+i, replyWithin)
		if err != nil {
			t.Fatal(err)
		}
		if p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(1+i) {
			t.Fatalf("request %d: %s at offset %d", i, codeName(p.ErrorCode), p.BaseOffset)
		}
	}
}
