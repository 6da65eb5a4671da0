package main

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// offsetRange is [start, end) of one partition.
type offsetRange struct{ start, end int64 }

// partitionRanges is what there is to read, by topic and partition.
type partitionRanges map[string]map[int32]offsetRange

// rangesFrom gives the ranges from the place that is meant to where the partitions ended when they were asked. That end
// is fixed, so that --exit comes to one.
func rangesFrom(spec offsetSpec, list offsetList) partitionRanges {
	ranges := make(partitionRanges)
	for topic, partitions := range list {
		for id, p := range partitions {
			ranges.set(topic, id, offsetRange{p.clamp(spec.in(p)), p.end})
		}
	}
	return ranges
}

func (p partitionRanges) set(topic string, partition int32, r offsetRange) {
	if p[topic] == nil {
		p[topic] = make(map[int32]offsetRange)
	}
	p[topic][partition] = r
}

// starts gives the ranges' beginnings as the client wants them.
func (p partitionRanges) starts() map[string]map[int32]kgo.Offset {
	offsets := make(map[string]map[int32]kgo.Offset)
	for topic, ranges := range p {
		offsets[topic] = make(map[int32]kgo.Offset)
		for id, r := range ranges {
			offsets[topic][id] = kgo.NewOffset().At(r.start)
		}
	}
	return offsets
}

// unread is what --exit waits for: the partitions that are being read, those that are finished included. A nil one is
// never finished. A group changes it from the client's goroutine.
type unread struct {
	mu struct {
		sync.Mutex
		ranges partitionRanges
	}
}

// add adds partitions to read, and reports whether that leaves nothing to wait for.
func (u *unread) add(ranges partitionRanges) (finished bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.ranges == nil {
		u.mu.ranges = make(partitionRanges)
	}
	for topic, partitions := range ranges {
		for id, r := range partitions {
			u.mu.ranges.set(topic, id, r)
		}
	}
	return u.finishedLocked()
}

// remove takes partitions out that somebody else reads from now on.
func (u *unread) remove(partitions map[string][]int32) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for topic, ids := range partitions {
		for _, id := range ids {
			delete(u.mu.ranges[topic], id)
		}
	}
}

// finishedLocked reports whether there are partitions, and every one is read.
func (u *unread) finishedLocked() bool {
	any := false
	for _, partitions := range u.mu.ranges {
		for _, r := range partitions {
			if any = true; r.start < r.end {
				return false
			}
		}
	}
	return any
}

// isPast reports whether a record came after its partition's range.
func (u *unread) isPast(r *kgo.Record) bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return r.Offset >= u.mu.ranges[r.Topic][r.Partition].end
}

// read notes that a record was read, and reports whether it was the last of all.
func (u *unread) read(r *kgo.Record) (finished bool) {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	at, ok := u.mu.ranges[r.Topic][r.Partition]
	if !ok {
		return false
	}
	at.start = r.Offset + 1
	u.mu.ranges[r.Topic][r.Partition] = at
	return at.start >= at.end && u.finishedLocked()
}
