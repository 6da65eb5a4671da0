//go:build mutant

package controller

import (
	"testing"

	"weir/internal/mutant"
)

// What gossip must not do alone, it does where that rule is left out.
func TestMutantsOfRumours(t *testing.T) {
	defer func() { mutant.Mutant = "" }()
	for _, c := range []struct{ mutant, says, tick, want string }{
		{"", "gone=", "1s", "{Fenced:[]}\n"},
		{"gossipFences", "gone=", "1s", "{Fenced:[1]}\n  change broker 1 epoch=1 fenced=true\n"},
		{"", "alive=", "9s", "{Fenced:[1]}\n  change broker 1 epoch=1 fenced=true\n"},
		{"gossipKeepsAlive", "alive=", "9s", "{Fenced:[]}\n"},
	} {
		mutant.Mutant = c.mutant
		w := newWorld()
		w.runBlock("broker 1\ncontact 1\nrumour 1 " + c.says + "\ntick " + c.tick)
		if got := w.run("fence"); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
