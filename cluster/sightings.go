package cluster

import (
	"cmp"
	"slices"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// sightings are the brokers whose processes this node found gone, with the epochs that they had, in order of node id.
type sightings []controller.UnreachableBroker

func (s *sightings) set(broker kafka.BrokerID, epoch kafka.BrokerEpoch, gone bool) {
	i, known := slices.BinarySearchFunc(*s, broker, func(u controller.UnreachableBroker, id kafka.BrokerID) int { return cmp.Compare(u.Broker, id) })
	switch {
	case known && gone:
		(*s)[i].Epoch = epoch
	case known:
		*s = slices.Delete(*s, i, i+1)
	case gone:
		*s = slices.Insert(*s, i, controller.UnreachableBroker{Broker: broker, Epoch: epoch})
	}
}

// report is what the active controller does not know yet: of brokers that are registered as they were seen, and not fenced.
func (s sightings) report(img *metadata.Image) (news []controller.UnreachableBroker) {
	for _, u := range s {
		if b, known := img.Brokers.ByID(u.Broker); known && b.Epoch == u.Epoch && !b.Fenced {
			news = append(news, u)
		}
	}
	return news
}

// observe takes what this node saw of another one's process. The next heartbeat tells it, at once. Where this node is the
// active controller, it is a witness itself; where the other one led Raft, it is time for an election.
func (c *control) observe(e Evidence) {
	if e.Broker == c.o.Self {
		return
	}
	c.sightings.set(e.Broker, e.Epoch, e.Gone)
	if c.lead.Ready {
		c.active.leases.Testimony(c.quorum.Image(), c.o.Self, c.sightings)
		c.active.duty.changed = true
	}
	leader, known := c.quorum.Image().Quorum.ByRaftID(c.lead.Leader)
	if !e.Gone || !known || leader.Node != e.Broker {
		return
	}
	if b, registered := c.quorum.Image().Brokers.ByID(e.Broker); !registered || b.Epoch == e.Epoch {
		c.step(quorum.Suspect{RaftID: leader.RaftID})
	}
}
