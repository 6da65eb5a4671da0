package cluster

import (
	"testing"
	"time"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// gossip tells a machine what gossip says of another one's present process.
func (m *machine) gossip(of *machine, gone bool) {
	self := of.o.member()
	self.RaftID = member(of.id).RaftID
	m.node.Hear(Gossiped{Member: self, Incarnation: of.o.Registration.Incarnation, Gone: gone})
	m.step()
}

// A broker of which gossip says that it is gone is fenced after the silence of two heartbeats; also if it was said before there was
// a controller to hear it. One that is heard is not fenced.
func TestGossipShortensASession(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	leader, silent := w.active(), w.follower()
	for _, m := range w.all() {
		if m != silent {
			m.gossip(silent, true)
		}
	}
	w.pass(20 * time.Second)
	if w.fenced(silent.id)() {
		t.Fatal("a broker was fenced while it was heard")
	}
	silent.vanish()
	leader.gossip(silent, true)
	if took := w.run(10*time.Second, "fenced", w.fenced(silent.id)); took > 5*time.Second {
		t.Errorf("fenced after %v", took)
	}
	silent.start()
	w.run(10*time.Second, "running", w.running(1, 2, 3))

	silent.vanish()
	for _, m := range w.all() {
		if m != silent && m != leader {
			m.gossip(silent, true)
		}
	}
	leader.vanish()
	w.hosts[leader.id].start() // or there would be no majority
	if took := w.run(12*time.Second, "fenced", func() bool { return w.active() != nil && w.active() != leader && w.fenced(silent.id)() }); took > 8*time.Second {
		t.Errorf("fenced after %v", took)
	}
}

// Where the address of the image has failed, that which gossip names is tried. Neither a lie there, nor an image that is old,
// keeps messages up for ever.
func TestGossipedAddress(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	m := w.follower()
	at := func(other *machine) uint16 { return peersOf{other}.address(member(m.id).RaftID).Port }
	truth := m.o.Address

	lie := m.o.Address
	lie.Port = 6666
	said := func(a Address) {
		for _, other := range w.all() {
			if other != m {
				self := member(m.id)
				self.Host, self.Port = a.Host, a.Port
				other.node.Hear(Gossiped{Member: self, Incarnation: m.o.Registration.Incarnation})
				other.step()
			}
		}
	}
	said(lie)
	w.pass(time.Second)
	if got := at(w.active()); got != truth.Port {
		t.Errorf("nothing failed, and messages go to port %d", got)
	}
	epoch := registered(m)
	m.vanish()
	w.pass(2 * time.Second)
	m.start()
	w.run(15*time.Second, "back in spite of a lie", func() bool { return w.running(1, 2, 3)() && registered(m) != epoch })

	m.o.Address.Port = 7777 // and it cannot tell anybody, but by gossip
	said(m.o.Address)
	behind := m.node.Image().Index
	w.create(w.active(), create("t", 1))
	w.run(15*time.Second, "it hears of a topic", func() bool { return m.node.Image().Index > behind })
	if got := at(w.active()); got != 7777 {
		t.Errorf("messages go to port %d", got)
	}
	m.o.Address = truth
	w.create(w.active(), create("u", 1))
	behind = w.active().node.Image().Index
	w.run(15*time.Second, "it hears of another", func() bool { return m.node.Image().Index >= behind })
	w.pass(detour + time.Second)
	if got := at(w.active()); got != truth.Port {
		t.Errorf("messages go to port %d for ever", got)
	}
}

// Where all nodes are started anew at the same time, and all but one are elsewhere then, they find each other by that one: also
// those that it does not lead. Nobody gossips here.
func TestNodesThatComeBackElsewhere(t *testing.T) {
	for seed := range uint64(6) {
		w := newWorld(t, seed, 5)
		w.up(1, 2, 3, 4, 5)
		for _, m := range w.all() {
			m.vanish()
		}
		w.queue = nil
		for _, m := range w.all() {
			if m.id != 3 {
				m.o.Address.Port += 100
			}
			m.start()
		}
		w.run(2*time.Minute, "all are back", func() bool {
			for _, m := range w.all() {
				if m.node == nil {
					return false
				}
				for _, of := range w.all() {
					if known, ok := m.node.Image().Quorum.ByRaftID(member(of.id).RaftID); !ok || known.Port != of.o.Address.Port {
						return false
					}
				}
			}
			return w.running(1, 2, 3, 4, 5)()
		})
	}
}

// What is kept of gossip is about members only.
func TestRumoursAreBounded(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	n := w.hosts[1].node
	for id := range uint64(1000) {
		n.Hear(Gossiped{Member: metadata.QuorumMember{RaftID: id, Node: kafka.BrokerID(id), Host: "h", Port: 1}, Leader: id, Term: int32(id)})
	}
	w.hosts[1].gossip(w.hosts[1], true)
	w.hosts[1].gossip(w.hosts[2], true)
	w.hosts[1].gossip(w.hosts[2], false)
	if got := n.control.rumours.members; len(got) != 1 || got[member(2).RaftID].Gone || n.control.rumours.leader != 999 {
		t.Errorf("%d rumours, leader %d", len(got), n.control.rumours.leader)
	}
	// What was said of the process before says nothing of the one that is there.
	old := Gossiped{Member: member(2), Incarnation: kafka.UUID{99}, Gone: true}
	n.Hear(old)
	w.hosts[1].step()
	if n.control.rumours.members[member(2).RaftID].Gone {
		t.Error("an old process is gone, and the new one is taken for it")
	}
}

// A node that hears of no leader asks whom gossip says to lead first, and others where that is a lie.
func TestGossipedLeader(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	leader := w.active()
	var other *machine
	for _, m := range w.all() {
		if m != leader {
			other = m
		}
	}
	joins := w.add(4, func(o *Options) { o.Join = w.members })
	joins.start()
	c, s := joins.node.control, &submission{from: client}
	for _, m := range []*machine{leader, other} {
		joins.node.Hear(Gossiped{Member: member(m.id), Leader: member(m.id).RaftID, Term: 9})
		joins.step()
		if c.lead.Leader != 0 {
			t.Fatal("it knows who leads")
		}
		if to, ok := c.target(s); !ok || to.Node != m.id {
			t.Errorf("it asks %d, and gossip says %d", to.Node, m.id)
		}
	}
	s.try = 1
	if to, ok := c.target(s); !ok || to.Node == other.id {
		t.Errorf("it asks %d again", to.Node)
	}
	w.run(10*time.Second, "joined in spite of a lie", w.running(1, 2, 3, 4))
}
