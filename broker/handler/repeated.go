package handler

import "weir/internal/kafka"

// What stands twice in a request is looked for in every Produce and Fetch, so that the usual shapes need no memory for it.

// topicKey is a topic as requests name it: by name, or by id.
type topicKey struct {
	name string
	id   kafka.TopicID
}

// partitionSet is a set of partition numbers.
type partitionSet struct {
	low  [16]uint64 // a bit for each of the lowest numbers
	high map[int32]struct{}
}

// add reports whether n was not there before.
func (s *partitionSet) add(n int32) bool {
	if word := uint32(n) / 64; word < uint32(len(s.low)) {
		bit := uint64(1) << (n % 64)
		isNew := s.low[word]&bit == 0
		s.low[word] |= bit
		return isNew
	}
	if _, there := s.high[n]; there {
		return false
	}
	if s.high == nil {
		s.high = make(map[int32]struct{})
	}
	s.high[n] = struct{}{}
	return true
}

// distinct reports whether the keys of n elements all differ.
func distinct[K comparable](n int, key func(int) K) bool {
	const few = 8 // are compared with each other
	if n > few {
		seen := make(map[K]struct{}, n)
		for i := range n {
			seen[key(i)] = struct{}{}
		}
		return len(seen) == n
	}
	for i := range n {
		for j := range i {
			if key(i) == key(j) {
				return false
			}
		}
	}
	return true
}
