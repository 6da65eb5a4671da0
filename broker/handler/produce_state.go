package handler

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/internal/clock"
	"weir/internal/kafka"
)

// produceState is the answer to one Produce in the making. Where every append is acknowledged at once it is filled and
// returned; else it waits as the replica.Acker of the rows that are parked, until the last acknowledgement or the
// request's timeout.
type produceState struct {
	h    *Handlers
	acks int16
	resp *kmsg.ProduceResponse
	rows []kmsg.ProduceResponseTopicPartition // of all topics, one after the other

	waits   []wait // parked rows
	pending *Pending
	timer   clock.Timer
	// balance counts acknowledgements down and, at the end of stage 1, the parked rows up: whoever brings it to zero
	// then is the last.
	balance atomic.Int32

	mu struct {
		sync.Mutex
		acked map[int]bool // rows that are no longer waited for; nil before the first
		done  bool         // answered: rows may not be touched any more
	}
}

type wait struct {
	row       int
	partition *replica.Partition
}

func newProduceState(h *Handlers, req *kmsg.ProduceRequest) *produceState {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	s := &produceState{h: h, acks: req.Acks, resp: req.ResponseKind().(*kmsg.ProduceResponse)}
	s.rows = make([]kmsg.ProduceResponseTopicPartition, n)
	s.resp.Topics = make([]kmsg.ProduceResponseTopic, 0, len(req.Topics))
	return s
}

// row prepares one row; it is an error until it is filled.
func (s *produceState) row(i int, partition int32) *kmsg.ProduceResponseTopicPartition {
	r := &s.rows[i]
	r.Default()
	r.Partition, r.BaseOffset, r.LogAppendTime, r.LogStartOffset = partition, -1, -1, -1
	return r
}

func (s *produceState) addTopic(t *kmsg.ProduceRequestTopic, first, end int) {
	if first == end {
		return
	}
	s.resp.Topics = append(s.resp.Topics, kmsg.ProduceResponseTopic{Topic: t.Topic, TopicID: t.TopicID, Partitions: s.rows[first:end:end]})
}

func (s *produceState) parked(row int, p *replica.Partition) {
	s.waits = append(s.waits, wait{row, p})
}

// reply ends stage 1.
func (s *produceState) reply(timeoutMs int32) Reply {
	if len(s.waits) == 0 {
		return Now(s.resp)
	}
	s.pending = NewPending()
	s.timer = s.h.Clock.AfterFunc(time.Duration(max(timeoutMs, 0))*time.Millisecond, s.timeout)
	if s.balance.Add(int32(len(s.waits))) == 0 {
		s.finish()
	}
	return Later(s.pending)
}

// Acked implements replica.Acker.
func (s *produceState) Acked(row int, err error) {
	s.mu.Lock()
	if s.mu.done {
		s.mu.Unlock()
		return
	}
	if s.mu.acked == nil {
		s.mu.acked = make(map[int]bool)
	}
	s.mu.acked[row] = true
	if err != nil {
		s.fail(row, kafka.CodeOf(err))
	}
	s.mu.Unlock()
	if s.balance.Add(-1) == 0 {
		s.finish()
	}
}

func (s *produceState) fail(row int, code kafka.Code) {
	r := &s.rows[row]
	r.ErrorCode, r.BaseOffset, r.LogAppendTime, r.LogStartOffset = int16(code), -1, -1, -1
}

func (s *produceState) finish() {
	s.mu.Lock()
	s.mu.done = true
	s.mu.Unlock()
	s.timer.Stop()
	s.pending.Complete(s.resp)
}

// timeout answers what is not acknowledged yet with REQUEST_TIMED_OUT; the records stay where they are.
func (s *produceState) timeout() {
	s.mu.Lock()
	if s.mu.done {
		s.mu.Unlock()
		return
	}
	s.mu.done = true
	for _, w := range s.waits {
		if !s.mu.acked[w.row] {
			s.fail(w.row, kafka.RequestTimedOut)
		}
	}
	s.mu.Unlock()
	for _, w := range s.waits {
		w.partition.Forget(s)
	}
	s.pending.Complete(s.resp)
}
