package cluster

import (
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
)

// maxElections bounds what one round of balancing changes, as in Kafka (MAX_ELECTIONS_PER_IMBALANCE).
const maxElections = 1000

// duty is when the active controller does what nobody asks it for. Times are zero for never.
type duty struct {
	changed   bool      // what is known of sessions, since fence was computed
	fence     time.Time // the first session is over
	fencing   bool      // a command is under way
	balance   time.Time // give partitions back to their preferred leaders
	balancing bool
	raise     bool      // internal topics may get more replicas: a broker became active
	looked    time.Time // when there was last a look at all this
	alone     bool      // then
}

// brokersChanged takes what an image says of brokers.
func (d *duty) brokersChanged(changes []metadata.BrokerChange) {
	for _, b := range changes {
		d.changed = true
		if b.New != nil && b.New.Active() && (b.Old == nil || !b.Old.Active()) {
			d.raise = true
		}
	}
}

// dutyDue is when a duty is due.
func (c *control) dutyDue() time.Time {
	d := &c.active.duty
	if !c.lead.Ready {
		return time.Time{}
	}
	var next time.Time
	if len(c.active.queue) > 0 && c.active.flight == nil {
		next = c.active.hold
	}
	if d.alone {
		return next
	}
	next = sooner(next, d.looked.Add(c.o.HeartbeatInterval/2))
	if !d.fencing {
		next = sooner(next, d.fence)
	}
	if !d.balancing {
		next = sooner(next, d.balance)
	}
	return next
}

// duties does what the active controller has to do, and decides what waits for it. It reports whether there may be more.
func (c *control) duties() bool {
	d := &c.active.duty
	alone := c.alone()
	switch {
	case alone:
	case d.alone: // it needed no heartbeats of its own before
		c.active.leases.LastContact[c.o.Self] = c.now
		d.changed = true
	case c.now.Sub(d.looked) > c.o.HeartbeatInterval:
		// This process stood still, and has not read yet what the others sent meanwhile. It is as if it had become the active
		// controller just now.
		c.resetLeases()
		d.changed = true
	}
	d.looked, d.alone = c.now, alone
	if !alone {
		c.fence()
		c.balance()
		c.raiseInternalTopics()
		c.manageMembers()
	}
	if len(c.active.queue) == 0 || c.active.flight != nil || c.now.Before(c.active.hold) {
		return false
	}
	c.decide()
	return true
}

// fence fences whose session is over, or who is proven gone.
func (c *control) fence() {
	d := &c.active.duty
	if d.changed {
		d.fence, _ = controller.NextExpiry(c.quorum.Image(), c.active.leases)
		d.changed = false
	}
	if d.fencing || d.fence.IsZero() || c.now.Before(d.fence) {
		return
	}
	d.fencing = true
	c.submit(&submission{cmd: controller.FenceBrokers{}, from: own, done: func(a Answer, err error) {
		d.fencing, d.fence = false, c.now.Add(c.quorum.TickInterval())
		if err != nil {
			if !undecided(err) {
				c.logger.Error("brokers whose sessions are over cannot be fenced", "error", err)
			}
			return
		}
		for _, gone := range a.Reply.(controller.FenceBrokersReply).Fenced {
			c.logger.Warn("a broker's session is over, and it is fenced", "broker", gone.Broker)
			c.active.leases.Fenced(gone)
			d.changed = true
		}
	}})
}

// balance gives partitions back to their preferred leaders, a bounded number at a time.
func (c *control) balance() {
	d := &c.active.duty
	if d.balancing || d.balance.IsZero() || c.now.Before(d.balance) {
		return
	}
	d.balancing = true
	c.submit(&submission{cmd: controller.BalanceLeaders{Max: maxElections}, from: own, done: func(a Answer, err error) {
		d.balancing = false
		d.balance = c.now.Add(c.o.BalanceInterval)
		switch {
		case err != nil && !undecided(err):
			c.logger.Error("leaders cannot be balanced", "error", err)
		case err == nil && a.Reply.(controller.BalanceLeadersReply).More:
			d.balance = c.now
		}
	}})
}

// raiseInternalTopics gives internal topics the replicas that there were no brokers for.
func (c *control) raiseInternalTopics() {
	if !c.active.duty.raise {
		return
	}
	c.active.duty.raise = false
	c.submit(&submission{cmd: controller.RaiseInternalTopics{}, from: own, done: func(a Answer, err error) {
		if err != nil && !undecided(err) {
			c.logger.Error("internal topics do not get the replicas that they lack", "error", err)
		}
		if err == nil && a.Reply.(controller.RaiseInternalTopicsReply).Partitions > 0 {
			c.logger.Info("internal topics get more replicas", "partitions", a.Reply.(controller.RaiseInternalTopicsReply).Partitions)
		}
	}})
}
