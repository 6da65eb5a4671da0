package controller

import (
	"maps"
	"slices"
	"strings"

	"weir/broker/config"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// maxPartitionsPerRequest bounds what one request may create, and so the size of an entry of the log (about 700 KiB with
// one replica each). It is Kafka's MAX_PARTITIONS_PER_BATCH.
const maxPartitionsPerRequest = 10_000

func (d *decision) createTopics(c CreateTopics) Reply {
	var reply CreateTopicsReply
	wanted, refused := separateNames(c.Topics)
	if d.partitionCount(wanted) > maxPartitionsPerRequest {
		for _, t := range wanted {
			r := failed(kafka.PolicyViolation, "Excessively large number of partitions per request.")
			reply.Topics = append(reply.Topics, CreatedTopic{Name: t.Name, Result: r})
		}
		reply.Topics = append(reply.Topics, refused...)
		return reply
	}
	place, placeInternal := newPlacer(d.img, c.Seed, true), newPlacer(d.img, c.Seed, false)
	ids := make(map[kafka.TopicID]bool, len(wanted))
	for i := range wanted {
		t, p := &wanted[i], place
		if kafka.IsInternalTopic(t.Name) {
			p = placeInternal
		}
		reply.Topics = append(reply.Topics, d.createTopic(t, p, ids))
	}
	reply.Topics = append(reply.Topics, refused...)
	if c.ValidateOnly {
		d.records = nil
	}
	return reply
}

// separateNames takes out what is refused for its name alone: names given twice, and the metadata log's.
func separateNames(topics []NewTopic) (wanted []NewTopic, refused []CreatedTopic) {
	times := make(map[string]int, len(topics))
	for _, t := range topics {
		times[t.Name]++
	}
	for _, t := range topics {
		switch {
		case times[t.Name] > 1:
			r := failed(kafka.InvalidRequest, "Duplicate topic name.")
			refused = append(refused, CreatedTopic{Name: t.Name, Result: r})
			times[t.Name] = 0 // answered once
		case times[t.Name] == 0:
		case t.Name == kafka.ClusterMetadataTopic:
			r := failed(kafka.InvalidRequest, "Creation of internal topic %s is prohibited.", t.Name)
			refused = append(refused, CreatedTopic{Name: t.Name, Result: r})
		default:
			wanted = append(wanted, t)
		}
	}
	return wanted, refused
}

func (d *decision) partitionCount(topics []NewTopic) (n int64) {
	for _, t := range topics {
		switch {
		case len(t.Assignments) > 0:
			n += int64(len(t.Assignments))
		case t.NumPartitions == -1:
			n += int64(d.settings.NumPartitions)
		default:
			n += int64(max(0, t.NumPartitions))
		}
	}
	return n
}

// createTopic checks in Kafka's order: existence, name, configs, then numbers; the first that fails is the answer. ids are those
// of the topics before it.
func (d *decision) createTopic(t *NewTopic, place *placer, ids map[kafka.TopicID]bool) CreatedTopic {
	configs, r := d.checkNewTopic(t)
	var partitions []metadata.PartitionRegistration
	if r.OK() {
		if len(t.Assignments) > 0 {
			partitions, r = d.assignByHand(t)
		} else {
			partitions, r = d.assign(t, place)
		}
	}
	if _, taken := d.img.Topics.ByID(t.ID); r.OK() && (taken || ids[t.ID] || isReserved(t.ID)) { // whose ids are random never meets this
		r = failed(kafka.InvalidRequest, "The topic id %s is taken.", t.ID)
	}
	if !r.OK() {
		return CreatedTopic{Name: t.Name, Result: r}
	}
	ids[t.ID] = true
	d.add(metadata.TopicRecord{ID: t.ID, Name: t.Name})
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		value := configs[key]
		d.add(metadata.ConfigRecord{Resource: topicResource(t.Name), Key: key, Value: &value})
	}
	for p, reg := range partitions {
		d.add(metadata.PartitionRecord{TopicID: t.ID, Partition: int32(p), PartitionRegistration: reg})
	}
	return CreatedTopic{
		Name: t.Name, ID: t.ID, NumPartitions: int32(len(partitions)), ReplicationFactor: int16(len(partitions[0].Replicas)), Configs: configs,
	}
}

func topicResource(name string) metadata.ConfigResource {
	return metadata.ConfigResource{Type: metadata.TopicResource, Name: name}
}

func (d *decision) checkNewTopic(t *NewTopic) (configs map[string]string, r Result) {
	if _, exists := d.img.Topics.ByName(t.Name); exists {
		return nil, failed(kafka.TopicAlreadyExists, "Topic '%s' already exists.", t.Name)
	}
	if err := kafka.ValidateTopicName(t.Name); err != nil {
		return nil, failedWith(err)
	}
	if other, collides := d.img.Topics.Colliding(t.Name); collides {
		return nil, failed(kafka.InvalidTopic, "Topic '%s' collides with existing topic: %s", t.Name, other)
	}
	var nulls []string
	for _, c := range t.Configs {
		if c.Value == nil {
			nulls = append(nulls, c.Name)
			continue
		}
		if configs == nil {
			configs = make(map[string]string, len(t.Configs))
		}
		configs[c.Name] = *c.Value
	}
	if nulls != nil {
		return nil, failed(kafka.InvalidConfig, "Null value not supported for topic configs: %s", strings.Join(nulls, ","))
	}
	if err := d.settings.Config.ValidateTopic(configs); err != nil {
		return nil, failedWith(err)
	}
	maps.DeleteFunc(configs, func(name, _ string) bool { return config.IsRemovedTopicConfig(name) })
	return configs, ok
}

// assign chooses the replicas. Internal topics get as many as there can be at once: a coordinator that works with one broker
// is worth more than one that waits for three. RaiseInternalTopics gives them the others.
func (d *decision) assign(t *NewTopic, place *placer) ([]metadata.PartitionRegistration, Result) {
	switch {
	case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
		return nil, failed(kafka.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case t.NumPartitions < -1 || t.NumPartitions == 0:
		return nil, failed(kafka.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	count, factor := t.NumPartitions, int(t.ReplicationFactor)
	if count == -1 {
		count = d.settings.NumPartitions
	}
	if factor == -1 {
		factor = int(d.settings.DefaultReplicationFactor)
	}
	if kafka.IsInternalTopic(t.Name) {
		factor = max(1, min(factor, place.total))
	}
	if err := place.check(factor); err != nil {
		return nil, failed(kafka.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): %s", factor, err)
	}
	partitions := make([]metadata.PartitionRegistration, count)
	for p := range partitions {
		partitions[p] = d.newPartition(place.place(int32(p), factor))
	}
	return partitions, ok
}

func (d *decision) assignByHand(t *NewTopic) ([]metadata.PartitionRegistration, Result) {
	switch {
	case t.ReplicationFactor != -1:
		return nil, failed(kafka.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	case t.NumPartitions != -1:
		return nil, failed(kafka.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	byNumber := make(map[int32]metadata.PartitionRegistration, len(t.Assignments))
	factor := 0
	for _, a := range t.Assignments {
		if _, twice := byNumber[a.Partition]; twice {
			return nil, failed(kafka.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		reg, r := d.partitionByHand(a.Partition, a.Replicas, factor)
		if !r.OK() {
			return nil, r
		}
		byNumber[a.Partition] = reg
		factor = len(a.Replicas)
	}
	partitions := make([]metadata.PartitionRegistration, len(byNumber))
	for p := range partitions {
		reg, there := byNumber[int32(p)]
		if !there {
			return nil, failed(kafka.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		partitions[p] = reg
	}
	return partitions, ok
}

// partitionByHand checks the replicas that someone chose. factor is what the other partitions have, 0 for the first.
func (d *decision) partitionByHand(partition int32, replicas []kafka.BrokerID, factor int) (reg metadata.PartitionRegistration, r Result) {
	if r = d.checkReplicas(replicas); !r.OK() {
		return reg, r
	}
	if factor != 0 && len(replicas) != factor {
		return reg, failed(kafka.InvalidReplicaAssignment, "The manual partition assignment includes a partition with %d replica(s), but this is not "+
			"consistent with previous partitions, which have %d replica(s).", len(replicas), factor)
	}
	reg = d.newPartition(slices.Clone(replicas))
	if len(reg.ISR) == 0 {
		return reg, failed(kafka.InvalidReplicaAssignment, "All brokers specified in the manual partition assignment for partition %d are fenced or in "+
			"controlled shutdown.", partition)
	}
	return reg, ok
}

// checkReplicas checks that someone chose brokers that are registered, each once; whether they are active does not matter.
func (d *decision) checkReplicas(replicas []kafka.BrokerID) Result {
	if len(replicas) == 0 {
		return failed(kafka.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		if _, known := d.img.Brokers.ByID(id); !known {
			return failed(kafka.InvalidReplicaAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
		if i > 0 && id == sorted[i-1] {
			return failed(kafka.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", id)
		}
	}
	return ok
}

// newPartition is the first registration of a partition: the active replicas are its ISR, the first of them leads.
func (d *decision) newPartition(replicas []kafka.BrokerID) metadata.PartitionRegistration {
	reg := metadata.PartitionRegistration{Replicas: replicas, Leader: kafka.NoBroker, Directories: make([]kafka.DirectoryID, len(replicas))}
	for i, id := range replicas {
		b, known := d.img.Brokers.ByID(id)
		if !known {
			continue
		}
		if b.Active() {
			reg.ISR = append(reg.ISR, id)
		}
		reg.Directories[i] = onlyDirectory(b)
	}
	if len(reg.ISR) > 0 {
		reg.Leader = reg.ISR[0]
	}
	return reg
}

// onlyDirectory is where a new replica of the broker goes; a broker that has a choice makes it.
func onlyDirectory(b *metadata.BrokerRegistration) kafka.DirectoryID {
	if len(b.Directories) == 1 {
		return b.Directories[0]
	}
	return kafka.UnassignedDirectory
}

func (d *decision) createPartitions(c CreatePartitions) Reply {
	var reply CreatePartitionsReply
	times := make(map[string]int, len(c.Topics))
	var additional int64
	for _, t := range c.Topics {
		times[t.Name]++
		if topic, exists := d.img.Topics.ByName(t.Name); exists {
			additional += max(0, int64(t.Count)-int64(len(topic.Partitions)))
		}
	}
	place := newPlacer(d.img, c.Seed, true)
	for i := range c.Topics {
		t := &c.Topics[i]
		var r Result
		switch {
		case times[t.Name] == 0:
			continue // answered once
		case additional > maxPartitionsPerRequest:
			r = failed(kafka.PolicyViolation, "Excessively large number of additional partitions per request.")
		case times[t.Name] > 1:
			r = failed(kafka.InvalidRequest, "Duplicate topic name.")
		default:
			r = d.addPartitions(t, place)
		}
		times[t.Name] = 0
		reply.Topics = append(reply.Topics, PartitionsResult{t.Name, r})
	}
	if c.ValidateOnly {
		d.records = nil
	}
	return reply
}

func (d *decision) addPartitions(t *MorePartitions, place *placer) Result {
	topic, exists := d.img.Topics.ByName(t.Name)
	if !exists {
		return Result{Code: kafka.UnknownTopicOrPartition} // without a text, as in Kafka
	}
	present := int32(len(topic.Partitions))
	switch {
	case t.Count == present:
		return failed(kafka.InvalidPartitions, "Topic already has %d partition(s).", present)
	case t.Count < present:
		return failed(kafka.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", t.Name, present, t.Count)
	case t.Assignments != nil && len(t.Assignments) != int(t.Count-present):
		return failed(kafka.InvalidReplicaAssignment, "Attempted to add %d additional partition(s), but only %d assignment(s) were specified.",
			t.Count-present, len(t.Assignments))
	}
	first := &topic.Partitions[0]
	factor := len(first.Replicas) - len(first.Removing) // as many as it is to have, where it is being reassigned
	if t.Assignments == nil {
		if err := place.check(factor); err != nil {
			return failedWith(err)
		}
	}
	records := make([]metadata.Record, 0, t.Count-present)
	for p := present; p < t.Count; p++ {
		var reg metadata.PartitionRegistration
		if t.Assignments == nil {
			reg = d.newPartition(place.place(p, factor))
		} else {
			var r Result
			if reg, r = d.partitionByHand(p, t.Assignments[p-present], factor); !r.OK() {
				return r
			}
		}
		records = append(records, metadata.PartitionRecord{TopicID: topic.ID, Partition: p, PartitionRegistration: reg})
	}
	d.add(records...)
	return ok
}
