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
		return &submission{cmd: create(name, 1), from: peer, done: func(Answer, error) { order = append(order, name) }}
	}
	c.active.flight = &flight{term: c.lead.Term, answers: []answer{{submission: note("first")}, {submission: note("second")}}}
	c.active.queue = []*submission{note("third")}
	c.applied(quorum.Applied{Image: c.quorum.Image(), Index: 99, Term: c.lead.Term})
	if c.active.flight != nil || len(c.active.queue) != 3 {
		t.Fatalf("flight %v, queue of %d", c.active.flight, len(c.active.queue))
	}
	d.run()
	if len(order) != 3 || order[0] != "first" || order[2] != "third" || d.node.Image().Topics.Len() != 3 {
		t.Fatal(order)
	}
}

func TestQueueIsBounded(t *testing.T) {
	d := drive(t, options(newDisk(), 1))
	refused := 0
	for range maxQueued + 5 {
		d.node.SubmitAsync(controller.Initialize{ClusterID: "c1"}, func(_ controller.Reply, err error) {
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
	for range 9 {
		d.clock.Advance(1e9)
		d.run()
	}
	if err := register(2); err != nil {
		t.Fatal(err)
	}
	d.node.control.active.leases.Reset(d.clock.Now())
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
		d.node.SubmitAsync(create("a", 1), func(reply controller.Reply, _ error) {
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
