package cluster

import (
	"fmt"
	"slices"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

const (
	// maxQueued bounds the commands that wait for a decision. A connection has one at a time; beyond this, clients are
	// better served by an answer that they retry.
	maxQueued = 10_000
	// maxEntryRecords ends an entry: about 2 MiB, which a follower gets in one message. A single command may exceed it.
	maxEntryRecords = 20_000
)

// active is what a node has while it is the active controller. All of it is soft.
type active struct {
	leases controller.Leases
	queue  []*submission
	flight *flight   // what was proposed and is not applied yet
	hold   time.Time // nothing is proposed before
	duty   duty

	autopilot autopilot
}

// flight is the entry that is under way.
type flight struct {
	term    int32
	answers []answer
}

func (f *flight) submissions() (out []*submission) {
	for _, a := range f.answers {
		out = append(out, a.submission)
	}
	return out
}

// answer is what a command gets when the entry that it was decided in is published.
type answer struct {
	*submission
	reply controller.Reply
	err   error
}

// putBack has what was proposed decided again, before younger commands.
func (a *active) putBack(f *flight) {
	a.flight = nil
	a.queue = append(f.submissions(), a.queue...)
}

// clear drops all that waits, and returns it.
func (a *active) clear() (waiting []*submission) {
	if a.flight != nil {
		waiting = a.flight.submissions()
	}
	waiting = append(waiting, a.queue...)
	a.flight, a.queue = nil, nil
	return waiting
}

func notController() error {
	return kafka.Errorf(kafka.NotController, "This is not the correct controller for this cluster.")
}

// begin makes this node the active controller. Everybody's session begins anew, since what the one before had heard is
// not known. Of that one's own broker this node knows more: it fell silent before there was an election.
func (c *control) begin() {
	c.resetLeases()
	if m, known := c.quorum.Image().Quorum.ByRaftID(c.before.leader); known && m.Node != c.o.Self {
		since := c.now.Add(-2 * c.o.ElectionTimeout) // longer ago it says more of this node than of that one
		if c.before.at.After(since) {
			since = c.before.at
		}
		c.active.leases.Silent(m.Node, since)
	}
	c.active.duty, c.active.autopilot = duty{changed: true, raise: true, looked: c.now}, autopilot{alone: map[uint64]time.Time{}}
	if c.o.BalanceInterval > 0 {
		c.active.duty.balance = c.now.Add(c.o.BalanceInterval)
	}
	if c.quorum.Image().Index > 0 {
		return
	}
	initialize := &submission{cmd: controller.Initialize{ClusterID: c.o.ClusterID, GossipKey: c.o.newGossipKey()}, from: own, done: func(_ Answer, err error) {
		if err != nil && !undecided(err) {
			c.fatal = fmt.Errorf("initialize the cluster: %w", err)
		}
	}}
	c.active.queue = slices.Insert(c.active.queue, 0, initialize)
}

// resetLeases forgets what was heard from others. What this node saw of them itself is known all the same, and what gossip says.
func (c *control) resetLeases() {
	c.active.leases.Reset(c.now)
	c.active.leases.Testimony(c.quorum.Image(), c.o.Self, c.sightings)
	c.repeatRumours()
}

// resign gives up what was to be decided here: it goes to whoever leads now. What was under way may come true nevertheless.
func (c *control) resign() {
	if f := c.active.flight; f != nil {
		c.active.flight = nil
		for _, s := range f.submissions() {
			c.again(s, true)
		}
	}
	queue := c.active.queue
	c.active.queue = nil
	for _, s := range queue {
		c.again(s, false)
	}
}

// fenceLast has everybody heard before anybody is taken for silent: heartbeats that came while the decision to fence waited, for
// an entry that was under way, say.
func (a *active) fenceLast() {
	is := func(s *submission) bool { _, fence := s.cmd.(controller.FenceBrokers); return fence }
	if i := slices.IndexFunc(a.queue, is); i >= 0 {
		s := a.queue[i]
		a.queue = append(slices.Delete(a.queue, i, i+1), s)
	}
}

// decide takes commands off the queue, decides them and proposes what was decided as one entry.
func (c *control) decide() {
	c.active.fenceLast()
	base := c.quorum.Image()
	img := base
	f := &flight{term: c.lead.Term}
	var records []metadata.Record
	n := 0
	for ; n < len(c.active.queue) && len(records) < maxEntryRecords; n++ {
		s := c.active.queue[n]
		decided, reply, err := c.decision(img, s.command())
		if err == nil && len(decided) > 0 {
			var next *metadata.Image
			if next, _, err = img.With(decided); err == nil {
				c.warnUnclean(img, decided)
				img = next
				records = append(records, decided...)
			} else {
				err = fmt.Errorf("what was decided for %T does not apply: %w", s.cmd, err)
				c.logger.Error("a decision was dropped", "error", err)
			}
		}
		if _, heartbeat := s.cmd.(controller.BrokerHeartbeat); heartbeat || err == nil {
			c.active.leases.Heard(base, s.cmd, c.now)
			c.active.duty.changed = true
		}
		f.answers = append(f.answers, answer{s, reply, err})
	}
	c.active.queue = slices.Delete(c.active.queue, 0, n)
	if len(records) == 0 { // nothing to write; but what an answer speaks of may be on its way to be published
		if rest := c.give(f.answers, base.Index); rest != nil {
			c.publish(publication{index: base.Index, answers: rest})
		}
		return
	}
	c.active.flight = f
	c.step(quorum.Propose{Data: metadata.AppendEntry(nil, base.Index, records)})
}

// warnUnclean tells of leaders that may lack what was acknowledged and others have: nobody should have to find out by missing
// it.
func (c *control) warnUnclean(img *metadata.Image, decided []metadata.Record) {
	for _, u := range controller.UncleanLeaders(img, decided) {
		topic, _ := img.Topics.ByID(u.Topic)
		if len(topic.Partition(u.Partition).Replicas) == 1 {
			continue // nobody else has anything
		}
		c.logger.Warn("an unclean election: records that were acknowledged may be lost", "partition", kafka.TopicPartition{Topic: topic.Name, Partition: u.Partition}, "leader", u.Leader)
	}
}

// give answers those who do not wait for publication, and returns the others.
func (c *control) give(answers []answer, index int64) (rest []answer) {
	for _, a := range answers {
		if r, ok := a.reply.(controller.RegisterBrokerReply); ok {
			a.reply = r.Committed(index)
		}
		if a.from == client {
			rest = append(rest, a)
		} else {
			a.done(Answer{Reply: a.reply, Index: index}, a.err)
		}
	}
	return rest
}
