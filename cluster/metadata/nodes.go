package metadata

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"

	"weir/internal/kafka"
)

// Node is a node id with a directory that has, or had, it. A zero Directory only says that the id was used.
type Node struct {
	ID        kafka.BrokerID
	Directory kafka.DirectoryID
	Removed   bool // the directory was removed from the cluster, and is never let in again
}

func (n Node) key() nodeKey { return nodeKey{n.ID, n.Directory} }

// Nodes is which node ids were ever given, or left by who had them, and to which directories. An id is never given to another
// node. An id that a node was configured with need not be here as long as the node is a member of the quorum, or registered.
type Nodes struct {
	nodes       tree[nodeKey, Node]
	directories tree[kafka.DirectoryID, kafka.BrokerID]
}

type nodeKey struct {
	id        kafka.BrokerID
	directory kafka.DirectoryID
}

func emptyNodes() *Nodes {
	return &Nodes{
		nodes: tree[nodeKey, Node]{cmp: func(a, b nodeKey) int {
			return cmp.Or(cmp.Compare(a.id, b.id), compareUUIDs(a.directory, b.directory))
		}},
		directories: tree[kafka.DirectoryID, kafka.BrokerID]{cmp: compareUUIDs},
	}
}

// ByDirectory finds the node that a directory is of.
func (n *Nodes) ByDirectory(dir kafka.DirectoryID) (Node, bool) {
	id, known := n.directories.get(dir)
	if !known {
		return Node{}, false
	}
	return n.nodes.get(nodeKey{id, dir})
}

// Used reports whether an id is here.
func (n *Nodes) Used(id kafka.BrokerID) bool {
	for k := range n.nodes.from(nodeKey{id: id}) {
		return k.id == id
	}
	return false
}

// All iterates by id, then by directory.
func (n *Nodes) All() iter.Seq[Node] { return values(&n.nodes) }

// NodeRecord says that a node id is used, and by which directory. A directory that was removed stays so.
type NodeRecord struct {
	ID        kafka.BrokerID
	Directory kafka.DirectoryID
	Removed   bool
}

// Kind is the number on disk.
func (NodeRecord) Kind() int { return kindNode }

// Version is the version of the body.
func (NodeRecord) Version() int { return 0 }

func (r NodeRecord) appendBody(dst []byte) []byte {
	dst = appendVarint(dst, int64(r.ID))
	dst = append(dst, r.Directory[:]...)
	return appendBool(dst, r.Removed)
}

func (d *decoder) node() NodeRecord {
	r := NodeRecord{ID: kafka.BrokerID(d.int32()), Directory: d.uuid(), Removed: d.bool()}
	if r.ID < 0 || r.Removed && r.Directory.IsZero() {
		d.fail(errRange)
	}
	return r
}

func (r NodeRecord) apply(e *editor) error {
	nodes := e.next.Nodes
	if old, known := nodes.ByDirectory(r.Directory); known && !r.Directory.IsZero() {
		if old.Removed && Node(r) != old {
			return fmt.Errorf("directory %s is given to node %d, and was removed from the cluster as that of node %d", r.Directory, r.ID, old.ID)
		}
		nodes.nodes.remove(e.edit, old.key())
		if old.ID != r.ID { // which is used all the same
			nodes.nodes.set(e.edit, nodeKey{id: old.ID}, Node{ID: old.ID})
		}
	}
	nodes.nodes.set(e.edit, Node(r).key(), Node(r))
	if !r.Directory.IsZero() {
		nodes.directories.set(e.edit, r.Directory, r.ID)
	}
	return nil
}

// RemoveQuorumMemberRecord removes the node behind a Raft id. Raft's own configuration follows.
type RemoveQuorumMemberRecord struct{ RaftID uint64 }

// Kind is the number on disk.
func (RemoveQuorumMemberRecord) Kind() int { return kindRemoveMember }

// Version is the version of the body.
func (RemoveQuorumMemberRecord) Version() int { return 0 }

func (r RemoveQuorumMemberRecord) appendBody(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(dst, r.RaftID)
}

func (r RemoveQuorumMemberRecord) apply(e *editor) error {
	if !e.next.Quorum.members.remove(e.edit, r.RaftID) {
		return fmt.Errorf("raft id 0x%016x is no member of the quorum", r.RaftID)
	}
	e.members = true
	return nil
}

// GossipKeySize is how many bytes a GossipKey has.
const GossipKeySize = 32

// GossipKey is the secret that all members of a cluster have, and nobody else. It prints as nothing.
type GossipKey []byte

// Format hides the key from every verb.
func (k GossipKey) Format(s fmt.State, _ rune) {
	text := "(redacted)"
	if k == nil {
		text = "(none)"
	}
	_, _ = s.Write([]byte(text))
}

// GossipKeyRecord sets the key.
type GossipKeyRecord struct{ Key GossipKey }

// Kind is the number on disk.
func (GossipKeyRecord) Kind() int { return kindGossipKey }

// Version is the version of the body.
func (GossipKeyRecord) Version() int { return 0 }

func (r GossipKeyRecord) appendBody(dst []byte) []byte { return append(dst, r.Key...) }

func (r GossipKeyRecord) apply(e *editor) error {
	if len(r.Key) != GossipKeySize {
		return fmt.Errorf("a gossip key has %d bytes, not %d", GossipKeySize, len(r.Key))
	}
	e.next.GossipKey = r.Key
	return nil
}
