package broker

import (
	"math"
	"time"
)

// Limits bound what clients may take of a broker. They hold before anything is known of who connects. The limits by
// address and by rate do not count loopback, where they would only meet the host's own programs.
type Limits struct {
	MaxRequestBytes int32 // largest frame (socket.request.max.bytes); single keys have less, see protocol.API

	// InFlightBytes bounds the memory of frames from their first byte to their reply, all connections together; once
	// more as much bounds what decoding them takes. Frames of up to 4 KiB are not counted: they are few bytes, and the
	// requests that set others free (a follower's fetch) are among them.
	InFlightBytes int64

	// Replies of pipelined keys that one connection may have waiting, and the bytes of their frames. A producer needs 5
	// (max.in.flight.requests.per.connection); librdkafka may send many more.
	PipelinedReplies int
	PipelinedBytes   int64

	// Times, of which 0 or less is no limit.
	FrameTime    time.Duration // a frame that has begun may take this long,
	MinFrameRate int64         // and longer only at that many bytes per second, and only while no one waits for memory
	WriteTime    time.Duration // a client may leave a reply unread for this long
	IdleTime     time.Duration // a connection may have nothing in flight for this long (connections.max.idle.ms)

	Connections           int // of all listeners for clients, until SetConnectionLimits
	ConnectionsPerAddress int // likewise
	ConnectionRate        int // new connections per second; 0 for any number
}

// ConnectionLimits are the limits that may change while connections are served (SetConnectionLimits). Connections that
// are there stay.
type ConnectionLimits struct {
	Total      int            // of all listeners for clients
	PerAddress int            //
	ByListener map[string]int // of those listeners that have a limit of their own
}

const (
	freeFrameBytes  = 4 << 10              // frames of up to this are not counted, see InFlightBytes
	freeDecodeBytes = 40 * freeFrameBytes  // what decoding such a frame takes at worst
	assumedMemory   = 2 << 30              // bytes, where no limit of memory is known
	peerFrameBytes  = 32 << 20             // brokers send each other no more
	maxRateDelay    = time.Second          // how long a connection above the rate is held before it is refused
	sweepInterval   = time.Second          // how exact the times of Limits are kept
	acceptPauseMin  = 5 * time.Millisecond // after an error of accept, doubling
	acceptPauseMax  = time.Second          //
	stagingBytes    = 256 << 10            // of one write, where records are copied
	logBurst        = 100                  // lines about refused clients at once,
	logRate         = 10                   // and then per second: hostile bytes shall not fill a disk
)

// DefaultLimits returns the limits of a broker that may use that many bytes of memory; 0 where that is not known.
func DefaultLimits(memory int64) Limits {
	if memory <= 0 || memory == math.MaxInt64 {
		memory = assumedMemory
	}
	return Limits{
		MaxRequestBytes:       100 << 20,
		InFlightBytes:         memory / 4,
		PipelinedReplies:      64,
		PipelinedBytes:        16 << 20,
		FrameTime:             30 * time.Second,
		MinFrameRate:          1 << 10,
		WriteTime:             60 * time.Second,
		IdleTime:              10 * time.Minute,
		Connections:           10_000,
		ConnectionsPerAddress: 1_000,
		ConnectionRate:        200,
	}
}
