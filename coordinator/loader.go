package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"weir/protocol/batch"
)

const (
	loadBytes = 1 << 20 // read at a time
	slowLoad  = time.Second
)

// load folds all records of the partition into a new shard. The error names the offset and what is wrong there.
func (a *actor) load() error {
	a.shard = a.runtime.New()
	start, end := a.partition.Offsets()
	if start < end {
		a.runtime.loading <- struct{}{} // soon: the loads that are over end, too
		defer func() { <-a.runtime.loading }()
		began := a.runtime.Clock.Now()
		records, err := a.replay(start, end)
		if err != nil {
			return err
		}
		took := a.runtime.Clock.Now().Sub(began)
		a.runtime.metrics.loads.Observe(took)
		level := slog.LevelDebug // there may be fifty of them
		if took >= slowLoad {
			level = slog.LevelInfo
		}
		a.runtime.Logger.Log(context.Background(), level, "a coordinator's partition is loaded", "partition", a.tp, "leader_epoch", a.epoch, "records", records, "took", took)
	}
	a.appends.written++ // what the log holds counts as one append
	isCommitted, err := a.partition.Await(a.epoch, end, a.onCommitted(a.appends.written))
	if err != nil {
		return fmt.Errorf("%w: %w", errDeposed, err)
	}
	if isCommitted {
		a.appends.committed = a.appends.written
	}
	return nil
}

// replay reads the batches below end.
func (a *actor) replay(offset, end int64) (records int, err error) {
	buf := make([]byte, 0, min(loadBytes, a.partition.MaxBatchBytes()))
	for offset < end {
		if a.mailbox.isOver() {
			return records, errStopped
		}
		chunk, err := a.partition.Read(buf, offset, end)
		if err != nil {
			return records, fmt.Errorf("%w: read from offset %d: %w", errUnread, offset, err)
		}
		if len(chunk) == 0 { // compaction took the last records
			return records, nil
		}
		for b, err := range batch.Batches(chunk) {
			if err != nil {
				return records, fmt.Errorf("read from offset %d: %w", offset, err)
			}
			n, next, err := a.replayBatch(b)
			records += n
			if err != nil {
				return records, err
			}
			offset = max(offset, next)
		}
		buf = chunk[:0]
	}
	return records, nil
}

// replayBatch applies the records of one batch and returns the offset after it. Markers of transactions are passed over:
// nothing is appended in a transaction here.
func (a *actor) replayBatch(b []byte) (records int, next int64, err error) {
	h, err := batch.CheckStored(b)
	if err != nil {
		return 0, 0, fmt.Errorf("batch at offset %d: %w", h.BaseOffset, err)
	}
	if h.Attributes.Control() {
		return 0, h.NextOffset(), nil
	}
	for r, err := range batch.Records(b) {
		if err != nil {
			return records, 0, fmt.Errorf("batch at offset %d: %w", h.BaseOffset, err)
		}
		if err := a.shard.Apply(ownRecord(&h, &r)); err != nil {
			return records, 0, fmt.Errorf("record at offset %d: %w", h.RecordOffset(r), err)
		}
		records++
	}
	return records, h.NextOffset(), nil
}

// ownRecord copies a record out of its batch, whose memory is used again.
func ownRecord(h *batch.Header, r *batch.Record) Record {
	out := Record{Timestamp: h.RecordTimestamp(*r)}
	bytes := make([]byte, len(r.Key)+len(r.Value))
	n := copy(bytes, r.Key)
	copy(bytes[n:], r.Value)
	if r.Key != nil {
		out.Key = bytes[:n:n]
	}
	if r.Value != nil {
		out.Value = bytes[n:]
	}
	return out
}
