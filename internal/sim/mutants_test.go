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
	"hwUnderMinISR":         hardSeeds(5, 7, 8),
	"hwBeforeTruncation":    hardSeeds(1, 6, 8),
	"shrinkEarly":           hardSeeds(2, 5, 6),
	"expandNotCounted":      hardSeeds(12, 41, 44, 87, 94),
	"electAnyAlive":         hardSeeds(21, 29, 30),
	"noEpochBump":           hardSeeds(1, 2, 3),
	"noDivergeCheck":        hardSeeds(1, 6, 8),
	"truncateToHW":          hardSeeds(1, 2, 8),
	"noELR":                 hardSeeds(30, 77, 101),
	"updateOnDivergence":    hardSeeds(26, 41, 66, 76, 90),
	"noBrokerEpoch":         {{Seed: 1, scenario: theRestartedFollower}},
	"noLeaderEpochStart":    hardSeeds(29, 82, 105, 249, 255),
	"noEpochStartAssign":    hardSeeds(1850, 1930, 580, 780),
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
