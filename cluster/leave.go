package cluster

import (
	"slices"
	"time"

	"weir/cluster/quorum"
)

// leaving is how far a shutdown has come.
type leaving struct {
	done  []func()
	since time.Time // it began, or there was last a controller
	due   time.Time // of the next look; zero while there is nothing to wait for
	tries int
}

const (
	// maxStepDowns bounds how often another voter is asked to lead; one that cannot is not waited for.
	maxStepDowns = 3
	// maxFruitless is how many election timeouts a shutdown waits for a controller where there is none: it may be that all nodes
	// are stopped.
	maxFruitless = 3
)

// leave begins a shutdown.
func (c *control) leave(done func()) {
	if len(c.leaving.done) == 0 {
		c.leaving.since = c.now
	}
	c.leaving.done = append(c.leaving.done, done)
	if c.life != nil {
		c.life.shutDown(c.now, c.alone())
	}
}

// handOver ends a shutdown: when the broker is out, another node is to lead Raft, and then whoever waits is told. Where nobody
// is left to take anything over, it ends at once.
func (c *control) handOver() {
	l := &c.leaving
	if len(l.done) == 0 {
		return
	}
	if c.forsaken() {
		c.goUnheard()
	} else if c.stays() {
		return
	}
	for _, done := range l.done {
		done()
	}
	c.leaving = leaving{}
}

// stays reports whether there is something to wait for.
func (c *control) stays() bool {
	l := &c.leaving
	switch {
	case c.life != nil && c.life.state != ShuttingDown:
		l.due = l.since.Add(c.fruitless())
		return true
	case !c.leads() || len(c.status.Load().Voters) == 1 || l.tries >= maxStepDowns:
		return false
	}
	if l.tries == 0 || !c.now.Before(l.due) {
		l.tries++
		l.due = c.now.Add(c.o.ElectionTimeout)
		c.step(quorum.TransferLeadership{})
	}
	return true
}

func (c *control) fruitless() time.Duration { return maxFruitless * c.o.ElectionTimeout }

// forsaken reports whether nobody will take over what this node has: there has been no controller for a while, or a majority of
// the voters, the one that leads among them, refused what this one, a voter, sent them last. A node that does not vote knows
// that of the others as well, but the only voter may be back in a moment.
func (c *control) forsaken() bool {
	l, leader, self := &c.leaving, c.lead.Leader, c.quorum.RaftID()
	switch {
	case c.lead.Ready:
		l.since = c.now
	case leader != 0 && leader == c.before.leader && c.before.at.After(l.since):
		l.since = c.before.at
	}
	voters, reached := c.status.Load().Voters, 0
	for _, v := range voters {
		if v.RaftID == self || !c.deaf[v.RaftID] {
			reached++
		}
	}
	votes := slices.ContainsFunc(voters, func(r quorum.Replica) bool { return r.RaftID == self })
	led := leader != 0 && leader != self && !c.deaf[leader]
	return votes && 2*reached <= len(voters) && !led || c.now.Sub(l.since) >= c.fruitless()
}

// goUnheard gives the controlled shutdown up.
func (c *control) goUnheard() {
	if c.life == nil || c.life.state == ShuttingDown {
		return
	}
	c.logger.Warn("the cluster is left without saying so: no controller answers", "waited", c.now.Sub(c.life.pending))
	c.life.state = ShuttingDown
	c.state.Store(int32(ShuttingDown))
}
