package protocol

import (
	"encoding/binary"

	"weir/internal/kafka"
)

// FetchResponse is the answer to Fetch v4–18. It is written by hand because kmsg's copies the records into the message;
// here they stay in their files until they are sent.
type FetchResponse struct {
	Version    int16
	ThrottleMs int32
	ErrorCode  int16 // v7+: of the session
	SessionID  int32 // v7+
	Topics     []FetchTopic
	// NodeEndpoints are where the leaders named in CurrentLeader live (v16+, KIP-951); see AddEndpoint.
	NodeEndpoints []NodeEndpoint
}

// FetchTopic is one topic of the answer: Name up to v12, ID from v13.
type FetchTopic struct {
	Name       string
	ID         kafka.TopicID
	Partitions []FetchPartition
}

// FetchPartition is one partition of the answer. The zero value is not an empty answer: see NewFetchPartition.
type FetchPartition struct {
	Index                int32
	ErrorCode            int16
	HighWatermark        int64
	LastStableOffset     int64
	LogStartOffset       int64                // v5+
	AbortedTransactions  []AbortedTransaction // nil is null: what a reader of uncommitted records gets
	PreferredReadReplica int32                // v11+; -1 for none
	// Records may be nil. No records are zero bytes on the wire and never null, which some clients cannot read.
	Records Records

	// Tagged fields (v12+), left out where they are nil.
	DivergingEpoch *EpochEndOffset
	CurrentLeader  *LeaderAndEpoch
	SnapshotID     *EpochEndOffset
}

// AbortedTransaction is a transaction whose records a reader of committed ones skips.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64
}

// EpochEndOffset is an epoch and its end offset (exclusive).
type EpochEndOffset struct {
	Epoch     int32
	EndOffset int64
}

// LeaderAndEpoch names a partition's leader.
type LeaderAndEpoch struct {
	LeaderID    int32
	LeaderEpoch int32
}

// NodeEndpoint is where a broker listens.
type NodeEndpoint struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   *string
}

// NewFetchPartition returns the answer of a partition of which nothing is known.
func NewFetchPartition(index int32) FetchPartition {
	return FetchPartition{Index: index, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, PreferredReadReplica: -1}
}

// AddEndpoint adds where a leader lives, once, if that is known.
func (r *FetchResponse) AddEndpoint(e NodeEndpoint, known bool) {
	if !known {
		return
	}
	for i := range r.NodeEndpoints {
		if r.NodeEndpoints[i].NodeID == e.NodeID {
			return
		}
	}
	r.NodeEndpoints = append(r.NodeEndpoints, e)
}

// Key implements Body.
func (*FetchResponse) Key() int16 { return 1 }

// GetVersion implements Body.
func (r *FetchResponse) GetVersion() int16 { return r.Version }

// IsFlexible implements Body.
func (r *FetchResponse) IsFlexible() bool { return r.Version >= 12 }

// Release implements PartsBody.
func (r *FetchResponse) Release() {
	for i := range r.Topics {
		partitions := r.Topics[i].Partitions
		for j := range partitions {
			if records := partitions[j].Records; records != nil {
				partitions[j].Records = nil
				records.Release()
			}
		}
	}
}

// AppendParts implements PartsBody.
func (r *FetchResponse) AppendParts(p *Parts) {
	e := fetchEncoder{Parts: p, version: r.Version, flexible: r.IsFlexible()}
	e.int32(r.ThrottleMs)
	if r.Version >= 7 {
		e.int16(r.ErrorCode)
		e.int32(r.SessionID)
	}
	e.length(len(r.Topics))
	for i := range r.Topics {
		e.topic(&r.Topics[i])
	}
	if e.flexible {
		e.endpoints(r.NodeEndpoints)
	}
}

type fetchEncoder struct {
	*Parts
	version  int16
	flexible bool
}

func (e *fetchEncoder) int16(v int16) { e.Bytes = binary.BigEndian.AppendUint16(e.Bytes, uint16(v)) }
func (e *fetchEncoder) int32(v int32) { e.Bytes = binary.BigEndian.AppendUint32(e.Bytes, uint32(v)) }
func (e *fetchEncoder) int64(v int64) { e.Bytes = binary.BigEndian.AppendUint64(e.Bytes, uint64(v)) }

func (e *fetchEncoder) uvarint(v int) { e.Bytes = binary.AppendUvarint(e.Bytes, uint64(v)) }

// length appends how many elements or bytes follow.
func (e *fetchEncoder) length(n int) {
	if e.flexible {
		e.uvarint(n + 1)
		return
	}
	e.int32(int32(n))
}

func (e *fetchEncoder) null() {
	if e.flexible {
		e.uvarint(0)
		return
	}
	e.int32(-1)
}

// noTags ends a flexible structure.
func (e *fetchEncoder) noTags() {
	if e.flexible {
		e.Bytes = append(e.Bytes, 0)
	}
}

func (e *fetchEncoder) topic(t *FetchTopic) {
	switch {
	case e.version >= 13:
		e.Bytes = append(e.Bytes, t.ID[:]...)
	case e.flexible:
		e.uvarint(len(t.Name) + 1)
		e.Bytes = append(e.Bytes, t.Name...)
	default:
		e.int16(int16(len(t.Name)))
		e.Bytes = append(e.Bytes, t.Name...)
	}
	e.length(len(t.Partitions))
	for i := range t.Partitions {
		e.partition(&t.Partitions[i])
	}
	e.noTags()
}

func (e *fetchEncoder) partition(p *FetchPartition) {
	e.int32(p.Index)
	e.int16(p.ErrorCode)
	e.int64(p.HighWatermark)
	e.int64(p.LastStableOffset)
	if e.version >= 5 {
		e.int64(p.LogStartOffset)
	}
	if p.AbortedTransactions == nil {
		e.null()
	} else {
		e.length(len(p.AbortedTransactions))
		for _, a := range p.AbortedTransactions {
			e.int64(a.ProducerID)
			e.int64(a.FirstOffset)
			e.noTags()
		}
	}
	if e.version >= 11 {
		e.int32(p.PreferredReadReplica)
	}
	if p.Records == nil || p.Records.Len() == 0 {
		e.length(0)
	} else {
		e.length(p.Records.Len())
		e.Runs = append(e.Runs, Run{At: len(e.Bytes), Records: p.Records})
	}
	if e.flexible {
		e.partitionTags(p)
	}
}

// Sizes of the tagged structures, each with its own, empty, tagged fields.
const (
	epochEndOffsetSize = 4 + 8 + 1
	leaderAndEpochSize = 4 + 4 + 1
)

func (e *fetchEncoder) partitionTags(p *FetchPartition) {
	count := 0
	for _, present := range [...]bool{p.DivergingEpoch != nil, p.CurrentLeader != nil, p.SnapshotID != nil} {
		if present {
			count++
		}
	}
	e.uvarint(count)
	if d := p.DivergingEpoch; d != nil {
		e.uvarint(0)
		e.uvarint(epochEndOffsetSize)
		e.int32(d.Epoch)
		e.int64(d.EndOffset)
		e.noTags()
	}
	if l := p.CurrentLeader; l != nil {
		e.uvarint(1)
		e.uvarint(leaderAndEpochSize)
		e.int32(l.LeaderID)
		e.int32(l.LeaderEpoch)
		e.noTags()
	}
	if s := p.SnapshotID; s != nil {
		e.uvarint(2)
		e.uvarint(epochEndOffsetSize)
		e.int64(s.EndOffset) // here the offset comes first
		e.int32(s.Epoch)
		e.noTags()
	}
}

// endpoints appends the one tagged field of the whole response. Kafka's tag 0 belongs to v16, but a client of v12
// skips it.
func (e *fetchEncoder) endpoints(nodes []NodeEndpoint) {
	if len(nodes) == 0 {
		e.noTags()
		return
	}
	e.uvarint(1)
	e.uvarint(0)
	e.uvarint(endpointsSize(nodes))
	e.uvarint(len(nodes) + 1)
	for i := range nodes {
		n := &nodes[i]
		e.int32(n.NodeID)
		e.uvarint(len(n.Host) + 1)
		e.Bytes = append(e.Bytes, n.Host...)
		e.int32(n.Port)
		if n.Rack == nil {
			e.uvarint(0)
		} else {
			e.uvarint(len(*n.Rack) + 1)
			e.Bytes = append(e.Bytes, *n.Rack...)
		}
		e.noTags()
	}
}

func endpointsSize(nodes []NodeEndpoint) int {
	size := uvarintSize(len(nodes) + 1)
	for i := range nodes {
		n := &nodes[i]
		size += 4 + uvarintSize(len(n.Host)+1) + len(n.Host) + 4 + 1 // and no tagged fields
		if n.Rack == nil {
			size++
		} else {
			size += uvarintSize(len(*n.Rack)+1) + len(*n.Rack)
		}
	}
	return size
}

func uvarintSize(v int) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

var _ PartsBody = (*FetchResponse)(nil)
