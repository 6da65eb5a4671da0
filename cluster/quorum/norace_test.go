//go:build !race

package quorum

const defaultSeeds = 100
