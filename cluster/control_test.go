package cluster

import (
	"testing"

	"weir/cluster/controller"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// An entry that was decided on an image that had moved is skipped; its commands are decided again, before younger ones.
func TestSkippedEntryIsDecidedAgain(t *testing.T) {
	d := drive(t, options(newDisk(), 1))
	c := d.node.control
	var order []string
	note := func(name string) *submission {
		return &submission{create(name, 1), func(controller.Reply, error) { order = append(order, name) }}
	}
	c.flight = &flight{term: c.lead.Term, answers: []answer{{submission: note("first")}, {submission: note("second")}}}
	c.queue = []*submission{note("third")}
	c.applied(quorum.Applied{Image: c.quorum.Image(), Index: 99, Term: c.lead.Term})
	if c.flight != nil || len(c.queue) != 3 {
		t.Fatalf("flight %v, queue of %d", c.flight, len(c.queue))
	}
	if err := c.Step(d.clock.Now()); err != nil {
		t.Fatal(err)
	}
	d.run()
	if len(order) != 3 || order[0] != "first" || order[2] != "third" || d.node.Image().Topics.Len() != 3 {
		t.Fatal(order)
	}
}

// Who no longer leads answers nobody with a promise.
func TestCommandsFailWhereNobodyLeads(t *testing.T) {
	d := drive(t, options(newDisk(), 1))
	c := d.node.control
	c.lead.Ready = false
	a := d.submit(create("a", 1))[0]
	if kafka.CodeOf(a.err) != kafka.NotController || a.reply != nil {
		t.Fatalf("%+v", a)
	}
	var got error
	c.flight = &flight{term: c.lead.Term - 1, answers: []answer{{submission: &submission{create("b", 1), func(_ controller.Reply, err error) { got = err }}}}}
	if err := c.Step(d.clock.Now(), event{quorum: quorum.Tick{}}); err != nil { // in a later term now
		t.Fatal(err)
	}
	if kafka.CodeOf(got) != kafka.NotController || c.flight != nil {
		t.Fatal(got)
	}
}

func TestQueueIsBounded(t *testing.T) {
	d := drive(t, options(newDisk(), 1))
	refused := 0
	for range maxQueued + 5 {
		d.node.submit(controller.Initialize{ClusterID: "c1"}, func(_ controller.Reply, err error) {
			if kafka.CodeOf(err) == kafka.RequestTimedOut {
				refused++
			}
		})
	}
	d.run()
	if refused != 5 {
		t.Fatalf("%d refused", refused)
	}
}

// What the active controller heard counts for the registration of another incarnation, until the session is over; a new
// active controller has heard of nobody.
func TestLeases(t *testing.T) {
	d := drive(t, options(newDisk(), 1))
	register := func(incarnation byte) error {
		o := options(nil, incarnation)
		return d.submit(controller.RegisterBroker{
			ClusterID: "c1", Broker: 2, Incarnation: o.Registration.Incarnation, Listeners: o.Registration.Listeners,
			Directories: []kafka.DirectoryID{{2, 15: 200}}, PreviousEpoch: -1,
		})[0].err
	}
	if err := register(1); err != nil {
		t.Fatal(err)
	}
	if err := register(2); kafka.CodeOf(err) != kafka.DuplicateBrokerRegistration {
		t.Fatal(err)
	}
	d.clock.Advance(9e9)
	if err := register(2); err != nil {
		t.Fatal(err)
	}
	d.node.control.leases.reset()
	if err := register(3); err != nil {
		t.Fatal(err)
	}
}

func TestLargeQueuesBecomeSeveralEntries(t *testing.T) {
	d := drive(t, options(newDisk(), 1))
	before := d.node.Image().Index
	d.submit(create("a", 10_000), create("b", 10_000), create("c", 10_000))
	if img := d.node.Image(); img.Index != before+2 || img.Topics.PartitionCount() != 30_000 {
		t.Fatalf("%d partitions at index %d, was %d", img.Topics.PartitionCount(), img.Index, before)
	}
}

// An answer that writes nothing waits all the same for what is on its way: "it exists" is said when it can be seen.
func TestAnswersKeepTheirOrder(t *testing.T) {
	d := drive(t, options(newDisk(), 1))
	var answers []kafka.Code
	for range 2 {
		d.node.submit(create("a", 1), func(reply controller.Reply, _ error) {
			answers = append(answers, reply.(controller.CreateTopicsReply).Topics[0].Code)
		})
		events, _ := d.node.events.take()
		if err := d.node.control.Step(d.clock.Now(), events...); err != nil {
			t.Fatal(err)
		}
	}
	if len(answers) > 0 {
		t.Fatalf("answered %v before anything was published", answers)
	}
	d.run()
	if len(answers) != 2 || answers[0] != kafka.None || answers[1] != kafka.TopicAlreadyExists {
		t.Fatal(answers)
	}
}
