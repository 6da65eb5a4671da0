package replica

import (
	"weir/internal/kafka"
)

// FetchRequest is what a follower asks of a leader's broker, for all partitions that it follows there.
type FetchRequest struct {
	MaxWaitMs  int32
	MinBytes   int32
	MaxBytes   int32
	Partitions []FetchPartition
}

// FetchPartition is one partition's part of a FetchRequest.
type FetchPartition struct {
	kafka.TopicPartition
	TopicID          kafka.TopicID
	LeaderEpoch      kafka.LeaderEpoch // that the follower knows
	Offset           int64             // its log's end, as far as it counts under the fsync policy
	LastFetchedEpoch kafka.LeaderEpoch // of its last record; NoLeaderEpoch where it has none
	LogStartOffset   int64
	MaxBytes         int32
}

// FetchedPartition is one partition's part of the answer.
type FetchedPartition struct {
	kafka.TopicPartition
	Code           kafka.Code
	HighWatermark  int64
	LogStartOffset int64
	LogEndOffset   int64     // of the leader, with OFFSET_OUT_OF_RANGE; -1 where the answer does not say
	Diverging      *EpochEnd // where the follower's log left the leader's (KIP-595); no records then
	Records        []byte    // whole batches, the last one may be torn; valid until the next Fetch
	LeaderEpoch    kafka.LeaderEpoch
	Leader         kafka.BrokerID // with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH, where the leader knows (KIP-951)
}

// LeaderEndpoint fetches from the brokers that lead. It is satisfied in package broker, over the peers' connections.
type LeaderEndpoint interface {
	// Fetch asks one broker and tells done, once, from any goroutine. It does not block.
	Fetch(leader kafka.BrokerID, r *FetchRequest, done func([]FetchedPartition, error))
	// Offsets asks where the leader's log begins and ends (ListOffsets), where a follower's offset is out of range.
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
