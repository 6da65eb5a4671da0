package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// offsetSpec names a place in a partition that is the same for every partition: the value of --offset, --to and
// --before.
type offsetSpec struct {
	text string
	kind offsetKind
	n    int64         // an offset, a number of records or milliseconds
	ago  time.Duration // for offsetSomeTimeAgo
}

type offsetKind int

const (
	offsetStart       offsetKind = iota // n records after the start
	offsetEnd                           // n records before the end
	offsetAbsolute                      // n
	offsetAtTime                        // the first record at or after n
	offsetSomeTimeAgo                   // the first record at or after now - ago
)

// offsetForms is the part of a verb's help that says what an offsetSpec may be.
const offsetForms = `  start, end      the first record that is kept; the next one to come (earliest and latest mean the same)
  5               this offset, or the nearest that is kept
  -10, +10        ten records before the end; ten after the start
  @1767323045000, @2026-01-02T03:04:05Z, @-15m
                  the first record at or after this time: milliseconds since 1970, a date, or so long ago`

func (o *offsetSpec) Type() string { return "offset" }

func (o *offsetSpec) String() string {
	if o.text == "" {
		return "start"
	}
	return o.text
}

// Set parses the forms that offsetForms lists.
func (o *offsetSpec) Set(s string) error {
	spec := offsetSpec{text: s}
	var err error
	switch {
	case s == "start", s == "earliest":
	case s == "end", s == "latest":
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

// in returns the offset that is meant in a partition, which may lie outside of what the partition holds.
func (o *offsetSpec) in(p partitionOffsets) int64 {
	switch o.kind {
	case offsetStart:
		return p.start + o.n
	case offsetEnd:
		return p.end - o.n
	case offsetAbsolute:
		return o.n
	default:
		return p.atTime
	}
}

// partitionOffsets are those that a specification is measured against.
type partitionOffsets struct {
	start, end int64
	atTime     int64 // of the first record at or after the specification's time
}

// clamp returns the offset in [start, end] that is nearest to one.
func (p partitionOffsets) clamp(offset int64) int64 { return min(max(offset, p.start), p.end) }

// offsetList holds what locate found, by topic and partition.
type offsetList map[string]map[int32]partitionOffsets

// locate lists the offsets of partitions: where they start, where they end (for read_committed, where open transactions
// begin) and, if spec is a time, where that is.
func locate(ctx context.Context, admin *kadm.Client, partitions topicPartitions, spec offsetSpec, committed bool) (offsetList, error) {
	if len(partitions) == 0 {
		return nil, nil // the admin client would list all topics
	}
	topics := partitions.topics()
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("listing start offsets: %w", firstError(err))
	}
	listEnds := admin.ListEndOffsets
	if committed {
		listEnds = admin.ListCommittedOffsets
	}
	ends, err := listEnds(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("listing end offsets: %w", firstError(err))
	}
	var times kadm.ListedOffsets
	if at, ok := spec.time(time.Now()); ok {
		if times, err = admin.ListOffsetsAfterMilli(ctx, at, topics...); err != nil {
			return nil, fmt.Errorf("listing offsets by time: %w", firstError(err))
		}
	}
	list := make(offsetList)
	for topic, ids := range partitions {
		list[topic] = make(map[int32]partitionOffsets)
		for _, id := range ids {
			start, startErr := lookup(starts, topic, id)
			end, endErr := lookup(ends, topic, id)
			var at int64
			var timeErr error
			if times != nil {
				at, timeErr = lookup(times, topic, id)
			}
			if err := cmp.Or(startErr, endErr, timeErr); err != nil {
				return nil, fmt.Errorf("listing offsets of %s[%d]: %w", topic, id, err)
			}
			list[topic][id] = partitionOffsets{start, end, at}
		}
	}
	return list, nil
}

// lookup returns the error of the whole topic, which is listed as partition -1, where the partition is not listed.
func lookup(offsets kadm.ListedOffsets, topic string, partition int32) (int64, error) {
	if o, ok := offsets.Lookup(topic, partition); ok {
		return o.Offset, o.Err
	}
	if o, ok := offsets.Lookup(topic, -1); ok && o.Err != nil {
		return 0, o.Err
	}
	return 0, errors.New("there is no such partition")
}

// topicPartitions are partitions by topic. A topic without any stands for all of its partitions until expand is called.
type topicPartitions map[string][]int32

// parseTopicPartitions reads TOPIC and TOPIC:PARTITION,PARTITION.
func parseTopicPartitions(texts []string) (topicPartitions, error) {
	parsed := make(topicPartitions)
	for _, text := range texts {
		topic, list, some := strings.Cut(text, ":")
		if topic == "" {
			return nil, fmt.Errorf("%q names no topic", text)
		}
		if _, twice := parsed[topic]; twice {
			return nil, fmt.Errorf("topic %s is named twice", topic)
		}
		parsed[topic] = nil
		if !some {
			continue
		}
		for id := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseInt(id, 10, 32)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("%q is not of the form TOPIC or TOPIC:PARTITION,PARTITION", text)
			}
			parsed[topic] = append(parsed[topic], int32(n))
		}
	}
	return parsed, nil
}

// topics are the names, sorted.
func (t topicPartitions) topics() []string {
	names := make([]string, 0, len(t))
	for topic := range t {
		names = append(names, topic)
	}
	slices.Sort(names)
	return names
}

// each calls f in the order of topics and partitions.
func (t topicPartitions) each(f func(topic string, partition int32)) {
	for _, topic := range t.topics() {
		for _, id := range slices.Sorted(slices.Values(t[topic])) {
			f(topic, id)
		}
	}
}

// add adds a partition unless it is there.
func (t topicPartitions) add(topic string, partition int32) {
	if !slices.Contains(t[topic], partition) {
		t[topic] = append(t[topic], partition)
	}
}

// expand puts in all partitions of the topics that have none yet, and fails where a topic or a partition does not exist.
func (t topicPartitions) expand(ctx context.Context, admin *kadm.Client, doing string) error {
	details, err := admin.ListTopicsWithInternal(ctx, t.topics()...)
	if err != nil {
		return fmt.Errorf("looking for topics: %w", err)
	}
	for _, d := range details.Sorted() {
		if d.Err != nil {
			return topicError(doing, d.Topic, d.Err, "")
		}
		have := d.Partitions.Numbers()
		for _, p := range t[d.Topic] {
			if !slices.Contains(have, p) {
				return fmt.Errorf("topic %s has no partition %d, only 0 to %d", d.Topic, p, len(have)-1)
			}
		}
		if len(t[d.Topic]) == 0 {
			t[d.Topic] = have
		}
	}
	return nil
}
