package metadata

import (
	"iter"
	"slices"

	"weir/internal/kafka"
)

// Brokers is the set of registered brokers.
type Brokers struct {
	ids tree[kafka.BrokerID, *BrokerRegistration]
}

// ByID finds a broker.
func (b *Brokers) ByID(id kafka.BrokerID) (*BrokerRegistration, bool) { return b.ids.get(id) }

// Len is the number of registered brokers, fenced ones too.
func (b *Brokers) Len() int { return b.ids.n }

// All iterates in order of node id.
func (b *Brokers) All() iter.Seq[*BrokerRegistration] { return values(&b.ids) }

// BrokerRegistration is one incarnation of a broker.
type BrokerRegistration struct {
	ID                   kafka.BrokerID
	Epoch                kafka.BrokerEpoch // index of the entry that registered this incarnation
	Incarnation          kafka.UUID        // drawn at each start of the process
	Listeners            []Endpoint
	Rack                 string // "" for none
	Fenced               bool   // leads nothing and is in no ISR
	InControlledShutdown bool   // on its way out: becomes no leader any more
	Directories          []kafka.DirectoryID
}

// Active reports whether the broker may lead partitions and be in an ISR.
func (b *BrokerRegistration) Active() bool { return !b.Fenced && !b.InControlledShutdown }

// HasDirectory reports whether the directory that the broker's replica of a partition is in is there. One that the broker has
// yet to choose counts.
func (b *BrokerRegistration) HasDirectory(p *PartitionRegistration) bool {
	dir := p.Directory(b.ID)
	return dir == kafka.UnassignedDirectory || slices.Contains(b.Directories, dir)
}

// Endpoint returns the broker's address on a listener.
func (b *BrokerRegistration) Endpoint(listener string) (Endpoint, bool) {
	for _, l := range b.Listeners {
		if l.Name == listener {
			return l, true
		}
	}
	return Endpoint{}, false
}

// Endpoint is where a broker is reached on one listener.
type Endpoint struct {
	Name     string // listener name, such as PLAINTEXT
	Host     string
	Port     uint16
	Security int16 // security protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
}

func (b *BrokerRegistration) rack() *string {
	if b.Rack == "" {
		return nil
	}
	return &b.Rack
}

func (b *BrokerRegistration) equal(o *BrokerRegistration) bool {
	return b.ID == o.ID && b.Epoch == o.Epoch && b.Incarnation == o.Incarnation && slices.Equal(b.Listeners, o.Listeners) && b.Rack == o.Rack &&
		b.Fenced == o.Fenced && b.InControlledShutdown == o.InControlledShutdown && slices.Equal(b.Directories, o.Directories)
}
