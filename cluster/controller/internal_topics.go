package controller

import (
	"slices"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// raiseInternalTopics gives internal topics the replicas that they could not have when they were created, now that there are
// brokers for them. It is a reassignment that only adds, so it takes nothing from anyone: the new replicas become part
// of the ISR when they have caught up. One that is under way and only adds may grow; one that removes is someone's wish, and
// left alone. Since the first brokers of a cluster would lead all these partitions for ever, the order of preference is
// turned by the partition's number.
func (d *decision) raiseInternalTopics() Reply {
	var reply RaiseInternalTopicsReply
	var active []*metadata.BrokerRegistration
	for b := range d.img.Brokers.All() {
		if b.Active() {
			active = append(active, b)
		}
	}
	for _, it := range []struct {
		name   string
		factor int16
	}{
		{kafka.ConsumerOffsetsTopic, d.settings.OffsetsTopicReplicationFactor},
		{kafka.TransactionStateTopic, d.settings.TransactionTopicReplicationFactor},
		{kafka.ShareGroupStateTopic, d.settings.ShareTopicReplicationFactor},
	} {
		if topic, exists := d.img.Topics.ByName(it.name); exists {
			reply.Partitions += d.raise(topic, active, min(int(it.factor), len(active)))
		}
	}
	return reply
}

// raise has the partitions of a topic have at least factor replicas, and returns how many get more.
func (d *decision) raise(topic *metadata.Topic, active []*metadata.BrokerRegistration, factor int) (raised int) {
	load := make(map[kafka.BrokerID]int, len(active))
	for i := range topic.Partitions {
		for _, id := range topic.Partitions[i].Replicas {
			load[id]++
		}
	}
	rules := d.rules(topic.Name)
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		if len(p.Replicas) >= factor || len(p.Removing) > 0 {
			continue
		}
		t := d.transition(p, rules)
		replicas, adding := slices.Clone(p.Replicas), slices.Clone(p.Adding)
		for len(replicas) < factor {
			id, found := d.another(active, replicas, load)
			if !found {
				break
			}
			load[id]++
			replicas, adding = append(replicas, id), append(adding, id)
		}
		slices.Sort(replicas)
		slices.Sort(adding)
		turn := i % len(replicas)
		t.target.Replicas = slices.Concat(replicas[turn:], replicas[:turn])
		t.target.Adding = adding
		t.target.Directories = d.directories(p, t.target.Replicas)
		next, _ := t.apply(p)
		d.add(metadata.PartitionRecord{TopicID: topic.ID, Partition: int32(i), PartitionRegistration: next})
		raised++
	}
	return raised
}

// another chooses the next replica: in a rack that has none before one that has, then the broker with the fewest.
func (d *decision) another(active []*metadata.BrokerRegistration, replicas []kafka.BrokerID, load map[kafka.BrokerID]int) (best kafka.BrokerID, found bool) {
	racks := make(map[string]bool, len(replicas))
	for _, id := range replicas {
		if b, known := d.img.Brokers.ByID(id); known {
			racks[b.Rack] = true
		}
	}
	bestUsed := false
	for _, b := range active {
		if slices.Contains(replicas, b.ID) {
			continue
		}
		used := racks[b.Rack]
		if !found || bestUsed && !used || bestUsed == used && load[b.ID] < load[best] {
			best, bestUsed, found = b.ID, used, true
		}
	}
	return best, found
}

// directories returns the directories of replicas, of which those that p has stay where they are.
func (d *decision) directories(p *metadata.PartitionRegistration, replicas []kafka.BrokerID) []kafka.DirectoryID {
	directories := make([]kafka.DirectoryID, len(replicas))
	for i, id := range replicas {
		if p.HasReplica(id) {
			directories[i] = p.Directory(id)
		} else if b, known := d.img.Brokers.ByID(id); known {
			directories[i] = onlyDirectory(b)
		}
	}
	return directories
}
