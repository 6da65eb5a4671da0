package metadata

import (
	"bytes"
	"encoding/binary"
	"math"

	"weir/internal/kafka"
)

// FormatVersion is the version of the log's format that this program writes, and the only one that it reads.
const FormatVersion = 1

// Kinds of records. On disk: never renumber, never reuse.
const (
	kindFormat           = 1
	kindQuorumMember     = 2
	kindTopic            = 3
	kindRemoveTopic      = 4
	kindPartition        = 5
	kindRegisterBroker   = 6
	kindBrokerChange     = 7
	kindUnregisterBroker = 8
	kindConfig           = 9
	kindProducerIDs      = 10
	kindNode             = 11
	kindGossipKey        = 12
	kindRemoveMember     = 13
)

// Record is one fact of the log. The kinds are the struct types of this package whose names end in Record.
type Record interface {
	// Kind is the number on disk.
	Kind() int
	// Version is the version of the body that appendBody writes.
	Version() int
	appendBody(dst []byte) []byte
	apply(e *editor) error
}

// FormatRecord is the first record of offset 0 and of every snapshot.
type FormatRecord struct {
	FormatVersion int
	ClusterID     string
}

// QuorumMemberRecord names the node behind a Raft id. Whether it votes is Raft's own configuration.
type QuorumMemberRecord struct{ Member QuorumMember }

// TopicRecord creates a topic that has no partitions yet.
type TopicRecord struct {
	ID   kafka.TopicID
	Name string
}

// RemoveTopicRecord removes a topic with its partitions and its configuration.
type RemoveTopicRecord struct{ ID kafka.TopicID }

// PartitionRecord creates a partition, the next of its topic, or replaces its registration.
type PartitionRecord struct {
	TopicID   kafka.TopicID
	Partition int32
	PartitionRegistration
}

// EpochOfEntry is the epoch of a broker that registers in the very entry that the record is in: the entry's index, which
// nobody knows before the entry is in the log.
const EpochOfEntry kafka.BrokerEpoch = -1

// RegisterBrokerRecord replaces a broker's whole registration.
type RegisterBrokerRecord struct{ BrokerRegistration }

// BrokerChangeRecord changes the state of a registered broker.
type BrokerChangeRecord struct {
	ID                   kafka.BrokerID
	Epoch                kafka.BrokerEpoch
	Fenced               bool
	InControlledShutdown bool
}

// UnregisterBrokerRecord removes a broker's registration.
type UnregisterBrokerRecord struct {
	ID    kafka.BrokerID
	Epoch kafka.BrokerEpoch
}

// ConfigRecord sets one key of a resource's configuration, or removes it (nil).
type ConfigRecord struct {
	Resource ConfigResource
	Key      string
	Value    *string
}

// ProducerIDsRecord says from where on producer ids are free.
type ProducerIDsRecord struct{ Next int64 }

func (FormatRecord) Kind() int           { return kindFormat }
func (QuorumMemberRecord) Kind() int     { return kindQuorumMember }
func (TopicRecord) Kind() int            { return kindTopic }
func (RemoveTopicRecord) Kind() int      { return kindRemoveTopic }
func (PartitionRecord) Kind() int        { return kindPartition }
func (RegisterBrokerRecord) Kind() int   { return kindRegisterBroker }
func (BrokerChangeRecord) Kind() int     { return kindBrokerChange }
func (UnregisterBrokerRecord) Kind() int { return kindUnregisterBroker }
func (ConfigRecord) Kind() int           { return kindConfig }
func (ProducerIDsRecord) Kind() int      { return kindProducerIDs }

func (FormatRecord) Version() int           { return 0 }
func (TopicRecord) Version() int            { return 0 }
func (RemoveTopicRecord) Version() int      { return 0 }
func (PartitionRecord) Version() int        { return 0 }
func (RegisterBrokerRecord) Version() int   { return 0 }
func (BrokerChangeRecord) Version() int     { return 0 }
func (UnregisterBrokerRecord) Version() int { return 0 }
func (ConfigRecord) Version() int           { return 0 }
func (ProducerIDsRecord) Version() int      { return 0 }

// Version is the oldest that says all there is of the member, which versions of weir that know no newer one read too. A node
// that is alone has no address.
func (r QuorumMemberRecord) Version() int {
	switch m := r.Member; {
	case m.GossipPort != 0 || m.Controller:
		return 2
	case m.Host != "" || m.Port != 0:
		return 1
	}
	return 0
}

func (r FormatRecord) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.FormatVersion))
	return appendString(dst, r.ClusterID)
}

func (r QuorumMemberRecord) appendBody(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, r.Member.RaftID)
	dst = appendVarint(dst, int64(r.Member.Node))
	dst = append(dst, r.Member.Directory[:]...)
	if r.Version() == 0 {
		return dst
	}
	dst = appendString(dst, r.Member.Host)
	dst = binary.AppendUvarint(dst, uint64(r.Member.Port))
	if r.Version() == 1 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(r.Member.GossipPort))
	return appendBool(dst, r.Member.Controller)
}

func (r TopicRecord) appendBody(dst []byte) []byte {
	return appendString(append(dst, r.ID[:]...), r.Name)
}

func (r RemoveTopicRecord) appendBody(dst []byte) []byte { return append(dst, r.ID[:]...) }

func (r PartitionRecord) appendBody(dst []byte) []byte {
	dst = append(dst, r.TopicID[:]...)
	dst = appendVarint(dst, int64(r.Partition))
	dst = appendBrokers(dst, r.Replicas)
	dst = appendBrokers(dst, r.ISR)
	dst = appendBrokers(dst, r.ELR)
	dst = appendBrokers(dst, r.LastKnownELR)
	dst = appendBrokers(dst, r.Adding)
	dst = appendBrokers(dst, r.Removing)
	dst = appendVarint(dst, int64(r.Leader))
	dst = appendVarint(dst, int64(r.LeaderEpoch))
	dst = appendVarint(dst, int64(r.PartitionEpoch))
	dst = binary.AppendUvarint(dst, uint64(r.RecoveryState))
	return appendUUIDs(dst, r.Directories)
}

func (r RegisterBrokerRecord) appendBody(dst []byte) []byte {
	dst = appendVarint(dst, int64(r.ID))
	dst = appendVarint(dst, int64(r.Epoch))
	dst = append(dst, r.Incarnation[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(r.Listeners)))
	for _, l := range r.Listeners {
		dst = appendString(dst, l.Name)
		dst = appendString(dst, l.Host)
		dst = binary.AppendUvarint(dst, uint64(l.Port))
		dst = appendVarint(dst, int64(l.Security))
	}
	dst = appendNullable(dst, r.rack())
	dst = appendBool(dst, r.Fenced)
	dst = appendBool(dst, r.InControlledShutdown)
	return appendUUIDs(dst, r.Directories)
}

func (r BrokerChangeRecord) appendBody(dst []byte) []byte {
	dst = appendVarint(dst, int64(r.ID))
	dst = appendVarint(dst, int64(r.Epoch))
	dst = appendBool(dst, r.Fenced)
	return appendBool(dst, r.InControlledShutdown)
}

func (r UnregisterBrokerRecord) appendBody(dst []byte) []byte {
	dst = appendVarint(dst, int64(r.ID))
	return appendVarint(dst, int64(r.Epoch))
}

func (r ConfigRecord) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.Resource.Type))
	dst = appendString(dst, r.Resource.Name)
	dst = appendString(dst, r.Key)
	return appendNullable(dst, r.Value)
}

func (r ProducerIDsRecord) appendBody(dst []byte) []byte { return appendVarint(dst, r.Next) }

// decodeRecord decodes the body of one record; ok is false where kind or version is unknown.
func decodeRecord(kind, version uint64, body []byte) (r Record, ok bool, err error) {
	if version > newestVersion(kind) {
		return nil, false, nil
	}
	d := decoder{b: body}
	switch kind {
	case kindFormat:
		r = FormatRecord{FormatVersion: int(d.bounded(math.MaxInt16)), ClusterID: d.string()}
	case kindQuorumMember:
		r = d.quorumMember(version)
	case kindTopic:
		r = TopicRecord{ID: d.uuid(), Name: d.string()}
	case kindRemoveTopic:
		r = RemoveTopicRecord{ID: d.uuid()}
	case kindPartition:
		r = d.partition()
	case kindRegisterBroker:
		r = d.registerBroker()
	case kindBrokerChange:
		r = BrokerChangeRecord{ID: kafka.BrokerID(d.int32()), Epoch: kafka.BrokerEpoch(d.varint()), Fenced: d.bool(), InControlledShutdown: d.bool()}
	case kindUnregisterBroker:
		r = UnregisterBrokerRecord{ID: kafka.BrokerID(d.int32()), Epoch: kafka.BrokerEpoch(d.varint())}
	case kindConfig:
		r = ConfigRecord{Resource: ConfigResource{Type: ResourceType(d.bounded(math.MaxInt8)), Name: d.string()}, Key: d.string(), Value: d.nullable()}
	case kindProducerIDs:
		r = ProducerIDsRecord{Next: d.varint()}
	case kindNode:
		r = d.node()
	case kindGossipKey:
		r = GossipKeyRecord{Key: bytes.Clone(d.bytes(GossipKeySize))}
	case kindRemoveMember:
		r = RemoveQuorumMemberRecord{RaftID: d.uint64()}
	default:
		return nil, false, nil
	}
	return r, true, d.end()
}

func newestVersion(kind uint64) uint64 {
	if kind == kindQuorumMember {
		return 2
	}
	return 0
}

func (d *decoder) quorumMember(version uint64) QuorumMemberRecord {
	r := QuorumMemberRecord{QuorumMember{RaftID: d.uint64(), Node: kafka.BrokerID(d.int32()), Directory: d.uuid()}}
	if version >= 1 {
		r.Member.Host, r.Member.Port = d.string(), uint16(d.bounded(math.MaxUint16))
	}
	if version >= 2 {
		r.Member.GossipPort, r.Member.Controller = uint16(d.bounded(math.MaxUint16)), d.bool()
	}
	if r.Version() != int(version) {
		d.fail(errRange) // an older version says it all
	}
	return r
}

func (d *decoder) partition() PartitionRecord {
	r := PartitionRecord{TopicID: d.uuid(), Partition: d.int32()}
	r.Replicas = d.brokers()
	r.ISR = d.brokers()
	r.ELR = d.brokers()
	r.LastKnownELR = d.brokers()
	r.Adding = d.brokers()
	r.Removing = d.brokers()
	r.Leader = kafka.BrokerID(d.int32())
	r.LeaderEpoch = kafka.LeaderEpoch(d.int32())
	r.PartitionEpoch = kafka.PartitionEpoch(d.int32())
	r.RecoveryState = int8(d.bounded(Recovering))
	r.Directories = d.uuids()
	if len(r.Directories) != 0 && len(r.Directories) != len(r.Replicas) {
		d.fail(errLocations)
	}
	return r
}

func (d *decoder) registerBroker() RegisterBrokerRecord {
	var r RegisterBrokerRecord
	r.ID = kafka.BrokerID(d.int32())
	r.Epoch = kafka.BrokerEpoch(d.varint())
	r.Incarnation = d.uuid()
	if n := d.count(4); n > 0 {
		r.Listeners = make([]Endpoint, n)
		for i := range r.Listeners {
			r.Listeners[i] = Endpoint{Name: d.string(), Host: d.string(), Port: uint16(d.bounded(math.MaxUint16))}
			security := d.int32()
			if security != int32(int16(security)) {
				d.fail(errRange)
			}
			r.Listeners[i].Security = int16(security)
		}
	}
	if rack := d.nullable(); rack != nil {
		r.Rack = *rack
		if r.Rack == "" {
			d.fail(errRange) // no rack is null
		}
	}
	r.Fenced = d.bool()
	r.InControlledShutdown = d.bool()
	r.Directories = d.uuids()
	return r
}
