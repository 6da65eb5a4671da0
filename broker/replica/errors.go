package replica

import (
	"fmt"

	"weir/internal/kafka"
)

// Error is why a partition refused a request. Where that has to do with leadership, Leader and LeaderEpoch are what the
// broker knows of the current one (KIP-951), NoBroker where it knows nothing.
type Error struct {
	code        kafka.Code
	TP          kafka.TopicPartition
	Leader      kafka.BrokerID
	LeaderEpoch kafka.LeaderEpoch
	detail      string
}

// Code returns the protocol's code.
func (e *Error) Code() kafka.Code { return e.code }

// Error names the partition and what is wrong with the request for it.
func (e *Error) Error() string { return fmt.Sprintf("%v: %s", e.TP, e.detail) }
