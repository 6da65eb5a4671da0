package replica

import (
	"weir/internal/kafka"
)

// FetchRequest is what one of a follower's fetchers asks of a leader's broker, for all partitions that it follows there.
// A leader may remember a fetcher's partitions in a fetch session (KIP-227), so that idle ones cost nothing.
type FetchRequest struct {
	Fetcher   int // numbers this broker's fetchers at one leader; each has a session and one request under way
	MaxWaitMs int32
	MinBytes  int32
	MaxBytes  int32 // of all records of the answer; the first batch is given even if it is larger (KIP-74)
	// Full says that Partitions are all that the fetcher wants, whatever the leader remembers. Else they are what is new or
	// differs from the request before, and Forgotten what the fetcher does not want any more.
	Full       bool
	Partitions []FetchPartition // in the order in which the leader shall serve them
	Forgotten  []TopicIDPartition
}

// TopicIDPartition names a partition by its topic's id: one of a topic that was deleted and created again is another.
type TopicIDPartition struct {
	TopicID   kafka.TopicID
	Partition int32
}

// FetchPartition is one partition's part of a FetchRequest.
type FetchPartition struct {
	kafka.TopicPartition
	TopicID          kafka.TopicID
	LeaderEpoch      kafka.LeaderEpoch // that the follower knows
	Offset           int64             // its log's end, all of which counts under the fsync policy
	LastFetchedEpoch kafka.LeaderEpoch // of its last record; NoLeaderEpoch where it has none
	LogStartOffset   int64
	MaxBytes         int32
}

// FetchResponse is the answer to a FetchRequest.
type FetchResponse struct {
	// Session says that the leader remembers what was asked. The next request need not be full, and partitions without
	// news are left out of the answers.
	Session    bool
	Partitions []FetchedPartition
}

// FetchedPartition is one partition's part of the answer.
type FetchedPartition struct {
	TopicIDPartition
	Code           kafka.Code
	HighWatermark  int64     // of the leader
	LogStartOffset int64     // of the leader
	Diverging      *EpochEnd // where the follower's log left the leader's (KIP-595); no records then
	Records        []byte    // whole batches, the last one may be torn; valid until the fetcher's next Fetch
}

// LeaderEndpoint fetches from the brokers that lead. It is satisfied in package broker, over the peers' connections, and
// by simulations. None of its methods blocks, and each tells done, once, from any goroutine.
type LeaderEndpoint interface {
	// Fetch asks one broker. A fetcher has one Fetch under way at a time. The endpoint adds this broker's id and epoch and
	// keeps the session's id and epoch; a full request ends the session that there was. An error is about the request as
	// a whole; the next request is full then. It is one of FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH and
	// FETCH_SESSION_TOPIC_ID_ERROR where the leader only forgot the session.
	Fetch(leader kafka.BrokerID, r *FetchRequest, done func(FetchResponse, error))
	// Offsets asks where the leader's log begins and where it ends (not its high watermark), in the leader epoch of p:
	// for a follower whose offset is out of range. Errors have the code that the leader gave for p.
	Offsets(leader kafka.BrokerID, p FetchPartition, done func(startOffset, endOffset int64, err error))
}

// ISRProposal is the ISR that a leader wants for a partition; what the controller makes of it comes back as an ISRResult.
type ISRProposal struct {
	kafka.TopicPartition
	TopicID        kafka.TopicID
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	ISR            []ISRMember
	RecoveryState  int8
}

// ISRMember is a replica with the broker epoch that it fetched with; -1 is not checked.
type ISRMember struct {
	Broker kafka.BrokerID
	Epoch  kafka.BrokerEpoch
}

// ISRResult is the controller's answer for one partition.
type ISRResult struct {
	Code           kafka.Code
	Leader         kafka.BrokerID
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	ISR            []kafka.BrokerID
	RecoveryState  int8
}

// ISRController takes proposals to the active controller (AlterPartition). It is satisfied in package broker.
type ISRController interface {
	// AlterISR tells done, once, from any goroutine: one result for each proposal, or why there is none. It does not block.
	AlterISR(proposals []ISRProposal, done func([]ISRResult, error))
}
