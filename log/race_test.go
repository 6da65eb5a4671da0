//go:build race

package log

// raceSlowdown is roughly what the race detector costs; tests that do random things do so much less of them.
const raceSlowdown = 8
