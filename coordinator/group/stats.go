package group

import (
	"time"

	"weir/coordinator"
)

// GroupStats is what metrics tell of a group.
type GroupStats struct {
	ID      string
	State   string // Kafka's name of it, such as Stable
	Members int
	Offsets []OffsetStats // by topic and partition
}

// OffsetStats is what a group has committed for a partition.
type OffsetStats struct {
	Topic     string
	Partition int32
	Offset    int64 // of the next record to consume
}

// stats answers Stats: a copy, since the shard goes on.
func (s *Shard) stats(_ time.Time, c *coordinator.Call) coordinator.Output {
	groups := make([]GroupStats, 0, len(s.groups))
	for id, g := range s.groups {
		groups = append(groups, GroupStats{ID: id, State: g.state.String(), Members: len(g.members), Offsets: s.hard.offsets.stats(id)})
	}
	return answer(c, groups)
}

func (o *offsets) stats(group string) []OffsetStats {
	g := o.byGroup[group]
	if g == nil {
		return nil
	}
	n := 0
	for i := range g.topics {
		n += len(g.topics[i].partitions)
	}
	all := make([]OffsetStats, 0, n)
	for i := range g.topics {
		t := &g.topics[i]
		for j := range t.partitions {
			all = append(all, OffsetStats{Topic: t.name, Partition: t.partitions[j].partition, Offset: t.partitions[j].offset})
		}
	}
	return all
}
