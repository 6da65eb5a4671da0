//go:build mutant

package sim

import (
	"flag"
	"slices"
	"testing"

	"weir/internal/mutant"
)

var (
	find    = flag.Int("find", 0, "look for seeds that notice what is left out, in so many from -seed on")
	leftOut = flag.String("mutant", "", "the only rule to leave out")
)

// noticing are runs that fail when a rule of replication is left out, and only then: hard seeds, and scenarios where chance
// would take too long. Changes elsewhere make another run of a seed; so there are several, and others are found by
//
//	go test -tags mutant ./internal/sim -run TestMutants -count=1 -v -args -find 3000
var noticing = map[string][]Options{
	"hwUnderMinISR":         hardSeeds(5, 8, 1, 3, 11, 20),
	"hwBeforeTruncation":    hardSeeds(6, 8, 5, 10, 26),
	"shrinkEarly":           hardSeeds(5, 6, 1, 4, 7, 9),
	"expandNotCounted":      hardSeeds(12, 41, 44, 71, 134),
	"electAnyAlive":         hardSeeds(3, 6, 10, 26, 29, 30),
	"noEpochBump":           hardSeeds(1, 2, 3, 4, 5),
	"noDivergeCheck":        hardSeeds(6, 8, 3, 5, 9, 10),
	"truncateToHW":          hardSeeds(1, 8, 3, 7, 9, 10),
	"noELR":                 hardSeeds(30, 21, 114, 204, 223, 257, 280),
	"updateOnDivergence":    hardSeeds(9, 10, 41, 44, 88, 114, 118, 134),
	"noBrokerEpoch":         {{Seed: 1, scenario: theRestartedFollower}},
	"noLeaderEpochStart":    hardSeeds(82, 144, 162, 204, 255, 282, 284, 304),
	"noEpochStartAssign":    hardSeeds(1850, 1930, 3244, 3365, 3452, 3607),
	"noPartitionEpochFence": {{Seed: 1, scenario: theLateProposal}},
	"gossipFences":          {{Seed: 1, scenario: theLivingBroker}},
	"gossipKeepsAlive":      {{Seed: 1, scenario: theStuckBroker}},

	"removeVoterBelowQuorum": {{Seed: 1, scenario: theNeededVoter}},
}

func hardSeeds(seeds ...uint64) (options []Options) {
	for _, seed := range seeds {
		options = append(options, Options{Seed: seed, Hard: true, early: true})
	}
	return options
}

// Every rule of replication that can be left out is missed by some run: otherwise nothing here would prove anything.
func TestMutants(t *testing.T) {
	defer func() { mutant.Mutant = "" }()
	for _, name := range mutant.Names() {
		if *leftOut != "" && name != *leftOut {
			continue
		}
		if *find > 0 {
			search(t, name)
			continue
		}
		if !slices.ContainsFunc(noticing[name], func(o Options) bool { return notices(t, name, o) }) {
			t.Errorf("no run notices that %s is left out", name)
		}
	}
}

// notices reports whether a run fails with the rule left out, and not otherwise.
func notices(t *testing.T, name string, o Options) bool {
	mutant.Mutant = name
	without := run(t, o)
	mutant.Mutant = ""
	if !without.Failed() {
		return false
	}
	if r := run(t, o); r.Failed() {
		t.Logf("%s: seed %d fails in any case: %v", name, o.Seed, r.Violations[0])
		return false
	}
	t.Logf("%-21s seed %d: %.150v", name, o.Seed, without.Violations[0])
	return true
}

// search prints seeds for noticing.
func search(t *testing.T, name string) {
	var found []uint64
	for seed := *firstSeed; seed < *firstSeed+uint64(*find) && len(found) < 5; seed++ {
		if notices(t, name, hardSeeds(seed)[0]) {
			found = append(found, seed)
		}
	}
	t.Logf("%q: found %d", name, found)
}
