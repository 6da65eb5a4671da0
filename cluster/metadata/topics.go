package metadata

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"weir/internal/kafka"
)

// Topics is the set of topics.
type Topics struct {
	names      tree[string, *Topic]
	ids        tree[kafka.TopicID, *Topic]
	collisions tree[collision, struct{}]
	partitions int
}

// collision is a name that may collide with another one, as a name of metrics, below the key that both have.
type collision struct{ key, name string }

func compareCollisions(a, b collision) int {
	return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.name, b.name))
}

func mayCollide(name string) bool { return strings.ContainsAny(name, "._") }

// ByName finds a topic.
func (t *Topics) ByName(name string) (*Topic, bool) { return t.names.get(name) }

// ByID finds a topic.
func (t *Topics) ByID(id kafka.TopicID) (*Topic, bool) { return t.ids.get(id) }

// Colliding returns the first topic, in name order, that name collides with: they differ at most in "." and "_" (the topic
// of that very name counts).
func (t *Topics) Colliding(name string) (other string, ok bool) {
	if !mayCollide(name) {
		return "", false
	}
	key := kafka.CollisionKey(name)
	for c := range t.collisions.from(collision{key: key}) {
		return c.name, c.key == key
	}
	return "", false
}

// Len is the number of topics.
func (t *Topics) Len() int { return t.names.n }

// PartitionCount is the number of partitions of all topics together.
func (t *Topics) PartitionCount() int { return t.partitions }

// All iterates in name order.
func (t *Topics) All() iter.Seq[*Topic] { return values(&t.names) }

// From iterates in name order, beginning with the first name that is not below name.
func (t *Topics) From(name string) iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		for _, topic := range t.names.from(name) {
			if !yield(topic) {
				return
			}
		}
	}
}

// Topic is a topic with its partitions; the index is the partition's number.
type Topic struct {
	ID         kafka.TopicID
	Name       string
	Partitions []PartitionRegistration
}

// Partition returns the registration of one partition, or nil where the topic has none of that number.
func (t *Topic) Partition(p int32) *PartitionRegistration {
	if p < 0 || int(p) >= len(t.Partitions) {
		return nil
	}
	return &t.Partitions[p]
}

// Leader recovery states (KIP-704): after an unclean election the leader is Recovering until it says otherwise.
const (
	Recovered  = 0
	Recovering = 1
)

// PartitionRegistration is what the controller decided of one partition. Lists are nil when empty.
type PartitionRegistration struct {
	Replicas       []kafka.BrokerID // in order of preference
	ISR            []kafka.BrokerID
	ELR            []kafka.BrokerID // eligible leader replicas: left the ISR when it was below min.insync.replicas (KIP-966)
	LastKnownELR   []kafka.BrokerID // whom to wait for when ISR and ELR are both empty
	Adding         []kafka.BrokerID
	Removing       []kafka.BrokerID
	Leader         kafka.BrokerID
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	RecoveryState  int8
	Directories    []kafka.DirectoryID // parallel to Replicas, or nil
}

// HasReplica reports whether the broker is one of the replicas.
func (p *PartitionRegistration) HasReplica(id kafka.BrokerID) bool {
	return slices.Contains(p.Replicas, id)
}

// InISR reports whether the broker is in the ISR.
func (p *PartitionRegistration) InISR(id kafka.BrokerID) bool { return slices.Contains(p.ISR, id) }

// Directory returns the directory that the broker's replica is assigned to; kafka.UnassignedDirectory where the broker may
// choose.
func (p *PartitionRegistration) Directory(id kafka.BrokerID) kafka.DirectoryID {
	for i, r := range p.Replicas {
		if r == id && i < len(p.Directories) {
			return p.Directories[i]
		}
	}
	return kafka.UnassignedDirectory
}

// Equal reports whether two registrations say the same.
func (p *PartitionRegistration) Equal(q *PartitionRegistration) bool {
	return slices.Equal(p.Replicas, q.Replicas) && slices.Equal(p.ISR, q.ISR) && slices.Equal(p.ELR, q.ELR) && slices.Equal(p.LastKnownELR, q.LastKnownELR) &&
		slices.Equal(p.Adding, q.Adding) && slices.Equal(p.Removing, q.Removing) && p.Leader == q.Leader && p.LeaderEpoch == q.LeaderEpoch &&
		p.PartitionEpoch == q.PartitionEpoch && p.RecoveryState == q.RecoveryState && slices.Equal(p.Directories, q.Directories)
}
