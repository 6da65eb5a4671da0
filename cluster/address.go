package cluster

import (
	"fmt"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// Address is where this node is reached.
type Address struct {
	Host       string // by its peers; empty while it has none
	Port       uint16
	GossipPort uint16              // on Host; 0 while it is not known
	Listeners  []metadata.Endpoint // of the broker
}

// ownAddress keeps the quorum's record of this node right: that is how a node joins, and how it moves.
type ownAddress struct {
	self     metadata.QuorumMember // as it is
	asked    bool
	due      time.Time
	failures int
	began    time.Time
}

func (a *ownAddress) next() time.Time {
	if a.asked {
		return time.Time{}
	}
	return a.due
}

// member is this node as a member of the quorum; quorum.Open finds its Raft id.
func (o *Options) member() metadata.QuorumMember {
	return metadata.QuorumMember{
		Node: o.Self, Directory: o.DirectoryID, Host: o.Address.Host, Port: o.Address.Port, GossipPort: o.Address.GossipPort,
		Controller: !o.Roles.NoController,
	}
}

// moved takes a new address.
func (a *ownAddress) moved(to Address) {
	a.self.Host, a.self.Port, a.self.GossipPort = to.Host, to.Port, to.GossipPort
}

// registerAddress tells the active controller where this node is, if the image says otherwise.
func (c *control) registerAddress() {
	a := &c.address
	if a.self.Host == "" || a.asked {
		return
	}
	self := a.self
	known, member := c.quorum.Image().Quorum.ByRaftID(self.RaftID)
	if self.GossipPort == 0 {
		self.GossipPort = known.GossipPort // of the process before, till this one gossips
	}
	if member && known == self {
		a.failures, a.due = 0, time.Time{}
		return
	}
	if c.now.Before(a.due) || !member && c.leads() { // it was removed, and hands over first
		return
	}
	if a.failures == 0 {
		a.began = c.now
	}
	a.asked = true
	c.submit(&submission{cmd: controller.RegisterMember{ClusterID: c.o.ClusterID, Member: self}, from: own, done: func(_ Answer, err error) {
		a.asked = false
		a.due = c.now.Add(backoff(a.failures)) // also when it was taken: the image with it is still on its way
		a.failures++
		if err != nil && !undecided(err) && c.hopeless(kafka.CodeOf(err), member) {
			c.fatal = fmt.Errorf("become a member of the quorum as node %d: %w", c.o.Self, err)
			if kafka.CodeOf(err) == kafka.DuplicateBrokerRegistration {
				c.fatal = c.o.isTaken(err)
			}
		}
	}})
}

// hopeless reports whether a refusal is the last word. A voter that was removed must stay until the others can do without its
// vote: they need it for that. When a controller answers and no leader has been heard for long, that is so.
func (c *control) hopeless(code kafka.Code, member bool) bool {
	switch {
	case code == kafka.InconsistentClusterID:
		return true
	case code == kafka.InvalidRegistration && (!c.quorum.IsVoter() || c.lead.Leader == 0 && c.now.Sub(c.before.at) > c.o.ElectionTimeout):
		return true
	}
	return !member && c.now.Sub(c.address.began) >= c.o.RegistrationTimeout
}
