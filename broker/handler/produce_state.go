package handler

import (
	"errors"
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
// request's timeout. A parked row says REQUEST_TIMED_OUT until it is acknowledged.
//
// It is one allocation for the usual request of one partition.
type produceState struct {
	h        *Handlers
	listener string // of the client
	resp     kmsg.ProduceResponse
	rows     []kmsg.ProduceResponseTopicPartition // of all topics, one after the other
	appended replica.AppendRequest                // used for one partition after the other

	waitsAt []*replica.Partition // of the parked rows
	pending *Pending
	timer   clock.Timer
	// balance counts acknowledgements down and, at the end of stage 1, the parked rows up: whoever brings it to zero
	// then is the last.
	balance atomic.Int32

	mu struct {
		sync.Mutex
		answered bool // rows may not be touched any more
	}

	oneRow   [1]kmsg.ProduceResponseTopicPartition
	oneTopic [1]kmsg.ProduceResponseTopic
}

func newProduceState(h *Handlers, req *kmsg.ProduceRequest, listener string, now time.Time) *produceState {
	s := &produceState{h: h, listener: listener}
	s.resp.Version = req.Version
	s.appended = replica.AppendRequest{Version: req.Version, Acks: req.Acks, Now: now, Acker: s}
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	s.rows, s.resp.Topics = s.oneRow[:0], s.oneTopic[:0]
	if n > len(s.oneRow) {
		s.rows = make([]kmsg.ProduceResponseTopicPartition, 0, n)
	}
	if len(req.Topics) > len(s.oneTopic) {
		s.resp.Topics = make([]kmsg.ProduceResponseTopic, 0, len(req.Topics))
	}
	return s
}

// addRow adds a row, which is an error until it is filled.
func (s *produceState) addRow(partition int32) (row int) {
	s.rows = append(s.rows, kmsg.ProduceResponseTopicPartition{})
	row = len(s.rows) - 1
	r := &s.rows[row]
	r.Default()
	r.Partition, r.BaseOffset, r.LogAppendTime, r.LogStartOffset = partition, -1, -1, -1
	return row
}

// addTopic makes the rows from first on those of a topic.
func (s *produceState) addTopic(t *kmsg.ProduceRequestTopic, first int) {
	if first == len(s.rows) {
		return
	}
	s.resp.Topics = append(s.resp.Topics, kmsg.ProduceResponseTopic{Topic: t.Topic, TopicID: t.TopicID, Partitions: s.rows[first:len(s.rows):len(s.rows)]})
}

// append appends to a partition and fills its row.
func (s *produceState) append(row int, p *replica.Partition, records []byte) error {
	out, r := &s.rows[row], &s.appended
	r.Records, r.Index = records, row
	out.ErrorCode = int16(kafka.RequestTimedOut) // before the acknowledgement, which may come before Append returns
	result, err := p.Append(r)
	if err != nil {
		return err
	}
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = result.BaseOffset, result.LogAppendTime, result.LogStartOffset
	if result.Parked {
		s.waitsAt = append(s.waitsAt, p)
	} else {
		out.ErrorCode = int16(kafka.None)
	}
	return nil
}

// reply ends stage 1.
func (s *produceState) reply(timeoutMs int32) Reply {
	if len(s.waitsAt) == 0 {
		return Now(&s.resp)
	}
	s.pending = NewPending()
	s.timer = s.h.Clock.AfterFunc(time.Duration(max(timeoutMs, 0))*time.Millisecond, s.timeout)
	s.pending.OnAbandon(s.abandon)
	if s.balance.Add(int32(len(s.waitsAt))) == 0 {
		s.finish()
	}
	return Later(s.pending)
}

// Acked implements replica.Acker.
func (s *produceState) Acked(row int, err error) {
	s.mu.Lock()
	if s.mu.answered {
		s.mu.Unlock()
		return
	}
	if out := &s.rows[row]; out.ErrorCode == int16(kafka.RequestTimedOut) { // else it has an error that counts more
		out.ErrorCode = int16(kafka.CodeOf(err))
		if err != nil {
			s.deposed(out, err)
		}
	}
	s.mu.Unlock()
	if s.balance.Add(-1) == 0 {
		s.finish()
	}
}

// deposed names the leader that there is now, where that is why a row failed.
func (s *produceState) deposed(row *kmsg.ProduceResponseTopicPartition, err error) {
	var refused *replica.Error
	if errors.As(err, &refused) && refused.Code() == kafka.NotLeaderOrFollower {
		s.nameLeader(s.h.Image(), row, refused.Leader, refused.LeaderEpoch)
	}
}

func (s *produceState) finish() {
	s.timer.Stop()
	s.complete()
}

// timeout answers with what is acknowledged so far; the records of the rest stay where they are, and so do their offsets
// in the answer, as in Kafka.
func (s *produceState) timeout() {
	if s.complete() {
		s.forget()
	}
}

// abandon: the client is gone. What is parked would keep the request's frame in memory until its timeout, which is the
// client's choice.
func (s *produceState) abandon() {
	s.timer.Stop()
	if s.end() {
		s.forget()
	}
}

func (s *produceState) forget() {
	for _, p := range s.waitsAt {
		p.Forget(s)
	}
}

// complete answers, unless that is done.
func (s *produceState) complete() bool {
	first := s.end()
	if first {
		s.pending.Complete(&s.resp)
	}
	return first
}

// end reports whether it is the first: then the rows are not touched any more.
func (s *produceState) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.mu.answered
	s.mu.answered = true
	return first
}
