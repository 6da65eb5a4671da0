package sim

import (
	"slices"
	"time"

	"weir/cluster"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
)

// scenario is a run that is written and not drawn: three brokers on a good network, and what happens to one partition.
type scenario struct {
	name   string
	change func(*config) // of what all scenarios begin with; may be nil
	// play begins when the cluster has settled, and plans what is to happen.
	play func(s *simulation)
}

// config is what all scenarios begin with.
func (sc *scenario) config() config {
	c := config{
		brokers: 3, voters: 3, dirs: 1, policy: log.FsyncBackground, session: 6 * time.Second, heartbeat: 200 * time.Millisecond,
		election: time.Second, lag: 3 * time.Second, fetchWait: 50 * time.Millisecond, sessions: true, fsyncTime: time.Millisecond,
		producers: 2, consumers: 1, offsetsMinISR: 2,
		topics: []topicSpec{{name: "topic-0", partitions: 6, rf: 3, minISR: 2, segmentBytes: 1 << 20, retention: -1}},
		net:    netConfig{base: 500 * time.Microsecond, jitter: 200 * time.Microsecond},
	}
	if sc.change != nil {
		sc.change(&c)
	}
	return c
}

// stage is a partition with the nodes that play a part: its leader, which is not the active controller, and a follower that
// is not, either.
type stage struct {
	*simulation
	id                           partitionID
	leader, follower, controller *node
}

// set finds a partition to play with.
func (s *simulation) set() (st stage, ok bool) {
	st = stage{simulation: s, controller: s.activeController()}
	t, known := s.newest.Topics.ByName("topic-0")
	if !known || st.controller == nil {
		return st, false
	}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.Leader == kafka.NoBroker || p.Leader == st.controller.id || len(p.ISR) < 3 {
			continue
		}
		st.id, st.leader = partitionID{TopicID: t.ID, Partition: int32(i)}, s.node(p.Leader)
		for _, n := range s.nodes {
			if n != st.leader && n != st.controller {
				st.follower = n
			}
		}
		return st, true
	}
	return st, false
}

// registration is the partition as the newest image has it.
func (st stage) registration() *metadata.PartitionRegistration {
	t, known := st.newest.Topics.ByID(st.id.TopicID)
	if !known {
		return &metadata.PartitionRegistration{}
	}
	return t.Partition(st.id.Partition)
}

// active reports whether a node is registered with its present process, and unfenced.
func (st stage) active(n *node) bool {
	b, known := st.newest.Brokers.ByID(n.id)
	return n.proc != nil && known && b.Active() && b.Incarnation == n.incarnation
}

// playLater plays the scenario once the cluster has settled.
func (s *simulation) playLater() {
	s.w.after(100*time.Millisecond, func() { s.o.scenario.play(s) })
}

// when runs f as soon as a condition holds.
func (s *simulation) when(holds func() bool, f func()) {
	if holds() {
		f()
		return
	}
	s.w.after(time.Millisecond, func() { s.when(holds, f) })
}

// theRestartedFollower is the scenario of KIP-903. A leader asks for a follower to join the ISR, and the request takes its
// time; meanwhile the follower loses its power, with all that it copied, and registers anew. What has joined by then is another incarnation, which has
// nothing.
var theRestartedFollower = &scenario{name: "a follower loses what it has while it is on its way into the ISR", play: func(s *simulation) {
	st, ok := s.set()
	if !ok {
		s.playLater()
		return
	}
	st.follower.kill()
	s.when(func() bool { return !st.registration().InISR(st.follower.id) }, func() {
		s.w.after(500*time.Millisecond, func() {
			slow := true
			s.lost = func(from *node, cmd controller.Command) bool {
				switch cmd.(type) {
				case controller.AlterPartition:
					return from == st.leader && slow
				case controller.AssignReplicasToDirs:
					return from == st.follower // what it says would be another change that the leader does not know of
				}
				return false
			}
			st.follower.start()
			s.when(func() bool { return st.active(st.follower) }, func() {
				s.w.after(200*time.Millisecond, func() {
					s.net.cut(both(st.leader.host.id, st.follower.host.id), 1)
					// The directory stays: with another one it could not join before that is told.
					st.follower.powerCut(vfs.LoseAll())
					st.follower.markLossy(true)
					s.restartLater(st.follower, 5*time.Millisecond)
					s.when(func() bool { return st.active(st.follower) }, func() {
						slow = false // the leader asks once more
						s.w.after(4*time.Second, func() {
							s.lost = nil
							s.net.cut(both(st.leader.host.id, st.follower.host.id), -1)
						})
					})
				})
			})
		})
	})
}}

// theLateProposal is what the partition epoch of KIP-497 is for. A leader lets a follower into the ISR, and the network keeps
// a copy of that request. The follower falls behind and leaves the ISR again, while the leader goes on; then the copy arrives.
// Leader epoch and broker epochs are those of today, and the follower lacks what was acknowledged without it.
var theLateProposal = &scenario{name: "a proposal arrives after the ISR has changed once more", play: func(s *simulation) {
	st, ok := s.set()
	if !ok {
		s.playLater()
		return
	}
	var late controller.Command
	st.follower.kill()
	s.when(func() bool { return !st.registration().InISR(st.follower.id) }, func() {
		s.lost = func(from *node, cmd controller.Command) bool {
			if alter, is := cmd.(controller.AlterPartition); is && from == st.leader && late == nil && st.letsIn(alter) {
				late = cmd
			}
			return false
		}
		st.follower.start()
		s.when(func() bool { return late != nil && st.registration().InISR(st.follower.id) }, func() {
			s.lost = nil
			s.net.cut(both(st.leader.host.id, st.follower.host.id), 1)
			s.when(func() bool { return !st.registration().InISR(st.follower.id) }, func() {
				s.w.after(500*time.Millisecond, func() { // records are acknowledged meanwhile
					st.ask(late)
					s.w.after(time.Second, func() { s.net.cut(both(st.leader.host.id, st.follower.host.id), -1) })
				})
			})
		})
	})
}}

// letsIn reports whether a request is to let the follower into the ISR of the partition.
func (st stage) letsIn(cmd controller.AlterPartition) bool {
	return slices.ContainsFunc(cmd.Partitions, func(c controller.ISRChange) bool {
		return c.TopicID == st.id.TopicID && c.Partition == st.id.Partition &&
			slices.ContainsFunc(c.ISR, func(m controller.ISRMember) bool { return m.Broker == st.follower.id })
	})
}

// ask has a request of the leader arrive at the controller. It is no part of the leader's process any more.
func (st stage) ask(cmd controller.Command) {
	peers{st.leader.proc}.Submit(st.controller.member(), cmd, func(a cluster.Answer, _ error) {
		reply, _ := a.Reply.(controller.AlterPartitionReply)
		for _, p := range reply.Partitions {
			st.leader.proc.countISRAnswer(p.Code)
		}
	})
}

// theLivingBroker is one that all others hear to be gone, over and over. Its heartbeats say otherwise.
var theLivingBroker = &scenario{name: "gossip says that a living broker is gone", play: func(s *simulation) {
	st, ok := s.set()
	if !ok {
		s.playLater()
		return
	}
	st.rumour(lieGone, st.leader, 7*time.Millisecond)
}}

// theStuckBroker does nothing any more, and all others hear that it is alive: as where the network of a machine answers, and
// its disk does not.
var theStuckBroker = &scenario{name: "gossip says that a stuck broker is alive", change: func(c *config) { c.session = time.Second }, play: func(s *simulation) {
	st, ok := s.set()
	if !ok {
		s.playLater()
		return
	}
	st.rumour(lieAlive, st.leader, 100*time.Millisecond)
	s.w.after(300*time.Millisecond, func() { s.pause(st.leader, 10*time.Second) })
}}

// rumour has all others hear of a node what is not so, again and again.
func (st stage) rumour(kind lieKind, about *node, interval time.Duration) {
	if st.healed {
		return
	}
	for _, n := range st.nodes {
		if n != about {
			st.tell(n, st.falsehood(kind, about, nil), about)
		}
	}
	st.w.after(interval, func() { st.rumour(kind, about, interval) })
}

// theNeededVoter is one of the two of three that are left. An operator is not let remove it: what remained could not decide
// anything before the third is back.
var theNeededVoter = &scenario{name: "a voter is removed that the quorum cannot do without", play: func(s *simulation) {
	st, ok := s.set()
	if !ok {
		s.playLater()
		return
	}
	st.follower.powerCut(vfs.LoseNone())
	s.w.after(4*time.Second, func() {
		remove := controller.RemoveMember{ClusterID: clusterID, Node: st.leader.id, Directory: st.leader.directory(0)}
		s.admin.operate(remove, func(err error) {
			if err != nil {
				s.rare.count(rareRemovalRefused)
			}
		})
		s.w.after(3*time.Second, func() {
			decided := false
			s.admin.create(topicSpec{name: "topic-1", partitions: 1, rf: 1, minISR: 1}, func() { decided = true })
			s.w.after(5*time.Second, func() {
				if !decided {
					s.check.violate("quorum-given-away", st.leader.id, "a voter was to be removed, and the two that are left decide nothing any more")
				}
			})
		})
	})
}}
