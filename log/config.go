package log

import (
	"math"
	"time"
)

// Config is what a topic's configuration says about a log. It may change while the log is open (SetConfig).
type Config struct {
	SegmentBytes       int32 // segment.bytes: a segment that would grow beyond it is rolled first
	SegmentMs          int64 // segment.ms, measured from the first batch's timestamp as Kafka does
	SegmentJitterMs    int64 // segment.jitter.ms: up to this much is taken from SegmentMs, differently for each segment
	IndexBytes         int32 // segment.index.bytes: a segment whose index would grow beyond it is rolled
	IndexIntervalBytes int32 // index.interval.bytes: bytes between two entries of the sparse indexes
	RetentionMs        int64 // retention.ms; -1 keeps for ever
	RetentionBytes     int64 // retention.bytes of this partition; -1 has no limit
	DeletePolicy       bool  // cleanup.policy contains delete
	CompactPolicy      bool  // cleanup.policy contains compact
	FlushMessages      int64 // flush.messages: how many records may be acknowledged before they are durable
	FlushMs            int64 // flush.ms: how long a record may wait in memory before it is made durable
	FileDeleteDelayMs  int64 // file.delete.delay.ms: how long a deleted partition's directory stays
	Preallocate        bool  // preallocate: reserve space ahead of a segment that has grown past 16 MiB
}

// DefaultConfig has Kafka's defaults.
func DefaultConfig() Config {
	return Config{
		SegmentBytes:       1 << 30,
		SegmentMs:          7 * 24 * 3600 * 1000,
		IndexBytes:         10 << 20,
		IndexIntervalBytes: 4096,
		RetentionMs:        7 * 24 * 3600 * 1000,
		RetentionBytes:     -1,
		DeletePolicy:       true,
		FlushMessages:      math.MaxInt64,
		FlushMs:            math.MaxInt64,
		FileDeleteDelayMs:  60_000,
	}
}

// Limits of this package, each with its reason.
const (
	// flushBytes is how much one log may hold in memory only before a flush is asked for out of turn. It bounds what
	// recovery has to read.
	flushBytes = 64 << 20
	// scanBytes is read at a time by recovery and look-ups that walk a segment: large enough for the disk's full
	// speed, small enough to have one per core.
	scanBytes = 1 << 20
	// preallocateStep is reserved at a time, and only in segments that have grown to it: reserving from the start
	// would fill a disk with the reserves of idle partitions.
	preallocateStep = 16 << 20
	// tailBoundaries is how many batch boundaries at the log's end are kept in memory, so that consumers and followers
	// at the tail are served without an index and without reading headers.
	tailBoundaries = 64
	// defaultOpenFiles leaves most of the usual 1024 or more descriptors to connections.
	defaultOpenFiles = 500
	// defaultRecoveries is how many logs are opened at a time: recovery reads the disk and computes checksums by turns.
	defaultRecoveries = 4
	// eventQueue is how many events may wait for the tasks. What finds it full, the next tick sees to.
	eventQueue = 1024
	// maxSegmentSize is what an index's int32 position can point into, less one batch of any size.
	maxSegmentSize = math.MaxInt32
)

func (c Config) fileDeleteDelay() time.Duration { return milliseconds(c.FileDeleteDelayMs) }

func (c Config) flushInterval() time.Duration { return milliseconds(c.FlushMs) }

// milliseconds is a duration, the longest there is for more than that: Kafka's "never" is 2^63-1 ms.
func milliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
