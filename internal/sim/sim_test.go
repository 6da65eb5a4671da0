package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"
)

var (
	seeds     = flag.Int("seeds", 3, "how many seeds to run")
	firstSeed = flag.Uint64("seed", 1, "the first of them")
	withTrace = flag.Bool("trace", false, "print the story of runs that fail")
	hard      = flag.Bool("hard", false, "three brokers, and faults in quick succession")
	minimize  = flag.Bool("minimize", false, "look for the faults that a run fails by")
)

// rareSeeds is how many seeds must have met every rare path.
const rareSeeds = 1000

// run runs one seed; crypto/rand, which Raft draws from, is part of it.
func run(t *testing.T, o Options) *Result {
	cryptotest.SetGlobalRandom(t, o.Seed)
	return Run(o)
}

// TestSim runs seeds. For one that fails it says how to repeat it.
func TestSim(t *testing.T) {
	began := time.Now()
	var rare Rare
	var simulated time.Duration
	acked, failed := 0, 0
	for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ {
		r := run(t, Options{Seed: seed, Hard: *hard})
		rare.Add(r.Rare)
		simulated += r.Simulated
		acked += r.Acked
		if r.Failed() {
			failed++
			report(t, r)
		}
	}
	took := time.Since(began)
	t.Logf("%d seeds in %v (%v each): %v simulated, %d records acknowledged (%d each), %d seeds with violations", *seeds, took.Round(time.Millisecond),
		(took / time.Duration(max(*seeds, 1))).Round(time.Millisecond), simulated.Round(time.Second), acked, acked/max(*seeds, 1), failed)
	t.Logf("paths taken:\n%v", rare)
	if missing := rare.Missing(); *seeds >= rareSeeds && len(missing) > 0 {
		t.Errorf("never met in %d seeds: %s", *seeds, strings.Join(missing, "; "))
	}
}

// report tells of a run that failed, after it was made sure that it can be repeated.
func report(t *testing.T, r *Result) {
	t.Errorf("%v\nrepeat it by: go test ./internal/sim -run TestSim -count=1 -args -seed %d -seeds 1 -trace\n%s\n%s", r, r.Seed, r.Config, r.Plan)
	if again := run(t, Options{Seed: r.Seed, Trace: *withTrace, Hard: *hard}); again.Digest != r.Digest {
		t.Errorf("seed %d: another run has the digest %016x", r.Seed, again.Digest)
	} else if *withTrace {
		t.Log(strings.Join(again.Trace, "\n"))
	}
	if *minimize {
		t.Logf("seed %d fails by these faults alone:\n%s", r.Seed, shrink(t, r))
	}
}

// shrink drops faults one by one as long as the run fails in the same way.
func shrink(t *testing.T, r *Result) string {
	var dropped []int
	last := r
	for i := range r.Actions {
		try := run(t, Options{Seed: r.Seed, Hard: *hard, Drop: append(dropped[:len(dropped):len(dropped)], i)})
		if try.Failed() && try.Violations[0].Kind == r.Violations[0].Kind {
			dropped = append(dropped, i)
			last = try
		}
	}
	return fmt.Sprintf("%s%v", describePlan(withoutActions(last.Actions, dropped)), last)
}

// The same seed makes the same run: else nothing that is found can be looked into.
func TestSameSeedSameRun(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		o := Options{Seed: seed, Duration: 5 * time.Second}
		a, b := run(t, o), run(t, o)
		if a.Digest != b.Digest || a.Events != b.Events || a.Acked != b.Acked {
			t.Errorf("seed %d made two runs:\n%v%v", seed, a, b)
		}
	}
	if a, b := run(t, Options{Seed: 1, Duration: time.Second}), run(t, Options{Seed: 2, Duration: time.Second}); a.Digest == b.Digest {
		t.Error("two seeds made the same run")
	}
}
