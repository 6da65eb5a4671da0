package cluster

import (
	"time"

	"weir/cluster/quorum"
)

// leaving is how far a shutdown has come.
type leaving struct {
	done  []func()
	due   time.Time // of the next look; zero while there is nothing to wait for
	tries int
}

// maxStepDowns bounds how often another voter is asked to lead; one that cannot is not waited for.
const maxStepDowns = 3

// leave begins a shutdown.
func (c *control) leave(done func()) {
	c.leaving.done = append(c.leaving.done, done)
	if c.life != nil {
		c.life.shutDown(c.now, c.alone())
	}
}

// handOver ends a shutdown: when the broker is out, another node is to lead Raft, and then whoever waits is told.
func (c *control) handOver() {
	l := &c.leaving
	if len(l.done) == 0 || c.life != nil && c.life.state != ShuttingDown {
		return
	}
	if c.leads() && len(c.status.Load().Voters) > 1 && l.tries < maxStepDowns {
		if !c.now.Before(l.due) {
			l.tries++
			l.due = c.now.Add(c.o.ElectionTimeout)
			c.step(quorum.TransferLeadership{})
		}
		return
	}
	l.due = time.Time{}
	for _, done := range l.done {
		done()
	}
	l.done = nil
}
