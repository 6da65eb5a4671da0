package cluster

import (
	"cmp"
	"errors"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// submitLimit bounds how long a command looks for a controller: Kafka's limit for what brokers forward.
const submitLimit = time.Minute

// route is how far a submission has come on its way to the active controller. It belongs to the control loop until the
// submission is done.
type route struct {
	deadline time.Time
	try      int                  // how often it was sent, or nobody was there to send it to
	to       uint64               // Raft id of the node that has it; 0 while it waits here
	due      time.Time            // of the next try, or when this one counts as lost
	here     bool                 // it waits to be decided here
	over     bool                 // it is decided elsewhere, or given up
	repeated bool                 // an earlier try may have come true
	before   *metadata.Image      // published at the first try
	again    []controller.Command // what the tries after that brought, where it differs
}

// command is what is to be decided.
func (s *submission) command() controller.Command {
	if !s.repeated {
		return s.cmd
	}
	cmd := repeat(s.cmd, s.before)
	if _, ok := cmd.(controller.CreateTopics); ok {
		s.again = append(s.again, cmd)
	}
	return cmd
}

// tries are all that was to be decided for this submission, its own command first.
func (s *submission) tries() []controller.Command {
	return append([]controller.Command{s.cmd}, s.again...)
}

// router has the commands that are to be decided elsewhere.
type router struct {
	pending []*submission  // in the order in which they came; those that are over are dropped at the next look
	next    time.Time      // of the next look; zero for never
	turned  bool           // somebody else leads than at the last look
	last    uint64         // Raft id of the node that decided last
	failed  map[string]int // of the control loop's own commands, by name: tries that failed since one of the name succeeded
}

// clear drops all that waits, and returns it.
func (r *router) clear() (waiting []*submission) {
	for _, s := range r.pending {
		if !s.over {
			waiting = append(waiting, s)
		}
	}
	r.pending = nil
	return waiting
}

// leads reports whether what is submitted waits to be decided here: this node is the active controller, or about to be.
func (c *control) leads() bool { return c.lead.Leader == c.quorum.RaftID() }

// submit takes a command on its way: to the queue, if this node is the active controller, or to the one that leads.
func (c *control) submit(s *submission) {
	s.deadline, s.before = c.now.Add(submitLimit), c.published.Load()
	switch {
	case c.leads():
		c.enqueue(s)
	case s.from == peer:
		c.finish(s, Answer{}, c.elsewhere(s.cmd))
	case len(c.router.pending) >= maxQueued && s.from != own:
		c.finish(s, Answer{}, kafka.Errorf(kafka.RequestTimedOut, "%d commands look for a controller already.", maxQueued))
	default:
		c.router.pending = append(c.router.pending, s)
		c.send(s)
	}
}

// elsewhere is what another node is told that took this one for the controller. One that was removed may know only nodes that do not
// lead: these know as well that it will never be let in.
func (c *control) elsewhere(cmd controller.Command) error {
	for _, dir := range registering(cmd) {
		if err := controller.CheckRemoved(c.quorum.Image(), dir); err != nil {
			return c.lastWord(cmd, err)
		}
	}
	switch cmd := cmd.(type) {
	case controller.RegisterMember:
		c.introduced(cmd)
	case controller.BrokerHeartbeat:
		if img := c.quorum.Image(); int64(cmd.Epoch) <= img.Index {
			if _, err := controller.Incarnation(img, cmd.Broker, cmd.Epoch); err != nil {
				return err // it will have to register, and hear then whether it may
			}
		}
	}
	return notController()
}

// enqueue lets a command wait for a decision here.
func (c *control) enqueue(s *submission) {
	if len(c.active.queue) >= maxQueued && s.from != own {
		c.finish(s, Answer{}, kafka.Errorf(kafka.RequestTimedOut, "The controller has %d commands waiting already.", maxQueued))
		return
	}
	s.here, s.to = true, 0
	c.active.queue = append(c.active.queue, s)
}

// again routes a command that was to be decided here. maybe says that it may come true nevertheless.
func (c *control) again(s *submission, maybe bool) {
	if s.from != client {
		c.finish(s, Answer{}, notController())
		return
	}
	s.repeated = s.repeated || maybe
	s.here, s.to, s.due = false, 0, c.now
	c.router.pending = append(c.router.pending, s)
	c.router.next = c.now
}

// finish ends a submission that was not decided here.
func (c *control) finish(s *submission, a Answer, err error) {
	s.over = true
	if s.from == client && err == nil {
		c.publish(publication{index: a.Index, answers: []answer{{submission: s, reply: a.Reply}}})
		return
	}
	s.done(a, err)
}

// send gives a command to a node that may be the active controller.
func (c *control) send(s *submission) {
	to, ok := c.target(s)
	s.try++
	if !ok {
		c.lost(s, notController())
		return
	}
	try := s.try
	s.to, s.due = to.RaftID, c.now.Add(c.o.tryTimeout())
	c.router.next = sooner(c.router.next, s.due)
	c.o.Peers.Submit(to, s.command(), func(a Answer, err error) { c.put(answered{s, try, a, err}) })
}

// target chooses the node for the next try of a command: the one that leads Raft, or where that is not known, that gossip says to
// lead, or that decided last.
// But what this node knows may be old, or the address, and a node that joins knows nothing: so every other try after a failure
// asks the other members in turn. That goes by the failures of this command alone. A count that others have a part in may
// advance by two between two of its tries, and then it would ask the same node for ever.
func (c *control) target(s *submission) (to metadata.QuorumMember, ok bool) {
	if c.o.Peers == nil {
		return to, false
	}
	first := cmp.Or(c.lead.Leader, c.rumouredLeader(), c.router.last)
	var others []metadata.QuorumMember
	for _, m := range c.members() {
		switch {
		case m.RaftID == first:
			to, ok = m, true
		case m.RaftID != c.quorum.RaftID() && m.Host != "":
			others = append(others, m)
		}
	}
	failures := s.try
	if s.from == own {
		failures = c.router.failed[controller.Name(s.cmd)]
	}
	if ok {
		if failures%2 == 0 || len(others) == 0 {
			return to, true
		}
		failures /= 2 // those of the others
	}
	if len(others) == 0 {
		return to, false
	}
	return others[failures%len(others)], true
}

// lost takes the failure of a try that leaves the command open: it is tried again, but what the control loop itself wants is
// made anew instead.
func (c *control) lost(s *submission, err error) {
	if s.from == own {
		if c.router.failed == nil {
			c.router.failed = map[string]int{}
		}
		c.router.failed[controller.Name(s.cmd)]++
		c.finish(s, Answer{}, err)
		return
	}
	s.to, s.due = 0, c.now.Add(backoff(s.try-1))
	c.router.next = sooner(c.router.next, s.due)
}

// answered takes a peer's answer. One that comes late is as good, but a failure that comes late is no news; nor is an answer
// for which the last try counts.
func (c *control) answered(e answered) {
	s := e.s
	late := e.try != s.try
	switch {
	case s.over || s.here || e.err != nil && (s.to == 0 || late) || late && lastTryCounts(s.cmd):
	case e.err == nil:
		c.router.last = cmp.Or(s.to, c.router.last)
		if s.from == own {
			delete(c.router.failed, controller.Name(s.cmd))
		}
		c.finish(s, e.answer, nil)
	case undecided(e.err):
		s.repeated = true
		c.lost(s, e.err)
	default:
		c.finish(s, Answer{}, e.err)
	}
}

// undecided reports whether an error leaves open what becomes of a command: no controller was reached, or one that is none
// any more. It is to be submitted again.
func undecided(err error) bool {
	var coded kafka.Coder
	if !errors.As(err, &coded) {
		return true // of the connection
	}
	switch coded.Code() {
	case kafka.NotController, kafka.RequestTimedOut, kafka.NetworkException, kafka.BrokerNotAvailable:
		return true
	}
	return false
}

// retry looks after the commands that are on their way.
func (c *control) retry() {
	r := &c.router
	if !r.turned && (r.next.IsZero() || c.now.Before(r.next)) {
		return
	}
	turned := r.turned
	r.turned, r.next = false, time.Time{}
	pending := r.pending
	r.pending = nil
	for _, s := range pending {
		c.lookAfter(s, turned)
		if !s.over && !s.here {
			r.pending = append(r.pending, s)
			r.next = sooner(r.next, sooner(s.due, s.deadline))
		}
	}
}

// lookAfter does with a command what is due. turned says that somebody else leads.
func (c *control) lookAfter(s *submission, turned bool) {
	due := !c.now.Before(s.due)
	switch {
	case s.over:
	case s.gone != nil && s.gone():
		c.finish(s, Answer{}, notController())
	case !c.now.Before(s.deadline):
		c.finish(s, Answer{}, kafka.Errorf(kafka.RequestTimedOut, "No controller decided the command within %v.", submitLimit))
	case s.to != 0 && (c.leads() || due || turned && s.to != c.lead.Leader): // nobody knows what becomes of it there
		s.repeated = true
		if s.from == own {
			c.lost(s, notController())
			return
		}
		c.move(s)
	case s.to == 0 && (due || turned):
		c.move(s)
	}
}

// move submits a pending command once more.
func (c *control) move(s *submission) {
	if c.leads() {
		c.enqueue(s)
	} else {
		c.send(s)
	}
}
