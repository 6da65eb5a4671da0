package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// offsetSpec is the value of --offset: a place in a partition that is the same for every partition.
type offsetSpec struct {
	text string
	kind offsetKind
	n    int64         // an offset, a number of records or milliseconds
	ago  time.Duration // for offsetAgo
}

type offsetKind int

const (
	offsetStart       offsetKind = iota // n records after the start
	offsetEnd                           // n records before the end
	offsetAbsolute                      // n
	offsetAtTime                        // the first record at or after n
	offsetSomeTimeAgo                   // the first record at or after now - ago
)

func (o *offsetSpec) Type() string { return "offset" }

func (o *offsetSpec) String() string {
	if o.text == "" {
		return "start"
	}
	return o.text
}

// Set parses the forms that the help of `weir consume` lists.
func (o *offsetSpec) Set(s string) error {
	spec := offsetSpec{text: s}
	var err error
	switch {
	case s == "start":
	case s == "end":
		spec.kind = offsetEnd
	case strings.HasPrefix(s, "@"):
		err = spec.setTime(s[1:])
	case strings.HasPrefix(s, "+"):
		spec.n, err = parseCount(s[1:])
	case strings.HasPrefix(s, "-"):
		spec.kind = offsetEnd
		spec.n, err = parseCount(s[1:])
	default:
		spec.kind = offsetAbsolute
		spec.n, err = parseCount(s)
	}
	if err != nil {
		return errors.New("must be start, end, N, +N, -N or @TIME (see --help)")
	}
	*o = spec
	return nil
}

func (o *offsetSpec) setTime(s string) (err error) {
	if ago, ok := strings.CutPrefix(s, "-"); ok {
		o.kind = offsetSomeTimeAgo
		o.ago, err = time.ParseDuration(ago)
		return err
	}
	o.kind = offsetAtTime
	if o.n, err = parseCount(s); err == nil {
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if at, err := time.Parse(layout, s); err == nil {
			o.n = at.UnixMilli()
			return nil
		}
	}
	return err
}

// parseCount reads a number without a sign.
func parseCount(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}

// offsetRange is [start, end) of one partition.
type offsetRange struct{ start, end int64 }

// partitionRanges is what there is to read, by topic and partition. With --exit a partition is removed when it is read.
type partitionRanges map[string]map[int32]offsetRange

// locate finds the partitions and the offsets to read from and to. The answer is fixed here, so that --exit ends where
// the log ended when the command started.
func (f *consumeFlags) locate(ctx context.Context, admin *kadm.Client, topics []string) (partitionRanges, error) {
	ctx, cancel := f.deadline(ctx)
	defer cancel()
	partitions, err := f.choosePartitions(ctx, admin, topics)
	if err != nil {
		return nil, err
	}
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("listing start offsets: %w", err)
	}
	listEnds := admin.ListEndOffsets
	if f.isolation == "read_committed" {
		listEnds = admin.ListCommittedOffsets
	}
	ends, err := listEnds(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("listing end offsets: %w", err)
	}
	var times kadm.ListedOffsets
	if at, ok := f.offset.time(time.Now()); ok {
		if times, err = admin.ListOffsetsAfterMilli(ctx, at, topics...); err != nil {
			return nil, fmt.Errorf("listing offsets by time: %w", err)
		}
	}
	ranges := make(partitionRanges)
	for topic, ids := range partitions {
		ranges[topic] = make(map[int32]offsetRange)
		for _, id := range ids {
			start, end, at := lookup(starts, topic, id), lookup(ends, topic, id), lookup(times, topic, id)
			if err := errors.Join(start.Err, end.Err, at.Err); err != nil {
				return nil, fmt.Errorf("%s[%d]: %w", topic, id, err)
			}
			from := f.offset.within(start.Offset, end.Offset, at.Offset)
			ranges[topic][id] = offsetRange{from, end.Offset}
		}
	}
	return ranges, nil
}

func lookup(offsets kadm.ListedOffsets, topic string, partition int32) kadm.ListedOffset {
	o, _ := offsets.Lookup(topic, partition)
	return o
}

// choosePartitions returns the partitions to read, and an error that names what does not exist.
func (f *consumeFlags) choosePartitions(ctx context.Context, admin *kadm.Client, topics []string) (map[string][]int32, error) {
	details, err := admin.ListTopicsWithInternal(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("looking for topics: %w", err)
	}
	chosen := make(map[string][]int32)
	for _, t := range details.Sorted() {
		if t.Err != nil {
			return nil, topicError("consuming topic", t.Topic, t.Err, "")
		}
		have := t.Partitions.Numbers()
		chosen[t.Topic] = have
		if len(f.partitions) == 0 {
			continue
		}
		chosen[t.Topic] = f.partitions
		for _, p := range f.partitions {
			if !slices.Contains(have, p) {
				return nil, fmt.Errorf("topic %s has no partition %d, only 0 to %d", t.Topic, p, len(have)-1)
			}
		}
	}
	return chosen, nil
}

// time returns the point of time that is meant, if it is one, in milliseconds.
func (o *offsetSpec) time(now time.Time) (ms int64, ok bool) {
	switch o.kind {
	case offsetAtTime:
		return o.n, true
	case offsetSomeTimeAgo:
		return now.Add(-o.ago).UnixMilli(), true
	}
	return 0, false
}

// within places the offset in [start, end]; atTime is the partition's offset for the point of time.
func (o *offsetSpec) within(start, end, atTime int64) int64 {
	var at int64
	switch o.kind {
	case offsetStart:
		at = start + o.n
	case offsetEnd:
		at = end - o.n
	case offsetAbsolute:
		at = o.n
	case offsetAtTime, offsetSomeTimeAgo:
		at = atTime
	}
	return min(max(at, start), end)
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

// dropRead forgets the partitions that have nothing left to read, and returns how many remain.
func (p partitionRanges) dropRead() (remaining int) {
	for _, ranges := range p {
		for id, r := range ranges {
			if r.start >= r.end {
				delete(ranges, id)
			}
		}
		remaining += len(ranges)
	}
	return remaining
}

// isPast reports whether a record came after its partition's range.
func (p partitionRanges) isPast(r *kgo.Record) bool {
	ranges, ok := p[r.Topic][r.Partition]
	return !ok || r.Offset >= ranges.end
}

// read notes that a record was read, and reports whether it was the last of all.
func (p partitionRanges) read(r *kgo.Record) (finished bool) {
	ranges := p[r.Topic][r.Partition]
	ranges.start = r.Offset + 1
	p[r.Topic][r.Partition] = ranges
	return ranges.start >= ranges.end && p.dropRead() == 0
}
