package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// Node is this process's part in the cluster. It is driven by the goroutines that Start begins, or by hand: Open, then Step
// whenever something was handed in and at NextWake, all from one goroutine.
type Node struct {
	o           Options
	image       atomic.Pointer[metadata.Image]
	epoch       atomic.Int64 // see Registered
	state       atomic.Int32 // see State
	status      atomic.Pointer[quorum.Status]
	subscribers []func(*metadata.Delta, *metadata.Image)

	quorum    *quorum.Node
	control   *control
	publisher *publisher
	events    *mailbox[event]
	published *mailbox[publication]
	loops     sync.WaitGroup
	running   chan error // Start waits for it
	failed    bool
}

// New makes a node that does nothing yet. Image is the empty one until Start.
func New(o Options) *Node {
	o.fill()
	n := &Node{o: o, events: newMailbox[event](), published: newMailbox[publication](), running: make(chan error, 1)}
	n.image.Store(metadata.Empty())
	n.epoch.Store(notRegistered)
	n.status.Store(&quorum.Status{})
	return n
}

// Subscribe has f called for every image that is published, after those who subscribed before. It is to be called before
// Start. The first delta is that from the empty image. f is called from one goroutine, and Submit's callers wait for it:
// it must not call Submit itself.
func (n *Node) Subscribe(f func(*metadata.Delta, *metadata.Image)) {
	n.subscribers = append(n.subscribers, f)
}

// Image is the newest image that is published.
func (n *Node) Image() *metadata.Image { return n.image.Load() }

// QuorumStatus is where the quorum stood after its last step. It must not be changed; before the first step it is empty.
func (n *Node) QuorumStatus() *quorum.Status { return n.status.Load() }

// Registered returns the epoch that this incarnation is registered in; subscribers find it there from their first image on.
// ok is false if it never was; a Start that failed may have come so far.
func (n *Node) Registered() (epoch kafka.BrokerEpoch, ok bool) {
	epoch = kafka.BrokerEpoch(n.epoch.Load())
	return epoch, epoch != notRegistered
}

// State is where this broker is in its life.
func (n *Node) State() State { return State(n.state.Load()) }

// Start opens the metadata log, founds it or joins, and returns when this broker is registered and unfenced, and the
// subscribers know; a node that is no broker is there at once. When it fails, or ctx ends, nothing is left running.
//
// Errors: *quorum.RefusedError; those of the disk; those of controller.RegisterBroker, where another process has this
// broker's id or no controller is found only after Options.RegistrationTimeout.
func (n *Node) Start(ctx context.Context) error {
	if err := n.Open(); err != nil {
		return err
	}
	n.loops.Add(2)
	go n.runControl()
	go n.runPublisher()
	var err error
	if !n.o.Roles.NoBroker {
		select {
		case err = <-n.running:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return errors.Join(err, n.Close())
	}
	return nil
}

// Open opens what lies on the disk, for a node that is driven by hand.
func (n *Node) Open() error {
	now := n.o.Clock.Now()
	o := quorum.Options{
		FS: n.o.FS, Clock: n.o.Clock, Logger: n.o.Logger, Rand: n.o.Rand,
		Dir:       filepath.Join(n.o.MetadataDir, kafka.TopicPartition{Topic: kafka.ClusterMetadataTopic}.String()),
		ClusterID: n.o.ClusterID,
		Self:      n.o.member(),
		Founders:  n.o.Founders, Join: n.o.Join != nil, ElectionTimeout: n.o.ElectionTimeout,
	}
	if n.o.Peers != nil {
		o.Transport = n.o.Peers
	}
	q, err := quorum.Open(o, now)
	if err != nil {
		return fmt.Errorf("metadata log: %w", err)
	}
	n.quorum = q
	n.publisher = &publisher{
		self: n.o.Self, incarnation: n.o.Registration.Incarnation, subscribers: n.subscribers, image: &n.image, epoch: &n.epoch,
		broker: !n.o.Roles.NoBroker, open: n.o.Roles.NoBroker, seen: metadata.NoBase,
	}
	n.control = newControl(n, now)
	return nil
}

// Step does all that is to be done, for a node that is driven by hand; the subscribers are called from here. An error is
// final.
func (n *Node) Step(now time.Time) error {
	for {
		events, _ := n.events.take()
		if err := n.control.Step(now, events...); err != nil {
			n.fail(err)
			return err
		}
		publications, _ := n.published.take()
		if len(publications) == 0 {
			return nil
		}
		n.publisher.Step(publications...)
	}
}

// NextWake is when Step is due though nothing was handed in; zero for never. It is for a node that is driven by hand.
func (n *Node) NextWake() time.Time { return n.control.Next() }

// Close stops the node, without a farewell: see Shutdown. Commands that wait fail with NOT_CONTROLLER.
func (n *Node) Close() error {
	n.events.close()
	n.loops.Wait()
	if n.quorum == nil {
		return nil
	}
	// What is left where the node is driven by hand.
	events, _ := n.events.take()
	n.refuse(events, notController())
	n.control.failAll(notController())
	n.publisher.close()
	err := n.quorum.Close()
	n.quorum = nil
	return err
}

// runControl feeds the control loop until the node is closed or fails. What it put before is published nevertheless.
func (n *Node) runControl() {
	defer n.loops.Done()
	defer n.published.close()
	for {
		events, closed := n.events.take()
		if closed {
			n.refuse(events, notController())
			n.control.failAll(notController())
			return
		}
		if err := n.control.Step(n.o.Clock.Now(), events...); err != nil {
			n.fail(err)
			return
		}
		n.awaitEvent(n.control.Next())
	}
}

// awaitEvent waits until something may be in the mailbox, or it is time.
func (n *Node) awaitEvent(due time.Time) {
	if due.IsZero() {
		<-n.events.wake
		return
	}
	timer := n.o.Clock.NewTimer(due.Sub(n.o.Clock.Now()))
	defer timer.Stop()
	select {
	case <-n.events.wake:
	case <-timer.C():
	}
}

// fail ends the control loop: nobody is to wait for an answer that cannot come.
func (n *Node) fail(err error) {
	if n.failed {
		return
	}
	n.failed = true
	n.control.failAll(err)
	n.events.close()
	events, _ := n.events.take()
	n.refuse(events, notController())
	starting := n.control.started != nil
	n.control.started = nil
	switch {
	case starting:
		n.running <- err
	case n.o.Failed != nil:
		n.o.Failed(err)
	}
}

func (n *Node) refuse(events []event, err error) {
	for _, e := range events {
		switch e := e.(type) {
		case submitted:
			e.done(Answer{}, err)
		case leave:
			e.done()
		}
	}
}

// runPublisher feeds the publisher until the control loop has ended and all is published.
func (n *Node) runPublisher() {
	defer n.loops.Done()
	for {
		publications, closed := n.published.take()
		if n.publisher.Step(publications...) {
			n.events.notify() // the broker's standing depends on it
		}
		if closed {
			n.publisher.close()
			return
		}
		<-n.published.wake
	}
}
