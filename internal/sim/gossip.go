package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"weir/cluster"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// gossipConfig says how nodes hear of each other beside Raft.
type gossipConfig struct {
	interval time.Duration // at which a node hears of each other one; 0: nobody gossips
	late     time.Duration // that what it hears is old at most
	loss     float64       // of it
}

func drawGossip(rng *rand.Rand) gossipConfig {
	return gossipConfig{
		interval: between(rng, 200*time.Millisecond, time.Second), late: pick(rng, 50*time.Millisecond, 500*time.Millisecond, 3*time.Second),
		loss: pick(rng, 0, 0.1, 0.5),
	}
}

// gossip has every node hear of every other one, over and over, what is so, or was so some time ago.
func (s *simulation) gossip() {
	if s.c.gossip.interval == 0 {
		return
	}
	rng := s.w.rng("gossip")
	for slot := range s.nodes {
		s.gossipTo(slot, rng)
	}
}

func (s *simulation) gossipTo(slot int, rng *rand.Rand) {
	s.w.after(between(rng, s.c.gossip.interval/2, s.c.gossip.interval), func() {
		hearer := s.nodes[slot]
		for _, about := range s.nodes {
			if about != hearer && about.incarnation != (kafka.UUID{}) && !chance(rng, s.c.gossip.loss) {
				g := about.truth()
				s.w.after(between(rng, 0, s.c.gossip.late), func() { hearer.hear(g) })
			}
		}
		s.gossipTo(slot, rng)
	})
}

// truth is what there is to say of a node. Of one that stands still, nobody says anything else than when it did not.
func (n *node) truth() cluster.Gossiped {
	g := cluster.Gossiped{Member: n.member(), Incarnation: n.incarnation, Gone: n.proc == nil}
	if n.proc != nil {
		lead := n.proc.node.QuorumStatus().Leadership
		g.Leader, g.Term = lead.Leader, lead.Term
	}
	return g
}

// hear tells a node, if it runs.
func (n *node) hear(g cluster.Gossiped) {
	n.host.do(n.host.life, func() {
		if n.proc != nil {
			n.proc.node.Hear(g)
		}
	})
}

// lie has some nodes hear for a while what is not so, most of it of one node.
func (s *simulation) lie(about *node, rng *rand.Rand, length time.Duration) {
	everybody, kind, end := chance(rng, 0.5), lieKind(rng.IntN(int(lieKinds))), s.w.now+length
	hearer := s.nodes[rng.IntN(len(s.nodes))]
	interval := between(rng, 10*time.Millisecond, 300*time.Millisecond)
	var tell func()
	tell = func() {
		if s.healed || s.w.now > end {
			return
		}
		for _, n := range s.nodes {
			if n == hearer || everybody {
				s.tell(n, s.falsehood(kind, about, rng), about)
			}
		}
		s.w.after(interval, tell)
	}
	tell()
}

// tell has a node hear of another one. Where that lives, and the hearer decides, it must not be taken for dead because of that
// alone.
func (s *simulation) tell(hearer *node, g cluster.Gossiped, about *node) {
	b, known := s.newest.Brokers.ByID(about.id)
	if g.Gone && hearer.proc != nil && hearer.proc.isActive() && known && !b.Fenced && b.Incarnation == g.Incarnation && about.host.listening && !about.host.paused {
		s.w.after(2*s.c.heartbeat, func() {
			if now, still := s.newest.Brokers.ByID(about.id); still && now.Epoch == b.Epoch && !now.Fenced {
				s.rare.count(rareLieHarmless)
			}
		})
	}
	hearer.hear(g)
}

// lieKind is a way in which gossip is wrong.
type lieKind int

const (
	lieGone     lieKind = iota // a node, though it may live
	lieAlive                   // a node, though it may be dead
	lieOld                     // the process before, one or the other
	lieAddress                 // that of another node, or where nobody is
	lieLeader                  // in a term that is far away
	lieStranger                // a node that does not exist
	lieKinds
)

// falsehood makes something that gossip may say though it is not so. The first two kinds draw nothing.
func (s *simulation) falsehood(kind lieKind, about *node, rng *rand.Rand) cluster.Gossiped {
	g := about.truth()
	other := about
	if kind > lieAlive {
		other = s.nodes[rng.IntN(len(s.nodes))]
	}
	switch kind {
	case lieGone:
		g.Gone = true
	case lieAlive:
		g.Gone = false
	case lieOld:
		g.Incarnation, g.Gone = about.incarnationOf(about.host.life-1), chance(rng, 0.5)
	case lieAddress:
		g.Gone, g.Member.Host, g.Member.Port = false, other.endpoint().Host, pick(rng, other.endpoint().Port, 1)
	case lieLeader:
		g.Leader, g.Term = pick(rng, other.member().RaftID, rng.Uint64()), pick(rng, math.MaxInt32, g.Term+1+rng.Int32N(100))
	case lieStranger:
		g.Member = metadata.QuorumMember{
			RaftID: rng.Uint64(), Node: kafka.BrokerID(rng.IntN(2 * len(s.nodes))), Directory: kafka.DirectoryID{0: 0xee, 1: byte(rng.Uint32())},
			Host: other.endpoint().Host, Port: other.endpoint().Port, Controller: true,
		}
		g.Leader, g.Gone = g.Member.RaftID, chance(rng, 0.5)
	}
	return g
}
