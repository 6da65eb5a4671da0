package sim

import (
	"math/rand/v2"
	"time"
)

func pick[T any](rng *rand.Rand, choices ...T) T { return choices[rng.IntN(len(choices))] }

func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

func chance(rng *rand.Rand, p float64) bool { return rng.Float64() < p }
