package cluster

import (
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// Gossip is a way in which nodes hear of each other beside Raft: faster, and without any proof. What it says is a hint: where a
// node may be reached, that a process may be gone, who may lead the quorum. It decides nothing. It is satisfied in package
// cluster/gossip, which programs hand in, and by simulations.
type Gossip interface {
	// Start begins to gossip as self with the nodes of the same cluster that have the same key, which is 32 bytes long. hear
	// is told of every other node, in order, by one goroutine and until Close returns; it must not block. port is the one
	// that was bound, for UDP and TCP.
	//
	// Errors: those of the socket, and of a key of another length. Nothing is left running then.
	Start(self GossipSelf, key []byte, hear func(Gossiped)) (port uint16, err error)
	// Meet names the addresses (host:port) where other nodes may be found, all of them each time. They are tried at once, and
	// again and again as long as nobody is known there. It does not block.
	Meet(addresses []string)
	// Hint has the others told who leads the quorum, as far as this node knows: a Raft id and a term. It does not block.
	Hint(leader uint64, term int32)
	// Close tells the others that this node leaves, waits no longer than a second for all of it, and ends all that Start began. Meet
	// and Hint do nothing afterwards. It may be called without Start, and again.
	Close() error
}

// GossipSelf is what a node says of itself.
type GossipSelf struct {
	ClusterID   string
	Member      metadata.QuorumMember // its GossipPort is told by Start
	Incarnation kafka.UUID            // of this process
	BindHost    string                // an IP address; empty for all
	BindPort    uint16                // for UDP and TCP; 0 for any that both have free
}

// Gossiped is what gossip says of another node.
type Gossiped struct {
	Member      metadata.QuorumMember
	Incarnation kafka.UUID
	// Gone says that this incarnation left, or that nobody hears it any more; never so because a newer one is there. False
	// takes it back.
	Gone bool
	// Leader is the Raft id of the leader that the node knows in Term; 0 for none.
	Leader uint64
	Term   int32
}
