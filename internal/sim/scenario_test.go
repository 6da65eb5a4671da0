package sim

import "testing"

// What once lost records is played in detail, and loses nothing.
func TestScenarios(t *testing.T) {
	for _, c := range []struct {
		*scenario
		met rarity // what shows that it came to that
	}{
		{theRestartedFollower, rareExpandReverted},
		{theLateProposal, rareISRProposalFenced},
		{theLivingBroker, rareLieHarmless},
		{theStuckBroker, rareFencedBySession},
		{theNeededVoter, rareRemovalRefused},
	} {
		r := run(t, Options{Seed: 1, scenario: c.scenario})
		if r.Failed() || r.Rare[c.met] == 0 {
			t.Errorf("%s: %v, and %q %d times", c.name, r, rareNames[c.met], r.Rare[c.met])
		}
	}
}
