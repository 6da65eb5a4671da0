package quorum

import (
	"testing"
	"testing/cryptotest"
	"time"
)

func TestFollower(t *testing.T) {
	const patience = time.Second
	type answer struct {
		after       time.Duration // since the one before
		match, last uint64
	}
	for name, c := range map[string]struct {
		answers          []answer
		caughtUp, steady time.Duration // of the time since the first answer; negative: unknown
	}{
		"all":                        {[]answer{{0, 9, 9}}, 0, 0},
		"nothing yet":                {[]answer{{0, 0, 9}}, -1, -1},
		"close":                      {[]answer{{0, 900, 1000}}, -1, 0},
		"far behind":                 {[]answer{{0, 899, 1000}}, -1, -1},
		"what there was before":      {[]answer{{0, 9, 9}, {patience, 9, 10}, {patience, 10, 12}}, patience, 0},
		"less than there was before": {[]answer{{0, 9, 9}, {patience, 9, 10}, {patience, 9, 12}}, 0, 0},
		"comes close":                {[]answer{{0, 1, 1000}, {patience, 1000, 1000}, {patience, 1000, 1000}}, 2 * patience, patience},
		"falls back":                 {[]answer{{0, 9, 9}, {patience, 9, 1000}}, 0, -1},
		"was silent":                 {[]answer{{0, 9, 9}, {patience + 1, 9, 9}}, patience + 1, patience + 1},
	} {
		var f follower
		now := epoch
		for _, a := range c.answers {
			now = now.Add(a.after)
			f.answered(now, a.match, a.last, patience)
		}
		for what, got := range map[string][2]any{"caught up": {f.caughtUp, at(c.caughtUp)}, "steady": {f.steady, at(c.steady)}, "contact": {f.contact, now}} {
			if got[0] != got[1] {
				t.Errorf("%s: %s at %v, want %v", name, what, got[0], got[1])
			}
		}
	}
}

func at(since time.Duration) time.Time {
	if since < 0 {
		return time.Time{}
	}
	return epoch.Add(since)
}

// Only a leader knows when the others answered, and a new one does not know what the one before did.
func TestTimesOfFollowers(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 9)
	w, _ := cluster(t, 3, nil)
	w.tick(30)
	w.proposeAll(1000)
	times := func(n *Node) (known int) {
		for _, r := range n.Status().Voters {
			if !r.LastContact.IsZero() && !r.LastCaughtUp.IsZero() && !r.SteadySince.IsZero() {
				known++
			}
		}
		return known
	}
	old := w.leader()
	for _, n := range w.sorted() {
		if want := map[bool]int{true: 2}[n == old]; times(n) != want {
			t.Errorf("%d of %d followers of node %d have times", times(n), want, n.RaftID())
		}
	}
	w.cut[old.RaftID()%3+1] = true
	step(t, old, TransferLeadership{To: (old.RaftID()+1)%3 + 1})
	w.run()
	if leader := w.leader(); leader == old || times(leader) != 1 || times(old) != 0 {
		t.Errorf("after a handover %d and %d members have times", times(w.leader()), times(old))
	}
}
