package group

import (
	"cmp"
	"slices"
	"strings"
)

// offsets are the committed offsets of all groups of a shard. A shard may hold a hundred thousand, most of them in groups
// of few topics, so a group's are in sorted slices and not in maps: they take a fifth of the memory, and come out in the
// same order every time. The price is that a new partition moves those behind it.
type offsets struct {
	byGroup map[string]*groupOffsets
}

// groupOffsets are the committed offsets of one group. There is none without an offset.
type groupOffsets struct {
	topics   []topicOffsets // by name; none is empty
	expiring int            // how many have an expiry of their own
}

type topicOffsets struct {
	name       string
	partitions []partitionOffset // by partition
}

type partitionOffset struct {
	partition int32
	committed
}

func newOffsets() offsets { return offsets{byGroup: make(map[string]*groupOffsets)} }

// get returns nil where nothing is committed.
func (o *offsets) get(group, topic string, partition int32) *committed {
	g := o.byGroup[group]
	if g == nil {
		return nil
	}
	return g.topic(topic).get(partition)
}

// put sets what is committed. The strings may alias a buffer: what is kept of them is cloned.
func (o *offsets) put(group, topic string, partition int32, c committed) {
	g := o.byGroup[group]
	if g == nil {
		g = new(groupOffsets)
		o.byGroup[strings.Clone(group)] = g
	}
	if c.expires != -1 {
		g.expiring++
	}
	t, known := g.find(topic)
	if !known {
		g.topics = slices.Insert(g.topics, t, topicOffsets{name: strings.Clone(topic)})
	}
	partitions := &g.topics[t].partitions
	p, known := findPartition(*partitions, partition)
	if !known {
		c.metadata = strings.Clone(c.metadata)
		*partitions = slices.Insert(*partitions, p, partitionOffset{partition: partition, committed: c})
		return
	}
	was := &(*partitions)[p].committed
	if was.expires != -1 {
		g.expiring--
	}
	c.metadata = keep(was.metadata, c.metadata)
	*was = c
}

// remove does nothing where nothing is committed.
func (o *offsets) remove(group, topic string, partition int32) {
	g := o.byGroup[group]
	if g == nil {
		return
	}
	t, known := g.find(topic)
	if !known {
		return
	}
	partitions := &g.topics[t].partitions
	p, known := findPartition(*partitions, partition)
	if !known {
		return
	}
	if (*partitions)[p].expires != -1 {
		g.expiring--
	}
	*partitions = slices.Delete(*partitions, p, p+1)
	if len(*partitions) == 0 {
		g.topics = slices.Delete(g.topics, t, t+1)
	}
	if len(g.topics) == 0 {
		delete(o.byGroup, group)
	}
}

// topic returns nil where nothing of the topic is committed.
func (g *groupOffsets) topic(name string) *topicOffsets {
	if t, known := g.find(name); known {
		return &g.topics[t]
	}
	return nil
}

func (g *groupOffsets) find(topic string) (int, bool) {
	return slices.BinarySearchFunc(g.topics, topic, func(t topicOffsets, name string) int { return strings.Compare(t.name, name) })
}

// get returns nil where nothing is committed.
func (t *topicOffsets) get(partition int32) *committed {
	if t == nil {
		return nil
	}
	if p, known := findPartition(t.partitions, partition); known {
		return &t.partitions[p].committed
	}
	return nil
}

func findPartition(partitions []partitionOffset, partition int32) (int, bool) {
	return slices.BinarySearchFunc(partitions, partition, func(p partitionOffset, n int32) int { return cmp.Compare(p.partition, n) })
}

// hasOffsets reports whether the group has any committed offset.
func (s *Shard) hasOffsets(id string) bool { return s.hard.offsets.byGroup[id] != nil }
