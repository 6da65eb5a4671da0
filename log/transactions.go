package log

import (
	"errors"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

// AppendMarker appends the control batch that ends a transaction, as its coordinator asks for. transactionVersion is that
// of the coordinator's request.
//
// Errors: those of AppendAsLeader; INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED for a coordinator or a
// transaction that is no longer the newest.
func (l *Log) AppendMarker(epoch kafka.LeaderEpoch, v batch.Validated, transactionVersion int16) (AppendResult, error) {
	marker, err := readMarker(v.Bytes)
	if err != nil {
		return AppendResult{}, err
	}
	l.mu.Lock()
	err = l.mu.producers.CheckMarker(&v.Header, marker.CoordinatorEpoch, transactionVersion)
	r := AppendResult{}
	if err == nil {
		r, err = l.appendAsLeaderLocked(epoch, &v)
	}
	l.mu.Unlock()
	l.afterAppend(err)
	return r, err
}

// readMarker reads the record of a control batch.
func readMarker(b []byte) (batch.EndTxnMarker, error) {
	for r, err := range batch.Records(b) {
		if err != nil {
			return batch.EndTxnMarker{}, err
		}
		return batch.ParseEndTxnMarker(r)
	}
	return batch.EndTxnMarker{}, errors.New("control batch without a record")
}

// updateProducers takes note of what a batch with a producer id says about its producer, and returns the transaction that
// it aborts, if it does.
func (l *Log) updateProducers(states *ProducerStates, h *batch.Header, b []byte) (txn AbortedTxn, aborted bool) {
	if !h.Attributes.Control() {
		states.Update(h)
		return AbortedTxn{}, false
	}
	marker, err := readMarker(b)
	if err != nil {
		// A kind of control record that is not known ends no transaction; Kafka passes over it too.
		l.logger.Warn("control batch is no transaction marker", "partition", l.tp, "offset", h.BaseOffset, "err", err)
		return AbortedTxn{}, false
	}
	return states.UpdateMarker(h, marker.Type == batch.Commit, marker.CoordinatorEpoch)
}

// publishUnstableLocked publishes where the first transaction begins that is open or may still become so.
func (l *Log) publishUnstableLocked() {
	l.mu.producers.Stabilize(l.highWatermark.Load())
	first, ok := l.mu.producers.FirstUnstableOffset()
	if !ok {
		l.firstUnstable.Store(noUnstableOffset)
		return
	}
	l.firstUnstable.Store(max(first, l.startOffset.Load()))
}

// AbortedTxns lists the transactions that consumers of committed records must leave out of [from, to): all that overlap
// it. They come in the order of their markers, as Kafka gives them.
func (l *Log) AbortedTxns(from, to int64) ([]AbortedTxn, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	var txns []AbortedTxn
	set := l.segments.Load()
	for i := set.floor(from); i < len(set.all); i++ {
		var complete bool
		var err error
		if txns, complete, err = set.all[i].aborted(txns, from, to); err != nil {
			return nil, l.readError(err)
		}
		if complete {
			break
		}
	}
	return txns, nil
}
