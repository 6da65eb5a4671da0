package group

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/invariant"
	"weir/internal/kafka"
)

// Records are Kafka's. A key begins with the record's kind, a value with the version of its layout; integers are
// big-endian. What is written:
//
//	kind 1: group string, topic string, partition int32
//	    v4: offset int64, leader epoch int32, metadata compact string, commit timestamp int64, tag 0: topic id
//	    v1: offset int64, metadata string, commit timestamp int64, expire timestamp int64
//	kind 2: group string
//	    v3: protocol type string, generation int32, protocol and leader nullable string, state timestamp int64, members []:
//	        id string, instance id nullable string, client id string, client host string, rebalance timeout int32,
//	        session timeout int32, subscription bytes, assignment bytes

// The kinds of record that the shard knows: the first two bytes of a key. On disk; do not renumber.
const (
	recordOffsetCommitOld int16 = 0 // as recordOffsetCommit; read only
	recordOffsetCommit    int16 = 1
	recordGroupMetadata   int16 = 2
)

// maxString is how many bytes a string in a key, or in a GroupMetadata value, may have: its length has two bytes. Requests
// have none that are longer, and member ids keep to it.
const maxString = math.MaxInt16

// The versions of values that are written are those that Kafka 4.4 writes; all from 0 to the last are read.
const (
	offsetCommitVersion         int16 = 4
	offsetCommitExpiringVersion int16 = 1 // the only one that can hold an expiry: it has neither leader epoch nor topic id
	groupMetadataVersion        int16 = 3
	lastOffsetCommitVersion     int16 = 4
	lastGroupMetadataVersion    int16 = 4
)

// metadata is what the GroupMetadata record says of a classic group.
type metadata struct {
	ProtocolType   string // "consumer", "connect"; empty where no member ever named one
	Generation     int32
	Protocol       *string
	Leader         *string // member id
	StateTimestamp int64   // ms since the epoch: when the group came into its state; -1 where an old record does not tell
	Members        []member
}

// member is one member of a group's last generation.
type member struct {
	ID               string
	InstanceID       *string
	ClientID         string
	ClientHost       string
	RebalanceTimeout int32  // ms
	SessionTimeout   int32  // ms
	Subscription     []byte // the member's metadata of the chosen protocol
	Assignment       []byte
}

// committed is one committed offset with what was committed beside it.
type committed struct {
	offset      int64
	timestamp   int64 // of the commit; ms since the epoch
	expires     int64 // ms since the epoch; -1: by the broker's retention
	metadata    string
	topicID     kafka.UUID // zero where the record does not tell
	leaderEpoch int32      // -1: not known
}

// recordKind returns the kind of a record by its key.
func recordKind(key []byte) (int16, error) {
	if len(key) < 2 {
		return 0, fmt.Errorf("group: a record's key of %d bytes has no kind", len(key))
	}
	return int16(binary.BigEndian.Uint16(key)), nil
}

// parseOffsetKey reads the key of an offset commit. The strings alias the key.
func parseOffsetKey(key []byte) (kmsg.OffsetCommitKey, error) {
	var k kmsg.OffsetCommitKey
	if err := k.UnsafeReadFrom(key); err != nil {
		return k, fmt.Errorf("group: key of an offset commit: %w", err)
	}
	return k, nil
}

// parseOffsetValue reads the value of an offset commit. The metadata aliases the value.
func parseOffsetValue(value []byte) (committed, error) {
	var v kmsg.OffsetCommitValue
	if err := checkVersion(value, lastOffsetCommitVersion); err != nil {
		return committed{}, fmt.Errorf("group: value of an offset commit: %w", err)
	}
	if err := v.UnsafeReadFrom(value); err != nil {
		return committed{}, fmt.Errorf("group: value of an offset commit: %w", err)
	}
	c := committed{
		offset:      v.Offset,
		timestamp:   v.CommitTimestamp,
		expires:     -1,
		metadata:    v.Metadata,
		topicID:     v.TopicID,
		leaderEpoch: -1,
	}
	if v.Version == offsetCommitExpiringVersion {
		c.expires = v.ExpireTimestamp
	}
	if v.Version >= 3 {
		c.leaderEpoch = v.LeaderEpoch
	}
	return c, nil
}

// parseMetadataKey reads the key of a GroupMetadata record: the group. The string aliases the key.
func parseMetadataKey(key []byte) (string, error) {
	var k kmsg.GroupMetadataKey
	if err := k.UnsafeReadFrom(key); err != nil {
		return "", fmt.Errorf("group: key of a group's metadata: %w", err)
	}
	return k.Group, nil
}

// parseMetadata reads the value of a GroupMetadata record. Nothing aliases the value.
func parseMetadata(value []byte) (*metadata, error) {
	var v kmsg.GroupMetadataValue
	if err := checkVersion(value, lastGroupMetadataVersion); err != nil {
		return nil, fmt.Errorf("group: value of a group's metadata: %w", err)
	}
	if err := v.ReadFrom(value); err != nil {
		return nil, fmt.Errorf("group: value of a group's metadata: %w", err)
	}
	m := &metadata{
		ProtocolType:   v.ProtocolType,
		Generation:     v.Generation,
		Protocol:       v.Protocol,
		Leader:         v.Leader,
		StateTimestamp: v.CurrentStateTimestamp,
		Members:        make([]member, len(v.Members)),
	}
	for i := range v.Members {
		from := &v.Members[i]
		rebalanceTimeout := from.RebalanceTimeoutMillis
		if rebalanceTimeout == -1 {
			// Version 0 is of a time when the session timeout served for both.
			rebalanceTimeout = from.SessionTimeoutMillis
		}
		m.Members[i] = member{
			ID:               from.MemberID,
			InstanceID:       from.InstanceID,
			ClientID:         from.ClientID,
			ClientHost:       from.ClientHost,
			RebalanceTimeout: rebalanceTimeout,
			SessionTimeout:   from.SessionTimeoutMillis,
			Subscription:     bytes.Clone(from.Subscription),
			Assignment:       bytes.Clone(from.Assignment),
		}
	}
	return m, nil
}

// checkVersion refuses values of versions that came after last: kmsg would read them as something else.
func checkVersion(value []byte, last int16) error {
	if len(value) < 2 {
		return fmt.Errorf("%d bytes have no version", len(value))
	}
	if v := int16(binary.BigEndian.Uint16(value)); v < 0 || v > last {
		return fmt.Errorf("version %d is not known", v)
	}
	return nil
}

// offsetRecord commits an offset.
func offsetRecord(now time.Time, group, topic string, partition int32, c committed) coordinator.Record {
	v := kmsg.OffsetCommitValue{
		Version:         offsetCommitVersion,
		Offset:          c.offset,
		LeaderEpoch:     c.leaderEpoch,
		Metadata:        c.metadata,
		CommitTimestamp: c.timestamp,
		ExpireTimestamp: c.expires,
		TopicID:         c.topicID,
	}
	if c.expires != -1 {
		v.Version = offsetCommitExpiringVersion
	}
	const fixed = 2 + 8 + 4 + 5 + 8 + 8 + 19 // of all versions together: a bound, so that the value is allocated once
	return coordinator.Record{
		Key:       offsetKey(group, topic, partition),
		Value:     v.AppendTo(make([]byte, 0, fixed+len(c.metadata))),
		Timestamp: now.UnixMilli(),
	}
}

// offsetTombstone removes a committed offset.
func offsetTombstone(now time.Time, group, topic string, partition int32) coordinator.Record {
	return coordinator.Record{Key: offsetKey(group, topic, partition), Timestamp: now.UnixMilli()}
}

func offsetKey(group, topic string, partition int32) []byte {
	assertFits(group, topic)
	k := kmsg.OffsetCommitKey{Version: recordOffsetCommit, Group: group, Topic: topic, Partition: partition}
	return k.AppendTo(make([]byte, 0, 2+2+len(group)+2+len(topic)+4))
}

// groupMetadataRecord says what a classic group is from now on.
func groupMetadataRecord(now time.Time, id string, m *metadata) coordinator.Record {
	v := kmsg.GroupMetadataValue{
		Version:               groupMetadataVersion,
		ProtocolType:          m.ProtocolType,
		Generation:            m.Generation,
		Protocol:              m.Protocol,
		Leader:                m.Leader,
		CurrentStateTimestamp: m.StateTimestamp,
		Members:               make([]kmsg.GroupMetadataValueMember, len(m.Members)),
	}
	assertFits(m.ProtocolType, orEmpty(m.Protocol), orEmpty(m.Leader))
	for i := range m.Members {
		from := &m.Members[i]
		assertFits(from.ID, orEmpty(from.InstanceID), from.ClientID, from.ClientHost)
		v.Members[i] = kmsg.GroupMetadataValueMember{
			MemberID:               from.ID,
			InstanceID:             from.InstanceID,
			ClientID:               from.ClientID,
			ClientHost:             from.ClientHost,
			RebalanceTimeoutMillis: from.RebalanceTimeout,
			SessionTimeoutMillis:   from.SessionTimeout,
			Subscription:           from.Subscription,
			Assignment:             from.Assignment,
		}
	}
	return coordinator.Record{Key: metadataKey(id), Value: v.AppendTo(nil), Timestamp: now.UnixMilli()}
}

// groupTombstone removes a group's metadata.
func groupTombstone(now time.Time, id string) coordinator.Record {
	return coordinator.Record{Key: metadataKey(id), Timestamp: now.UnixMilli()}
}

func metadataKey(id string) []byte {
	assertFits(id)
	k := kmsg.GroupMetadataKey{Version: recordGroupMetadata, Group: id}
	return k.AppendTo(make([]byte, 0, 2+2+len(id)))
}

// assertFits stops a record that nobody could read again: the partition could not be loaded any more. The call that asked
// for it fails, and nothing is appended.
func assertFits(strings ...string) {
	for _, s := range strings {
		if len(s) > maxString {
			invariant.Assert(false, "group: a string of %d bytes does not fit into a record", len(s))
		}
	}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// keep returns a string that does not alias anything, and allocates none where the one before says the same.
func keep(before, s string) string {
	if before == s {
		return before
	}
	return strings.Clone(s)
}
