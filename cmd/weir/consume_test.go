package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func record(topic string, partition int32, offset int64) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Offset: offset}
}

// polled makes what a poll returns of records that stand in the order of their partitions.
func polled(records ...*kgo.Record) kgo.Fetches {
	var topics []kgo.FetchTopic
	for _, r := range records {
		last := len(topics) - 1
		if last < 0 || topics[last].Topic != r.Topic || topics[last].Partitions[0].Partition != r.Partition {
			topics = append(topics, kgo.FetchTopic{Topic: r.Topic, Partitions: []kgo.FetchPartition{{Partition: r.Partition}}})
			last++
		}
		topics[last].Partitions[0].Records = append(topics[last].Partitions[0].Records, r)
	}
	return kgo.Fetches{{Topics: topics}}
}

// newTestConsumer prints topic[partition]@offset and a blank.
func newTestConsumer(out *bytes.Buffer) *consumer {
	return &consumer{
		flags: new(consumeFlags), out: bufio.NewWriter(out), stderr: io.Discard,
		write: func(w io.Writer, _ *kgo.FetchPartition, r *kgo.Record) error {
			_, err := fmt.Fprintf(w, "%s[%d]@%d ", r.Topic, r.Partition, r.Offset)
			return err
		},
	}
}

func TestExitEndsWhereTheLogEnded(t *testing.T) {
	var out bytes.Buffer
	c := newTestConsumer(&out)
	c.left = new(unread)
	if c.left.add(partitionRanges{"a": {0: {5, 7}, 1: {3, 3}}, "b": {0: {0, 1}}}) {
		t.Fatal("finished before anything was read")
	}
	for _, step := range []struct {
		fetched  kgo.Fetches
		last     int // partitions that were read from
		finished bool
	}{
		{polled(record("a", 0, 5)), 1, false},
		{polled(record("a", 1, 3)), 0, false},
		{polled(record("a", 0, 6), record("a", 0, 7)), 1, false}, // a[0] is read
		{polled(record("a", 0, 8)), 0, false},
		{polled(record("b", 0, 0), record("b", 0, 1), record("a", 0, 9)), 1, true},
	} {
		last, finished, err := c.print(step.fetched)
		if err != nil || finished != step.finished || len(last) != step.last {
			t.Fatalf("finished=%v, last=%v, %v; want %+v", finished, last, err, step)
		}
	}
	c.out.Flush()
	if want := "a[0]@5 a[0]@6 b[0]@0 "; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if !new(unread).add(partitionRanges{"a": {0: {3, 3}}}) {
		t.Error("not finished where there is nothing to read")
	}
	if new(unread).add(nil) {
		t.Error("finished without any partition: a member that has none yet must wait")
	}
}

// What is not printed must not be committed.
func TestOnlyWhatWasPrintedCountsAsRead(t *testing.T) {
	var out bytes.Buffer
	c := newTestConsumer(&out)
	c.flags.count = 3
	last, enough, err := c.print(polled(record("a", 0, 1), record("a", 0, 2), record("a", 1, 6), record("a", 1, 7), record("a", 2, 0)))
	if err != nil || !enough {
		t.Fatalf("enough=%v, %v", enough, err)
	}
	var got []string
	for _, r := range last {
		got = append(got, fmt.Sprintf("%d@%d", r.Partition, r.Offset))
	}
	if want := []string{"0@2", "1@6"}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}

	c = newTestConsumer(&out)
	c.write = func(io.Writer, *kgo.FetchPartition, *kgo.Record) error { return syscall.EPIPE }
	if _, _, err := c.print(polled(record("a", 0, 1))); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a failed write: %v", err)
	}
}

// With --exit a member reads to the end of what it holds, from the group's commits where there are any.
func TestMemberKnowsWhatItHasToRead(t *testing.T) {
	c := newTestConsumer(new(bytes.Buffer))
	c.located = offsetList{"a": {0: {start: 2, end: 10}, 1: {start: 2, end: 10}, 2: {start: 10, end: 10}, 4: {start: 10, end: 10}}}
	c.left = new(unread)
	ended := false
	c.finished = func() { ended = true }

	offsets, err := c.startAt(t.Context(), map[string]map[int32]kgo.Offset{"a": {
		0: kgo.NewOffset().At(9), 1: kgo.NewOffset().AtStart(), 2: kgo.NewOffset().AtStart(), 3: kgo.NewOffset().AtStart(),
		4: kgo.NewOffset().At(5), // its record has been deleted since
	}})
	if err != nil {
		t.Fatal(err)
	}
	for partition, want := range map[int32]int64{0: 9, 1: 2, 2: 10, 3: -2, 4: 5} { // -2 is the beginning
		if got := offsets["a"][partition].EpochOffset().Offset; got != want {
			t.Errorf("partition %d starts at %d, want %d", partition, got, want)
		}
	}
	c.assigned(t.Context(), nil, nil)
	if ended {
		t.Fatal("ended with two partitions to read")
	}
	c.lost(t.Context(), nil, map[string][]int32{"a": {1}})
	if _, finished, _ := c.print(polled(record("a", 0, 9))); !finished {
		t.Error("not finished when all that it holds is read")
	}
	c.assigned(t.Context(), nil, nil)
	if !ended {
		t.Error("not ended after a rebalance that left only what is read")
	}
}

func TestMemberTellsWhatTheGroupDoes(t *testing.T) {
	var stderr strings.Builder
	c := newTestConsumer(new(bytes.Buffer))
	c.stderr, c.flags.member.group = &stderr, "g"
	c.assigned(t.Context(), nil, map[string][]int32{"a": {0}})
	c.flags.verbose = true
	c.assigned(t.Context(), nil, map[string][]int32{"b": {0}, "a": {2, 1}})
	c.assigned(t.Context(), nil, nil)
	c.lost(t.Context(), nil, map[string][]int32{"a": {2}})
	if want := "weir: group g: assigned a[1] a[2] b[0]\nweir: group g: lost a[2]\n"; stderr.String() != want {
		t.Errorf("%q, want %q", stderr.String(), want)
	}
}

// A member that only lost its place in the group joins again, and says so; it gives up where joining again cannot help.
func TestTransientGroupErrors(t *testing.T) {
	var stderr strings.Builder
	c := newTestConsumer(new(bytes.Buffer))
	c.stderr, c.flags.member.group = &stderr, "g"
	session := func(err error) error { return &kgo.ErrGroupSession{Err: err} }
	for _, step := range []struct {
		err  error
		want bool
	}{
		{session(kerr.UnknownMemberID), true},
		{session(kerr.NotCoordinator), true},
		{session(fmt.Errorf("wrapped: %w", kerr.IllegalGeneration)), true},
		{session(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		{session(io.ErrUnexpectedEOF), true},
		{session(kerr.InvalidSessionTimeout), false},
		{session(kerr.GroupAuthorizationFailed), false},
		{session(kerr.InconsistentGroupProtocol), false},
		{session(errors.New("broker is too old")), false},
		{kerr.UnknownTopicOrPartition, false},
		{kerr.UnknownMemberID, false},
	} {
		stderr.Reset()
		c.rejoins = repeats{}
		got := c.isTransient(kgo.FetchError{Err: step.err})
		if told := strings.HasPrefix(stderr.String(), "weir: group g: joining again: "); got != step.want || told != step.want {
			t.Errorf("%v: %v, told %q; want %v", step.err, got, stderr.String(), step.want)
		}
	}
}

func TestFailedCommitsAreTold(t *testing.T) {
	var stderr strings.Builder
	c := newTestConsumer(new(bytes.Buffer))
	c.stderr, c.flags.member.group = &stderr, "g"
	answer := func(code int16) *kmsg.OffsetCommitResponse {
		return &kmsg.OffsetCommitResponse{Topics: []kmsg.OffsetCommitResponseTopic{{
			Partitions: []kmsg.OffsetCommitResponseTopicPartition{{}, {Partition: 1, ErrorCode: code}},
		}}}
	}
	c.committed(nil, nil, answer(0), nil)
	c.committed(nil, nil, nil, context.Canceled)
	if stderr.Len() > 0 {
		t.Errorf("told %q of commits that did not fail", stderr.String())
	}
	c.committed(nil, nil, answer(kerr.UnknownMemberID.Code), nil)
	c.committed(nil, nil, nil, errors.New("no answer"))
	if got := stderr.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "committing offsets: UNKNOWN_MEMBER_ID: ") || !strings.HasSuffix(got, "no answer\n") {
		t.Errorf("%q", got)
	}
}
