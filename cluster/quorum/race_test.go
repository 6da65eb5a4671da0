//go:build race

package quorum

// The simulation has one goroutine: there is little that the race detector could find in it, at ten times the price.
const defaultSeeds = 10
