package cluster

import (
	"slices"

	"weir/cluster/quorum"
)

// addLearners has those who are registered as members, and are none of Raft's yet, learn the log. Whoever removes a member
// must remove the registration first.
func (c *control) addLearners() {
	registered := c.quorum.Image().Quorum
	if status := c.status.Load(); registered.Len() <= len(status.Voters)+len(status.Learners) {
		return
	}
	members := c.quorum.Members()
	if members.Changing || c.now.Before(c.active.duty.learn) {
		return
	}
	var missing []uint64
	for m := range registered.All() {
		if !slices.Contains(members.Voters, m.RaftID) && !slices.Contains(members.Learners, m.RaftID) {
			missing = append(missing, m.RaftID)
		}
	}
	if missing == nil {
		return
	}
	c.step(quorum.ChangeMembers{Learn: missing})
	if after := c.quorum.Members(); !after.Changing && !slices.Contains(after.Learners, missing[0]) {
		c.active.duty.learn = c.now.Add(c.o.ElectionTimeout) // it was refused, or got lost
	}
}
