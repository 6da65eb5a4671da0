package config

import (
	"maps"
	"slices"
	"strings"

	"weir/internal/kafka"
)

// ValidateTopic checks the whole set of a topic's overrides: every name, every value, and the values against each other.
// The error's code is INVALID_CONFIG and its text Kafka's. Of several wrong names the first in alphabetical order is
// named, of several wrong values the one whose row comes first, as in Kafka.
func ValidateTopic(overrides map[string]string) error {
	return (*Server)(nil).ValidateTopic(overrides)
}

// ValidateTopic is as the function of that name, and checks values against each other with this server's static values
// in the place of what the topic leaves open.
func (s *Server) ValidateTopic(overrides map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if topicIndex[name] == nil && !IsRemovedTopicConfig(name) {
			return kafka.Errorf(kafka.InvalidConfig, "Unknown topic config name: %s", name)
		}
	}
	for _, d := range topicOrder {
		if raw, ok := overrides[d.Name]; ok {
			if err := d.Check(raw); err != nil {
				return err
			}
		}
	}
	t := s.TopicConfig(overrides, nil, nil)
	if t.MinCompactionLagMs > t.MaxCompactionLagMs {
		return kafka.Errorf(kafka.InvalidConfig, "conflict topic config setting min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)",
			t.MinCompactionLagMs, t.MaxCompactionLagMs)
	}
	if strings.EqualFold(javaTrim(overrides["remote.storage.enable"]), "true") {
		return kafka.Errorf(kafka.InvalidConfig,
			"Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
	}
	return nil
}

// IsRemovedTopicConfig reports whether name was a topic config until Kafka 4.0. ValidateTopic lets these names pass with
// any value; they are to be dropped, with a warning, and never stored.
func IsRemovedTopicConfig(name string) bool { return slices.Contains(removedTopicConfigs, name) }

// Topic is what is in force for one topic, typed: the fields that brokers act on. Times are in milliseconds, sizes in
// bytes; offsets and timestamps of -1 and limits below zero mean "none" where the config's documentation says so.
type Topic struct {
	SegmentBytes       int32 // internal.segment.bytes where that is set, at least 1
	SegmentMs          int64
	SegmentJitterMs    int64
	SegmentIndexBytes  int32
	IndexIntervalBytes int32
	Preallocate        bool
	FileDeleteDelayMs  int64

	FlushMessages int64 // 1: acknowledge after a group sync
	FlushMs       int64

	Delete, Compact        bool // cleanup.policy; neither keeps everything
	RetentionMs            int64
	RetentionBytes         int64
	DeleteRetentionMs      int64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64
	MinCleanableDirtyRatio float64

	MaxMessageBytes             int32
	MaxDecompressedMessageBytes int32
	Compression                 Compression
	LogAppendTime               bool // message.timestamp.type
	TimestampBeforeMaxMs        int64
	TimestampAfterMaxMs         int64

	MinInsyncReplicas          int32
	UncleanLeaderElection      bool
	LeaderThrottledReplicas    []string // partition:broker, or one element "*"
	FollowerThrottledReplicas  []string
	DeadLetterQueueGroupEnable bool
}

// Compression says how a leader stores batches.
type Compression struct {
	Type                           string // uncompressed, zstd, lz4, snappy, gzip; producer keeps the client's
	GzipLevel, LZ4Level, ZstdLevel int32  // for the type of that name
}

// Producer reports whether batches stay as their clients made them.
func (c Compression) Producer() bool { return c.Type == "producer" }

// Level is the level of the type in force, 0 for a type without levels.
func (c Compression) Level() int32 {
	switch c.Type {
	case "gzip":
		return c.GzipLevel
	case "lz4":
		return c.LZ4Level
	case "zstd":
		return c.ZstdLevel
	default:
		return 0
	}
}

// TopicConfig resolves what is in force for a topic: its overrides, over the dynamic values of this broker, over those
// for all brokers, over the static ones, over the defaults. Maps may be nil and are not kept. A stored value that does
// not parse, which only another version can have written, counts as not set. A nil Server has only defaults.
func (s *Server) TopicConfig(overrides, brokerDefault, broker map[string]string) Topic {
	in := topicValues{layers{s, brokerDefault, broker}, overrides}
	t := Topic{
		SegmentBytes:       in.int32("segment.bytes"),
		SegmentMs:          in.int64("segment.ms"),
		SegmentJitterMs:    in.int64("segment.jitter.ms"),
		SegmentIndexBytes:  in.int32("segment.index.bytes"),
		IndexIntervalBytes: in.int32("index.interval.bytes"),
		Preallocate:        in.bool("preallocate"),
		FileDeleteDelayMs:  in.int64("file.delete.delay.ms"),

		FlushMessages: in.int64("flush.messages"),
		FlushMs:       in.int64("flush.ms"),

		RetentionMs:            in.int64("retention.ms"),
		RetentionBytes:         in.int64("retention.bytes"),
		DeleteRetentionMs:      in.int64("delete.retention.ms"),
		MinCompactionLagMs:     in.int64("min.compaction.lag.ms"),
		MaxCompactionLagMs:     in.int64("max.compaction.lag.ms"),
		MinCleanableDirtyRatio: in.value("min.cleanable.dirty.ratio").dbl,

		MaxMessageBytes:             in.int32("max.message.bytes"),
		MaxDecompressedMessageBytes: in.int32("max.decompressed.message.bytes"),
		Compression: Compression{
			Type:      in.value("compression.type").str,
			GzipLevel: in.int32("compression.gzip.level"),
			LZ4Level:  in.int32("compression.lz4.level"),
			ZstdLevel: in.int32("compression.zstd.level"),
		},
		LogAppendTime:        in.value("message.timestamp.type").str == "LogAppendTime",
		TimestampBeforeMaxMs: in.int64("message.timestamp.before.max.ms"),
		TimestampAfterMaxMs:  in.int64("message.timestamp.after.max.ms"),

		MinInsyncReplicas:          in.int32("min.insync.replicas"),
		UncleanLeaderElection:      in.bool("unclean.leader.election.enable"),
		LeaderThrottledReplicas:    in.value("leader.replication.throttled.replicas").list,
		FollowerThrottledReplicas:  in.value("follower.replication.throttled.replicas").list,
		DeadLetterQueueGroupEnable: in.bool("errors.deadletterqueue.group.enable"),
	}
	policy := in.value("cleanup.policy").list
	t.Delete, t.Compact = slices.Contains(policy, "delete"), slices.Contains(policy, "compact")
	if _, ok := overrides["internal.segment.bytes"]; ok {
		t.SegmentBytes = max(1, in.int32("internal.segment.bytes")) // Kafka takes any number here, and so does the wire
	}
	return t
}

// topicValues reads the values in force for one topic.
type topicValues struct {
	layers
	overrides map[string]string
}

func (in topicValues) value(name string) value {
	v, _ := in.topicValue(topicIndex[name], in.overrides)
	return v
}

func (in topicValues) int64(name string) int64 { return in.value(name).num }
func (in topicValues) int32(name string) int32 { return int32(in.value(name).num) }
func (in topicValues) bool(name string) bool   { return in.value(name).num == 1 }
