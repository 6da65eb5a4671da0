package config

import "fmt"

// crossCheck compares settings with each other, as Kafka does at start.
func (b *builder) crossCheck() {
	n := func(name string) int64 { return b.server.value(name).num }
	t := b.server.TopicConfig(nil, nil, nil)
	switch {
	case t.SegmentMs < 1:
		b.fail("log.roll.ms", "log.roll.ms must be greater than or equal to 1", "")
	case t.SegmentJitterMs < 0:
		b.fail("log.roll.jitter.ms", "log.roll.jitter.ms must be greater than or equal to 0", "")
	case t.RetentionMs == 0:
		b.fail(b.firstSet("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
			"log.retention.ms must be unlimited (-1) or, greater than or equal to 1", "")
	case t.MinCompactionLagMs > t.MaxCompactionLagMs:
		b.fail(b.firstSet("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
			fmt.Sprintf("log.cleaner.min.compaction.lag.ms (%d) > log.cleaner.max.compaction.lag.ms (%d)", t.MinCompactionLagMs, t.MaxCompactionLagMs), "")
	case n("replica.fetch.wait.max.ms") > n("replica.socket.timeout.ms"):
		b.fail(b.firstSet("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
			"replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts", "")
	case n("replica.fetch.wait.max.ms") > n("replica.lag.time.max.ms"):
		b.fail(b.firstSet("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
			"replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR", "")
	}
}

// firstSet picks the name to blame: the first of them that the operator set, else the first.
func (b *builder) firstSet(names ...string) string {
	for _, name := range names {
		if _, ok := b.settings[name]; ok {
			return name
		}
	}
	return names[0]
}
