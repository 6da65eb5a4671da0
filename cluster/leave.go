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
	gone, forsaken := c.forsaken()
	if forsaken {
		c.goUnheard(gone)
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

// forsaken reports whether nobody will take over what this node has: a majority of the voters is gone, or there has been no
// controller for a while. Voters are gone that refused what this one, a voter, sent them last, if the one that leads is not
// left. A node that does not vote knows that of the others as well, but the only voter may be back in a moment.
func (c *control) forsaken() (gone, is bool) {
	l, leader, self := &c.leaving, c.lead.Leader, c.quorum.RaftID()
	switch {
	case c.lead.Ready:
		l.since = c.now
	case leader != 0 && leader == c.before.leader && c.before.at.After(l.since):
		l.since = c.before.at
	}
	voters, left := c.status.Load().Voters, 0
	for _, v := range voters {
		if v.RaftID == self || !c.deaf[v.RaftID] {
			left++
		}
	}
	votes := slices.ContainsFunc(voters, func(r quorum.Replica) bool { return r.RaftID == self })
	led := leader != 0 && leader != self && !c.deaf[leader]
	gone = votes && !led && 2*left <= len(voters)
	return gone, gone || c.now.Sub(l.since) >= c.fruitless()
}

// goUnheard gives the controlled shutdown up. That voters are gone is what happens where all nodes are stopped.
func (c *control) goUnheard(gone bool) {
	if c.life == nil || c.life.state == ShuttingDown {
		return
	}
	if gone {
		c.logger.Info("most voters of the cluster are gone, and none is left to be told that this node goes")
	} else {
		c.logger.Warn("the cluster is left without saying so: no controller answers", "waited", c.now.Sub(c.life.pending).String())
	}
	c.life.state = ShuttingDown
	c.state.Store(int32(ShuttingDown))
}
