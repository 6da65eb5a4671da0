package cluster

import (
	"testing"
	"time"

	"weir/cluster/quorum"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// Two of three nodes are gone for good, and the third is made to go on alone. Its own replicas lead; when others are there after
// all, with all that they had, they follow it and vote again.
func TestRecoveredQuorum(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	w.create(w.hosts[1], replicated("t", 3, 2))
	left := w.follower()
	w.run(10*time.Second, "known", func() bool { return left.node.Image().Index == w.active().node.Image().Index })
	before := left.partition("t", 0)
	left.vanish()
	w.pass(time.Second)
	w.create(w.active(), create("lost", 1)) // by those that are gone then
	for _, m := range w.all() {
		if m != left {
			m.vanish()
		}
	}
	left.powerCut(vfs.LoseNone())
	if _, err := quorum.Recover(left.disk, "/data/__cluster_metadata-0", start, true); err != nil {
		t.Fatal(err)
	}
	w.up(left.id)
	leads := func() bool { p := left.partition("t", 0); return p.Leader == left.id }
	w.run(20*time.Second, "its replica leads", leads)
	if p := left.partition("t", 0); p.LeaderEpoch < before.LeaderEpoch+1<<20 || p.PartitionEpoch < before.PartitionEpoch+1<<20 || len(p.ISR) != 1 {
		t.Errorf("%+v, was %+v", p, before)
	}
	w.create(left, create("after", 1))
	for _, m := range w.all() {
		if m != left {
			m.start()
		}
	}
	w.run(20*time.Second, "all follow", w.running(1, 2, 3))
	w.run(30*time.Second, "all vote", w.vote(1, 2, 3))
	w.run(time.Second, "one truth", (&days{world: w}).agree)
	for _, m := range w.all() {
		_, lost := m.node.Image().Topics.ByName("lost")
		_, after := m.node.Image().Topics.ByName("after")
		if lost || !after {
			t.Errorf("node %d has what was lost: %v, what came after: %v", m.id, lost, after)
		}
		if p := m.partition("t", 0); p.Leader == kafka.NoBroker {
			t.Errorf("%+v", p)
		}
	}
}
