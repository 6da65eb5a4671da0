package quorum

import (
	"testing"
	"testing/cryptotest"
	"time"

	"weir/cluster/metadata"
)

// wake lets time pass without a tick: only what nodes want to be woken for happens, in its order, for a while at most. It
// returns how much time had passed when somebody led, or the while.
func (w *net) wake(within time.Duration) time.Duration {
	w.t.Helper()
	now := epoch
	for w.leader() == nil {
		var next *Node
		for _, n := range w.sorted() {
			if due := n.Due(); !due.IsZero() && !w.cut[n.RaftID()] && (next == nil || due.Before(next.Due())) {
				next = n
			}
		}
		if next == nil || next.Due().Sub(epoch) > within {
			return within
		}
		now = later(now, next.Due())
		if _, err := next.Step(now, Wake{}); err != nil {
			w.t.Fatal(err)
		}
		w.run()
	}
	return now.Sub(epoch)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// The leader's process is gone, and everybody knows: another leads long before the election timeout, without a tick.
func TestSuspectedLeaderIsReplaced(t *testing.T) {
	var slowest time.Duration
	for seed := range uint64(50) {
		cryptotest.SetGlobalRandom(t, seed)
		w, _ := cluster(t, 3, nil)
		w.tick(40)
		w.propose(producerIDs(1000))
		gone := w.leader().RaftID()
		w.cut[gone] = true
		for _, n := range w.sorted() {
			if n.RaftID() != gone {
				step(t, n, Suspect{gone})
			}
		}
		took := w.wake(time.Second)
		if took >= time.Second {
			t.Fatalf("seed %d: nobody leads", seed)
		}
		slowest = max(slowest, took)
		for _, n := range w.sorted() {
			if due := n.Due(); n.RaftID() != gone && !due.IsZero() {
				t.Fatalf("seed %d: a follower wants to be woken at %s", seed, due)
			}
		}
		w.proposeAll(2000)
	}
	if slowest > 3*TickInterval {
		t.Errorf("it took up to %s", slowest)
	}
}

// Who has seen that the leader is gone stands again until those have seen it whose votes it needs.
func TestSuspicionComesToOneAfterTheOther(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	w, _ := cluster(t, 3, nil)
	w.tick(40)
	gone := w.leader().RaftID()
	first, second := w.nodes[gone%3+1], w.nodes[(gone+1)%3+1]
	w.cut[second.RaftID()] = true // it lacks an entry, so that the first one alone can win
	w.propose(producerIDs(1000))
	w.cut = map[uint64]bool{gone: true}
	step(t, first, Suspect{gone})
	if took := w.wake(3 * TickInterval); took < 3*TickInterval {
		t.Fatal("a follower that had heard from the leader voted for another")
	}
	if _, err := second.Step(epoch.Add(3*TickInterval), Suspect{gone}); err != nil {
		t.Fatal(err)
	}
	if took := w.wake(7 * TickInterval); took >= 7*TickInterval || w.leader() != first {
		t.Fatal("nobody leads")
	}
	w.proposeAll(2000)
}

// A suspicion that is wrong, or of somebody else, costs a healthy quorum nothing: the same leader in the same term.
func TestFalseSuspicionDisturbsNobody(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 2)
	w, opts := cluster(t, 3, nil)
	w.tick(40)
	w.join(4, opts)
	w.change(ChangeMembers{Learn: []uint64{4}})
	leader := w.leader()
	before := leader.Leadership()
	follower, learner := w.nodes[leader.RaftID()%3+1], w.nodes[4]
	step(t, leader, Suspect{leader.RaftID()})
	step(t, follower, Suspect{follower.RaftID()})
	step(t, follower, Suspect{0})
	step(t, follower, Suspect{4})
	if !follower.Due().IsZero() || !leader.Due().IsZero() || follower.Leadership().Leader != leader.RaftID() {
		t.Fatal("somebody suspects who is not the leader")
	}
	step(t, learner, Suspect{leader.RaftID()})
	if !learner.Due().IsZero() {
		t.Fatal("a learner stands for election")
	}
	for range 20 {
		step(t, follower, Suspect{leader.RaftID()})
		if _, err := follower.Step(epoch.Add(TickInterval), Wake{}); err != nil {
			t.Fatal(err)
		}
		w.run()
		w.tick(1)
		if got := leader.Leadership(); got != before || follower.Leadership().Leader != leader.RaftID() || !follower.Due().IsZero() {
			t.Fatalf("%+v, then %+v; the follower has %+v", before, got, follower.Leadership())
		}
	}
	w.proposeAll(1000)
}

// A leader that hands over is followed at once, by whoever has most of the log.
func TestTransferLeadership(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 3)
	w, opts := cluster(t, 5, nil)
	w.tick(40)
	w.join(6, opts)
	w.change(ChangeMembers{Learn: []uint64{6}})
	leader := w.leader()
	ahead := leader.RaftID()%5 + 1
	for _, n := range w.sorted() { // all but one lag behind
		w.cut[n.RaftID()] = n != leader && n.RaftID() != ahead
	}
	w.propose(producerIDs(1000))
	clear(w.cut)
	if out := step(t, leader, TransferLeadership{}); out.Dropped {
		t.Fatal("dropped")
	}
	if out := step(t, leader, Propose{metadata.AppendEntry(nil, leader.Image().Index, []metadata.Record{producerIDs(9)})}); !out.Dropped {
		t.Fatal("a leader that hands over takes proposals")
	}
	w.run()
	if got := w.leader(); got == nil || got.RaftID() != ahead {
		t.Fatalf("node %d should lead, and %+v does", ahead, got)
	}
	w.proposeAll(2000)

	leader = w.leader()
	to := leader.RaftID()%5 + 1
	step(t, leader, TransferLeadership{To: to})
	w.run()
	if got := w.leader(); got == nil || got.RaftID() != to {
		t.Fatalf("node %d should lead, and %+v does", to, got)
	}
	for _, c := range []struct {
		n  *Node
		to uint64
	}{{leader, 0}, {w.leader(), 6}, {w.leader(), 9}, {w.leader(), to}} {
		if out := step(t, c.n, TransferLeadership{c.to}); !out.Dropped {
			t.Errorf("node %d hands over to %d", c.n.RaftID(), c.to)
		}
	}
	if out := step(t, alone(t, options(newDisk())), TransferLeadership{}); !out.Dropped {
		t.Error("a node that is alone hands over")
	}

	// The one that is to take over is gone: the leader goes on when it has waited in vain.
	w.cut[leader.RaftID()] = true
	step(t, w.leader(), TransferLeadership{To: leader.RaftID()})
	w.run()
	w.tick(electionTicks + 1)
	w.proposeAll(3000)
}

// Two that stand at the same moment split the votes. They stand again soon: the election timeout would be ten times as long.
func TestSplitVotesAreNotWaitedOut(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 5)
	w, _ := cluster(t, 3, nil)
	w.tick(40)
	w.propose(producerIDs(1000))
	gone := w.leader().RaftID()
	w.cut[gone] = true
	var standing []*Node
	for _, n := range w.sorted() {
		if n.RaftID() != gone {
			step(t, n, Suspect{gone})
			n.candidacy.at = epoch
			standing = append(standing, n)
		}
	}
	for _, n := range standing { // both, before anybody hears of it
		if _, err := n.Step(epoch, Wake{}); err != nil {
			t.Fatal(err)
		}
	}
	w.run()
	if w.leader() != nil {
		t.Fatal("the votes were not split")
	}
	if took := w.wake(time.Second); took > 5*TickInterval {
		t.Errorf("it took %s", took)
	}
}
