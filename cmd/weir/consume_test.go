package main

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestOffsetsOfAPartition(t *testing.T) {
	// A partition that holds [10, 20), and offset 15 for any point of time.
	for text, want := range map[string]int64{
		"start": 10, "end": 20,
		"12": 12, "0": 10, "100": 20, "9223372036854775807": 20,
		"+0": 10, "+3": 13, "+100": 20,
		"-0": 20, "-3": 17, "-100": 10,
		"@1767323045000": 15, "@2026-01-02T03:04:05Z": 15, "@2026-01-02": 15, "@-15m": 15,
	} {
		var spec offsetSpec
		if err := spec.Set(text); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := spec.within(10, 20, 15); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
		if spec.String() != text {
			t.Errorf("%s is printed as %s", text, spec.String())
		}
	}
	var unset offsetSpec
	if got := unset.within(10, 20, 15); got != 10 || unset.String() != "start" {
		t.Errorf("without --offset: %d, %s", got, unset.String())
	}
}

func TestOffsetTimes(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for text, want := range map[string]int64{
		"@5": 5, "@-10s": 990_000, "@1970-01-01T00:00:01Z": 1000, "@1970-01-01T01:00:01+01:00": 1000, "@1970-01-02": 86_400_000,
	} {
		var spec offsetSpec
		if err := spec.Set(text); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if ms, ok := spec.time(now); !ok || ms != want {
			t.Errorf("%s: %d, %v; want %d", text, ms, ok, want)
		}
	}
}

func TestBadOffsetsAreUsageErrors(t *testing.T) {
	for _, text := range []string{"", "x", "--1", "+-1", "-", "@", "@yesterday", "@-soon", "1.5", "9223372036854775808"} {
		code, _, stderr := weir(t, "", "consume", "orders", "--offset="+text)
		if code != exitUsage || !strings.Contains(stderr, "must be start, end, N, +N, -N or @TIME") {
			t.Errorf("%q: exit %d, %s", text, code, stderr)
		}
	}
}

func TestPartitionRangesEndWhereTheLogEnded(t *testing.T) {
	parts := partitionRanges{"a": {0: {5, 7}, 1: {3, 3}}, "b": {0: {0, 1}}}
	if n := parts.dropRead(); n != 2 {
		t.Fatalf("%d partitions have something to read, want 2", n)
	}
	record := func(topic string, partition int32, offset int64) *kgo.Record {
		return &kgo.Record{Topic: topic, Partition: partition, Offset: offset}
	}
	for _, step := range []struct {
		record         *kgo.Record
		past, finished bool
	}{
		{record("a", 0, 5), false, false},
		{record("a", 1, 3), true, false},
		{record("a", 0, 6), false, false}, // a[0] is read
		{record("a", 0, 7), true, false},
		{record("b", 0, 0), false, true},
	} {
		if past := parts.isPast(step.record); past != step.past {
			t.Fatalf("%s[%d]@%d: past=%v", step.record.Topic, step.record.Partition, step.record.Offset, past)
		} else if past {
			continue
		}
		if finished := parts.read(step.record); finished != step.finished {
			t.Fatalf("%s[%d]@%d: finished=%v", step.record.Topic, step.record.Partition, step.record.Offset, finished)
		}
	}
}
