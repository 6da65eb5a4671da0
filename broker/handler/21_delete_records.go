package handler

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
)

// DeleteRecords: v0–2
//   - v2: flexible.
//
// Moves a partition's start, to the high watermark for -1. Of a partition that stands twice the last offset counts. The
// answer waits until the records are gone from every replica on an active broker, or for the request's timeout; then they
// are gone from the leader, and will be from the others.

func (h *Handlers) deleteRecords(r *Request, req *kmsg.DeleteRecordsRequest) Reply {
	d := &deletion{h: h, resp: req.ResponseKind().(*kmsg.DeleteRecordsResponse)}
	img := h.Image()
	last := make(map[kafka.TopicPartition]int64)
	for i := range req.Topics {
		for _, p := range req.Topics[i].Partitions {
			last[kafka.TopicPartition{Topic: req.Topics[i].Topic, Partition: p.Partition}] = p.Offset
		}
	}
	at := make(map[string]int) // topic → its row
	for i := range req.Topics {
		t := &req.Topics[i]
		for _, p := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			offset, todo := last[tp]
			if !todo {
				continue
			}
			delete(last, tp)
			k, ok := at[t.Topic]
			if !ok {
				k = len(d.resp.Topics)
				at[t.Topic] = k
				d.resp.Topics = append(d.resp.Topics, kmsg.DeleteRecordsResponseTopic{Topic: t.Topic})
			}
			d.deleteTo(r, k, byName(img, t.Topic), tp, offset)
		}
	}
	if len(d.waits) == 0 {
		return Now(d.resp)
	}
	return d.wait(req.TimeoutMillis)
}

// deletion is the answer to one DeleteRecords in the making. It waits as the replica.Acker of the rows whose records are
// not gone everywhere; such a row says REQUEST_TIMED_OUT until they are.
type deletion struct {
	h     *Handlers
	resp  *kmsg.DeleteRecordsResponse
	waits []deletionWait

	pending *Pending
	timer   clock.Timer
	left    atomic.Int32 // rows that wait, and one more while they begin to

	mu struct {
		sync.Mutex
		answered bool // rows may not be touched any more
	}
}

// deletionWait is a row that waits for a partition's low watermark.
type deletionWait struct {
	topic, row int // in the answer
	partition  *replica.Partition
	offset     int64
}

// deleteTo moves the start of a partition and adds its row to a topic of the answer.
func (d *deletion) deleteTo(r *Request, topic int, t *metadata.Topic, tp kafka.TopicPartition, offset int64) {
	row := kmsg.NewDeleteRecordsResponseTopicPartition()
	row.Partition, row.LowWatermark = tp.Partition, -1
	rows := &d.resp.Topics[topic].Partitions
	partition, deleted, err := d.h.deleteRecordsTo(t, tp, offset)
	switch {
	case err != nil:
		row.ErrorCode = d.h.code(r, err)
	case deleted.LowWatermark < deleted.Offset:
		d.waits = append(d.waits, deletionWait{topic, len(*rows), partition, deleted.Offset})
		row.LowWatermark, row.ErrorCode = deleted.LowWatermark, int16(kafka.RequestTimedOut)
	default:
		row.LowWatermark = deleted.LowWatermark
	}
	*rows = append(*rows, row)
}

func (h *Handlers) deleteRecordsTo(t *metadata.Topic, tp kafka.TopicPartition, offset int64) (*replica.Partition, replica.DeletedRecords, error) {
	p, err := h.topicPartition(t, tp.Partition)
	if err != nil {
		return nil, replica.DeletedRecords{}, err
	}
	if kafka.IsInternalTopic(tp.Topic) {
		return nil, replica.DeletedRecords{}, kafka.Errorf(kafka.InvalidTopic, "Cannot delete records of internal topic %s", tp.Topic)
	}
	deleted, err := p.DeleteRecords(offset)
	return p, deleted, err
}

func (d *deletion) wait(timeoutMs int32) Reply {
	d.pending = NewPending()
	d.pending.OnAbandon(d.abandon)
	d.left.Store(int32(len(d.waits)) + 1)
	d.timer = d.h.Clock.AfterFunc(time.Duration(max(timeoutMs, 0))*time.Millisecond, d.timeout)
	for i, w := range d.waits {
		if parked, err := w.partition.AwaitLowWatermark(w.offset, d, i); !parked {
			d.Acked(i, err)
		}
	}
	d.oneLess()
	return Later(d.pending)
}

// Acked implements replica.Acker.
func (d *deletion) Acked(i int, err error) {
	w := &d.waits[i]
	low := int64(-1)
	if err == nil { // it may have moved on since, or back with a new replica
		now, _ := w.partition.LowWatermark()
		low = max(now, w.offset)
	}
	d.mu.Lock()
	if !d.mu.answered {
		row := &d.resp.Topics[w.topic].Partitions[w.row]
		row.LowWatermark, row.ErrorCode = low, int16(kafka.CodeOf(err))
	}
	d.mu.Unlock()
	d.oneLess()
}

func (d *deletion) oneLess() {
	if d.left.Add(-1) == 0 {
		d.timer.Stop()
		d.complete()
	}
}

func (d *deletion) timeout() {
	if d.complete() {
		d.forget()
	}
}

// abandon: the client is gone.
func (d *deletion) abandon() {
	d.timer.Stop()
	if d.end() {
		d.forget()
	}
}

func (d *deletion) forget() {
	for _, w := range d.waits {
		w.partition.Forget(d)
	}
}

// complete answers, unless that is done.
func (d *deletion) complete() bool {
	first := d.end()
	if first {
		d.pending.Complete(d.resp)
	}
	return first
}

// end reports whether it is the first: then the rows are not touched any more.
func (d *deletion) end() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := !d.mu.answered
	d.mu.answered = true
	return first
}
