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
// Without a transactional id every call gives a new producer id, of a block that is this broker's own. With one it is refused: a
// retriable error would make clients ask for ever.

func (h *Handlers) initProducerID(r *Request, req *kmsg.InitProducerIDRequest) Reply {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if code := h.refuseInitProducerID(req); code != kafka.None {
		resp.ErrorCode = int16(code)
		return Now(resp)
	}
	id, err := h.producerIDs.next(func() (controller.AllocateProducerIDsReply, error) { return h.allocateProducerIDs(r) })
	if err != nil { // whatever it is, it passes; this is what clients repeat the request at
		h.Logger.Warn("no producer ids were given", "error", err)
		resp.ErrorCode = int16(kafka.CoordinatorLoadInProgress)
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
	reply, err := h.submit(r, producerIDsTimeoutMs, controller.AllocateProducerIDs{Broker: h.Self, Epoch: epoch})
	if err != nil {
		return controller.AllocateProducerIDsReply{}, err
	}
	return reply.(controller.AllocateProducerIDsReply), nil
}

// producerIDsTimeoutMs is how long clients wait for a block before they are told to come again.
const producerIDsTimeoutMs = 5_000

// producerIDs hands out the block of ids that the controller gave this broker. What is left of it at a stop is lost:
// ids are never given twice.
type producerIDs struct {
	mu struct {
		sync.Mutex
		next, end int64
		asked     *blockAsked // nil while no block is asked for
	}
}

// blockAsked is a request for a block, which one of those who need an id makes for all of them.
type blockAsked struct {
	done chan struct{} // closed when there is an answer
	err  error
}

// next returns an id. Where there is none left it has allocate bring a block; when that fails, so do all who wait for it.
func (p *producerIDs) next(allocate func() (controller.AllocateProducerIDsReply, error)) (int64, error) {
	for {
		id, asked, ask := p.take()
		if asked == nil {
			return id, nil
		}
		if ask {
			block, err := allocate()
			p.answered(asked, block, err)
		} else {
			<-asked.done
		}
		if asked.err != nil {
			return 0, asked.err
		}
	}
}

// take returns an id or, where there is none, the request for more; ask says that it is the caller's to make.
func (p *producerIDs) take() (id int64, asked *blockAsked, ask bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.next < p.mu.end {
		p.mu.next++
		return p.mu.next - 1, nil, false
	}
	if p.mu.asked == nil {
		p.mu.asked, ask = &blockAsked{done: make(chan struct{})}, true
	}
	return 0, p.mu.asked, ask
}

func (p *producerIDs) answered(asked *blockAsked, block controller.AllocateProducerIDsReply, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.mu.next, p.mu.end = block.Start, block.Start+int64(block.Count)
	}
	asked.err, p.mu.asked = err, nil
	close(asked.done)
}
