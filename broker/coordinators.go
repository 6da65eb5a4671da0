package broker

import (
	"math/rand/v2"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/coordinator"
	"weir/coordinator/group"
	"weir/internal/kafka"
	"weir/protocol/batch"
)

// newGroups makes the coordinator of groups, whose partitions are those of __consumer_offsets.
func (b *Broker) newGroups() *coordinator.Runtime {
	o, g := b.Config.Offsets, b.Config.Groups
	settings := group.Settings{
		InitialRebalanceDelay: g.InitialRebalanceDelay,
		MinSessionTimeout:     g.MinSessionTimeout,
		MaxSessionTimeout:     g.MaxSessionTimeout,
		MaxSize:               g.MaxSize,
		OffsetsRetention:      o.Retention,
		OffsetsRetentionCheck: o.RetentionCheck,
		OffsetMetadataMax:     int(o.MetadataMaxBytes),
	}
	return coordinator.New(coordinator.Options{
		Topic: kafka.ConsumerOffsetsTopic,
		New: func() coordinator.Shard {
			return group.New(settings, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
		},
		CommitTimeout: o.CommitTimeout,
		Codec:         batch.Codec(o.TopicCodec),
		Clock:         b.Clock, Logger: b.Logger, Metrics: b.Metrics,
	})
}

// coordinate makes this broker the coordinator of the partitions that it leads, and of no others, after the replicas
// have taken the change over.
func (b *Broker) coordinate(delta *metadata.Delta, img *metadata.Image) {
	b.fence.mu.Lock()
	defer b.fence.mu.Unlock()
	b.fence.mu.image = img
	partitions := int32(0)
	if t, ok := img.Topics.ByName(kafka.ConsumerOffsetsTopic); ok {
		partitions = int32(len(t.Partitions))
	}
	b.groups.SetPartitions(partitions)
	local := delta.Local(b.Config.NodeID)
	for _, lost := range [][]metadata.LocalPartition{local.Deleted, local.Followers} {
		for _, p := range lost {
			if p.Topic == kafka.ConsumerOffsetsTopic {
				b.groups.Resign(p.Partition)
			}
		}
	}
	elected := false
	for _, p := range local.Leaders {
		if p.Topic != kafka.ConsumerOffsetsTopic {
			continue
		}
		if b.fence.electLocked(p.Partition, p.Registration.LeaderEpoch) {
			elected = elected || isNewEpoch(delta.Old, p)
		} else { // its log cannot be used
			b.groups.Resign(p.Partition)
		}
	}
	if elected { // whoever was the coordinator before may have ended between a deletion and what follows of it
		b.groups.Each(topicsThere(img))
	}
	if len(delta.TopicsDeleted) > 0 {
		var deleted group.TopicsDeleted
		for _, t := range delta.TopicsDeleted {
			deleted.Topics = append(deleted.Topics, group.DeletedTopic{Name: t.Name, ID: t.ID})
		}
		b.groups.Each(deleted)
	}
}

// isNewEpoch reports whether a partition has another leader epoch than it had, and not just another ISR.
func isNewEpoch(before *metadata.Image, p metadata.LocalPartition) bool {
	t, ok := before.Topics.ByID(p.TopicID)
	if !ok {
		return true
	}
	old := t.Partition(p.Partition)
	return old == nil || old.LeaderEpoch != p.Registration.LeaderEpoch
}

var _ coordinator.Partition = replica.Coordinated{}
