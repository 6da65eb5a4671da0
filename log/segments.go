package log

import (
	"slices"
	"sort"
)

// segmentSet is the log's segments at one moment: never empty, never changed. Readers load it once and are done with
// locks; who rolls, truncates or deletes makes another one under the log lock. A segment that has left the set stays
// readable for those that still hold its file.
type segmentSet struct {
	all []*segment // ascending by base offset
}

// active is the segment that grows.
func (s *segmentSet) active() *segment { return s.all[len(s.all)-1] }

// floor is the index of the last segment that begins at or before offset, 0 where none does.
func (s *segmentSet) floor(offset int64) int {
	return max(sort.Search(len(s.all), func(i int) bool { return s.all[i].baseOffset > offset })-1, 0)
}

// endOf is where segment i ends: the next one's base offset, or logEnd for the active one.
func (s *segmentSet) endOf(i int, logEnd int64) int64 {
	if i+1 < len(s.all) {
		return s.all[i+1].baseOffset
	}
	return logEnd
}

func (s *segmentSet) with(seg *segment) *segmentSet {
	return &segmentSet{all: append(slices.Clip(s.all), seg)}
}

func (s *segmentSet) has(seg *segment) bool { return slices.Contains(s.all, seg) }

// size is the sum of the segments' sizes in bytes.
func (s *segmentSet) size() int64 {
	var n int64
	for _, seg := range s.all {
		n += seg.end.Load()
	}
	return n
}
