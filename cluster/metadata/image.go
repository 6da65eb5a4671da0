package metadata

import (
	"bytes"
	"cmp"
	"iter"
	"strings"

	"weir/internal/kafka"
)

// Image is everything that is true at one index of the log. It is immutable.
type Image struct {
	// Index and Term are those of the last metadata entry that was applied. Entries of Raft's own and skipped entries do
	// not move them: so Index is what the next decision is based on. 0 is a log that was formatted and no more.
	Index int64
	Term  int32

	FormatVersion  int
	ClusterID      string
	Quorum         *Quorum
	Nodes          *Nodes
	GossipKey      GossipKey // nil: there is none yet
	Topics         *Topics
	Brokers        *Brokers
	Configs        *Configs
	NextProducerID int64
}

// Empty is the image of no log at all; offset 0 is applied to it.
func Empty() *Image {
	return &Image{
		Index:   NoBase,
		Quorum:  &Quorum{tree[uint64, QuorumMember]{cmp: cmp.Compare[uint64]}},
		Nodes:   emptyNodes(),
		Topics:  emptyTopics(),
		Brokers: &Brokers{tree[kafka.BrokerID, *BrokerRegistration]{cmp: cmp.Compare[kafka.BrokerID]}},
		Configs: &Configs{tree[ConfigResource, map[string]string]{cmp: compareResources}},
	}
}

func emptyTopics() *Topics {
	return &Topics{
		names:      tree[string, *Topic]{cmp: strings.Compare},
		ids:        tree[kafka.TopicID, *Topic]{cmp: compareUUIDs},
		collisions: tree[collision, struct{}]{cmp: compareCollisions},
	}
}

func compareUUIDs(a, b kafka.UUID) int { return bytes.Compare(a[:], b[:]) }

// QuorumMember is the node behind a Raft id. A Raft id belongs to one directory for ever: a node whose directory is lost
// comes back with another, so that an empty log never votes under the name of a full one.
type QuorumMember struct {
	RaftID    uint64
	Node      kafka.BrokerID
	Directory kafka.DirectoryID
	// Host and Port are where the node's peers reach it; empty and 0 for a node that has no peers yet.
	Host string
	Port uint16
	// GossipPort is where it gossips, on Host; 0 for a node that does not.
	GossipPort uint16
	// Controller says that the node may become a voter (process.roles has controller); else it only ever learns.
	Controller bool
}

// Quorum is who takes part in Raft, voters and learners alike.
type Quorum struct{ members tree[uint64, QuorumMember] }

// ByRaftID finds a member.
func (q *Quorum) ByRaftID(id uint64) (QuorumMember, bool) { return q.members.get(id) }

// Len is the number of members.
func (q *Quorum) Len() int { return q.members.n }

// All iterates in order of Raft id.
func (q *Quorum) All() iter.Seq[QuorumMember] { return values(&q.members) }

func values[K, V any](t *tree[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range t.all() {
			if !yield(v) {
				return
			}
		}
	}
}
