package replica

import (
	"math"
	"runtime"
	"time"

	"weir/internal/kafka"
	"weir/log"
)

// Isolation is up to where a reader may see.
type Isolation int8

const (
	// UpToLogEnd is what followers see. It is no level of the protocol.
	UpToLogEnd Isolation = -1
	// ReadUncommitted and ReadCommitted are the levels that consumers choose from.
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
	AtLeastOne         bool      // give the first batch even if it is larger than MaxBytes (KIP-74)
	Isolation          Isolation // of a consumer; a follower reads up to the log's end
	CurrentLeaderEpoch kafka.LeaderEpoch
	LastFetchedEpoch   kafka.LeaderEpoch // -1: the fetcher does not ask for divergence

	Replica      kafka.BrokerID    // that fetches as a follower; negative for consumers
	ReplicaEpoch kafka.BrokerEpoch // of the follower's incarnation (KIP-903); -1 where it does not say
	LogStart     int64             // of the follower
	// Fetched is when the follower's fetch came: it has everything below Offset. Zero where that was told already, when the
	// same fetch looks once more.
	Fetched time.Time

	AnyReplica bool // a consumer reads from a follower, too (KIP-392)
	// Near tells which brokers a consumer would rather read from than from this leader; nil: none. It takes no lock.
	Near func(kafka.BrokerID) bool
}

func (r *ReadRequest) isolation() Isolation {
	if r.Replica >= 0 {
		return UpToLogEnd
	}
	return r.Isolation
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
	PreferredReplica kafka.BrokerID   // that the consumer shall read from instead (KIP-392), no records then; else NoBroker
	LeaderEpoch      kafka.LeaderEpoch
}

// EpochEnd is a leader epoch and its end offset (exclusive).
type EpochEnd struct {
	Epoch kafka.LeaderEpoch
	End   int64
}

// Read returns whole batches from the one that holds the offset, none at or above what the reader may see. An offset
// between that limit and the log's end gives no records and no error. Followers fetch from the leader alone; consumers that
// may read from AnyReplica see at a follower what is below the high watermark that it knows.
func (p *Partition) Read(r *ReadRequest) (ReadResult, error) {
	if r.Replica >= 0 {
		return p.readAsFollower(r)
	}
	epoch, err := p.requireReadable(r)
	if err != nil {
		return ReadResult{}, err
	}
	// The watermark is read before the end: a batch that becomes visible meanwhile is served by the next fetch.
	result := p.offsets(epoch)
	if r.Near != nil {
		if result.PreferredReplica = p.preferredReplica(r); result.PreferredReplica != kafka.NoBroker {
			return result, nil
		}
	}
	if diverging, err := p.divergence(r); err != nil || diverging != nil {
		result.Diverging = diverging
		return result, err
	}
	limit := p.limit(r.Isolation, result.HighWatermark)
	if err := p.readUpTo(limit, r, &result); err != nil {
		return result, err
	}
	if r.Isolation == ReadCommitted && result.Records.Len() > 0 {
		if result.Aborted, err = p.log.AbortedTxns(r.Offset, limit); err != nil {
			result.Records.Release()
			return ReadResult{}, err
		}
	}
	return result, nil
}

// offsets begins a result with what goes with the records.
func (p *Partition) offsets(epoch kafka.LeaderEpoch) ReadResult {
	hw := p.log.HighWatermark()
	return ReadResult{HighWatermark: hw, LastStableOffset: p.limit(ReadCommitted, hw), LogStartOffset: p.log.StartOffset(), PreferredReplica: kafka.NoBroker,
		LeaderEpoch: epoch}
}

// readUpTo adds the records below limit to the result.
func (p *Partition) readUpTo(limit int64, r *ReadRequest, result *ReadResult) (err error) {
	result.Records, err = p.log.Read(log.ReadRequest{Offset: r.Offset, MaxBytes: r.MaxBytes, EndOffset: limit, AtLeastOne: r.AtLeastOne})
	if err == nil && r.MaxBytes < 0 && r.Offset < limit { // Kafka trips over it while reading
		result.Records.Release()
		*result = ReadResult{}
		return kafka.Errorf(kafka.UnknownServerError, "Invalid max size %d for log read", r.MaxBytes)
	}
	return err
}

// limit is the offset (exclusive) up to which records may be seen, given the high watermark.
func (p *Partition) limit(isolation Isolation, highWatermark int64) int64 {
	switch isolation {
	case UpToLogEnd:
		return p.log.EndOffset()
	case ReadCommitted:
		return min(highWatermark, p.log.LastStableOffset())
	}
	return highWatermark
}

// Readable tells what min_bytes is compared with: the bytes from the offset up to what may be seen, at most MaxBytes, no
// matter where a batch ends. more says that records go on in another segment, where no read of these bytes can reach. As
// in Kafka (DelayedFetch, its cases F and G): a consumer whose min_bytes is what a partition may give at most would else
// wait for bytes that can never be added.
func (p *Partition) Readable(r *ReadRequest) (bytes int, more bool) {
	if r.Replica >= 0 && p.Throttles(r.Replica) {
		return 0, false
	}
	limit := p.limit(r.isolation(), p.log.HighWatermark())
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

// ListedOffset answers ListOffsets: -1 and -1 where nothing is at or after the timestamp.
type ListedOffset struct {
	Offset, Timestamp int64
	LeaderEpoch       kafka.LeaderEpoch
}

// ListOffset finds an offset by a special timestamp or by time, never past what the isolation level may see. A follower
// that finds out where its leader's log ends asks with UpToLogEnd.
func (p *Partition) ListOffset(timestamp int64, isolation Isolation, current kafka.LeaderEpoch) (ListedOffset, error) {
	leader, err := p.requireLeader(current)
	if err != nil {
		return ListedOffset{}, err
	}
	return p.listOffset(timestamp, isolation, leader)
}

// ListOwnOffset is ListOffset up to the log's end for whoever wants to know it of this very replica, which need not lead.
func (p *Partition) ListOwnOffset(timestamp int64, current kafka.LeaderEpoch) (ListedOffset, error) {
	epoch, err := p.requireReplica(current)
	if err != nil {
		return ListedOffset{}, err
	}
	return p.listOffset(timestamp, UpToLogEnd, &leadership{epoch: epoch})
}

func (p *Partition) listOffset(timestamp int64, isolation Isolation, leader *leadership) (ListedOffset, error) {
	hw := p.log.HighWatermark()
	limit := p.limit(isolation, hw)
	// A new leader whose high watermark has not reached the start of its epoch would answer with an offset that goes
	// back for consumers, and does not know yet that nothing is at or after a time (KIP-207).
	lagging := isolation != UpToLogEnd && hw < leader.epochStart
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

// ProducerState is what a partition knows of one producer.
type ProducerState = log.ProducerState

// Producers describes the producers that the partition knows (KIP-664). A follower knows them as well as the leader.
func (p *Partition) Producers() []ProducerState { return p.log.ActiveProducers() }
