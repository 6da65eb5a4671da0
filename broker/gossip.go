package broker

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/broker/config"
	"weir/cluster"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/vfs"
)

const (
	// gossipKeyFile is in the metadata directory. It has the cluster's key as text, so that a node can hear of others before it
	// knows what its cluster decided.
	gossipKeyFile     = "gossip.key"
	gossipPortSetting = "weir.gossip.port"
	// gossipLook is how often it is looked who leads the quorum.
	gossipLook = time.Second
)

// gossiperOptions are what a gossiper needs. The functions are not called before it was told to begin.
type gossiperOptions struct {
	Gossip cluster.Gossip // nil: this program has none
	FS     vfs.FS
	Dir    string // of the key's file
	Port   uint16 // weir.gossip.port; 0: any free one
	Clock  clock.Clock
	Logger *slog.Logger

	Self   func() (self cluster.GossipSelf, ok bool) // false: other nodes have no way to this one
	Leader func() (raftID uint64, term int32)
	Hear   func(cluster.Gossiped)
	Bound  func()      // Port says where from now on
	Fail   func(error) // nothing goes at the port of the settings
}

// gossiper has the node gossip as soon as its cluster has a key and other nodes, until it stops. A node that is alone has no
// socket and no goroutine for that.
type gossiper struct {
	o    gossiperOptions
	port atomic.Uint32 // that is bound; 0: none
	news chan struct{} // with a buffer of one: members or key changed
	stop chan struct{}
	loop sync.WaitGroup
	mu   struct {
		sync.Mutex
		begun, running, closed bool
		members                []metadata.QuorumMember
		key                    metadata.GossipKey
	}
}

func newGossiper(o gossiperOptions) *gossiper {
	return &gossiper{o: o, news: make(chan struct{}, 1), stop: make(chan struct{})}
}

// begin lets it begin when there is reason to.
func (g *gossiper) begin() {
	if g.o.Gossip == nil {
		return
	}
	kept := g.keptKey()
	g.change(func() {
		g.mu.begun = true
		if g.mu.key == nil {
			g.mu.key = kept
		}
	})
}

// setMembers says who is in the cluster, as far as this node knows. It does not block.
func (g *gossiper) setMembers(members []metadata.QuorumMember) {
	g.change(func() { g.mu.members = members })
}

// setKey says what the cluster's key is, nil where that is not known. It does not block.
func (g *gossiper) setKey(key metadata.GossipKey) {
	if key != nil && !bytes.Equal(key, g.known().key) {
		g.change(func() { g.mu.key = key })
	}
}

// change does what is to be done under the lock, and has the loop see it.
func (g *gossiper) change(do func()) {
	g.mu.Lock()
	do()
	running, reason := g.mu.running, g.hasReasonLocked()
	g.mu.Unlock()
	if running {
		select {
		case g.news <- struct{}{}:
		default:
		}
	} else if reason {
		g.beginLoop()
	}
}

func (g *gossiper) hasReasonLocked() bool {
	return g.mu.begun && !g.mu.running && !g.mu.closed && g.mu.key != nil && len(g.mu.members) > 1
}

func (g *gossiper) beginLoop() {
	self, ok := g.o.Self()
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hasReasonLocked() {
		g.mu.running = true
		g.loop.Go(func() { g.run(self) })
	}
}

// gossiping is what the loop goes by.
type gossiping struct {
	members []metadata.QuorumMember
	key     metadata.GossipKey
}

func (g *gossiper) known() gossiping {
	g.mu.Lock()
	defer g.mu.Unlock()
	return gossiping{g.mu.members, g.mu.key}
}

// run gossips until the node stops.
func (g *gossiper) run(self cluster.GossipSelf) {
	k := g.known()
	key := k.key
	self.BindPort = g.o.Port
	port, err := g.o.Gossip.Start(self, key, g.o.Hear)
	if err != nil {
		g.cannot(err)
		return
	}
	g.port.Store(uint32(port))
	g.o.Bound()
	var kept metadata.GossipKey
	for {
		if k = g.known(); !bytes.Equal(kept, k.key) {
			g.keep(k.key)
			kept = k.key
		}
		if !bytes.Equal(key, k.key) {
			g.o.Logger.Warn("this node began to gossip with a key that is not its cluster's; it hears of no other node before it is started again", "file", g.keyPath())
			key = k.key
		}
		g.o.Gossip.Meet(gossipAddresses(k.members, self.Member.RaftID))
		if leader, term := g.o.Leader(); leader != 0 {
			g.o.Gossip.Hint(leader, term)
		}
		if !g.await() {
			return
		}
	}
}

// await reports false when the node stops.
func (g *gossiper) await() bool {
	timer := g.o.Clock.NewTimer(gossipLook)
	defer timer.Stop()
	select {
	case <-g.news:
	case <-timer.C():
	case <-g.stop:
		return false
	}
	return true
}

func (g *gossiper) cannot(err error) {
	if g.o.Port != 0 {
		g.o.Fail(fmt.Errorf("gossip cannot begin at %s=%d, UDP and TCP: %w", gossipPortSetting, g.o.Port, err))
		return
	}
	g.o.Logger.Warn("this node cannot gossip: it takes longer until it is known which nodes are gone and where others are", "error", err)
}

// gossipAddresses are where the other members gossip.
func gossipAddresses(members []metadata.QuorumMember, self uint64) (addresses []string) {
	for _, m := range members {
		if m.RaftID != self && m.GossipPort != 0 {
			addresses = append(addresses, net.JoinHostPort(m.Host, strconv.Itoa(int(m.GossipPort))))
		}
	}
	return addresses
}

// close ends what was begun, and tells the others. It may be called again.
func (g *gossiper) close() {
	g.mu.Lock()
	closed := g.mu.closed
	g.mu.closed = true
	g.mu.Unlock()
	if closed || g.o.Gossip == nil {
		return
	}
	close(g.stop)
	g.loop.Wait()
	if err := g.o.Gossip.Close(); err != nil {
		g.o.Logger.Warn("the end of the gossip was not clean", "error", err)
	}
}

// newGossiper makes this node's.
func (b *Broker) newGossiper() *gossiper {
	return newGossiper(gossiperOptions{
		Gossip: b.Options.Gossip, FS: b.FS, Dir: metadataPath(b.Config), Port: b.Config.Gossip.Port, Clock: b.Clock, Logger: b.Logger,
		Self: b.gossipSelf,
		Leader: func() (uint64, int32) {
			s := b.node.QuorumStatus()
			return s.Leader, s.Term
		},
		Hear:  func(g cluster.Gossiped) { b.node.Hear(g) },
		Bound: func() { b.node.Moved(b.address()) },
		Fail:  b.fail,
	})
}

// gossipSelf is what this process says of itself by gossip, on the address of the listener for other nodes.
func (b *Broker) gossipSelf() (self cluster.GossipSelf, ok bool) {
	self = cluster.GossipSelf{ClusterID: b.store.ClusterID(), Member: b.member(b.metadataDirectory()), Incarnation: b.incarnation}
	self.BindHost, ok = b.gossipHost()
	return self, ok
}

// gossipHost is the IP address of the listener for other nodes; ok is false where there is none.
func (b *Broker) gossipHost() (ip string, ok bool) {
	e, ok := b.peerEndpoint()
	for _, l := range b.listening() {
		if tcp, isTCP := l.socket.Addr().(*net.TCPAddr); isTCP && l.Name == e.Name {
			return tcp.IP.String(), ok
		}
	}
	return "", false
}

// tryGossipPort finds out early whether the port of the settings can be had: a node learns late that there is somebody to gossip
// with, and must not end then for a port that somebody else had all the time.
func (b *Broker) tryGossipPort() error {
	port := b.Config.Gossip.Port
	if b.Options.Gossip == nil || port == 0 {
		return nil
	}
	host, ok := b.gossipHost()
	if !ok && b.Config.PeerListener != nil { // it is opened when somebody joins
		host = b.Config.PeerListener.Host
	}
	at := net.JoinHostPort(host, strconv.Itoa(int(port)))
	tcp, err := net.Listen("tcp", at)
	if err == nil {
		var udp net.PacketConn
		if udp, err = net.ListenPacket("udp", at); err == nil {
			err = udp.Close()
		}
		err = errors.Join(err, tcp.Close())
	}
	if err != nil {
		return &BindError{config.Listener{Name: gossipPortSetting, Host: host, Port: port}, err}
	}
	return nil
}

// gossipingPeers has the gossiper know who is in the cluster.
type gossipingPeers struct {
	*peers
	gossip *gossiper
}

// SetMembers implements cluster.Peers.
func (p gossipingPeers) SetMembers(members []metadata.QuorumMember) {
	p.peers.SetMembers(members)
	p.gossip.setMembers(members)
}

func (g *gossiper) keyPath() string { return filepath.Join(g.o.Dir, gossipKeyFile) }

// keptKey is the key of the file; nil where there is none that can be used.
func (g *gossiper) keptKey() metadata.GossipKey {
	text, err := vfs.ReadFile(g.o.FS, g.keyPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var key metadata.GossipKey
	if err == nil {
		key, err = base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text)))
	}
	if err == nil && len(key) != metadata.GossipKeySize {
		err = fmt.Errorf("it has %d bytes, and a key %d", len(key), metadata.GossipKeySize)
	}
	if err != nil {
		g.o.Logger.Warn("the key of the cluster's gossip cannot be read; it is written again when the cluster tells it", "file", g.keyPath(), "error", err)
		return nil
	}
	return key
}

// keep writes the key if the file does not have it. A crash leaves the old file or the new one.
func (g *gossiper) keep(key metadata.GossipKey) {
	if bytes.Equal(g.keptKey(), key) {
		return
	}
	text := base64.StdEncoding.AppendEncode(nil, key)
	if err := vfs.WriteFileAtomic(g.o.FS, g.keyPath(), append(text, '\n'), 0o600, true); err != nil {
		g.o.Logger.Warn("the key of the cluster's gossip cannot be kept; after the next start this node hears of others later", "file", g.keyPath(), "error", err)
	}
}
