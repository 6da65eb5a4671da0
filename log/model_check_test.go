package log

import (
	"bytes"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

// verify compares the log with the model: all batches in order, and some look-ups.
func (w *world) verify(tp kafka.TopicPartition, lookups int) {
	m, l := w.models[tp], w.log(tp)
	if l.EndOffset() != m.end || l.StartOffset() != m.start {
		w.fatalf("%v is [%d, %d), not [%d, %d)", tp, l.StartOffset(), l.EndOffset(), m.start, m.end)
	}
	var visible []modelBatch
	for _, b := range m.batches {
		if b.last >= m.start {
			visible = append(visible, b)
		}
	}
	at, rest := m.start, visible
	for at < m.end {
		r, err := l.Read(ReadRequest{Offset: at, MaxBytes: w.rng.IntN(3000), EndOffset: m.end, AtLeastOne: true})
		w.must(err)
		if r.Len() == 0 {
			break
		}
		for _, b := range w.batchesOf(r) {
			if len(rest) == 0 || !bytes.Equal(b, rest[0].bytes) {
				h, _ := batch.ParseHeader(b)
				w.fatalf("%v has at %d what is not in the model: %+v", tp, at, h)
			}
			if e := l.EpochForOffset(rest[0].base); rest[0].base >= max(m.start, m.deleted) && e != rest[0].epoch {
				w.fatalf("%v: epoch at %d is %d, not %d", tp, rest[0].base, e, rest[0].epoch)
			}
			at = rest[0].last + 1
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		for _, seg := range l.segments.Load().all {
			b, err := seg.find(at)
			w.logf("seg %d next %d end %d: find(%d) %v %v", seg.baseOffset, seg.next.Load(), seg.end.Load(), at, b, err)
		}
		w.fatalf("%v: the read ended at %d before the batch at %d", tp, at, rest[0].base)
	}
	for range lookups {
		w.verifyRead(tp, m, l, visible)
		w.verifyTime(tp, m, l, visible)
	}
	w.verifyProducers(tp, m, l)
}

func (w *world) batchesOf(r Records) (batches [][]byte) {
	defer r.Release()
	p := make([]byte, r.Len())
	_, err := r.ReadAt(p, 0)
	w.must(err)
	for b, err := range batch.Batches(p) {
		w.must(err)
		w.must(batch.CheckCRC(b))
		batches = append(batches, b)
	}
	return batches
}

// verifyRead reads from a random offset up to a random limit.
func (w *world) verifyRead(tp kafka.TopicPartition, m *model, l *Log, visible []modelBatch) {
	offset := m.start + w.rng.Int64N(m.end-m.start+1)
	limit := m.start + w.rng.Int64N(m.end-m.start+1)
	maxBytes, atLeastOne := w.rng.IntN(2000), w.rng.IntN(2) == 0
	r, err := l.Read(ReadRequest{Offset: offset, MaxBytes: maxBytes, EndOffset: limit, AtLeastOne: atLeastOne})
	w.must(err)
	got := w.batchesOf(r)
	var want []modelBatch
	size := 0
	if offset < limit {
		for _, b := range visible {
			if b.last >= offset && b.last < limit {
				want = append(want, b)
			}
		}
	}
	for i, b := range got {
		if i >= len(want) || !bytes.Equal(b, want[i].bytes) {
			w.fatalf("%v: read of %d below %d gives as batch %d of %d: %x", tp, offset, limit, i, len(got), b)
		}
		size += len(b)
	}
	if size > maxBytes && !(len(got) == 1 && atLeastOne) {
		w.fatalf("%v: read of %d bytes gives %d in %d batches", tp, maxBytes, size, len(got))
	}
	if len(got) == 0 && len(want) > 0 && (atLeastOne || len(want[0].bytes) <= maxBytes) {
		// Out of one segment only: the rest of it may be a gap, but then the next one is read.
		w.fatalf("%v: read of %d below %d, %d bytes, gives nothing; there is [%d, %d]", tp, offset, limit, maxBytes, want[0].base, want[0].last)
	}
}

// verifyTime looks for a random time.
func (w *world) verifyTime(tp kafka.TopicPartition, m *model, l *Log, visible []modelBatch) {
	if len(visible) == 0 {
		return
	}
	some := visible[w.rng.IntN(len(visible))]
	ts := some.times[w.rng.IntN(len(some.times))] + w.rng.Int64N(5) - 2
	wantOffset, wantTime := int64(-1), int64(-1)
	latestOffset, latest := int64(-1), int64(-1)
	for _, b := range visible {
		for i, at := range b.times {
			offset := b.base + int64(i)
			if offset < m.start {
				continue
			}
			if at >= ts && wantOffset < 0 {
				wantOffset, wantTime = offset, at
			}
			if at > latest {
				latestOffset, latest = offset, at
			}
		}
	}
	at, found, err := l.OffsetForTimestamp(ts, m.end)
	w.must(err)
	if found != (wantOffset >= 0) || found && (at.Offset != wantOffset || at.Timestamp != wantTime) {
		w.fatalf("%v: time %d is found %v at %+v, not at %d (%d)", tp, ts, found, at, wantOffset, wantTime)
	}
	at, found, err = l.MaxTimestamp()
	w.must(err)
	if found != (latestOffset >= 0) || found && (at.Offset != latestOffset || at.Timestamp != latest) {
		w.fatalf("%v: the latest time is found %v at %+v, not at %d (%d)", tp, found, at, latestOffset, latest)
	}
}

// verifyProducers sends each producer's last batch again.
func (w *world) verifyProducers(tp kafka.TopicPartition, m *model, l *Log) {
	lasts := map[int64]modelBatch{}
	for _, b := range m.batches {
		if b.producer >= 0 {
			lasts[b.producer] = b
		}
	}
	first := l.segments.Load().all[0].baseOffset
	for _, b := range lasts {
		if b.base < first {
			continue // its records are gone, and so may be the producer's state
		}
		r, err := l.AppendAsLeader(m.epoch, batch.Trusted(bytes.Clone(b.bytes)))
		w.must(err)
		if !r.Duplicate || r.BaseOffset != b.base || r.LastOffset != b.last {
			w.fatalf("%v: batch [%d, %d] of producer %d, sent again, is %+v", tp, b.base, b.last, b.producer, r)
		}
	}
}
