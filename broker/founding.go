package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"weir/broker/config"
	"weir/broker/peer"
	"weir/cluster"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/log"
	"weir/protocol"
)

const (
	// greetingInterval is how long a node that waits for others does nothing between two rounds of asking them.
	greetingInterval = 100 * time.Millisecond
	// greetingTimeout is how long one of them may take to answer.
	greetingTimeout = time.Second
	// waitingLog is how often a node that waits says for whom.
	waitingLog = 30 * time.Second
)

// founding settles with other nodes to which cluster this one belongs, and answers them the same question. The rules are
// cluster.DecideFounding's.
type founding struct {
	dial     peer.Dialer
	clock    clock.Clock
	logger   *slog.Logger
	greeting atomic.Pointer[cluster.Hello]  // nil until the metadata directory's id is known
	members  func() []metadata.QuorumMember // that may lead the cluster which the node belongs to; not called before that is so
}

// answer is peersOptions.Founding: it says who this node is.
func (f *founding) answer([]byte) ([]byte, error) {
	h := f.greeting.Load()
	if h == nil {
		return nil, kafka.Errorf(kafka.BrokerNotAvailable, "This node has only begun to start.")
	}
	if h.Founded {
		told := *h
		told.Members = f.members()
		h = &told
	}
	return json.Marshal(h)
}

// settle asks the voters of self until it is known what to do. It returns when that is so, when the settings of nodes
// contradict each other, or when ctx ends.
func (f *founding) settle(ctx context.Context, self cluster.Hello, voters []config.Voter) (cluster.Founding, error) {
	f.greeting.Store(&self)
	heard := make(map[string]*cluster.Hello)
	var said time.Time
	for begin := f.clock.Now(); ; {
		f.ask(ctx, self.Voters, heard)
		if err := checkIDs(voters, heard); err != nil {
			return cluster.Founding{}, err
		}
		decided, err := cluster.DecideFounding(self, heard)
		if err != nil || decided.Wait == "" {
			return decided, err
		}
		if now := f.clock.Now(); now.Sub(begin) >= greetingTimeout && now.Sub(said) >= waitingLog {
			f.logger.Info("waiting "+decided.Wait, "node", self.Member.Node, "voters", self.Voters)
			said = now
		}
		if !clock.Sleep(f.clock, greetingInterval, ctx.Done()) {
			return decided, fmt.Errorf("waiting %s: %w", decided.Wait, ctx.Err())
		}
	}
}

// checkIDs holds who answers against the ids of controller.quorum.voters: an address that stands for two nodes by mistake
// would found a smaller cluster than is wanted.
func checkIDs(voters []config.Voter, heard map[string]*cluster.Hello) error {
	for _, v := range voters {
		if h := heard[v.Address()]; h != nil && v.ID != kafka.NoBroker && h.Member.Node != v.ID {
			return kafka.Errorf(kafka.InvalidConfig, "controller.quorum.voters says that node %d is at %s, and node %d answers there", v.ID, v.Address(), h.Member.Node)
		}
	}
	return nil
}

// ask has all addresses answer at the same time, and returns when they have or their time is over.
func (f *founding) ask(ctx context.Context, addresses []string, heard map[string]*cluster.Hello) {
	ctx, cancel := context.WithTimeout(ctx, greetingTimeout)
	defer cancel()
	answers := make([]*cluster.Hello, len(addresses))
	done := make(chan struct{})
	for i, address := range addresses {
		go func() {
			defer func() { done <- struct{}{} }()
			body, err := peer.Ask(ctx, f.dial, address, &protocol.PeerRequest{Kind: protocol.PeerFounding})
			var h cluster.Hello
			if err == nil && json.Unmarshal(body, &h) == nil {
				answers[i] = &h
			}
		}()
	}
	for range addresses {
		<-done
	}
	for i, h := range answers {
		if h != nil {
			heard[addresses[i]] = h
		}
	}
}

// configuredID is the node's id by its settings, kafka.NoBroker where they leave it to the data directory or the cluster.
func (b *Broker) configuredID() kafka.BrokerID {
	if !b.Config.NodeIDSet {
		return kafka.NoBroker
	}
	return b.Config.NodeID
}

// found is log.StoreOptions.Found.
func (b *Broker) found(ctx context.Context, dir kafka.DirectoryID, known log.Identity) (log.Identity, error) {
	if len(b.Config.Join) > 0 && (!known.Joined || len(b.peerNote.Contacts) == 0) {
		return b.join(ctx, dir, known)
	}
	if known.Joined {
		return b.joinsAgain(known)
	}
	if known.NodeID == kafka.NoBroker {
		known.NodeID = b.Config.NodeID
	}
	b.Config = b.Config.WithNodeID(known.NodeID)
	self := b.hello(dir, known.ClusterID)
	if others := b.otherVoters(); len(others) == 0 {
		b.founding.greeting.Store(&self)
		return known, nil
	}
	decided, err := b.founding.settle(ctx, self, b.Config.Quorum.Voters)
	if err != nil {
		return known, err
	}
	b.founded = decided
	known.ClusterID = decided.ClusterID // where it is open, the store draws one
	if decided.Join != nil {
		err = b.keepContacts(decided.Join)
	}
	return known, err
}

// hello is what this node says of itself before it belongs to a cluster.
func (b *Broker) hello(dir kafka.DirectoryID, clusterID string) cluster.Hello {
	if clusterID == "" {
		clusterID = b.Config.ClusterID
	}
	h := cluster.Hello{Controller: b.Config.Roles.Controller, ClusterID: clusterID, Member: b.member(dir)}
	for _, v := range b.Config.Quorum.Voters {
		h.Voters = append(h.Voters, v.Address())
	}
	return h
}

// member is this node as a member of the quorum.
func (b *Broker) member(dir kafka.DirectoryID) metadata.QuorumMember {
	m := metadata.QuorumMember{RaftID: quorum.RaftID(dir), Node: b.Config.NodeID, Directory: dir, Controller: b.Config.Roles.Controller}
	if e, ok := b.peerEndpoint(); ok {
		m.Host, m.Port = e.Host, e.Port
	}
	return m
}

// otherVoters are the voters of the settings that are not known to be this node itself, by id or by address.
func (b *Broker) otherVoters() (others []config.Voter) {
	own := make(map[string]bool)
	for _, l := range b.bound {
		if l.Peers {
			own[l.socket.Addr().String()] = true
		}
	}
	for _, e := range endpoints(b.bound, func(l config.Listener) bool { return l.Peers }) {
		own[net.JoinHostPort(e.Host, fmt.Sprint(e.Port))] = true
	}
	for _, v := range b.Config.Quorum.Voters {
		if v.ID != b.Config.NodeID && !own[v.Address()] || v.ID != kafka.NoBroker && v.ID != b.Config.NodeID {
			others = append(others, v)
		}
	}
	return others
}

// belongs answers other nodes from now on that this one belongs to a cluster.
func (b *Broker) belongs() {
	h := b.hello(b.metadataDirectory(), b.store.ClusterID())
	h.Founded = true
	h.Founders = b.founded.Founders
	b.founding.greeting.Store(&h)
}

// voters are the members that may lead the cluster, as far as this node knows where they are.
func (b *Broker) voters() (members []metadata.QuorumMember) {
	known := b.node.Image().Quorum
	for _, v := range b.node.QuorumStatus().Voters {
		if m, ok := known.ByRaftID(v.RaftID); ok {
			members = append(members, m)
		}
	}
	return members
}

// warnVoters tells who gave a node that is alone other voters: it belongs to its own cluster, and stays there.
func (b *Broker) warnVoters() {
	others := b.otherVoters()
	if len(others) == 0 || b.node.Image().Quorum.Len() != 1 {
		return
	}
	var addresses []string
	for _, v := range others {
		addresses = append(addresses, v.Address())
	}
	b.Logger.Warn("controller.quorum.voters has no effect: this node founded a cluster of its own before. To make that larger, start the other nodes without data, with --join and an address of this one",
		"cluster", b.store.ClusterID(), "voters", strings.Join(addresses, ","))
}
