package replica

import (
	"testing"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/log"
)

// A process that was cut off may be replaced by another one with its id. When it hears of the cluster again it must not take
// for its own what that one leads: both would take records in the same epoch.
func TestAReplacedProcessLeadsNothing(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	epoch := kafka.BrokerEpoch(10)
	f.manager.Epoch = func() kafka.BrokerEpoch { return epoch }
	register := func(epoch kafka.BrokerEpoch) metadata.RegisterBrokerRecord {
		return metadata.RegisterBrokerRecord{BrokerRegistration: metadata.BrokerRegistration{ID: self, Epoch: epoch}}
	}
	id := kafka.NewUUID()
	f.apply(register(10))
	p := f.create("t", id, self, 2)
	if p.LeaderEpoch() != 0 {
		t.Fatalf("leads in epoch %d", p.LeaderEpoch())
	}
	away := f.registration(id, 1, 2, self)
	f.apply(register(20), away)
	f.apply(f.registration(id, 2, self, 2))
	_, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksLeader, Now: testTime})
	if kafka.CodeOf(err) != kafka.NotLeaderOrFollower {
		t.Fatalf("what another process leads takes records here: %v", err)
	}
	epoch = 30 // it is registered again
	away = f.registration(id, 3, 2, self)
	f.apply(register(30), away)
	f.apply(f.registration(id, 4, self, 2))
	produce(t, f.partition("t"), AcksLeader, nil)
}
