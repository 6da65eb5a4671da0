package handler

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

func initProducerIDRequest() *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis = -1, -1, 60_000
	return req
}

func TestProducerIDsAreGivenOnce(t *testing.T) {
	f := newFixture(t)
	other := New(f.handlers.Options) // as after a restart: what is left of a block is lost
	const perHandler = 1500          // more than a block
	var mu sync.Mutex
	given := make(map[int64]int)
	var all sync.WaitGroup
	for _, h := range []*Handlers{f.handlers, other, f.handlers} {
		all.Go(func() {
			c := f.client()
			for range perHandler {
				req := initProducerIDRequest()
				req.SetVersion(5)
				resp := h.initProducerID(&Request{Body: req, Conn: &c.Conn}, req).Body().(*kmsg.InitProducerIDResponse)
				mu.Lock()
				given[resp.ProducerID]++
				mu.Unlock()
				if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || resp.ProducerID < 0 {
					t.Errorf("%+v", resp)
					return
				}
			}
		})
	}
	all.Wait()
	if len(given) != 3*perHandler {
		t.Fatalf("%d different ids, want %d", len(given), 3*perHandler)
	}
}

func TestInitProducerIDRefusals(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	id, empty := "t", ""
	for _, test := range []struct {
		name string
		edit func(*kmsg.InitProducerIDRequest)
		code kafka.Code
	}{
		{"an id without its epoch", func(r *kmsg.InitProducerIDRequest) { r.ProducerID = 5 }, kafka.InvalidRequest},
		{"an epoch without its id", func(r *kmsg.InitProducerIDRequest) { r.ProducerEpoch = 0 }, kafka.InvalidRequest},
		{"both", func(r *kmsg.InitProducerIDRequest) { r.ProducerID, r.ProducerEpoch = 5, 1 }, kafka.None},
		{"transactional", func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = &id }, kafka.InvalidRequest},
		{"transactional, no time", func(r *kmsg.InitProducerIDRequest) { r.TransactionalID, r.TransactionTimeoutMillis = &id, 0 }, kafka.InvalidTransactionTimeout},
		{"transactional, too much time", func(r *kmsg.InitProducerIDRequest) { r.TransactionalID, r.TransactionTimeoutMillis = &id, 1<<31-1 }, kafka.InvalidTransactionTimeout},
		{"an empty transactional id", func(r *kmsg.InitProducerIDRequest) { r.TransactionalID = &empty }, kafka.InvalidRequest},
	} {
		req := initProducerIDRequest()
		test.edit(req)
		resp := c.call(4, req).(*kmsg.InitProducerIDResponse)
		if kafka.Code(resp.ErrorCode) != test.code || (resp.ProducerID == -1) != (test.code != kafka.None) {
			t.Errorf("%s: %v, id %d; want %v", test.name, kafka.Code(resp.ErrorCode), resp.ProducerID, test.code)
		}
	}
}

// silentController never answers.
type silentController struct{}

func (silentController) Submit(ctx context.Context, _ controller.Command) (controller.Reply, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestCommandsEndWithTheirTimeOrTheirClient(t *testing.T) {
	f := newFixture(t)
	f.handlers.Controller = silentController{}
	request := func() *kmsg.CreateTopicsRequest {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 1 << 30
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic = "t"
		req.Topics = append(req.Topics, topic)
		return req
	}
	patient := f.client()
	replies := patient.later(7, request())
	<-patient.waits
	f.clock.Advance((1 << 30) * time.Millisecond)
	row := answer(t, 7, request(), <-replies).(*kmsg.CreateTopicsResponse).Topics[0]
	if kafka.Code(row.ErrorCode) != kafka.RequestTimedOut {
		t.Errorf("after its time: %v", kafka.Code(row.ErrorCode))
	}
	none := request()
	none.TimeoutMillis = 0
	if row := patient.call(7, none).(*kmsg.CreateTopicsResponse).Topics[0]; kafka.Code(row.ErrorCode) != kafka.RequestTimedOut || row.ErrorMessage != nil {
		t.Errorf("without any time: %v, message %v", kafka.Code(row.ErrorCode), row.ErrorMessage)
	}
	leaving := f.client()
	replies = leaving.later(7, request())
	close(leaving.gone)
	<-replies
}
