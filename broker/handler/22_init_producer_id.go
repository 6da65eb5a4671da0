package handler

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// InitProducerId: v0–5
//   - v3: a producer may name the id and epoch it has (KIP-360). v4: PRODUCER_FENCED. v5: KIP-890.
//
// Without a transactional id every call gives a new producer id. With one it is refused: a retriable error would make
// clients ask for ever.

func (h *Handlers) initProducerID(r *Request, req *kmsg.InitProducerIDRequest) Reply {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if code := h.refuseInitProducerID(req); code != kafka.None {
		resp.ErrorCode = int16(code)
		return Now(resp)
	}
	id, err := h.producerIDs.next(func() (controller.AllocateProducerIDsReply, error) { return h.allocateProducerIDs(r) })
	if err != nil {
		resp.ErrorCode = h.code(r, err)
		return Now(resp)
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return Now(resp)
}

func (h *Handlers) refuseInitProducerID(req *kmsg.InitProducerIDRequest) kafka.Code {
	timeout := time.Duration(req.TransactionTimeoutMillis) * time.Millisecond
	switch id := req.TransactionalID; {
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		return kafka.InvalidRequest
	case id == nil:
		return kafka.None
	case *id != "" && (timeout <= 0 || timeout > h.Config.Transactions.MaxTimeout):
		return kafka.InvalidTransactionTimeout
	default: // transactions do not exist here
		return kafka.InvalidRequest
	}
}

func (h *Handlers) allocateProducerIDs(r *Request) (controller.AllocateProducerIDsReply, error) {
	epoch := kafka.BrokerEpoch(-1)
	if b, ok := h.Image().Brokers.ByID(h.Self); ok {
		epoch = b.Epoch
	}
	reply, err := h.submit(r, ownTimeoutMs, controller.AllocateProducerIDs{Broker: h.Self, Epoch: epoch})
	if err != nil {
		return controller.AllocateProducerIDsReply{}, err
	}
	return reply.(controller.AllocateProducerIDsReply), nil
}

// producerIDs hands out the block of ids that the controller gave this broker. What is left of it at a stop is lost:
// ids are never given twice.
type producerIDs struct {
	mu struct {
		sync.Mutex
		next, end int64
	}
	refill sync.Mutex // held while a block is asked for, so that one request asks for all that wait; never with mu
}

func (p *producerIDs) take() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.next == p.mu.end {
		return 0, false
	}
	id := p.mu.next
	p.mu.next++
	return id, true
}

func (p *producerIDs) next(allocate func() (controller.AllocateProducerIDsReply, error)) (int64, error) {
	if id, ok := p.take(); ok {
		return id, nil
	}
	p.refill.Lock()
	defer p.refill.Unlock()
	for {
		if id, ok := p.take(); ok { // another request has brought a block meanwhile
			return id, nil
		}
		block, err := allocate()
		if err != nil {
			return 0, err
		}
		p.mu.Lock()
		p.mu.next, p.mu.end = block.Start, block.Start+int64(block.Count)
		p.mu.Unlock()
	}
}
