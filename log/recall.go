package log

import (
	"errors"
	"io"

	"weir/protocol/batch"
)

// recallOffsets is how far back a producer's batches are looked for, in offsets. It bounds the time under the log lock; a
// client has at most five batches under way, and they lie close together.
const recallOffsets = 100_000

// recallLocked completes what is known of a batch's producer after a restart. Snapshots have Kafka's format, which keeps
// of each producer the last batch only. A client whose answers were lost in the stop sends the ones before again, and must
// be told that they are there, not that they are out of order. So the log itself is asked, once for each producer, when a
// batch does not fit what the snapshot says. It reports whether that changed anything.
func (l *Log) recallLocked(h *batch.Header) (bool, error) {
	before, ok := l.mu.producers.incomplete(h)
	if !ok {
		return false, nil
	}
	var older []producerBatch
	set := l.segments.Load()
	from := max(before-recallOffsets, l.startOffset.Load())
	for i := set.floor(from); i < len(set.all) && set.all[i].baseOffset < before; i++ {
		found, err := set.all[i].batchesOf(h, from, before)
		if err != nil {
			return false, err
		}
		older = append(older, found...)
	}
	l.mu.producers.recall(h, older)
	return len(older) > 0, nil
}

// batchesOf finds the batches of h's producer and epoch in [from, before), the newest few, the oldest first.
func (s *segment) batchesOf(h *batch.Header, from, before int64) ([]producerBatch, error) {
	first, err := s.find(from)
	if err != nil {
		return nil, err
	}
	w, err := s.walk(first.pos, s.end.Load())
	if err != nil {
		return nil, err
	}
	defer w.release()
	var found []producerBatch
	for {
		b, err := w.next()
		switch {
		case errors.Is(err, io.EOF), err == nil && b.BaseOffset >= before:
			return found, nil
		case err != nil:
			return nil, err
		}
		if b.ProducerID == h.ProducerID && b.ProducerEpoch == h.ProducerEpoch && b.BaseSequence != batch.NoSequence {
			if len(found) == batchesPerProducer {
				found = append(found[:0], found[1:]...)
			}
			found = append(found, newProducerBatch(&b))
		}
	}
}
