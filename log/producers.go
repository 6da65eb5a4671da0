package log

import (
	"cmp"
	"math"
	"slices"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

// batchesPerProducer is how many of a producer's last batches are remembered, to know them when they come again: as many
// as clients may have in flight (max.in.flight.requests.per.connection of an idempotent producer).
const batchesPerProducer = 5

const noTxnFirstOffset int64 = -1 // on disk and in DescribeProducers: no transaction is open

// defaultProducerExpirationMs is Kafka's producer.id.expiration.ms: a day.
const defaultProducerExpirationMs = 24 * 60 * 60 * 1000

// ProducerState is one producer as DescribeProducers shows it.
type ProducerState struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // -1 if no batch of this epoch is known
	LastTimestamp    int64 // ms
	CoordinatorEpoch int32 // of the last marker, -1 before any
	TxnStartOffset   int64 // of the open transaction, -1 without one
}

// AppendedBatch is where a batch went that a producer has sent again.
type AppendedBatch struct {
	BaseOffset, LastOffset int64 // LastOffset is inclusive
	Timestamp              int64 // the batch's max timestamp in ms
}

// AbortedTxn is a transaction of which consumers that read what is committed must see nothing.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64 // of the marker
	LastStableOffset int64 // once the transaction had ended: no transaction that begins below it ends later than this one
}

// ProducerStates is what a log knows of its idempotent and transactional producers: enough to refuse batches that are
// out of order, to recognise ones that were appended before, and to know which transactions are open. It is a pure data
// structure under the log lock: the log checks a batch, writes it, then updates the state; after a crash it loads a
// snapshot and updates the state by the batches behind it. The rules are Kafka's (ProducerAppendInfo), and so are the
// messages, which clients log.
//
// A batch's header has the base offset that the batch gets or has.
type ProducerStates struct {
	tp           kafka.TopicPartition // for messages
	expirationMs int64
	producers    map[int64]*producer
	endOffset    int64

	// Both are in the order of first offsets. The first offset of a transaction that has ended is still unstable until
	// its marker is below the high watermark: a new leader may not have the marker.
	open  []openTxn
	ended []endedTxn
}

type openTxn struct{ producerID, firstOffset int64 }
type endedTxn struct{ firstOffset, lastOffset int64 }

// producer is the state of one producer id.
type producer struct {
	epoch            int16
	coordinatorEpoch int32
	lastTimestamp    int64
	txnFirstOffset   int64
	incomplete       bool // a snapshot told of the last batch, and the log may hold ones before
	count            int  // batches that are known, all of this epoch, the oldest first
	batches          [batchesPerProducer]producerBatch
}

type producerBatch struct {
	lastSequence int32
	offsetDelta  int32 // from the first to the last offset
	lastOffset   int64
	timestamp    int64
}

func newProducerBatch(h *batch.Header) producerBatch {
	return producerBatch{lastSequence: h.LastSequence(), offsetDelta: h.LastOffsetDelta, lastOffset: h.LastOffset(), timestamp: h.MaxTimestamp}
}

// NewProducerStates knows no producer yet. One is forgotten when nothing came from it for expirationMs by the time of
// its batches; 0 means Kafka's default.
func NewProducerStates(tp kafka.TopicPartition, expirationMs int64) *ProducerStates {
	return &ProducerStates{
		tp: tp, expirationMs: cmp.Or(expirationMs, defaultProducerExpirationMs), producers: map[int64]*producer{},
	}
}

// Check says whether a data batch with a producer id may be appended. A batch that was appended before, of which the
// client has not got the answer, is no error: its place is returned, and nothing must be appended. Batches of a
// coordinator have no sequence, and only their epoch is checked. What a leader has checked is not checked by followers.
//
// The errors have the codes INVALID_PRODUCER_EPOCH (never PRODUCER_FENCED, which would be fatal to clients),
// OUT_OF_ORDER_SEQUENCE_NUMBER and INVALID_TXN_STATE. A producer that is not known may begin with any sequence (KIP-360):
// its state may have expired, or retention may have taken its records.
func (s *ProducerStates) Check(h *batch.Header) (*AppendedBatch, error) {
	p := s.producers[h.ProducerID]
	if p == nil {
		return nil, nil
	}
	if previous := p.find(h); previous != nil {
		return previous, nil
	}
	transactional := h.Attributes.Transactional()
	switch {
	case h.ProducerEpoch < p.epoch && transactional:
		return nil, kafka.Errorf(kafka.InvalidProducerEpoch,
			"Epoch of producer %d is %d, which is smaller than the last seen epoch %d", h.ProducerID, h.ProducerEpoch, p.epoch)
	case h.ProducerEpoch < p.epoch:
		return nil, s.epochError(h, p, "<", -1)
	}
	if h.BaseSequence != batch.NoSequence {
		if err := s.checkSequence(h, p); err != nil {
			return nil, err
		}
	}
	if p.txnFirstOffset >= 0 && !transactional {
		return nil, kafka.Errorf(kafka.InvalidTxnState,
			"Expected transactional write from producer %d at offset (offset=%d, segment=[-1:-1]) in partition %v",
			h.ProducerID, h.BaseOffset, s.tp)
	}
	return nil, nil
}

func (s *ProducerStates) checkSequence(h *batch.Header, p *producer) error {
	if h.ProducerEpoch != p.epoch {
		if h.BaseSequence == 0 || p.epoch == batch.NoProducerEpoch { // a first epoch may begin anywhere, as Kafka has it
			return nil
		}
		return kafka.Errorf(kafka.OutOfOrderSequenceNumber,
			"Invalid sequence number for new epoch of producer %d at offset %d in partition %v: %d (request epoch), %d (seq. number), %d (current producer epoch)",
			h.ProducerID, h.BaseOffset, s.tp, h.ProducerEpoch, h.BaseSequence, p.epoch)
	}
	last := p.lastSequence()
	if h.BaseSequence == batch.AddSequence(last, 1) {
		return nil
	}
	return kafka.Errorf(kafka.OutOfOrderSequenceNumber,
		"Out of order sequence number for producer %d at offset %d in partition %v: %d (incoming seq. number), %d (current end sequence number)",
		h.ProducerID, h.BaseOffset, s.tp, h.BaseSequence, last)
}

// CheckMarker says whether a transaction marker may be appended. transactionVersion is that of the coordinator's request:
// from version 2 on the marker has an epoch above that of the transaction (KIP-890), so that the same epoch is only right
// for a marker that is sent again, or when the epochs of the producer id are used up.
func (s *ProducerStates) CheckMarker(h *batch.Header, coordinatorEpoch int32, transactionVersion int16) error {
	p := s.producers[h.ProducerID]
	if p == nil {
		return nil
	}
	switch {
	case transactionVersion < 2 && h.ProducerEpoch < p.epoch:
		return s.epochError(h, p, "<", transactionVersion)
	case transactionVersion >= 2 && h.ProducerEpoch <= p.epoch:
		again := h.ProducerEpoch == p.epoch && (p.txnFirstOffset < 0 || h.ProducerEpoch == math.MaxInt16)
		if !again {
			return s.epochError(h, p, "<=", transactionVersion)
		}
	}
	if coordinatorEpoch < p.coordinatorEpoch {
		return kafka.Errorf(kafka.TransactionCoordinatorFenced,
			"Invalid coordinator epoch for producerId %d at offset %d in partition %v: %d (zombie), %d (current)",
			h.ProducerID, h.BaseOffset, s.tp, coordinatorEpoch, p.coordinatorEpoch)
	}
	return nil
}

func (s *ProducerStates) epochError(h *batch.Header, p *producer, relation string, transactionVersion int16) error {
	return kafka.Errorf(kafka.InvalidProducerEpoch,
		"Epoch of producer %d at offset %d in %v is %d, which is %s the last seen epoch %d (TV%d)",
		h.ProducerID, h.BaseOffset, s.tp, h.ProducerEpoch, relation, p.epoch, transactionVersion)
}

// Update takes note of a data batch that was appended.
func (s *ProducerStates) Update(h *batch.Header) {
	p := s.producer(h)
	p.add(newProducerBatch(h))
	p.lastTimestamp = h.MaxTimestamp
	if h.Attributes.Transactional() && p.txnFirstOffset < 0 {
		p.txnFirstOffset = h.BaseOffset
		s.begin(openTxn{producerID: h.ProducerID, firstOffset: h.BaseOffset})
	}
}

// UpdateMarker takes note of a transaction marker that was appended. If it aborts a transaction that wrote to this
// partition, what belongs into the transaction index is returned.
func (s *ProducerStates) UpdateMarker(h *batch.Header, commit bool, coordinatorEpoch int32) (txn AbortedTxn, aborted bool) {
	p := s.producer(h)
	p.coordinatorEpoch = coordinatorEpoch
	p.lastTimestamp = h.MaxTimestamp
	if p.txnFirstOffset < 0 {
		return AbortedTxn{}, false // the transaction wrote nothing here, or the marker came twice
	}
	first := p.txnFirstOffset
	p.txnFirstOffset = noTxnFirstOffset
	stable := s.end(first, h.BaseOffset)
	if commit {
		return AbortedTxn{}, false
	}
	return AbortedTxn{ProducerID: h.ProducerID, FirstOffset: first, LastOffset: h.BaseOffset, LastStableOffset: stable}, true
}

// producer finds or makes the state of the batch's producer, in the batch's epoch.
func (s *ProducerStates) producer(h *batch.Header) *producer {
	p := s.producers[h.ProducerID]
	if p == nil {
		p = &producer{epoch: h.ProducerEpoch, coordinatorEpoch: -1, txnFirstOffset: noTxnFirstOffset}
		s.producers[h.ProducerID] = p
	}
	if p.epoch != h.ProducerEpoch {
		p.epoch, p.count, p.incomplete = h.ProducerEpoch, 0, false
	}
	return p
}

func (s *ProducerStates) begin(txn openTxn) {
	at, _ := slices.BinarySearchFunc(s.open, txn, func(a, b openTxn) int { return cmp.Compare(a.firstOffset, b.firstOffset) })
	s.open = slices.Insert(s.open, at, txn)
}

// end moves a transaction from the open to the ended ones, and returns the last stable offset after it, as far as open
// transactions determine it.
func (s *ProducerStates) end(firstOffset, lastOffset int64) (lastStableOffset int64) {
	s.open = slices.DeleteFunc(s.open, func(t openTxn) bool { return t.firstOffset == firstOffset })
	txn := endedTxn{firstOffset, lastOffset}
	at, _ := slices.BinarySearchFunc(s.ended, txn, func(a, b endedTxn) int { return cmp.Compare(a.firstOffset, b.firstOffset) })
	s.ended = slices.Insert(s.ended, at, txn)
	if len(s.open) > 0 {
		return s.open[0].firstOffset
	}
	return lastOffset + 1
}

// FirstUnstableOffset is the first offset of a transaction that is open, or whose end is not below the high watermark.
func (s *ProducerStates) FirstUnstableOffset() (offset int64, ok bool) {
	offset = math.MaxInt64
	if len(s.open) > 0 {
		offset = s.open[0].firstOffset
	}
	if len(s.ended) > 0 {
		offset = min(offset, s.ended[0].firstOffset)
	}
	return offset, offset != math.MaxInt64
}

// Stabilize lets go of the transactions that ended below an offset: the high watermark, or a new start of the log.
func (s *ProducerStates) Stabilize(offset int64) {
	if len(s.ended) > 0 {
		s.ended = slices.DeleteFunc(s.ended, func(t endedTxn) bool { return t.lastOffset < offset })
	}
}

// Expire forgets producers without an open transaction whose last batch is old.
func (s *ProducerStates) Expire(nowMs int64) {
	for id, p := range s.producers {
		if s.expired(p, nowMs) {
			delete(s.producers, id)
		}
	}
}

func (s *ProducerStates) expired(p *producer, nowMs int64) bool {
	return p.txnFirstOffset < 0 && nowMs-p.lastTimestamp >= s.expirationMs
}

// Len is the number of producers that are known.
func (s *ProducerStates) Len() int { return len(s.producers) }

// EndOffset is the log's end that the state belongs to: all batches below it are in the state.
func (s *ProducerStates) EndOffset() int64 { return s.endOffset }

// SetEndOffset says that all batches below offset are in the state.
func (s *ProducerStates) SetEndOffset(offset int64) { s.endOffset = offset }

// Reset forgets everything.
func (s *ProducerStates) Reset(endOffset int64) {
	clear(s.producers)
	s.open, s.ended, s.endOffset = nil, nil, endOffset
}

// Active lists the producers by id.
func (s *ProducerStates) Active() []ProducerState {
	active := make([]ProducerState, 0, len(s.producers))
	for id, p := range s.producers {
		active = append(active, ProducerState{
			ProducerID: id, Epoch: p.epoch, LastSequence: p.lastSequence(), LastTimestamp: p.lastTimestamp,
			CoordinatorEpoch: p.coordinatorEpoch, TxnStartOffset: p.txnFirstOffset,
		})
	}
	slices.SortFunc(active, func(a, b ProducerState) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return active
}

// incomplete reports whether batches of h's producer and epoch may be missing that lie before an offset.
func (s *ProducerStates) incomplete(h *batch.Header) (before int64, ok bool) {
	p := s.producers[h.ProducerID]
	if p == nil || !p.incomplete || p.epoch != h.ProducerEpoch || p.count == 0 {
		return 0, false
	}
	return p.batches[0].lastOffset - int64(p.batches[0].offsetDelta), true
}

// recall takes the batches that were missing, the oldest first.
func (s *ProducerStates) recall(h *batch.Header, older []producerBatch) {
	p := s.producers[h.ProducerID]
	known := p.batches
	newer := known[:p.count]
	p.incomplete, p.count = false, 0
	for _, b := range older {
		p.add(b)
	}
	for _, b := range newer {
		p.add(b)
	}
}

// find looks for a batch with the same epoch and sequences.
func (p *producer) find(h *batch.Header) *AppendedBatch {
	if h.ProducerEpoch != p.epoch || h.BaseSequence == batch.NoSequence {
		return nil
	}
	for _, b := range p.batches[:p.count] {
		if b.lastSequence == h.LastSequence() && b.offsetDelta == h.LastOffsetDelta {
			return &AppendedBatch{BaseOffset: b.lastOffset - int64(b.offsetDelta), LastOffset: b.lastOffset, Timestamp: b.timestamp}
		}
	}
	return nil
}

func (p *producer) add(b producerBatch) {
	if p.count == batchesPerProducer {
		copy(p.batches[:], p.batches[1:])
		p.count--
	}
	p.batches[p.count] = b
	p.count++
}

// last is the newest batch, or what a snapshot says where there is none.
func (p *producer) last() producerBatch {
	if p.count == 0 {
		return producerBatch{lastSequence: batch.NoSequence, lastOffset: -1, timestamp: p.lastTimestamp}
	}
	return p.batches[p.count-1]
}

func (p *producer) lastSequence() int32 { return p.last().lastSequence }
