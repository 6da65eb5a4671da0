//go:build !race

package log

const raceSlowdown = 1
