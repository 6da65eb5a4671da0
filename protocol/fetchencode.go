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
	e := fetchEncoder{version: r.Version, flexible: r.IsFlexible(), runs: p.Runs}
	b := appendInt32(p.Bytes, r.ThrottleMs)
	if r.Version >= 7 {
		b = appendInt16(b, r.ErrorCode)
		b = appendInt32(b, r.SessionID)
	}
	b = e.length(b, len(r.Topics))
	for i := range r.Topics {
		b = e.topic(b, &r.Topics[i])
	}
	if e.flexible {
		b = e.endpoints(b, r.NodeEndpoints)
	}
	p.Bytes, p.Runs = b, e.runs
}

// fetchEncoder appends to slices that are handed through, which the compiler keeps in registers.
type fetchEncoder struct {
	version  int16
	flexible bool
	runs     []Run
}

func appendInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendUvarint(b []byte, v int) []byte {
	if v < 0x80 { // nearly always
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, uint64(v))
}

// length appends how many elements or bytes follow.
func (e *fetchEncoder) length(b []byte, n int) []byte {
	if e.flexible {
		return appendUvarint(b, n+1)
	}
	return appendInt32(b, int32(n))
}

func (e *fetchEncoder) null(b []byte) []byte {
	if e.flexible {
		return append(b, 0)
	}
	return appendInt32(b, -1)
}

// noTags ends a structure.
func (e *fetchEncoder) noTags(b []byte) []byte {
	if e.flexible {
		return append(b, 0)
	}
	return b
}

func (e *fetchEncoder) topic(b []byte, t *FetchTopic) []byte {
	switch {
	case e.version >= 13:
		b = append(b, t.ID[:]...)
	case e.flexible:
		b = appendCompactString(b, t.Name)
	default:
		b = appendInt16(b, int16(len(t.Name)))
		b = append(b, t.Name...)
	}
	b = e.length(b, len(t.Partitions))
	for i := range t.Partitions {
		b = e.partition(b, &t.Partitions[i])
	}
	return e.noTags(b)
}

func appendCompactString(b []byte, s string) []byte {
	return append(appendUvarint(b, len(s)+1), s...)
}

func (e *fetchEncoder) partition(b []byte, p *FetchPartition) []byte {
	b = appendInt32(b, p.Index)
	b = appendInt16(b, p.ErrorCode)
	b = appendInt64(b, p.HighWatermark)
	b = appendInt64(b, p.LastStableOffset)
	if e.version >= 5 {
		b = appendInt64(b, p.LogStartOffset)
	}
	if p.AbortedTransactions == nil {
		b = e.null(b)
	} else {
		b = e.length(b, len(p.AbortedTransactions))
		for _, a := range p.AbortedTransactions {
			b = appendInt64(b, a.ProducerID)
			b = appendInt64(b, a.FirstOffset)
			b = e.noTags(b)
		}
	}
	if e.version >= 11 {
		b = appendInt32(b, p.PreferredReadReplica)
	}
	n := 0
	if p.Records != nil {
		n = p.Records.Len()
	}
	b = e.length(b, n)
	if n > 0 {
		e.runs = append(e.runs, Run{At: len(b), Records: p.Records})
	}
	if e.flexible {
		b = e.partitionTags(b, p)
	}
	return b
}

// Sizes of the tagged structures, each with its own, empty, tagged fields.
const (
	epochEndOffsetSize = 4 + 8 + 1
	leaderAndEpochSize = 4 + 4 + 1
)

func (e *fetchEncoder) partitionTags(b []byte, p *FetchPartition) []byte {
	count := 0
	for _, present := range [...]bool{p.DivergingEpoch != nil, p.CurrentLeader != nil, p.SnapshotID != nil} {
		if present {
			count++
		}
	}
	b = appendUvarint(b, count)
	if d := p.DivergingEpoch; d != nil {
		b = append(b, 0, epochEndOffsetSize)
		b = appendInt32(b, d.Epoch)
		b = append(appendInt64(b, d.EndOffset), 0)
	}
	if l := p.CurrentLeader; l != nil {
		b = append(b, 1, leaderAndEpochSize)
		b = appendInt32(b, l.LeaderID)
		b = append(appendInt32(b, l.LeaderEpoch), 0)
	}
	if s := p.SnapshotID; s != nil {
		b = append(b, 2, epochEndOffsetSize)
		b = appendInt64(b, s.EndOffset) // here the offset comes first
		b = append(appendInt32(b, s.Epoch), 0)
	}
	return b
}

// endpoints appends the tagged fields of the whole response: tag 0, or none.
func (e *fetchEncoder) endpoints(b []byte, nodes []NodeEndpoint) []byte {
	if len(nodes) == 0 {
		return append(b, 0)
	}
	b = append(b, 1, 0)
	b = appendUvarint(b, endpointsSize(nodes))
	b = appendUvarint(b, len(nodes)+1)
	for i := range nodes {
		n := &nodes[i]
		b = appendInt32(b, n.NodeID)
		b = appendCompactString(b, n.Host)
		b = appendInt32(b, n.Port)
		if n.Rack == nil {
			b = append(b, 0)
		} else {
			b = appendCompactString(b, *n.Rack)
		}
		b = append(b, 0)
	}
	return b
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
