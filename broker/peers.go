package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"weir/broker/peer"
	"weir/cluster"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/protocol"
)

// raftNode is what this node's part in the cluster is told by others, and of what it sent to them. cluster.Node is one. No
// method blocks.
type raftNode interface {
	// Receive takes Raft messages of other members.
	Receive(messages []*raftpb.Message)
	// Unreachable says that messages to a member got lost.
	Unreachable(raftID uint64)
	// SnapshotSent says how the sending of a snapshot to a member ended.
	SnapshotSent(raftID uint64, ok bool)
	// Decide has this node decide a command if it is the active controller, else it fails with NOT_CONTROLLER. done is told
	// once, from any goroutine.
	Decide(cmd controller.Command, done func(cluster.Answer, error))
}

// peersOptions are what peers need. Node and RaftID are not used before the first message is sent or comes.
type peersOptions struct {
	Node      raftNode
	RaftID    func() uint64 // this node's own; 0 while there is none yet
	ClusterID func() string // empty while this node belongs to no cluster
	Dial      peer.Dialer   // nil for TCP
	Clock     clock.Clock
	Logger    *slog.Logger

	// Discover tells anybody who asks which cluster this is, once, from any goroutine. It must not block.
	Discover func(done func(Discovery, error))
	// Founding answers a node that wants to found a cluster with this one; nil where that is never answered.
	Founding func(body []byte) ([]byte, error)
	// Join answers a node that wants to become a member; nil likewise. done is told once, from any goroutine.
	Join func(body []byte, done func([]byte, error))
}

// peers is cluster.Peers over the network, and the answers to other nodes' requests of the same kind (peers_handle.go).
// Members are known by their Raft ids: a node with a new disk is another member, and gets nothing that was meant for the
// old one. Safe for concurrent use.
//
// Goroutines: those of its peer.Pool. Lock order: its own, then the pool's; neither is held over a call of the node.
type peers struct {
	o    peersOptions
	pool *peer.Pool[uint64] // nil before connect
	mu   struct {
		sync.Mutex
		links     map[uint64]*raftLink
		transfers map[uint64]*transfer // snapshots that are being sent, by receiver
		members   []metadata.QuorumMember
		lastSent  uint64 // numbers them
	}
	assembly struct {
		sync.Mutex
		peer.Assembler
	}
}

var _ cluster.Peers = (*peers)(nil)

// newPeers makes peers that answer and say nothing: see connect.
func newPeers(o peersOptions) *peers {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &peers{o: o}
	p.mu.links = make(map[uint64]*raftLink)
	p.mu.transfers = make(map[uint64]*transfer)
	return p
}

// connect makes connections possible: all that is handed to the others needs them. name says in their logs who this is.
func (p *peers) connect(name string) {
	p.pool = peer.NewPool[uint64](peer.Options{Dial: p.o.Dial, Clock: p.o.Clock, Name: name})
}

// Close closes the connections. Who waits for an answer is told before it returns.
func (p *peers) Close() {
	if p.pool != nil {
		p.pool.Close()
	}
}

// SetMembers implements cluster.Peers.
func (p *peers) SetMembers(members []metadata.QuorumMember) {
	for _, id := range p.pool.IDs() {
		if !slices.ContainsFunc(members, func(m metadata.QuorumMember) bool { return m.RaftID == id }) {
			p.pool.Remove(id)
			p.forget(id)
		}
	}
	for _, m := range members {
		p.setAddress(m)
	}
	p.mu.Lock()
	p.mu.members = members
	p.mu.Unlock()
}

// named is how a log calls the node with a Raft id: by that, and by its node id where it is known.
func (p *peers) named(id uint64) (attrs []any) {
	p.mu.Lock()
	members := p.mu.members
	p.mu.Unlock()
	for _, m := range members {
		if m.RaftID == id {
			attrs = append(attrs, "node", m.Node)
		}
	}
	return append(attrs, "raft_id", fmt.Sprintf("0x%016x", id))
}

// setAddress says where a member is; one without an address, and this node itself, are not sent anything.
func (p *peers) setAddress(m metadata.QuorumMember) {
	if m.Port != 0 && m.RaftID != p.o.RaftID() {
		p.pool.SetAddress(m.RaftID, m.Host, m.Port)
	}
}

const (
	// softFrameBytes ends a request with Raft messages; one message alone may be larger, up to maxMessageBytes.
	softFrameBytes  = 4 << 20
	maxMessageBytes = peerFrameBytes - 1<<10
)

// raftLink is what is remembered of a member that Raft messages are sent to.
type raftLink struct {
	to      uint64
	done    func([]byte, error)
	failing bool // the last request was lost; guarded by peers.mu
}

// link finds or makes a link.
func (p *peers) link(to uint64) *raftLink {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.mu.links[to]
	if l == nil {
		l = &raftLink{to: to}
		l.done = func(body []byte, err error) {
			if err == nil {
				_, err = peer.Answer(body)
			}
			p.arrived(l, err)
		}
		p.mu.links[to] = l
	}
	return l
}

func (p *peers) forget(to uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.links, to)
}

// Send implements quorum.Transport: the messages to one member go in one request, in their order.
func (p *peers) Send(messages []*raftpb.Message) {
	for i, m := range messages {
		if m.GetType() == raftpb.MsgSnap {
			p.sendSnapshot(m)
			continue
		}
		first := !slices.ContainsFunc(messages[:i], func(before *raftpb.Message) bool {
			return before.GetTo() == m.GetTo() && before.GetType() != raftpb.MsgSnap
		})
		if first {
			p.sendTo(m.GetTo(), messages[i:])
		}
	}
}

// sendTo sends those of the messages that go to one member.
func (p *peers) sendTo(to uint64, messages []*raftpb.Message) {
	l := p.link(to)
	list := protocol.NewBuffer(0)
	defer list.Free()
	for _, m := range messages {
		if m.GetTo() != to || m.GetType() == raftpb.MsgSnap {
			continue
		}
		size := proto.Size(m)
		if size > maxMessageBytes {
			p.o.Logger.Error("a Raft message is too large to be sent", "type", m.GetType(), "bytes", size, "limit", maxMessageBytes)
			p.o.Node.Unreachable(to)
			continue
		}
		if len(list.B) > 0 && len(list.B)+size > softFrameBytes {
			p.sendList(l, list.B)
			list.B = list.B[:0]
		}
		var err error
		list.B = peer.AppendMessageSize(list.B, size)
		if list.B, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(list.B, m); err != nil {
			p.o.Logger.Error("a Raft message cannot be written", "type", m.GetType(), "error", err)
			return
		}
	}
	if len(list.B) > 0 {
		p.sendList(l, list.B)
	}
}

func (p *peers) sendList(l *raftLink, list []byte) {
	err := p.pool.Send(l.to, peer.Purpose{Traffic: peer.Raft}, peer.Call{Request: p.request(protocol.PeerRaft, list), Done: l.done})
	if err != nil {
		p.arrived(l, err)
	}
}

func (p *peers) request(kind protocol.PeerKind, body []byte) *protocol.PeerRequest {
	r := &protocol.PeerRequest{Kind: kind, Body: body}
	if id := p.o.ClusterID(); id != "" {
		r.ClusterID = &id
	}
	return r
}

// arrived takes note of what became of a request with Raft messages. A member that is not reached is logged once.
func (p *peers) arrived(l *raftLink, err error) {
	p.mu.Lock()
	changed := l.failing != (err != nil)
	l.failing = err != nil
	p.mu.Unlock()
	switch {
	case errors.Is(err, peer.ErrClosed):
	case changed && err != nil:
		p.o.Logger.Warn("a node of the quorum cannot be reached", append(p.named(l.to), "error", err)...)
	case changed:
		p.o.Logger.Info("a node of the quorum is reached again", p.named(l.to)...)
	}
	if err != nil {
		p.o.Node.Unreachable(l.to)
	}
}

// Submit implements cluster.Peers.
func (p *peers) Submit(to metadata.QuorumMember, cmd controller.Command, done func(cluster.Answer, error)) {
	text, err := controller.EncodeCommand(cmd)
	if err != nil {
		done(cluster.Answer{}, err)
		return
	}
	p.setAddress(to)
	purpose := peer.Purpose{Traffic: peer.Commands}
	if _, ok := cmd.(controller.BrokerHeartbeat); ok {
		purpose.Traffic = peer.Heartbeats
	}
	err = p.pool.Send(to.RaftID, purpose, peer.Call{Request: p.request(protocol.PeerCommand, text), Done: func(body []byte, err error) {
		done(readAnswer(body, err))
	}})
	if err != nil {
		done(cluster.Answer{}, err)
	}
}

// readAnswer reads the answer to a command.
func readAnswer(body []byte, err error) (cluster.Answer, error) {
	if err != nil {
		return cluster.Answer{}, err
	}
	text, err := peer.Answer(body)
	if err != nil {
		return cluster.Answer{}, err
	}
	reply, index, err := controller.DecodeAnswer(text)
	return cluster.Answer{Reply: reply, Index: index}, err
}
