package sim

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/coordinator"
	"weir/coordinator/group"
	"weir/internal/kafka"
	"weir/internal/metrics"
	"weir/protocol/batch"
)

// newGroups makes the process's coordinator of groups.
func (p *process) newGroups(logger *slog.Logger) *coordinator.Runtime {
	settings := group.Settings{
		InitialRebalanceDelay: 100 * time.Millisecond, MinSessionTimeout: time.Second, MaxSessionTimeout: time.Minute, MaxSize: 100,
		OffsetsRetention: 24 * time.Hour, OffsetsRetentionCheck: time.Hour, OffsetMetadataMax: 4096,
	}
	return coordinator.New(coordinator.Options{
		Topic: kafka.ConsumerOffsetsTopic, New: func() coordinator.Shard {
			return group.New(settings, rand.New(rand.NewPCG(p.s.w.seed, uint64(p.n.id))))
		},
		CommitTimeout: time.Second, Codec: batch.None, Clock: p.clock, Logger: logger, Metrics: metrics.NewRegistry(), Stepped: true,
	})
}

// coordinate makes the process the coordinator of the partitions that it leads, as package broker does.
func (p *process) coordinate(delta *metadata.Delta, img *metadata.Image) {
	partitions := int32(0)
	if t, ok := img.Topics.ByName(kafka.ConsumerOffsetsTopic); ok {
		partitions = int32(len(t.Partitions))
	}
	p.groups.SetPartitions(partitions)
	local := delta.Local(p.n.id)
	for _, lost := range [][]metadata.LocalPartition{local.Deleted, local.Followers} {
		for _, l := range lost {
			if l.Topic == kafka.ConsumerOffsetsTopic {
				p.groups.Resign(l.Partition)
			}
		}
	}
	for _, l := range local.Leaders {
		if l.Topic != kafka.ConsumerOffsetsTopic {
			continue
		}
		partition := p.replicas.Partition(l.TopicPartition)
		if partition == nil {
			p.groups.Resign(l.Partition)
			continue
		}
		if l.Registration.LeaderEpoch > 0 && partition.Log().EndOffset() > 0 {
			p.s.rare.count(rareGroupMoved)
		}
		p.groups.Elect(l.Partition, l.Registration.LeaderEpoch, replica.Coordinated{Partition: partition})
	}
}

// committer commits ever higher offsets for a group that has no members, and asks for what is committed.
type committer struct {
	client
	group    string
	topic    topicSpec
	interval time.Duration
	next     int64 // to be committed
	acked    int64 // what is known to be committed; -1 for nothing
	// open are commits without an answer. Such a request may lie in a broker's queue and be served at any time, after
	// younger ones, too: nothing tells it from one that is meant to go back.
	open map[int64]bool
	busy bool
}

func newCommitter(s *simulation, index int) *committer {
	name := "group" + string(rune('0'+index))
	c := &committer{client: newClient(s, name), group: name, topic: s.c.topics[0], acked: -1, open: map[int64]bool{}}
	c.interval = between(c.rng, 20*time.Millisecond, 200*time.Millisecond)
	return c
}

func (c *committer) start() {
	c.refresh()
	c.host.after(c.interval, c.tick)
}

func (c *committer) tick() {
	if c.s.healed {
		return
	}
	c.host.after(c.interval, c.tick)
	t, ok := c.image.Topics.ByName(kafka.ConsumerOffsetsTopic)
	if !ok || c.rng.IntN(20) == 0 {
		c.refresh()
	}
	if !ok || c.busy {
		return
	}
	p := coordinator.PartitionFor(c.group, int32(len(t.Partitions)))
	n, _ := c.leader(partitionID{TopicID: t.ID, Partition: p})
	if n == nil {
		c.refresh()
		return
	}
	c.busy = true
	if c.rng.IntN(3) == 0 {
		c.fetch(n)
	} else {
		c.commit(n)
	}
}

// groupAnswer is what a coordinator says to a call.
type groupAnswer struct {
	body any
	err  error
}

func (c *committer) ask(n *node, body any, done func(body any, err error)) {
	callOnce(c.s.net, c.host.id, n.host.id, callTimeout, func(reply func(groupAnswer)) {
		n.proc.groups.Submit(c.group, &coordinator.Call{Body: body, ClientHost: "/127.0.0.1", Done: func(body any, err error) { reply(groupAnswer{body, err}) }})
	}, func(a groupAnswer, err error) {
		c.busy = false
		if err == nil {
			err = a.err
		}
		done(a.body, err)
	})
}

func (c *committer) commit(n *node) {
	offset := c.next
	c.next++
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, c.group, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = c.topic.name, kafka.TopicID{0: 0x71, 15: 200}, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	c.ask(n, req, func(body any, err error) {
		code := kafka.CodeOf(err)
		if err == nil {
			code = kafka.Code(body.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
		}
		if c.failed("offset commit", code, err) {
			c.open[offset] = true
			return
		}
		c.s.w.tracef("%s commits %d", c.group, offset)
		c.s.check.offsetCommits++
		c.acked = max(c.acked, offset)
	})
}

func (c *committer) fetch(n *node) {
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = c.topic.name, []int32{0}
	acked := c.acked
	c.ask(n, group.FetchOffsets{Group: c.group, MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{t}}, func(body any, err error) {
		if c.failed("offset fetch", kafka.CodeOf(err), err) {
			return
		}
		offset := body.(*kmsg.OffsetFetchResponseGroup).Topics[0].Partitions[0].Offset
		if (offset < acked || offset >= c.next) && !c.open[offset] {
			c.s.check.violate("committed-offset", c.group, "%s has committed %d, and is told %d; it has sent what lies below %d", c.group, acked, offset, c.next)
		}
		c.acked = offset // what was read once is committed
	})
}

// failed looks at what went wrong; false if nothing did.
func (c *committer) failed(what string, code kafka.Code, err error) bool {
	if _, lost := err.(callError); lost {
		c.refresh()
		return true
	}
	switch code {
	case kafka.None:
		return false
	case kafka.NotCoordinator, kafka.CoordinatorLoadInProgress, kafka.CoordinatorNotAvailable, kafka.KafkaStorageError:
		c.refresh()
	default:
		c.s.check.unexpected(what, code, err)
	}
	return true
}
