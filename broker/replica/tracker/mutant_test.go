//go:build mutant

package tracker

import (
	"testing"

	"weir/internal/mutant"
)

// Without one of the rules the model finds a loss.
func TestTheModelNoticesWhenARuleIsLeftOut(t *testing.T) {
	for _, name := range []string{"hwUnderMinISR", "shrinkEarly", "expandNotCounted", "noBrokerEpoch", "noLeaderEpochStart"} {
		t.Run(name, func(t *testing.T) {
			mutant.Mutant = name
			defer func() { mutant.Mutant = "" }()
			for seed := range uint64(2000) {
				if err := play(seed); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("nothing was noticed")
		})
	}
}
