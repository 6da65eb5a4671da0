package cluster

import (
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
)

// detour is how long messages to a member go to the address that gossip names, when the one of the image has failed.
const detour = 10 * time.Second

// rumours is what gossip says of the members of the quorum. It is a hint, and whoever gossips may lie.
type rumours struct {
	members map[uint64]*rumour // by Raft id; of members only
	leader  uint64             // who leads in term, by the newest of all rumours
	term    int32
}

// rumour is what was said last of one member.
type rumour struct {
	Gossiped
	until  time.Time // messages go to the rumoured address until then; zero: to that of the image
	passed bool      // to the controller, which has not answered yet
}

// hear takes what gossip says of another node. A process that is gone says nothing of the one that took its place.
func (c *control) hear(g Gossiped) {
	if g.Leader != 0 && g.Term >= c.rumours.term {
		c.rumours.leader, c.rumours.term = g.Leader, g.Term
	}
	m, member := c.member(g.Member.RaftID)
	if !member || m.RaftID == c.quorum.RaftID() {
		return
	}
	r := c.rumours.members[m.RaftID]
	switch {
	case r == nil:
		c.rumours.members[m.RaftID] = &rumour{Gossiped: g}
	case !g.Gone || r.Gone || r.Incarnation == g.Incarnation:
		r.Gossiped = g
	}
	if c.lead.Ready {
		c.active.leases.Rumour(c.quorum.Image(), m.Node, g.Incarnation, g.Gone)
		c.active.duty.changed = true
	}
}

// introduced takes a member's own word of where it is, which it tells whomever it reaches while it looks for a controller. It is a
// hint, as gossip's is, and goes on to who leads, who may know as little of a way to that member. Where most nodes come back at
// other ports, and none gossips where the others look, they find each other by the one that stayed.
func (c *control) introduced(cmd controller.RegisterMember) {
	m, member := c.quorum.Image().Quorum.ByRaftID(cmd.Member.RaftID)
	said := rumour{Gossiped: Gossiped{Member: cmd.Member}}
	if !member || m.RaftID == c.quorum.RaftID() || cmd.ClusterID != c.o.ClusterID || !said.elsewhere(m) {
		return
	}
	r := c.rumours.members[m.RaftID]
	if r == nil {
		r = &said
		c.rumours.members[m.RaftID] = r
	}
	r.Member, r.Gone = cmd.Member, false
	if c.lead.Leader == 0 || r.passed {
		return
	}
	r.passed = true
	c.submit(&submission{cmd: cmd, from: own, done: func(Answer, error) { r.passed = false }})
}

// rumouredLeader is whom gossip says to lead, if it knows of a term that this node has not seen the end of; 0 for nobody.
func (c *control) rumouredLeader() uint64 {
	if c.rumours.term < c.lead.Term {
		return 0
	}
	return c.rumours.leader
}

// repeatRumours tells a controller that has just become the active one what gossip said before.
func (c *control) repeatRumours() {
	for m := range c.quorum.Image().Quorum.All() {
		if r := c.rumours.members[m.RaftID]; r != nil {
			c.active.leases.Rumour(c.quorum.Image(), m.Node, r.Incarnation, r.Gone)
		}
	}
}

// forgetRumours drops what was said of nodes that are no members any more.
func (c *control) forgetRumours() {
	for id := range c.rumours.members {
		if _, member := c.member(id); !member {
			delete(c.rumours.members, id)
		}
	}
}

// unreachable has messages to a member go to the address that gossip names for a while, or to that of the image again: whichever
// has not failed just now. So whoever lies cannot hold messages up for ever, and neither can an image that is old.
func (c *control) unreachable(id uint64) {
	r := c.rumours.members[id]
	m, member := c.member(id)
	switch {
	case r == nil || !member:
		return
	case !r.until.IsZero():
		r.until = time.Time{}
	case r.elsewhere(m):
		r.until = c.now.Add(detour)
	default:
		return
	}
	c.setMembers()
}

// endDetours has messages go to the addresses of the image again.
func (c *control) endDetours() {
	ended := false
	for _, r := range c.rumours.members {
		if !r.until.IsZero() && !c.now.Before(r.until) {
			r.until, ended = time.Time{}, true
		}
	}
	if ended {
		c.setMembers()
	}
}

// elsewhere reports whether gossip names another address than the image.
func (r *rumour) elsewhere(m metadata.QuorumMember) bool {
	said := r.Member
	return !r.Gone && said.Host != "" && said.Port != 0 && said.Node == m.Node && said.Directory == m.Directory && (said.Host != m.Host || said.Port != m.Port)
}

// reached is a member at the address where it is to be tried now.
func (c *control) reached(m metadata.QuorumMember) metadata.QuorumMember {
	if r := c.rumours.members[m.RaftID]; r != nil && !r.until.IsZero() {
		m.Host, m.Port = r.Member.Host, r.Member.Port
	}
	return m
}
