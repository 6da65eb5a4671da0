package cluster

import (
	cryptorand "crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// When it is told that members do not keep up, and how often.
const (
	lagPatience = time.Minute
	lagPause    = 10 * time.Minute
)

// autopilot is how far the active controller has come with the quorum's members (membership.next).
type autopilot struct {
	look    time.Time // when to look again; zero for at once
	forgets bool      // a member is being removed from the image
	keying  bool      // the cluster is being given a key for its gossip
	lags    time.Time // since when somebody has not kept up; zero while all do
	lagTold time.Time
	alone   map[uint64]time.Time // since when the other member of a node answers alone; see membership.supersede
}

// manageMembers does the next thing that is to be done about the quorum's members, and one thing at a time.
func (c *control) manageMembers() {
	a := &c.active.autopilot
	if c.now.Before(a.look) {
		return
	}
	a.look = c.now.Add(c.o.HeartbeatInterval / 2)
	c.giveGossipKey()
	if c.quorum.Members().Changing {
		return // there is another look when that is over
	}
	img := c.quorum.Image()
	m := c.membership(img)
	m.supersede(controller.Superseded(img), a.alone)
	switch s := m.next(); {
	case s.transfer != 0:
		c.logger.Info("another node is to lead the quorum", "node", m.names(s.transfer), "why", s.why)
		c.step(quorum.TransferLeadership{To: s.transfer})
	case s.forget != nil:
		c.forgetMember(*s.forget, s.why)
	case s.changes():
		if c.step(s.change) {
			c.logger.Info("the members of the quorum change", append(m.changes(s.change), "why", s.why)...)
		}
	default:
		c.tellLag(m.names(m.lagging()...))
	}
}

// changes are who changes, for a line of the log.
func (m *membership) changes(c quorum.ChangeMembers) (attrs []any) {
	for _, part := range []struct {
		what string
		ids  []uint64
	}{{"learn", c.Learn}, {"promote", c.Promote}, {"demote", c.Demote}, {"remove", c.Remove}} {
		if len(part.ids) > 0 {
			attrs = append(attrs, part.what, m.names(part.ids...))
		}
	}
	return attrs
}

// membership gathers what is known of the members of an image and of Raft.
func (c *control) membership(img *metadata.Image) *membership {
	m := &membership{
		now: c.now, began: c.active.leases.Began, self: c.quorum.RaftID(), maxVoters: c.o.MaxVoters, patience: 2 * c.o.ElectionTimeout,
		stabilization: c.o.StabilizationTime, deadAfter: c.o.DeadVoterAfter,
	}
	known := map[uint64]standing{}
	for r := range img.Quorum.All() {
		n := standing{QuorumMember: r, heard: c.active.leases.Began}
		if b, broker := img.Brokers.ByID(r.Node); broker {
			n.absent = !b.Active()
			n.heard = later(n.heard, c.active.leases.LastContact[r.Node])
		}
		known[r.RaftID] = n
	}
	raft := c.status.Load()
	add := func(r quorum.Replica, votes bool) {
		n, registered := known[r.RaftID]
		n.RaftID, n.removed, n.votes, n.learns = r.RaftID, !registered, votes, !votes
		n.contact, n.steady, n.heard = r.LastContact, r.SteadySince, later(n.heard, r.LastContact)
		known[r.RaftID] = n
	}
	for _, r := range raft.Voters {
		add(r, true)
	}
	for _, r := range raft.Learners {
		add(r, false)
	}
	for _, n := range known {
		m.members = append(m.members, n)
	}
	slices.SortFunc(m.members, byNode)
	return m
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// names are the nodes behind Raft ids, for people; one that was removed has none but that id.
func (m *membership) names(ids ...uint64) string {
	var names []string
	for _, n := range m.members {
		switch {
		case !slices.Contains(ids, n.RaftID):
		case n.removed && n.Directory.IsZero():
			names = append(names, fmt.Sprintf("raft id 0x%016x", n.RaftID))
		default:
			names = append(names, strconv.Itoa(int(n.Node)))
		}
	}
	return strings.Join(names, ", ")
}

// forgetMember has the image forget a member that will not come back.
func (c *control) forgetMember(gone metadata.QuorumMember, why string) {
	a := &c.active.autopilot
	if a.forgets {
		return
	}
	a.forgets = true
	cmd := controller.RemoveMember{ClusterID: c.o.ClusterID, Node: gone.Node, Directory: gone.Directory}
	c.submit(&submission{cmd: cmd, from: own, done: func(_ Answer, err error) {
		a.forgets = false
		if err == nil {
			c.logger.Info("a member of the quorum is removed", "node", gone.Node, "directory", gone.Directory, "why", why)
		} else if !undecided(err) {
			c.logger.Warn("a member of the quorum cannot be removed", "node", gone.Node, "directory", gone.Directory, "error", err)
		}
	}})
}

// checkRemoval refuses to remove a member without which no majority of the voters would be healthy.
func (c *control) checkRemoval(img *metadata.Image, cmd controller.RemoveMember) error {
	for r := range img.Quorum.All() {
		if r.Node != cmd.Node || r.Directory != cmd.Directory {
			continue
		}
		m := c.membership(img)
		if m.mayRemove(r.RaftID) {
			return nil
		}
		var silent []uint64
		for i := range m.members {
			if n := &m.members[i]; n.votes && !n.removed && !m.healthy(n) {
				silent = append(silent, n.RaftID)
			}
		}
		if silent == nil {
			return kafka.Errorf(kafka.InvalidRequest, "Node %d cannot be removed: it is the only voter of the quorum, and no learner is ready to take its place.", cmd.Node)
		}
		return kafka.Errorf(kafka.InvalidRequest, "Node %d cannot be removed: no majority of the voters that would be left is healthy; the quorum does not hear node %s.",
			cmd.Node, m.names(silent...))
	}
	return nil
}

// tellLag tells, late and rarely, of learners that could vote if they kept up. nodes is empty where all do.
func (c *control) tellLag(nodes string) {
	a := &c.active.autopilot
	switch {
	case nodes == "":
		a.lags = time.Time{}
	case a.lags.IsZero():
		a.lags = c.now
	case c.now.Sub(a.lags) >= lagPatience && (a.lagTold.IsZero() || c.now.Sub(a.lagTold) >= lagPause):
		a.lagTold = c.now
		c.logger.Info("members do not keep up with the metadata log, and so cannot become voters", "nodes", nodes)
	}
}

// giveGossipKey gives a cluster of several nodes a key, if it was founded without one.
func (c *control) giveGossipKey() {
	a := &c.active.autopilot
	if img := c.quorum.Image(); a.keying || img.GossipKey != nil || img.Quorum.Len() < 2 {
		return
	}
	a.keying = true
	c.submit(&submission{cmd: controller.SetGossipKey{Key: c.o.newGossipKey()}, from: own, done: func(_ Answer, err error) {
		a.keying = false
		if err != nil && !undecided(err) {
			c.logger.Error("the cluster does not get a key for its gossip", "error", err)
		}
	}})
}

// newGossipKey draws a key: a secret, but where chance is given, so that runs repeat.
func (o *Options) newGossipKey() metadata.GossipKey {
	key := make(metadata.GossipKey, metadata.GossipKeySize)
	if o.Rand == nil {
		_, _ = cryptorand.Read(key) // never fails
		return key
	}
	for i := 0; i < len(key); i += 8 {
		binary.LittleEndian.PutUint64(key[i:], o.Rand.Uint64())
	}
	return key
}
