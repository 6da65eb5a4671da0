package controller

import (
	"slices"
	"testing"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// A partition may have no leader and one replica in sync, whose directory is away. When that one is back and may have lost
// records, somebody must be known to be waited for: else nobody is ever elected.
func TestTheLastInSyncReplicaIsWaitedFor(t *testing.T) {
	p := metadata.PartitionRegistration{Replicas: []kafka.BrokerID{1, 2}, ISR: []kafka.BrokerID{1}, Leader: kafka.NoBroker, Directories: make([]kafka.DirectoryID, 2)}
	change := transition{img: metadata.Empty(), target: p, leaves: 1, lossy: 1, anew: kafka.NoBroker, minISR: 1}
	next, changed := change.apply(&p)
	if !changed || len(next.ISR)+len(next.ELR) > 0 || !slices.Equal(next.LastKnownELR, []kafka.BrokerID{1}) {
		t.Errorf("%+v", next)
	}
}
