//go:build mutant

package replica

import (
	"testing"
	"time"

	"weir/cluster/metadata"
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
		"hwUnderMinISR": func(l *leaders) bool { // but the producer is told
			l.config.MinInsyncReplicas = 2
			two := "2"
			l.apply(metadata.ConfigRecord{Resource: metadata.ConfigResource{Type: metadata.TopicResource, Name: "t"}, Key: "min.insync.replicas", Value: &two})
			l.fetch(2, 2)
			a := newAcks()
			produce(l.t, l.partition(1), AcksAll, a)
			l.setISR(1)
			l.clock.Advance(time.Minute)
			l.partition(1).recheck(l.clock.Now())
			return acked(a) && kafka.CodeOf(a.errs[0]) == kafka.NotEnoughReplicasAfterAppend && l.partition(1).Log().HighWatermark() == 3
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
