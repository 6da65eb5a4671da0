package quorum

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"weir/cluster/metadata"
)

var (
	simSeeds = flag.Uint64("seeds", defaultSeeds, "how many seeds the simulation runs")
	simTell  = flag.Bool("tell", false, "tell how the nodes fared")
	simFirst = flag.Uint64("seed", 1, "the first of them")
)

const (
	simFaults = 20 * time.Second // of the network and the disks, of processes and members
	simSettle = 80               // ticks without faults after which all must be well
)

// Whatever happens to networks, disks and processes: one leader a term, nobody votes twice, what one node has applied all
// apply at the same place, and nobody forgets what it told others. And when all is well again, one leads and all have all.
func TestSim(t *testing.T) {
	seen := map[string]int{}
	acked, longest := 0, 0
	for seed := *simFirst; seed < *simFirst+*simSeeds; seed++ {
		w := simulate(t, seed)
		for what, n := range w.seen {
			seen[what] += n
		}
		acked += w.check.acked
		longest = max(longest, len(w.hosts))
	}
	t.Logf("%d entries applied, up to %d hosts, and %v", acked, longest, seen)
	if *simSeeds < 100 {
		return
	}
	for _, what := range []string{
		"snapshot sent", "snapshot installed", "end in the midst of a step", "all crash", "leader suspected", "disk fails", "transfer",
		"disk lost", "members change", "several promoted at once", "a learner in a voter's place", "conflicting entries cut", "removed, and knows it", "retired",
	} {
		if seen[what] == 0 {
			t.Errorf("in %d seeds there was no %q", *simSeeds, what)
		}
	}
	if acked < 50*int(*simSeeds) {
		t.Errorf("only %d entries were applied in %d seeds", acked, *simSeeds)
	}
}

// The same seed gives the same run: else no failure could be looked into.
func TestSimSameSeedSameRun(t *testing.T) {
	for seed := range uint64(5) {
		a, b := simulate(t, seed), simulate(t, seed)
		if a.trace.Sum64() != b.trace.Sum64() || !maps.Equal(a.seen, b.seen) || a.seq != b.seq {
			t.Fatalf("seed %d: two runs differ: %v and %v", seed, a.seen, b.seen)
		}
	}
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64) *world {
	cryptotest.SetGlobalRandom(t, seed) // Raft draws its election timeouts from crypto/rand
	w := newWorld(t, seed)
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("seed %d at %s: %v", seed, w.now, p))
		}
	}()
	w.mix = w.drawMix()
	w.voters = w.mix.voters
	w.found()
	w.plan()
	w.run(simFaults)
	w.heal()
	w.run(simSettle * TickInterval)
	leader := w.leader()
	if leader == nil {
		w.failf("nobody leads after %d ticks without faults: %s", simSettle, w.check.describe())
	}
	before := leader.node.applied
	leader.step(Propose{w.entry(leader.node)})
	w.run(10 * TickInterval)
	if leader.node.applied <= before {
		w.failf("the leader does not get an entry committed: %s", w.check.describe())
	}
	w.check.settled()
	return w
}

// options are those of a host's node.
func (w *world) options(h *host) Options {
	o := options(nil)
	o.Self = h.member
	o.SnapshotBytes, o.SegmentBytes, o.KeepEntries = w.mix.snapshotBytes, w.mix.segmentBytes, w.mix.keepEntries
	return o
}

// found starts the first voters.
func (w *world) found() {
	var founders []metadata.QuorumMember
	for range w.mix.founders {
		founders = append(founders, w.addHost().member)
	}
	for i, h := range slices.Clone(w.hosts) {
		h.options = w.options(h)
		h.options.Founders = founders
		wait := w.between(0, 200*time.Millisecond)
		if i == 2 && w.mix.late {
			wait += w.between(3*time.Second, 10*time.Second)
		}
		h.waiting = true
		w.after(wait, h.start)
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.calm = true
	w.link = calmLink
	clear(w.cut)
	for _, h := range w.hosts {
		h.paused, h.cutIn, h.faults = 0, -1, false
		h.faulty.Heal()
		h.start()
	}
}
