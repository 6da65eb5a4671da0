package broker

import (
	"context"
	"fmt"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"weir/broker/replica"
	"weir/cluster"
	"weir/cluster/controller"
	"weir/cluster/quorum"
	"weir/internal/clock"
	"weir/internal/kafka"
)

// others is all that this node has to do with the other nodes. Where there are none it is there all the same, and does
// nothing.
type others struct {
	peers    *peers       // members of the quorum: Raft, and commands
	links    *brokerLinks // brokers: fetches, and whether their processes are there
	fetchers *replica.Fetchers
	places   *assignments

	updates sync.WaitGroup // the updates of ISRs, and the moves of replicas
	stop    context.CancelFunc
}

// makePeers makes what answers other members of the quorum from the beginning. It speaks with nobody yet.
func (b *Broker) makePeers() {
	b.others.peers = newPeers(peersOptions{
		Node:      thisNode{b},
		RaftID:    b.raftID,
		ClusterID: b.clusterID,
		Clock:     b.Clock, Logger: b.Logger,
		Discover: b.discover,
		Founding: b.founding.answer,
		Join:     b.takeIn,
	})
}

// makeLinks makes the ways to other nodes, to whom this one gives its name.
func (b *Broker) makeLinks() {
	name := fmt.Sprint("weir-", b.Config.NodeID)
	b.others.peers.connect(name)
	b.others.links = newBrokerLinks(brokerLinksOptions{Self: b.Config.NodeID, Listener: b.Config.InterBrokerListener, Clock: b.Clock, Name: name, Observer: thisNode{b}})
}

// startCopying begins to fetch what other brokers lead, to propose ISRs for what this one leads, and to move replicas between directories.
func (o *others) startCopying(updates *replica.ISRUpdates, moves *replica.Moves, c clock.Clock) {
	o.fetchers.Start()
	ctx, cancel := context.WithCancel(context.Background())
	o.stop = cancel
	o.updates.Go(func() { updates.Run(ctx, c) })
	o.updates.Go(func() { moves.Run(ctx, c) })
}

// stopCopying ends the copying of partitions in both directions.
func (o *others) stopCopying() {
	if o.stop != nil {
		o.stop()
		o.updates.Wait()
	}
	if o.places != nil {
		o.places.close()
	}
	if o.fetchers != nil {
		o.fetchers.Close()
	}
}

// close closes the connections to other nodes.
func (o *others) close() {
	if o.links != nil {
		o.links.Close()
	}
	if o.peers != nil {
		o.peers.Close()
	}
}

// raftID is this node's own; 0 before its metadata directory is known.
func (b *Broker) raftID() uint64 {
	if h := b.founding.greeting.Load(); h != nil {
		return h.Member.RaftID
	}
	return 0
}

// clusterID is empty before this node belongs to a cluster.
func (b *Broker) clusterID() string {
	if h := b.founding.greeting.Load(); h != nil && h.Founded {
		return h.ClusterID
	}
	return ""
}

func (b *Broker) discovery() Discovery {
	d := Discovery{ClusterID: b.clusterID(), Node: kafka.NoBroker}
	if h := b.founding.greeting.Load(); h != nil { // the settings may not say yet which node this is
		d.Node = h.Member.Node
	}
	if e, ok := b.peerEndpoint(); ok {
		d.Host, d.Port = e.Host, e.Port
	}
	return d
}

// thisNode is cluster.Node for what speaks with other nodes and is there before it. Until then nothing comes: a node without
// a cluster refuses all that is a cluster's.
type thisNode struct{ b *Broker }

var (
	_ raftNode = thisNode{}
	_ observer = thisNode{}
)

func (m thisNode) Receive(messages []*raftpb.Message) {
	m.b.node.Receive(quorum.Receive{Messages: messages})
}
func (m thisNode) Unreachable(raftID uint64)           { m.b.node.Unreachable(raftID) }
func (m thisNode) SnapshotSent(raftID uint64, ok bool) { m.b.node.SnapshotSent(raftID, ok) }
func (m thisNode) Observe(e cluster.Evidence)          { m.b.node.Observe(e) }
func (m thisNode) Decide(cmd controller.Command, done func(cluster.Answer, error)) {
	m.b.node.Decide(cmd, done)
}
