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

// hopeless reports whether a refusal is the last word. Whoever was removed is told so only when Raft can do without its vote; see
// lastWord.
func (c *control) hopeless(code kafka.Code, member bool) bool {
	switch code {
	case kafka.InconsistentClusterID, kafka.InvalidRegistration:
		return true
	}
	return !member && c.now.Sub(c.address.began) >= c.o.RegistrationTimeout
}

// lastWord is what a node is told that asks to be registered and is refused with err. One that was removed from the image goes on
// while Raft has it: its vote may be needed, for its own removal too, and be it that nobody leads. Once it has left Raft as far as any
// node has applied the log, it never counts again. This node may have begun after the removal, and then it learns here where that one
// is.
func (c *control) lastWord(cmd controller.Command, err error) error {
	if kafka.CodeOf(err) != kafka.InvalidRegistration {
		return err
	}
	raft := c.quorum.Members()
	for _, dir := range registering(cmd) {
		id := quorum.RaftID(dir)
		if controller.CheckRemoved(c.quorum.Image(), dir) == nil || !slices.Contains(raft.Voters, id) && !slices.Contains(raft.Learners, id) {
			continue
		}
		if register, is := cmd.(controller.RegisterMember); is && c.departing[id] != register.Member && register.Member.RaftID == id && register.ClusterID == c.o.ClusterID {
			c.departing[id] = register.Member
			c.setMembers()
		}
		return kafka.Errorf(kafka.BrokerNotAvailable, "This node was removed from the cluster; it goes on until the quorum can do without it.")
	}
	return err
}

// registering are the directories that a command registers; none where it registers nothing.
func registering(cmd controller.Command) []kafka.DirectoryID {
	switch cmd := cmd.(type) {
	case controller.RegisterBroker:
		return cmd.Directories
	case controller.RegisterMember:
		return []kafka.DirectoryID{cmd.Member.Directory}
	}
	return nil
}
