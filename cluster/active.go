package cluster

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

const (
	// maxQueued bounds the commands that wait for a decision. A connection has one at a time; beyond this, clients are
	// better served by an answer that they retry.
	maxQueued = 10_000
	// maxEntryRecords ends an entry: about 2 MiB, which a follower gets in one message. A single command may exceed it.
	maxEntryRecords = 20_000
)

// event is for the control loop: a submission, or what quorum.Node.Step takes.
type event struct {
	submit *submission
	quorum quorum.Event
}

// submission is a command with whoever waits for it.
type submission struct {
	cmd  controller.Command
	done func(controller.Reply, error) // called once; must not block
}

// control steps the quorum, and decides when this node is the active controller.
type control struct {
	quorum   *quorum.Node
	settings *controller.Settings
	leases   leases
	logger   *slog.Logger
	publish  func(publication)
	status   *atomic.Pointer[quorum.Status] // for others to read

	lead   quorum.Leadership
	queue  []*submission
	flight *flight // what was proposed and is not applied yet
}

// flight is the entry that is under way.
type flight struct {
	term    int32
	answers []answer
}

// answer is what a command gets when the entry that it was decided in is published.
type answer struct {
	*submission
	reply controller.Reply
	err   error
}

func (a answer) give() { a.done(a.reply, a.err) }

// Step takes events and does all that follows. An error is the quorum's, and final.
func (c *control) Step(now time.Time, events ...event) error {
	for _, e := range events {
		switch {
		case e.submit != nil && len(c.queue) >= maxQueued:
			e.submit.done(nil, kafka.Errorf(kafka.RequestTimedOut, "The controller has %d commands waiting already.", maxQueued))
		case e.submit != nil:
			c.queue = append(c.queue, e.submit)
		default:
			if err := c.step(now, e.quorum); err != nil {
				return err
			}
		}
	}
	for len(c.queue) > 0 && c.flight == nil {
		if !c.lead.Ready {
			c.failAll(notController())
			return nil
		}
		if err := c.decide(now); err != nil {
			return err
		}
	}
	return nil
}

func notController() error {
	return kafka.Errorf(kafka.NotController, "This is not the correct controller for this cluster.")
}

// failAll answers everyone who waits.
func (c *control) failAll(err error) {
	if c.flight != nil {
		for _, a := range c.flight.answers {
			a.done(nil, err)
		}
		c.flight = nil
	}
	queue := c.queue
	c.queue = nil
	for _, s := range queue {
		s.done(nil, err)
	}
}

// decide takes commands off the queue, decides them and proposes what was decided as one entry.
func (c *control) decide(now time.Time) error {
	base := c.quorum.Image()
	img := base
	f := &flight{term: c.lead.Term}
	var records []metadata.Record
	n := 0
	for ; n < len(c.queue) && len(records) < maxEntryRecords; n++ {
		s := c.queue[n]
		decided, reply, err := controller.Decide(c.settings, img, c.leases.Leases, now, s.cmd)
		if err == nil && len(decided) > 0 {
			var next *metadata.Image
			if next, _, err = img.With(decided); err == nil {
				img = next
				records = append(records, decided...)
			} else {
				err = fmt.Errorf("what was decided for %T does not apply: %w", s.cmd, err)
				c.logger.Error("a decision was dropped", "error", err)
			}
		}
		if err == nil {
			c.leases.heard(s.cmd, now)
		}
		f.answers = append(f.answers, answer{s, reply, err})
	}
	c.queue = c.queue[n:]
	if len(records) == 0 { // nothing to write; but what an answer speaks of may be on its way to be published
		c.publish(publication{answers: f.answers})
		return nil
	}
	c.flight = f
	return c.step(now, quorum.Propose{Data: metadata.AppendEntry(nil, base.Index, records)})
}

// step steps the quorum and takes what came of it.
func (c *control) step(now time.Time, e quorum.Event) error {
	out, err := c.quorum.Step(now, e)
	c.status.Store(c.quorum.Status()) // before anybody hears of what was applied
	for _, a := range out.Applied {
		c.applied(a)
	}
	if err != nil {
		return err
	}
	lead := c.quorum.Leadership()
	if lead.Ready && (!c.lead.Ready || c.lead.Term != lead.Term) {
		c.leases.reset()
	}
	c.lead = lead
	if c.flight != nil && (out.Dropped || !lead.Ready || lead.Term != c.flight.term) {
		c.failAll(notController())
	}
	return nil
}

// applied hands an image on. The first entry of the flight's term that is applied is the flight itself: only this node
// makes entries in that term, one at a time.
func (c *control) applied(a quorum.Applied) {
	p := publication{index: a.Index, image: a.Image, delta: a.Delta}
	if c.flight != nil && a.Term == c.flight.term {
		if a.Delta == nil { // decided on an image that had moved: once more
			again := make([]*submission, 0, len(c.flight.answers)+len(c.queue))
			for _, a := range c.flight.answers {
				again = append(again, a.submission)
			}
			c.queue = append(again, c.queue...)
			c.flight = nil
			return
		}
		p.answers = c.flight.answers
		c.flight = nil
	}
	if a.Delta != nil {
		c.publish(p)
	}
}
