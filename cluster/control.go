package cluster

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// event is for the control loop: a quorum.Event, an Evidence, or one of the types below.
type event any

// What may happen to a node, beside what happens to its quorum.
type (
	submitted struct{ *submission }
	answered  struct { // by the peer that a command was sent to
		s      *submission
		try    int
		answer Answer
		err    error
	}
	heard     struct{ Gossiped }
	dirFailed struct{ id kafka.DirectoryID }
	moved     struct{ to Address }
	leave     struct{ done func() }
)

// submission is a command with whoever waits for it.
type submission struct {
	cmd  controller.Command
	from origin
	done func(Answer, error) // called once; must not block
	gone func() bool         // nobody waits any more; nil where that does not happen
	route
}

// origin is who submits.
type origin int8

const (
	client origin = iota // someone of this process: it waits for publication, and is routed until it is decided
	peer                 // another node, which routed it here
	own                  // the control loop itself: told at once, in its own goroutine, and tried once
)

// control is the loop of a node: it steps the quorum, keeps this broker registered, takes commands to the active controller,
// and is that itself while this node leads.
type control struct {
	o         *Options
	logger    *slog.Logger
	quorum    *quorum.Node
	publish   func(publication)
	put       func(event)                     // into the loop's own mailbox
	published *atomic.Pointer[metadata.Image] // what the publisher has come to
	status    *atomic.Pointer[quorum.Status]  // for others to read, as the next two
	epoch     *atomic.Int64
	state     *atomic.Int32
	started   func() // called once, when the broker runs; nil then

	now     time.Time // of this step
	lead    quorum.Leadership
	before  sign      // of who leads, or led before this node
	tickDue time.Time // zero while the quorum needs no ticks
	fatal   error     // why the node must not go on

	life      *lifecycle // nil for a node that is no broker
	router    router
	active    active
	sightings sightings
	rumours   rumours
	deaf      map[uint64]bool                  // by Raft id: nothing came since a message to that member did not arrive
	departing map[uint64]metadata.QuorumMember // by Raft id: removed from the image, and not from Raft yet
	address   ownAddress
	leaving   leaving
}

// newControl makes the loop of a node whose quorum is open. Its first step is due at once.
func newControl(n *Node, now time.Time) *control {
	c := &control{
		o: &n.o, logger: n.o.Logger, quorum: n.quorum, published: &n.image, status: &n.status, epoch: &n.epoch, state: &n.state,
		publish: func(p publication) { n.published.put(p) },
		put:     func(e event) { n.events.put(e) },
		now:     now, tickDue: now,
		rumours: rumours{members: map[uint64]*rumour{}}, deaf: map[uint64]bool{}, departing: map[uint64]metadata.QuorumMember{},
		address: ownAddress{self: n.o.member()},
	}
	c.address.self.RaftID = n.quorum.RaftID()
	c.active.leases = controller.Leases{SessionTimeout: n.o.SessionTimeout, HeartbeatInterval: n.o.HeartbeatInterval}
	if !n.o.Roles.NoBroker {
		c.life = newLifecycle(&n.o)
		c.life.begin(now)
		c.started = func() { n.running <- nil }
	}
	if img := n.quorum.Image(); img.Index != metadata.NoBase {
		c.publish(publication{index: img.Index, image: img, delta: metadata.Diff(metadata.Empty(), img)})
	}
	c.setMembers()
	return c
}

// Step takes events and does all that follows. An error is final.
func (c *control) Step(now time.Time, events ...event) error {
	c.now = now
	c.endDetours()
	for _, e := range events {
		c.take(e)
	}
	if !c.tickDue.IsZero() && !now.Before(c.tickDue) {
		c.tickDue = time.Time{}
		c.step(quorum.Tick{})
	}
	if at := c.quorum.Due(); !at.IsZero() && !now.Before(at) {
		c.step(quorum.Wake{})
	}
	for c.fatal == nil && c.work() {
	}
	switch {
	case !c.quorum.Ticking():
		c.tickDue = time.Time{}
	case c.tickDue.IsZero():
		c.tickDue = now.Add(c.quorum.TickInterval())
	}
	return c.fatal
}

// Next is when Step has something to do though nothing happens; zero for never.
func (c *control) Next() time.Time {
	next := c.tickDue
	for _, at := range []time.Time{c.quorum.Due(), c.router.next, c.address.next(), c.leaving.due, c.dutyDue()} {
		next = sooner(next, at)
	}
	if c.life != nil {
		next = sooner(next, c.life.Next())
	}
	return next
}

// sooner returns the earlier of two times, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (c *control) take(e event) {
	switch e := e.(type) {
	case submitted:
		c.submit(e.submission)
	case answered:
		c.answered(e)
	case Evidence:
		c.observe(e)
	case heard:
		c.hear(e.Gossiped)
	case dirFailed:
		if c.life != nil {
			c.life.dirFailed(c.now, e.id)
		}
	case moved:
		c.address.moved(e.to)
		if c.life != nil {
			c.life.moved(c.now, e.to.Listeners)
		}
	case leave:
		c.leave(e.done)
	case quorum.Receive:
		for _, m := range e.Messages {
			delete(c.deaf, m.GetFrom())
			if m.GetFrom() == c.before.leader {
				c.before.at = c.now
			}
		}
		c.step(e)
	case quorum.Unreachable:
		c.deaf[e.RaftID] = true
		c.unreachable(e.RaftID)
		c.step(e)
	case quorum.Event:
		c.step(e)
	}
}

// sign is when a leader of Raft was last heard of.
type sign struct {
	leader uint64 // Raft id
	at     time.Time
}

// work does what is due, once: what the broker wants, what is on its way to another node, what is to be decided here. It
// reports whether there may be more.
func (c *control) work() bool {
	c.live()
	c.registerAddress()
	c.retry()
	decided := c.lead.Ready && c.duties()
	c.handOver()
	return decided || c.life != nil && c.life.ready(c.now)
}

// live lets the broker do what is due.
func (c *control) live() {
	if c.life == nil {
		return
	}
	v := view{image: c.published.Load(), alone: c.alone(), unreachable: c.sightings.report(c.quorum.Image())}
	if c.o.Stalled != nil {
		v.stalled = c.o.Stalled()
	}
	cmd, err := c.life.Step(c.now, v)
	if err != nil {
		c.fatal = err
		return
	}
	if cmd != nil {
		c.submit(&submission{cmd: cmd, from: own, done: func(a Answer, err error) {
			if fatal := c.life.Answered(c.now, a.Reply, a.Index, err, c.alone()); fatal != nil {
				c.fatal = fatal
			} else if _, registers := cmd.(controller.RegisterBroker); registers && err != nil && c.hopeless(kafka.CodeOf(err), true) {
				// It was removed while it heard nothing, and nobody sends it the log any more.
				c.fatal = fmt.Errorf("register broker %d again: %w", c.o.Self, err)
			}
		}})
	}
	c.state.Store(int32(c.life.state))
	raise(c.epoch, c.life.epoch)
	if c.life.up && c.started != nil {
		c.started()
		c.started = nil
	}
}

// alone reports whether nobody else is in the cluster, or is about to be. Then nothing happens but what clients want.
func (c *control) alone() bool {
	img := c.quorum.Image()
	if !c.lead.Ready || c.quorum.Ticking() || img.Brokers.Len() > 1 || img.Quorum.Len() > 1 {
		return false
	}
	_, self := img.Brokers.ByID(c.o.Self)
	return self || img.Brokers.Len() == 0
}

// step steps the quorum and takes what came of it. taken says that Raft did what it was asked to.
func (c *control) step(e quorum.Event) (taken bool) {
	if c.fatal != nil {
		return false
	}
	out, err := c.quorum.Step(c.now, e)
	c.status.Store(c.quorum.Status()) // before anybody hears of what was applied
	for _, a := range out.Applied {
		c.applied(a)
	}
	if err != nil {
		c.fatal = fmt.Errorf("metadata log: %w", err)
		return false
	}
	if out.MembersChanged {
		c.active.autopilot.look = time.Time{}
		c.membersChanged(nil)
	}
	_, proposed := e.(quorum.Propose)
	c.follow(proposed && out.Dropped)
	return !out.Dropped
}

// follow takes a change of who leads. dropped says that Raft did not take the entry that was proposed just now.
func (c *control) follow(dropped bool) {
	was, lead := c.lead, c.quorum.Leadership()
	c.lead = lead
	turned := lead.Leader != was.Leader || lead.Term != was.Term
	if turned && was.Leader == c.quorum.RaftID() {
		c.resign()
	} else if f := c.active.flight; f != nil && dropped {
		c.active.putBack(f)
		c.active.hold = c.now.Add(c.quorum.TickInterval()) // it hands leadership over, or others are too far behind
	}
	if lead.Ready && (!was.Ready || turned) {
		c.begin()
	}
	if lead.Leader != c.before.leader && lead.Leader != 0 && !c.leads() {
		c.before = sign{lead.Leader, c.now}
	}
	if turned && lead.Leader != 0 {
		c.router.turned = true
		if c.life != nil {
			c.life.newController(c.now)
		}
	}
}

// applied hands an image on. The first entry of the flight's term that is applied is the flight itself: only this node
// makes entries in that term, one at a time.
func (c *control) applied(a quorum.Applied) {
	p := publication{index: a.Index, image: a.Image, delta: a.Delta}
	if f := c.active.flight; f != nil && a.Term == f.term {
		if a.Delta == nil { // decided on an image that had moved: once more
			c.active.putBack(f)
			return
		}
		c.active.flight = nil
		p.answers = c.give(f.answers, a.Index)
	}
	if a.Delta != nil {
		if a.Delta.Quorum {
			c.membersChanged(a.Delta.Old)
		}
		if a.Delta.Quorum || len(a.Delta.Brokers) > 0 {
			c.active.autopilot.look = time.Time{}
		}
		c.active.duty.brokersChanged(a.Delta.Brokers)
		c.publish(p)
	}
}

// membersChanged takes other members, of the image (before is what it was) or of Raft. Who was removed is still needed until Raft
// can do without: else a change of voters that has its vote to count would never be committed.
func (c *control) membersChanged(before *metadata.Image) {
	if before != nil {
		for m := range before.Quorum.All() {
			c.departing[m.RaftID] = m
		}
	}
	raft := c.quorum.Members()
	for id := range c.departing {
		_, member := c.quorum.Image().Quorum.ByRaftID(id)
		if member || !slices.Contains(raft.Voters, id) && !slices.Contains(raft.Learners, id) {
			delete(c.departing, id)
		}
	}
	c.forgetRumours()
	c.setMembers()
}

// member finds a member of the image, or one that Raft still has.
func (c *control) member(id uint64) (metadata.QuorumMember, bool) {
	if m, departing := c.departing[id]; departing {
		return m, true
	}
	return c.quorum.Image().Quorum.ByRaftID(id)
}

// setMembers tells the peers who is there.
func (c *control) setMembers() {
	if c.o.Peers != nil {
		c.o.Peers.SetMembers(c.members())
	}
}

// members are the nodes that take part in the quorum as far as this one knows, where they are to be tried, in the order of their
// Raft ids.
func (c *control) members() (members []metadata.QuorumMember) {
	for m := range c.quorum.Image().Quorum.All() {
		members = append(members, c.reached(m))
	}
	if members == nil {
		return c.o.contacts()
	}
	for _, m := range c.departing {
		members = append(members, c.reached(m))
	}
	slices.SortFunc(members, func(a, b metadata.QuorumMember) int { return cmp.Compare(a.RaftID, b.RaftID) })
	return members
}

// failAll answers everyone who waits.
func (c *control) failAll(err error) {
	waiting := c.active.clear()
	for _, s := range append(waiting, c.router.clear()...) {
		if s.from != own {
			s.done(Answer{}, err)
		}
	}
	for _, done := range c.leaving.done {
		done()
	}
	c.leaving = leaving{}
}
