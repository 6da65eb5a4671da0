package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestOffsetsOfAPartition(t *testing.T) {
	// A partition that holds [10, 20), and offset 15 for any point of time.
	partition := partitionOffsets{start: 10, end: 20, atTime: 15}
	for text, want := range map[string]int64{
		"start": 10, "end": 20, "earliest": 10, "latest": 20,
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
		if got := partition.clamp(spec.in(partition)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
		if spec.String() != text {
			t.Errorf("%s is printed as %s", text, spec.String())
		}
	}
	var unset offsetSpec
	if got := partition.clamp(unset.in(partition)); got != 10 || unset.String() != "start" {
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

func TestParseTopicPartitions(t *testing.T) {
	got, err := parseTopicPartitions([]string{"orders:2,0", "state"})
	if want := (topicPartitions{"orders": {2, 0}, "state": nil}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	var order []string
	got["state"] = []int32{1}
	got.each(func(topic string, partition int32) { order = append(order, fmt.Sprintf("%s-%d", topic, partition)) })
	if want := "orders-0 orders-2 state-1"; strings.Join(order, " ") != want {
		t.Errorf("%v, want %s", order, want)
	}
	for _, text := range []string{"", ":0", "orders:", "orders:x", "orders:-1", "orders:0,", "orders:0,,1", "orders:4294967296"} {
		if got, err := parseTopicPartitions([]string{text}); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	if _, err := parseTopicPartitions([]string{"orders", "orders:1"}); err == nil || err.Error() != "topic orders is named twice" {
		t.Errorf("a topic twice: %v", err)
	}
}
