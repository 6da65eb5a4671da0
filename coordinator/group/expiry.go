package group

import (
	"slices"
	"time"

	"weir/coordinator"
)

// expireOffsets is the key of the timer that looks for what has expired.
type expireOffsets struct{}

// expiryTimer sets the next look, after offsets.retention.check.interval.ms.
func (s *Shard) expiryTimer(now time.Time) coordinator.Timer {
	return coordinator.Timer{Key: expireOffsets{}, At: now.Add(s.settings.OffsetsRetentionCheck)}
}

// expire removes offsets that are over their retention, and empty groups that have none left (KIP-211). Where that is
// more than one batch, the rest follows when this one is committed.
func (s *Shard) expire(now time.Time) coordinator.Output {
	var due []string
	for id, g := range s.groups {
		found := false
		all := s.eachExpired(now, id, g, func(string, int32) bool {
			found = true
			return false
		})
		if found || all && g.isAbandoned() {
			due = append(due, id)
		}
	}
	slices.Sort(due)

	out := coordinator.Output{Timers: []coordinator.Timer{s.expiryTimer(now)}}
	gone := removal{now: now}
	var groups []string
	for _, id := range due {
		if gone.full() {
			break
		}
		g := s.groups[id]
		all := s.eachExpired(now, id, g, func(topic string, partition int32) bool {
			if gone.full() {
				return false
			}
			gone.offset(id, topic, partition)
			return true
		})
		if all && g.isAbandoned() {
			gone.group(id)
			groups = append(groups, id)
			out.Timers = append(out.Timers, s.forget(id)...)
		}
	}
	if out.Records = gone.records; len(out.Records) > 0 {
		out.After = expired{groups: groups}
	}
	return out
}

// eachExpired yields the offsets of a group that have expired, until yield says to stop. It reports whether all have.
func (s *Shard) eachExpired(now time.Time, id string, g *classic, yield func(topic string, partition int32) bool) bool {
	offsets := s.hard.offsets.byGroup[id]
	if offsets == nil {
		return true
	}
	start, ok := g.retentionStart()
	if !ok {
		return false
	}
	nowMs, retentionMs := now.UnixMilli(), s.settings.OffsetsRetention.Milliseconds()
	if start != -1 && nowMs-start < retentionMs && offsets.expiring == 0 {
		return false // most groups, most of the time: spare the walk
	}
	all := true
	for i := range offsets.topics {
		topic := &offsets.topics[i]
		if g.subscribed(topic.name) {
			all = false
			continue
		}
		for j := range topic.partitions {
			p := &topic.partitions[j]
			if !p.isExpired(nowMs, start, retentionMs) {
				all = false
			} else if !yield(topic.name, p.partition) {
				return false
			}
		}
	}
	return all
}

// isAbandoned reports whether nobody is in the group, or about to join it.
func (g *classic) isAbandoned() bool { return g.isEmpty() && len(g.pending) == 0 }

// retentionStart returns from when on the retention of a group's offsets counts, in ms since the epoch; -1: for each from
// its own commit. Where ok is false none expires.
func (g *classic) retentionStart() (start int64, ok bool) {
	switch {
	case g.protocolType == "":
		return -1, true // nobody but who commits knows of it
	case g.isEmpty():
		return g.emptySince(), true // -1 where an old record does not tell
	case g.protocolType == consumerProtocol && g.state == stateStable:
		return -1, true // of topics that nobody is subscribed to any more
	}
	return 0, false
}

func (c *committed) isExpired(nowMs, startMs, retentionMs int64) bool {
	if c.expires != -1 {
		return nowMs >= c.expires
	}
	if startMs == -1 {
		startMs = c.timestamp
	}
	return nowMs-startMs >= retentionMs
}
