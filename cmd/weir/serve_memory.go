package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// Where Linux tells a process what memory its container may use: cgroup v2, then v1.
var memoryLimitFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// limitMemory returns how many bytes the process may use, 0 where nothing limits it. Unless GOMEMLIMIT is set it has the
// garbage collector keep below nine tenths of a container's limit: the rest is for what Go does not count.
func limitMemory() int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit // GOMEMLIMIT
	}
	for _, file := range memoryLimitFiles {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		if err != nil || limit <= 0 || limit > 1<<50 { // "max", or v1's way to say the same
			return 0
		}
		debug.SetMemoryLimit(limit / 10 * 9)
		return limit
	}
	return 0
}
