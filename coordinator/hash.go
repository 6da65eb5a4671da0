package coordinator

import (
	"math"
	"unicode/utf16"
)

// PartitionFor returns the partition of a coordinator's topic with n partitions that key, a group or transactional id,
// belongs to. It is Kafka's: Java's String.hashCode over UTF-16, made positive in the way of Utils.abs.
func PartitionFor(key string, n int32) int32 {
	var h int32
	for _, r := range key {
		if high, low := utf16.EncodeRune(r); r > math.MaxUint16 {
			h = 31*(31*h+high) + low
		} else {
			h = 31*h + r
		}
	}
	switch {
	case h == math.MinInt32:
		h = 0
	case h < 0:
		h = -h
	}
	return h % n
}
