package quorum

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"

	"weir/internal/invariant"
	"weir/protocol/batch"
)

// Kinds of entries, the keys of the log's records. On disk: never renumber, never reuse.
const (
	kindMetadata       = 1
	kindEmpty          = 2
	kindConfChange     = 3
	kindConfChangeV2   = 4
	kindSnapshotHeader = 5 // in snapshots only
	kindSnapshotFooter = 6 // in snapshots only
)

// maxTerm is the highest term that a batch's leader epoch can hold. An election a second takes 68 years to get there.
const maxTerm = 1<<31 - 1

// UnknownEntryError is an entry that this version of the program cannot read.
type UnknownEntryError struct {
	Offset int64
	Kind   int16
}

func (e *UnknownEntryError) Error() string {
	return fmt.Sprintf("entry of kind %d at offset %d of the metadata log is not known to this version of weir", e.Kind, e.Offset)
}

// ForeignEntryError is a batch that is no entry of a metadata log of Weir: Apache Kafka's own, for one.
type ForeignEntryError struct {
	Offset int64
	Reason string
}

func (e *ForeignEntryError) Error() string {
	return fmt.Sprintf("batch at offset %d is not an entry of weir's metadata log (%s): was it written by Apache Kafka?", e.Offset, e.Reason)
}

// record is what a batch of the log or of a snapshot holds.
type record struct {
	offset int64
	epoch  int32
	kind   int16
	value  []byte // nil is null
}

// appendRecord appends a batch with one record to dst. b is scratch.
func appendRecord(dst []byte, b *batch.Builder, r record, nowMs int64) ([]byte, error) {
	b.Reset()
	b.SetBaseOffset(r.offset)
	b.SetLeaderEpoch(r.epoch)
	b.Append(nowMs, binary.BigEndian.AppendUint16(nil, uint16(r.kind)), r.value)
	out, err := b.Build()
	if err != nil {
		return dst, fmt.Errorf("entry at offset %d of the metadata log: %w", r.offset, err)
	}
	return append(dst, out...), nil
}

// parseRecord reads one batch. The value aliases b.
func parseRecord(b []byte) (record, error) {
	h, err := batch.CheckStored(b)
	if err != nil {
		return record{}, err
	}
	foreign := func(reason string) error { return &ForeignEntryError{h.BaseOffset, reason} }
	if h.Count != 1 || h.LastOffsetDelta != 0 || h.Attributes != 0 {
		return record{}, foreign(fmt.Sprintf("%d records, attributes %#x", h.Count, int16(h.Attributes)))
	}
	out := record{offset: h.BaseOffset, epoch: h.LeaderEpoch}
	for r, err := range batch.Records(b) {
		if err != nil {
			return record{}, err
		}
		if len(r.Key) != 2 || r.Headers.Count != 0 {
			return record{}, foreign(fmt.Sprintf("key of %d bytes", len(r.Key)))
		}
		out.kind = int16(binary.BigEndian.Uint16(r.Key))
		out.value = r.Value
	}
	if out.epoch < 0 {
		return record{}, foreign("no term")
	}
	return out, nil
}

// toRecord makes a record of an entry of Raft's.
func toRecord(e *raftpb.Entry) record {
	invariant.Assert(e.GetTerm() <= maxTerm, "term %d does not fit a leader epoch", e.GetTerm())
	r := record{offset: int64(e.GetIndex()), epoch: int32(e.GetTerm()), value: e.GetData()}
	switch e.GetType() {
	case raftpb.EntryConfChange:
		r.kind = kindConfChange
	case raftpb.EntryConfChangeV2:
		r.kind = kindConfChangeV2
	default:
		r.kind = kindMetadata
		if len(r.value) == 0 {
			r.kind, r.value = kindEmpty, nil
		}
	}
	if r.kind != kindEmpty && r.value == nil {
		r.value = []byte{} // a change of nothing, which ends a joint configuration, encodes to no bytes; null is for empty entries
	}
	return r
}

// toEntry is the reverse of toRecord.
func (r record) toEntry() (*raftpb.Entry, error) {
	e := &raftpb.Entry{Index: new(uint64(r.offset)), Term: new(uint64(r.epoch)), Data: r.value}
	switch r.kind {
	case kindMetadata, kindEmpty:
		e.Type = raftpb.EntryNormal.Enum()
	case kindConfChange:
		e.Type = raftpb.EntryConfChange.Enum()
	case kindConfChangeV2:
		e.Type = raftpb.EntryConfChangeV2.Enum()
	default:
		return nil, &UnknownEntryError{r.offset, r.kind}
	}
	if (r.kind == kindEmpty) != (len(r.value) == 0 && e.GetType() == raftpb.EntryNormal) {
		return nil, &ForeignEntryError{r.offset, fmt.Sprintf("%d bytes in an entry of kind %d", len(r.value), r.kind)}
	}
	return e, nil
}
