//go:build mutant

package replica

import (
	"testing"

	"weir/internal/kafka"
	"weir/internal/mutant"
)

// Each rule that a leader keeps by itself can be left out, and then what it is for goes wrong.
func TestRulesOfTheLeaderCanBeLeftOut(t *testing.T) {
	diverging := func(l *leaders) *ReadRequest { // 2 has something else at offset 1
		l.elect(2, 1, 2)
		l.elect(1, 1, 2)
		r := l.request(2, 2)
		r.LastFetchedEpoch = 1
		return r
	}
	for name, wrong := range map[string]func(*leaders) bool{
		"noEpochStartAssign": func(l *leaders) bool {
			l.elect(1, 1, 2)
			e, err := l.partition(1).EndOffsetForEpoch(1, -1)
			return err == nil && e == EpochEnd{Epoch: kafka.NoLeaderEpoch, End: -1}
		},
		"noDivergeCheck": func(l *leaders) bool {
			r, err := l.partition(1).Read(diverging(l))
			return err == nil && r.Diverging == nil
		},
		"updateOnDivergence": func(l *leaders) bool {
			r, err := l.partition(1).Read(diverging(l))
			return err == nil && r.Diverging != nil && l.partition(1).Log().HighWatermark() == 2
		},
	} {
		for _, left := range []string{"", name} {
			l := newLeaders(t, 1, 1, 2)
			for range 2 {
				produce(t, l.partition(1), AcksLeader, nil)
			}
			mutant.Mutant = left
			if got := wrong(l); got != (left != "") {
				t.Errorf("%s left out: %q; wrong: %t", name, left, got)
			}
			mutant.Mutant = ""
		}
	}
}
