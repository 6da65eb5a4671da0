package broker

import (
	"weir/broker/config"
	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/log"
	"weir/protocol/batch"
)

// topicConfig resolves what is in force for a topic, and puts it in the words of the packages that act on it.
func topicConfig(static *config.Server, self kafka.BrokerID, img *metadata.Image, topic string) *replica.TopicConfig {
	t := static.TopicConfig(img.Configs.Topic(topic), img.Configs.BrokerDefault(), img.Configs.Broker(self))
	return &replica.TopicConfig{
		Log:               logConfig(&t),
		MinInsyncReplicas: int(t.MinInsyncReplicas),
		LeaderThrottled:   replica.ThrottledOn(self, t.LeaderThrottledReplicas),
		FollowerThrottled: replica.ThrottledOn(self, t.FollowerThrottledReplicas),
		Rules: batch.Rules{
			MaxMessageBytes:            t.MaxMessageBytes,
			SegmentBytes:               t.SegmentBytes,
			Compacted:                  t.Compact,
			LogAppendTime:              t.LogAppendTime,
			TimestampBeforeMaxMs:       t.TimestampBeforeMaxMs,
			TimestampAfterMaxMs:        t.TimestampAfterMaxMs,
			Compression:                compression(t.Compression),
			MaxDecompressedRecordBytes: t.MaxDecompressedMessageBytes,
			HeaderOnly:                 static.RecordValidation == config.ValidateBatch,
		},
	}
}

func logConfig(t *config.Topic) log.Config {
	return log.Config{
		SegmentBytes:       t.SegmentBytes,
		SegmentMs:          t.SegmentMs,
		SegmentJitterMs:    t.SegmentJitterMs,
		IndexBytes:         t.SegmentIndexBytes,
		IndexIntervalBytes: t.IndexIntervalBytes,
		RetentionMs:        t.RetentionMs,
		RetentionBytes:     t.RetentionBytes,
		DeletePolicy:       t.Delete,
		CompactPolicy:      t.Compact,
		FlushMessages:      t.FlushMessages,
		FlushMs:            t.FlushMs,
		FileDeleteDelayMs:  t.FileDeleteDelayMs,
		Preallocate:        t.Preallocate,
	}
}

var codecs = map[string]batch.Codec{"uncompressed": batch.None, "gzip": batch.Gzip, "snappy": batch.Snappy, "lz4": batch.LZ4, "zstd": batch.Zstd}

func compression(c config.Compression) batch.Compression {
	return batch.Compression{Producer: c.Producer(), Codec: codecs[c.Type], Level: int(c.Level())}
}
