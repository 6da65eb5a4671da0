package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// Options are what a node is made of.
type Options struct {
	FS     vfs.FS
	Clock  clock.Clock
	Logger *slog.Logger // nil for the default

	MetadataDir string            // the metadata log is kept in __cluster_metadata-0 below it
	DirectoryID kafka.DirectoryID // of MetadataDir
	ClusterID   string
	Self        kafka.BrokerID

	Registration   Registration
	Settings       controller.Settings
	SessionTimeout time.Duration // broker.session.timeout.ms

	// Failed is told, once, why the node cannot go on: its disk, or a log that it cannot read. It must not block.
	Failed func(error)
}

// Node is this process's part in the cluster.
type Node struct {
	o           Options
	image       atomic.Pointer[metadata.Image]
	epoch       atomic.Int64 // see Registered
	status      atomic.Pointer[quorum.Status]
	subscribers []func(*metadata.Delta, *metadata.Image)

	quorum    *quorum.Node
	control   *control
	publisher *publisher
	events    *mailbox[event]
	published *mailbox[publication]
	loops     sync.WaitGroup
}

// New makes a node that does nothing yet. Image is the empty one until Start.
func New(o Options) *Node {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	n := &Node{o: o, events: newMailbox[event](), published: newMailbox[publication]()}
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

// Start opens the metadata log, or founds it, and returns when this broker is registered and unfenced, and the subscribers
// know. When it fails, or ctx ends, nothing is left running.
//
// Errors: *quorum.RefusedError; those of the disk; those of controller.RegisterBroker.
func (n *Node) Start(ctx context.Context) error {
	if err := n.openQuorum(); err != nil {
		return err
	}
	n.loops.Add(2)
	go n.runControl()
	go n.runPublisher()
	registered := make(chan error, 2)
	n.register(func(err error) { registered <- err })
	var err error
	select {
	case err = <-registered:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(err, n.Close())
	}
	return nil
}

// openQuorum opens what lies on the disk.
func (n *Node) openQuorum() error {
	q, err := quorum.Open(quorum.Options{
		FS: n.o.FS, Clock: n.o.Clock, Logger: n.o.Logger,
		Dir:       filepath.Join(n.o.MetadataDir, kafka.TopicPartition{Topic: kafka.ClusterMetadataTopic}.String()),
		ClusterID: n.o.ClusterID,
		Self:      metadata.QuorumMember{Node: n.o.Self, Directory: n.o.DirectoryID},
	}, n.o.Clock.Now())
	if err != nil {
		return fmt.Errorf("metadata log: %w", err)
	}
	n.quorum = q
	n.control = &control{
		quorum: q, settings: &n.o.Settings, leases: newLeases(n.o.SessionTimeout), logger: n.o.Logger,
		publish: func(p publication) { n.published.put(p) },
		status:  &n.status,
	}
	n.publisher = &publisher{self: n.o.Self, incarnation: n.o.Registration.Incarnation, subscribers: n.subscribers, image: &n.image}
	return nil
}

// Submit has the active controller decide a command and returns when what it decided is published on this broker. When ctx
// ends first, the command may still come true.
//
// Errors: NOT_CONTROLLER, which also leaves open what became of the command; those that the command names.
func (n *Node) Submit(ctx context.Context, cmd controller.Command) (controller.Reply, error) {
	type result struct {
		reply controller.Reply
		err   error
	}
	answered := make(chan result, 1)
	n.submit(cmd, func(reply controller.Reply, err error) { answered <- result{reply, err} })
	select {
	case r := <-answered:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *Node) submit(cmd controller.Command, done func(controller.Reply, error)) {
	if !n.events.put(event{submit: &submission{cmd, done}}) {
		done(nil, notController())
	}
}

// Close stops the node. Commands that wait fail with NOT_CONTROLLER.
func (n *Node) Close() error {
	n.events.close()
	n.loops.Wait()
	if n.quorum == nil {
		return nil
	}
	err := n.quorum.Close()
	n.quorum = nil
	return err
}

// runControl feeds the control loop until the node is closed or fails. What it put before is published nevertheless.
func (n *Node) runControl() {
	defer n.loops.Done()
	defer n.published.close()
	var due time.Time // of the next tick; zero while none is needed
	for {
		n.awaitEvent(due)
		events, closed := n.events.take()
		if closed {
			n.refuse(events)
			n.control.failAll(notController())
			return
		}
		now := n.o.Clock.Now()
		if !due.IsZero() && !now.Before(due) {
			events = append(events, event{quorum: quorum.Tick{}})
			due = time.Time{}
		}
		if err := n.control.Step(now, events...); err != nil {
			n.fail(err)
			return
		}
		if due.IsZero() && n.quorum.Ticking() {
			due = now.Add(quorum.TickInterval)
		}
	}
}

// awaitEvent waits until something may be in the mailbox, or a tick is due.
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
	n.control.failAll(err)
	n.events.close()
	events, _ := n.events.take()
	n.refuse(events)
	if n.o.Failed != nil {
		n.o.Failed(fmt.Errorf("metadata log: %w", err))
	}
}

func (n *Node) refuse(events []event) {
	for _, e := range events {
		if e.submit != nil {
			e.submit.done(nil, notController())
		}
	}
}

// runPublisher feeds the publisher until the control loop has ended and all is published.
func (n *Node) runPublisher() {
	defer n.loops.Done()
	for {
		publications, closed := n.published.take()
		n.publisher.Step(publications...)
		if closed {
			return
		}
		<-n.published.wake
	}
}
