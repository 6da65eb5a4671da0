package broker

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/coordinator"
	"weir/coordinator/group"
	"weir/internal/kafka"
)

// selfFence has a broker that can no longer be sure of its session serve nothing of what it leads, since others may lead it
// by now (weir.broker.self.fence). Partitions refuse requests from the moment on; who waits at them is told, and coordinators end,
// by a goroutine of its own, since locks of partitions may have to wait for the disk. When the lease is there again they are
// loaded anew: what was appended in between was refused, which a shard does not survive.
type selfFence struct {
	replicas *replica.Manager
	groups   *coordinator.Runtime
	self     kafka.BrokerID
	logger   *slog.Logger
	lost     atomic.Bool
	news     chan struct{} // with a buffer of one: lost changed
	mu       struct {
		sync.Mutex                 // held while coordinators are elected and resign
		image      *metadata.Image // that coordinators follow
	}
}

func newSelfFence(self kafka.BrokerID, replicas *replica.Manager, groups *coordinator.Runtime, logger *slog.Logger) *selfFence {
	f := &selfFence{replicas: replicas, groups: groups, self: self, logger: logger, news: make(chan struct{}, 1)}
	f.mu.image = metadata.Empty()
	return f
}

// leaseLost is cluster.Options.LeaseLost. It does not block.
func (f *selfFence) leaseLost(lost bool) {
	f.lost.Store(lost)
	f.replicas.SetFenced(lost)
	if lost {
		f.logger.Warn("no controller has heard this broker for as long as its session lasts; it serves nothing that it leads until one does", "broker", f.self)
	} else {
		f.logger.Info("a controller has heard this broker; it serves again", "broker", f.self)
	}
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// run does what leaseLost has no time for, until the broker stops.
func (f *selfFence) run(stopping <-chan struct{}) {
	for {
		select {
		case <-f.news:
			f.follow()
		case <-stopping:
			return
		}
	}
}

// follow has everything be as the lease is now. Whether it was lost and found in between is not known, so coordinators are
// ended in any case.
func (f *selfFence) follow() {
	if f.lost.Load() {
		f.replicas.RefuseWaiting()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, partition := range f.groups.Owned() {
		f.groups.Resign(partition)
	}
	topic, ok := f.mu.image.Topics.ByName(kafka.ConsumerOffsetsTopic)
	if f.lost.Load() || !ok {
		return
	}
	for i := range topic.Partitions {
		if r := &topic.Partitions[i]; r.Leader == f.self {
			f.electLocked(int32(i), r.LeaderEpoch)
		}
	}
	f.groups.Each(topicsThere(f.mu.image))
}

// electLocked makes this broker the coordinator of a partition that it leads, and reports whether it could.
func (f *selfFence) electLocked(partition int32, epoch kafka.LeaderEpoch) bool {
	p := f.replicas.Partition(kafka.TopicPartition{Topic: kafka.ConsumerOffsetsTopic, Partition: partition})
	if p == nil || f.lost.Load() {
		return false
	}
	f.groups.Elect(partition, epoch, replica.Coordinated{Partition: p})
	return true
}

// topicsThere tells a shard which topics there are.
func topicsThere(img *metadata.Image) group.TopicsThere {
	return group.TopicsThere{ID: func(topic string) (kafka.TopicID, bool) {
		t, ok := img.Topics.ByName(topic)
		if !ok {
			return kafka.TopicID{}, false
		}
		return t.ID, true
	}}
}
