package quorum

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
)

// What three nodes cost while nothing happens: a tick of each, which is due ten times a second, and what they send for it.
func BenchmarkIdleTickOfThree(b *testing.B) {
	w, _ := cluster(b, 3, nil)
	w.tick(40)
	sent := 0
	b.ReportAllocs()
	for b.Loop() {
		for _, n := range w.sorted() {
			step(b, n, Tick{})
			sent += len(w.queue)
			for len(w.queue) > 0 {
				m := w.queue[0]
				w.queue = w.queue[1:]
				before := len(w.queue)
				step(b, w.nodes[m.GetTo()], Receive{[]*raftpb.Message{m}})
				sent += len(w.queue) - before
			}
		}
	}
	b.ReportMetric(float64(sent)/float64(b.N), "messages/op")
}

// An entry agreed upon by three nodes, without a network and with disks in memory.
func BenchmarkEntryOfThree(b *testing.B) {
	w, _ := cluster(b, 3, nil)
	w.tick(40)
	leader := w.leader()
	next := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		next++
		step(b, leader, Propose{metadata.AppendEntry(nil, leader.Image().Index, []metadata.Record{producerIDs(next)})})
		w.run()
	}
}
