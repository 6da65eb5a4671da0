package replica

import (
	"math"
	"runtime"

	"weir/internal/kafka"
	"weir/log"
)

// Isolation is what a consumer may see.
type Isolation int8

// The isolation levels of the protocol.
const (
	ReadUncommitted Isolation = 0
	ReadCommitted   Isolation = 1
)

// Special timestamps of ListOffsets.
const (
	TimestampLatest                int64 = -1
	TimestampEarliest              int64 = -2
	TimestampMax                   int64 = -3
	TimestampEarliestLocal         int64 = -4
	TimestampLatestTiered          int64 = -5
	TimestampEarliestPendingUpload int64 = -6
)

// Valid reports whether the protocol has such a level.
func (i Isolation) Valid() bool { return i == ReadUncommitted || i == ReadCommitted }

// ReadRequest is one partition's part of a Fetch.
type ReadRequest struct {
	Offset             int64
	MaxBytes           int
	AtLeastOne         bool // give the first batch even if it is larger than MaxBytes (KIP-74)
	Isolation          Isolation
	CurrentLeaderEpoch kafka.LeaderEpoch
	LastFetchedEpoch   kafka.LeaderEpoch // -1: the fetcher does not ask for divergence
	Replica            kafka.BrokerID    // that fetches as a follower; negative for consumers
}

// Records is a run of whole batches that lies in a segment file.
type Records = log.Records

// ReadResult holds records and the offsets that go with them. Records must be released.
type ReadResult struct {
	Records          Records
	HighWatermark    int64
	LastStableOffset int64
	LogStartOffset   int64
	Aborted          []log.AbortedTxn // transactions to skip, for ReadCommitted only
	Diverging        *EpochEnd        // where the fetcher's log left the leader's (KIP-595); no records then
	LeaderEpoch      kafka.LeaderEpoch
}

// EpochEnd is a leader epoch and its end offset (exclusive).
type EpochEnd struct {
	Epoch kafka.LeaderEpoch
	End   int64
}

// Read returns whole batches from the one that holds the offset, none at or above what the isolation level may see. An
// offset between that limit and the log's end gives no records and no error.
func (p *Partition) Read(r *ReadRequest) (ReadResult, error) {
	leader, err := p.requireLeader(r.CurrentLeaderEpoch)
	if err != nil {
		return ReadResult{}, err
	}
	if r.Replica >= 0 && !p.hasFollower(r.Replica) {
		return ReadResult{}, p.unknownReplica(r, leader)
	}
	// The watermark is read before the end: a batch that becomes visible meanwhile is served by the next fetch.
	result := ReadResult{HighWatermark: p.log.HighWatermark(), LeaderEpoch: leader.epoch}
	result.LastStableOffset = p.limit(ReadCommitted, result.HighWatermark)
	result.LogStartOffset = p.log.StartOffset()
	if diverging, err := p.divergence(r); err != nil || diverging != nil {
		result.Diverging = diverging
		return result, err
	}
	limit := p.limit(r.Isolation, result.HighWatermark)
	result.Records, err = p.log.Read(log.ReadRequest{Offset: r.Offset, MaxBytes: r.MaxBytes, EndOffset: limit, AtLeastOne: r.AtLeastOne})
	if err != nil {
		return result, err
	}
	if r.MaxBytes < 0 && r.Offset < limit { // Kafka trips over it while reading
		result.Records.Release()
		return ReadResult{}, kafka.Errorf(kafka.UnknownServerError, "Invalid max size %d for log read", r.MaxBytes)
	}
	if r.Isolation == ReadCommitted && result.Records.Len() > 0 {
		if result.Aborted, err = p.log.AbortedTxns(r.Offset, limit); err != nil {
			result.Records.Release()
			return ReadResult{}, err
		}
	}
	return result, nil
}

// limit is the offset (exclusive) up to which records may be seen, given the high watermark.
func (p *Partition) limit(isolation Isolation, highWatermark int64) int64 {
	if isolation == ReadCommitted {
		return min(highWatermark, p.log.LastStableOffset())
	}
	return highWatermark
}

// unknownReplica refuses a follower that the leader does not know, so that it asks again: with a leader epoch, which was
// found to be right, the pair of both is not known yet.
func (p *Partition) unknownReplica(r *ReadRequest, leader *leadership) error {
	code := kafka.NotLeaderOrFollower
	if r.CurrentLeaderEpoch != kafka.NoLeaderEpoch {
		code = kafka.UnknownLeaderEpoch
	}
	return &Error{code: code, TP: p.tp, Leader: p.self, LeaderEpoch: leader.epoch, detail: "the fetcher is not a replica of this partition"}
}

// Readable tells what min_bytes is compared with: the bytes from the offset up to what may be seen, at most MaxBytes, no
// matter where a batch ends. more says that records go on in another segment, where no read of these bytes can reach. As
// in Kafka (DelayedFetch, its cases F and G): a consumer whose min_bytes is what a partition may give at most would else
// wait for bytes that can never be added.
func (p *Partition) Readable(r *ReadRequest) (bytes int, more bool) {
	limit := p.limit(r.Isolation, p.log.HighWatermark())
	upTo := func(end int64) int {
		records, err := p.log.Read(log.ReadRequest{Offset: r.Offset, MaxBytes: math.MaxInt32, EndOffset: end})
		if err != nil {
			return 0 // the next Read tells of it
		}
		defer records.Release()
		return records.Len()
	}
	all := upTo(limit)
	// If the last batch below the limit is not among them they end in another segment.
	return min(all, max(r.MaxBytes, 0)), all > 0 && all == upTo(limit-1)
}

// divergence compares the fetcher's last epoch with the log's own (R21).
func (p *Partition) divergence(r *ReadRequest) (*EpochEnd, error) {
	if r.LastFetchedEpoch == kafka.NoLeaderEpoch {
		return nil, nil
	}
	if r.Offset < p.log.StartOffset() {
		return nil, log.ErrOffsetOutOfRange{TP: p.tp, Offset: r.Offset, Start: p.log.StartOffset(), End: p.log.EndOffset()}
	}
	epoch, end := p.log.EndOffsetForEpoch(r.LastFetchedEpoch)
	if epoch == kafka.NoLeaderEpoch {
		return nil, log.ErrOffsetOutOfRange{TP: p.tp, Offset: r.Offset, Start: p.log.StartOffset(), End: p.log.EndOffset()}
	}
	if epoch < r.LastFetchedEpoch || end < r.Offset {
		return &EpochEnd{Epoch: epoch, End: end}, nil
	}
	return nil, nil
}

// ListedOffset answers ListOffsets: -1 and -1 where nothing is at or after the timestamp.
type ListedOffset struct {
	Offset, Timestamp int64
	LeaderEpoch       kafka.LeaderEpoch
}

// ListOffset finds an offset by a special timestamp or by time, never past what the isolation level may see.
func (p *Partition) ListOffset(timestamp int64, isolation Isolation, current kafka.LeaderEpoch) (ListedOffset, error) {
	leader, err := p.requireLeader(current)
	if err != nil {
		return ListedOffset{}, err
	}
	hw := p.log.HighWatermark()
	limit := p.limit(isolation, hw)
	// A new leader whose high watermark has not reached the start of its epoch would answer with an offset that goes
	// back for consumers, and does not know yet that nothing is at or after a time (KIP-207).
	lagging := hw < leader.epochStart
	switch timestamp {
	case TimestampLatest:
		if lagging {
			return noOffset, p.offsetNotAvailable(leader)
		}
		return ListedOffset{Offset: limit, Timestamp: -1, LeaderEpoch: leader.epoch}, nil
	case TimestampEarliest, TimestampEarliestLocal:
		start := p.log.StartOffset()
		return ListedOffset{Offset: start, Timestamp: -1, LeaderEpoch: p.log.EpochForOffset(start)}, nil
	case TimestampLatestTiered, TimestampEarliestPendingUpload: // nothing is tiered
		return noOffset, nil
	}
	found, ok, err := p.offsetByTime(timestamp, limit)
	switch {
	case err != nil:
		return noOffset, err
	case ok:
		return ListedOffset{Offset: found.Offset, Timestamp: found.Timestamp, LeaderEpoch: found.LeaderEpoch}, nil
	case lagging:
		return noOffset, p.offsetNotAvailable(leader)
	}
	return noOffset, nil
}

var noOffset = ListedOffset{Offset: -1, Timestamp: -1, LeaderEpoch: kafka.NoLeaderEpoch}

// searching bounds for look-ups by time what decompressing bounds for appends: each reads one batch, whatever that
// decompresses to. They have slots of their own because they wait for the disk, too.
var searching = make(chan struct{}, runtime.GOMAXPROCS(0))

func (p *Partition) offsetByTime(timestamp, limit int64) (found log.OffsetAndTimestamp, ok bool, err error) {
	searching <- struct{}{}
	defer func() { <-searching }()
	if timestamp == TimestampMax {
		found, ok, err = p.log.MaxTimestamp()
		return found, ok && found.Offset < limit, err
	}
	return p.log.OffsetForTimestamp(timestamp, limit)
}

func (p *Partition) offsetNotAvailable(leader *leadership) error {
	return &Error{code: kafka.OffsetNotAvailable, TP: p.tp, Leader: p.self, LeaderEpoch: leader.epoch, detail: "the high watermark has not caught up with this leader epoch"}
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch (KIP-320): the largest epoch at or below the one asked and its end, or
// -1 and -1.
func (p *Partition) EndOffsetForEpoch(epoch, current kafka.LeaderEpoch) (EpochEnd, error) {
	if _, err := p.requireLeader(current); err != nil {
		return EpochEnd{Epoch: kafka.NoLeaderEpoch, End: -1}, err
	}
	e, end := p.log.EndOffsetForEpoch(epoch)
	return EpochEnd{Epoch: e, End: end}, nil
}

// DeleteRecords moves the log's start up to offset, or to the high watermark for -1, and returns the new start.
func (p *Partition) DeleteRecords(offset int64) (int64, error) {
	if _, err := p.requireLeader(kafka.NoLeaderEpoch); err != nil {
		return -1, err
	}
	config := p.config.Load().Log
	if config.CompactPolicy && !config.DeletePolicy {
		return -1, &Error{code: kafka.PolicyViolation, TP: p.tp, detail: "records of a topic that is only compacted cannot be deleted"}
	}
	hw := p.log.HighWatermark()
	if offset == -1 {
		offset = hw
	}
	if offset < 0 || offset > hw {
		return -1, log.ErrOffsetOutOfRange{TP: p.tp, Offset: offset, Start: p.log.StartOffset(), End: hw}
	}
	if offset > p.log.StartOffset() {
		if err := p.log.AdvanceStartOffset(offset); err != nil {
			return -1, err
		}
	}
	return p.log.StartOffset(), nil
}

// ProducerState is what a partition knows of one producer.
type ProducerState = log.ProducerState

// Producers describes the producers that the partition knows (KIP-664).
func (p *Partition) Producers() ([]ProducerState, error) {
	if _, err := p.requireLeader(kafka.NoLeaderEpoch); err != nil {
		return nil, err
	}
	return p.log.ActiveProducers(), nil
}
