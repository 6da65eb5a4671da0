//go:build mutant

package cluster

import (
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/mutant"
)

// Without the check, a voter that the quorum cannot do without is let go, and nobody decides anything any more.
func TestQuorumIsNotGivenAway(t *testing.T) {
	defer func(before string) { mutant.Mutant = before }(mutant.Mutant)
	for _, name := range []string{"", "removeVoterBelowQuorum"} {
		mutant.Mutant = name
		w := newWorld(t, 1, 3)
		w.up(1, 2, 3)
		down, leader := w.follower(), w.active()
		down.vanish()
		w.pass(5 * time.Second)
		gone := w.hosts[6-down.id-leader.id]
		refused := w.remove(leader, gone)
		w.pass(10 * time.Second)
		decides := w.submit(leader, create("t", 1)).err == nil
		if kept := name == ""; kept != (kafka.CodeOf(refused) == kafka.InvalidRequest) || kept != decides {
			t.Errorf("left out %q: removed with %v, and then decides %v", name, refused, decides)
		}
	}
}
