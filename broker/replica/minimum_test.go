package replica

import (
	"testing"

	"weir/cluster/metadata"
)

// The minimum of in-sync replicas is raised, and an ISR shrinks by a decision that knew that: who left it is eligible
// (KIP-966). Where both come in one step, as in a snapshot, the high watermark must not move by the minimum from before.
func TestAnISRCountsByTheMinimumOfItsOwnImage(t *testing.T) {
	l := newLeaders(t, 1, 1, 2)
	p, a := l.partition(1), newAcks()
	produce(t, p, AcksAll, a) // 2 does not get it
	l.config.MinInsyncReplicas = 2
	two := "2"
	l.record.ISR = l.record.ISR[:1]
	l.record.PartitionEpoch++
	l.apply(l.record, metadata.ConfigRecord{Resource: metadata.ConfigResource{Type: metadata.TopicResource, Name: "t"}, Key: "min.insync.replicas", Value: &two})
	if acked(a) {
		t.Error("acknowledged by one replica where two are wanted")
	}
	l.requireHW(0)
}
