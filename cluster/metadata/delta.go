package metadata

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"weir/internal/kafka"
)

// Delta is what one step from an image to a later one changed. Lists are sorted: topics by name, brokers by id, resources
// by type and name.
type Delta struct {
	Old, New *Image
	// Jump says that nobody saw the steps in between (Diff): what is not there any more is known by its absence alone.
	Jump bool

	TopicsDeleted []*Topic // as they were
	TopicsCreated []*Topic
	TopicsChanged []TopicChange
	Brokers       []BrokerChange
	Configs       []ConfigResource // set, changed or removed
	Quorum        bool             // members changed
	GossipKey     bool
	ProducerIDs   bool
}

// TopicChange is a topic of which some partitions changed or were added. A topic that was deleted and created again is in
// TopicsDeleted and TopicsCreated.
type TopicChange struct {
	Old, New   *Topic
	Partitions []int32 // sorted
}

// BrokerChange is a broker that registered (Old is nil), changed, or was unregistered (New is nil).
type BrokerChange struct {
	ID       kafka.BrokerID
	Old, New *BrokerRegistration
}

// finish freezes the next image and tells what changed. What ends as it began is not a change.
func (e *editor) finish() (*Image, *Delta) {
	d := &Delta{Old: e.old, New: e.next, Quorum: e.members, GossipKey: !bytes.Equal(e.old.GossipKey, e.next.GossipKey), ProducerIDs: e.ids}
	for id := range e.topics {
		before, had := e.old.Topics.ByID(id)
		after, has := e.next.Topics.ByID(id)
		switch {
		case had && !has:
			d.TopicsDeleted = append(d.TopicsDeleted, before)
		case !had && has:
			d.TopicsCreated = append(d.TopicsCreated, after)
		case had && has:
			changed := e.topics[id].changed
			slices.Sort(changed)
			d.addTopicChange(before, after, slices.Compact(changed))
		}
	}
	for id := range e.brokers {
		d.addBrokerChange(e.old, e.next, id)
	}
	for r := range e.configs {
		if !maps.Equal(e.old.Configs.Get(r), e.next.Configs.Get(r)) {
			d.Configs = append(d.Configs, r)
		}
	}
	d.sort()
	return e.next, d
}

func (d *Delta) addTopicChange(before, after *Topic, candidates []int32) {
	c := TopicChange{Old: before, New: after}
	for _, p := range candidates {
		if old := before.Partition(p); old == nil || !old.Equal(after.Partition(p)) {
			c.Partitions = append(c.Partitions, p)
		}
	}
	if c.Partitions != nil {
		d.TopicsChanged = append(d.TopicsChanged, c)
	}
}

func (d *Delta) addBrokerChange(from, to *Image, id kafka.BrokerID) {
	before, had := from.Brokers.ByID(id)
	after, has := to.Brokers.ByID(id)
	if (had || has) && !(had && has && before.equal(after)) {
		d.Brokers = append(d.Brokers, BrokerChange{ID: id, Old: before, New: after})
	}
}

func (d *Delta) sort() {
	byName := func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(d.TopicsDeleted, byName)
	slices.SortFunc(d.TopicsCreated, byName)
	slices.SortFunc(d.TopicsChanged, func(a, b TopicChange) int { return byName(a.New, b.New) })
	slices.SortFunc(d.Brokers, func(a, b BrokerChange) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(d.Configs, compareResources)
}

// Diff returns the Delta between any two images: for the first image that a node has, and for one that came as a snapshot.
// It looks at everything there is.
func Diff(from, to *Image) *Delta {
	d := &Delta{
		Old: from, New: to, Jump: true,
		GossipKey: !bytes.Equal(from.GossipKey, to.GossipKey), ProducerIDs: from.NextProducerID != to.NextProducerID,
	}
	for t := range from.Topics.All() {
		if _, ok := to.Topics.ByID(t.ID); !ok {
			d.TopicsDeleted = append(d.TopicsDeleted, t)
		}
	}
	for t := range to.Topics.All() {
		old, ok := from.Topics.ByID(t.ID)
		switch {
		case !ok:
			d.TopicsCreated = append(d.TopicsCreated, t)
		case old != t:
			all := make([]int32, len(t.Partitions))
			for p := range all {
				all[p] = int32(p)
			}
			d.addTopicChange(old, t, all)
		}
	}
	for b := range from.Brokers.All() {
		if _, ok := to.Brokers.ByID(b.ID); !ok {
			d.addBrokerChange(from, to, b.ID)
		}
	}
	for b := range to.Brokers.All() {
		d.addBrokerChange(from, to, b.ID)
	}
	for r := range from.Configs.All() {
		if to.Configs.Get(r) == nil {
			d.Configs = append(d.Configs, r)
		}
	}
	for r, m := range to.Configs.All() {
		if !maps.Equal(from.Configs.Get(r), m) {
			d.Configs = append(d.Configs, r)
		}
	}
	d.Quorum = !slices.Equal(slices.Collect(from.Quorum.All()), slices.Collect(to.Quorum.All()))
	d.sort()
	return d
}

// LocalPartition is a partition that one broker has, or had, a replica of.
type LocalPartition struct {
	kafka.TopicPartition
	TopicID      kafka.TopicID
	Registration PartitionRegistration // as it is now; for Deleted as it was
	New          bool                  // the broker had no replica of it before
}

// LocalDelta is the part of a Delta that concerns one broker's replicas.
type LocalDelta struct {
	Deleted   []LocalPartition // the topic is gone, or the replica moved away: to be done before the others
	Leaders   []LocalPartition // this broker leads: it became leader, or the registration of what it leads changed
	Followers []LocalPartition // someone else leads, or no one (Registration.Leader is kafka.NoBroker)
}

// Empty reports whether nothing concerns the broker.
func (l LocalDelta) Empty() bool { return len(l.Deleted)+len(l.Leaders)+len(l.Followers) == 0 }

// Local returns what changed of the replicas of one broker.
func (d *Delta) Local(broker kafka.BrokerID) LocalDelta {
	var l LocalDelta
	for _, t := range d.TopicsDeleted {
		for p := range t.Partitions {
			l.add(broker, t, nil, int32(p))
		}
	}
	for _, c := range d.TopicsChanged {
		for _, p := range c.Partitions {
			l.add(broker, c.Old, c.New, p)
		}
	}
	for _, t := range d.TopicsCreated {
		for p := range t.Partitions {
			l.add(broker, nil, t, int32(p))
		}
	}
	return l
}

func (l *LocalDelta) add(broker kafka.BrokerID, before, after *Topic, p int32) {
	had := before != nil && before.Partition(p) != nil && before.Partition(p).HasReplica(broker)
	has := after != nil && after.Partition(p).HasReplica(broker)
	local := func(t *Topic) LocalPartition {
		return LocalPartition{
			TopicPartition: kafka.TopicPartition{Topic: t.Name, Partition: p}, TopicID: t.ID,
			Registration: *t.Partition(p), New: !had,
		}
	}
	switch {
	case has && after.Partition(p).Leader == broker:
		l.Leaders = append(l.Leaders, local(after))
	case has:
		l.Followers = append(l.Followers, local(after))
	case had:
		l.Deleted = append(l.Deleted, local(before))
	}
}
