package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/log"
	"weir/protocol/batch"
)

// admin is the client that makes topics and changes them.
type admin struct {
	client
	topics int // that it tried to make
}

// submission is the outcome of a command that a broker was asked to have decided.
type submission struct {
	reply controller.Reply
	err   error
}

// submit has some broker see to a command, and tries again until one does. Each try is a command of its own.
func (a *admin) submit(command func() controller.Command, done func(controller.Reply, error)) {
	n := a.s.nodes[a.rng.IntN(len(a.s.nodes))]
	cmd := command()
	callOnce(a.s.net, a.host.id, n.host.id, 3*time.Second, func(reply func(submission)) {
		n.proc.submit(cmd, func(r controller.Reply, err error) { reply(submission{r, err}) })
	}, func(got submission, err error) {
		if err == nil {
			err = got.err
		}
		if err == nil {
			done(got.reply, nil)
			return
		}
		a.s.w.tracef("admin: %T: %v", cmd, err)
		a.host.after(between(a.rng, 50*time.Millisecond, 300*time.Millisecond), func() { a.submit(command, done) })
	})
}

// create makes a topic.
func (a *admin) create(t topicSpec, done func()) {
	text := func(s string) *string { return &s }
	a.submit(func() controller.Command {
		a.topics++
		return controller.CreateTopics{Seed: a.rng.Uint64(), Topics: []controller.NewTopic{{
			Name: t.name, ID: kafka.TopicID{0: 0x70, 1: byte(a.topics), 2: byte(a.topics >> 8), 15: 200}, NumPartitions: t.partitions, ReplicationFactor: t.rf,
			Configs: []controller.ConfigValue{
				{Name: "min.insync.replicas", Value: text(strconv.Itoa(t.minISR))},
				{Name: "unclean.leader.election.enable", Value: text(strconv.FormatBool(t.unclean))},
			},
		}}}
	}, func(reply controller.Reply, _ error) {
		switch r := reply.(controller.CreateTopicsReply).Topics[0]; r.Code {
		case kafka.None, kafka.TopicAlreadyExists: // by an attempt without an answer
			done()
		default: // too few brokers are there
			a.s.w.tracef("admin: create %s: %v", t.name, r.Code)
			a.host.after(200*time.Millisecond, func() { a.create(t, done) })
		}
	})
}

// createTopics makes the topics of the load.
func (s *simulation) createTopics() {
	for _, t := range s.c.topics {
		s.admin.create(t, func() {})
	}
	if s.c.groups > 0 {
		s.admin.create(topicSpec{name: kafka.ConsumerOffsetsTopic, partitions: 2, rf: int16(min(3, s.c.brokers)), minISR: s.c.offsetsMinISR}, func() {})
	}
}

// changeTopics deletes a topic and makes it anew, or gives one more partitions.
func (s *simulation) changeTopics(rng *rand.Rand) bool {
	t := &s.c.topics[rng.IntN(len(s.c.topics))]
	if s.changing[t.name] {
		return false
	}
	s.changing[t.name] = true
	done := func() { s.changing[t.name] = false }
	if rng.IntN(2) == 0 {
		more := controller.CreatePartitions{Seed: rng.Uint64(), Topics: []controller.MorePartitions{{Name: t.name, Count: t.partitions + 1}}}
		s.admin.submit(func() controller.Command { return more },
			func(reply controller.Reply, _ error) {
				if reply.(controller.CreatePartitionsReply).Topics[0].Code == kafka.None {
					t.partitions++
				}
				done()
			})
		return true
	}
	name := t.name
	s.admin.submit(func() controller.Command {
		return controller.DeleteTopics{Topics: []controller.TopicRef{{Name: &name}}}
	}, func(controller.Reply, error) {
		s.admin.host.after(between(rng, 0, 500*time.Millisecond), func() {
			s.rare.count(rareTopicRecreated)
			s.admin.create(*t, done)
		})
	})
	return true
}

// elect has leaders elected by hand: the preferred ones, or, where a topic allows it, any.
func (s *simulation) elect(rng *rand.Rand) bool {
	c := controller.ElectLeaders{Type: controller.PreferredElection, All: true}
	if t := s.c.topics[rng.IntN(len(s.c.topics))]; t.unclean {
		c = controller.ElectLeaders{Type: controller.UncleanElection}
		for p := range t.partitions {
			c.Partitions = append(c.Partitions, kafka.TopicPartition{Topic: t.name, Partition: p})
		}
	}
	s.admin.submit(func() controller.Command { return c }, func(controller.Reply, error) {})
	return true
}

// trim deletes records of a partition, up to some offset that is committed.
func (s *simulation) trim(rng *rand.Rand) bool {
	n := s.nodes[rng.IntN(len(s.nodes))]
	if n.proc == nil || n.host.paused || len(n.proc.parts) == 0 {
		return false
	}
	o := n.proc.parts[rng.IntN(len(n.proc.parts))]
	if o.partition.LeaderEpoch() == kafka.NoLeaderEpoch || kafka.IsInternalTopic(o.partition.TP().Topic) {
		return false
	}
	start, hw := o.log.StartOffset(), o.log.HighWatermark()
	offset := pick(rng, hw, start+rng.Int64N(hw-start+1))
	n.host.after(0, func() {
		if _, err := o.partition.DeleteRecords(offset); err == nil {
			s.w.tracef("n%d deletes what lies below %d of %v", n.id, offset, o.partition.TP())
		}
	})
	return true
}

// spec finds a topic of the load by its name.
func (s *simulation) spec(topic string) (t topicSpec, ok bool) {
	i := slices.IndexFunc(s.c.topics, func(t topicSpec) bool { return t.name == topic })
	if i < 0 {
		return topicSpec{segmentBytes: 1 << 20, minISR: s.c.offsetsMinISR}, false
	}
	return s.c.topics[i], true
}

func (s *simulation) mayLose(topic string) bool {
	t, _ := s.spec(topic)
	return t.unclean
}

// minISR is what the metadata says of a topic's minimum.
func (s *simulation) minISR(img *metadata.Image, topic string) int {
	for _, m := range []map[string]string{img.Configs.Topic(topic), img.Configs.BrokerDefault()} {
		if n, err := strconv.Atoi(m["min.insync.replicas"]); err == nil {
			return n
		}
	}
	return 1
}

// topicConfig is what brokers take from an image for a topic. What the sizes of segments and their like are is the
// seed's affair: the controller would refuse such small ones.
func (s *simulation) topicConfig(img *metadata.Image, topic string) *replica.TopicConfig {
	t, _ := s.spec(topic)
	return &replica.TopicConfig{
		Log: logConfig(t), MinInsyncReplicas: s.minISR(img, topic),
		Rules: batch.Rules{
			MaxMessageBytes: 1 << 20, SegmentBytes: max(t.segmentBytes, 1<<20), TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 1 << 60,
			Compression: batch.Compression{Producer: true}, MaxDecompressedRecordBytes: 1 << 30,
		},
	}
}

func logConfig(t topicSpec) log.Config {
	c := log.DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = t.segmentBytes, min(c.IndexIntervalBytes, t.segmentBytes/4)
	c.RetentionMs, c.RetentionBytes, c.FileDeleteDelayMs = -1, cmp.Or(t.retention, -1), 1000
	if t.flushEach {
		c.FlushMessages = 1
	}
	return c
}

// know begins the history of a partition, unless it is known.
func (s *simulation) know(id partitionID, tp kafka.TopicPartition) {
	if !s.check.knows(id) {
		s.check.partition(id, tp, s.mayLose(tp.Topic), kafka.IsInternalTopic(tp.Topic))
	}
}

func (n *node) String() string { return fmt.Sprintf("n%d", n.id) }
