package coordinator

import (
	"errors"

	"weir/internal/kafka"
)

// What calls are answered with where the shard is not asked.
var (
	errNotCoordinator = kafka.Errorf(kafka.NotCoordinator, "")
	errLoading        = kafka.Errorf(kafka.CoordinatorLoadInProgress, "")
	errUnexpected     = kafka.Errorf(kafka.UnknownServerError, "")
	errNotAvailable   = kafka.Errorf(kafka.CoordinatorNotAvailable, "")
)

// Why a shard's life ends.
var (
	errStopped   = errors.New("the partition is led by another broker, or this one stops")
	errDeposed   = errors.New("the partition takes no appends in this leader epoch")
	errStartOver = errors.New("the shard's state cannot be trusted and is loaded anew")
	errUnread    = errors.New("the partition cannot be read now, and is tried again")
)

// answerTo turns the error of an append into what clients of a coordinator understand, as Kafka does. That records are too
// large for the topic is none of them.
func answerTo(err error) error {
	switch kafka.CodeOf(err) {
	case kafka.UnknownTopicOrPartition, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend, kafka.RequestTimedOut:
		return errNotAvailable
	}
	if deposes(err) {
		return errNotCoordinator
	}
	return errUnexpected
}

// deposes reports whether the error of an append says that no other will succeed in this leader epoch.
func deposes(err error) bool {
	switch kafka.CodeOf(err) {
	case kafka.NotLeaderOrFollower, kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.KafkaStorageError:
		return true
	}
	return false
}
