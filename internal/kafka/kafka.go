package kafka

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strconv"
)

// BrokerID identifies a node of the cluster; NoBroker where there is none, as in a partition without a leader.
type BrokerID int32

// NoBroker is the protocol's "no leader".
const NoBroker BrokerID = -1

// BrokerEpoch identifies one incarnation of a broker: the metadata offset of its registration.
type BrokerEpoch int64

// LeaderEpoch changes with every change of a partition's leader (KIP-101); NoLeaderEpoch where none is known or asked.
type LeaderEpoch int32

// NoLeaderEpoch is sent where a leader epoch is unknown or shall not be checked.
const NoLeaderEpoch LeaderEpoch = -1

// PartitionEpoch changes with every change of a partition's registration (leader, ISR, replicas).
type PartitionEpoch int32

// TopicPartition names one partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String gives the form of a partition's directory: topic-partition.
func (tp TopicPartition) String() string { return tp.Topic + "-" + strconv.Itoa(int(tp.Partition)) }

// UUID is Kafka's 16-byte id, written as 22 letters of unpadded URL-safe base64.
type UUID [16]byte

// TopicID identifies a topic for ever: a topic that is deleted and created again has another (KIP-516).
type TopicID = UUID

// DirectoryID identifies a log directory of a broker (KIP-858).
type DirectoryID = UUID

// MetadataTopicID is the reserved id of __cluster_metadata.
var MetadataTopicID = TopicID{15: 1}

// UnassignedDirectory is the reserved id of "whichever directory the broker chooses".
var UnassignedDirectory DirectoryID

// String gives the 22-letter form.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// MarshalText gives the 22-letter form.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads what ParseUUID does.
func (u *UUID) UnmarshalText(text []byte) error {
	id, err := ParseUUID(string(text))
	if err == nil {
		*u = id
	}
	return err
}

// IsZero reports whether u is the zero id, which names nothing.
func (u UUID) IsZero() bool { return u == UUID{} }

// ParseUUID reads the 22-letter form, with or without padding.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	for len(s) > 0 && s[len(s)-1] == '=' {
		s = s[:len(s)-1]
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(u) {
		return u, fmt.Errorf("%q is not a 22-letter base64 id", s)
	}
	copy(u[:], b)
	return u, nil
}

// NewUUID returns a random id whose text does not begin with "-", so that it can be an argument of a command. Ids that
// Kafka reserves (the first 100) are not returned.
func NewUUID() UUID {
	for {
		var u UUID
		_, _ = rand.Read(u[:]) // never fails (crypto/rand)
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if u.String()[0] != '-' {
			return u
		}
	}
}
