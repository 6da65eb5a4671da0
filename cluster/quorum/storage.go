package quorum

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol/batch"
)

// cacheBytes is how much of the log's end is kept decoded: Raft reads what it has just written to apply it, and for
// followers that keep up.
const cacheBytes = 4 << 20

// storage is the disk under Raft: the log, the newest snapshot, raft-state. It is what raft.Storage wants, and used by the
// goroutine that steps the Node alone.
//
// The entry at the log's start offset takes the place of the entry before the first one, of which Raft wants to know the
// term; a log that begins right behind the snapshot has none, then the snapshot knows it.
type storage struct {
	fs      vfs.FS
	dir     string
	log     *log.Log
	state   raftState
	snap    snapshot // index 0: none but what offset 0 says; the image is not kept
	size    int64    // bytes of the newest snapshot
	builder *batch.Builder
	tail    []*raftpb.Entry // the log's last entries, without a gap
	tailLen int             // bytes of their data
}

var _ raft.Storage = (*storage)(nil)

func openLog(fsys vfs.FS, clk clock.Clock, dir string, segmentBytes int32, logger *slog.Logger) (*log.Log, error) {
	c := log.DefaultConfig()
	c.SegmentBytes = segmentBytes
	c.RetentionMs, c.RetentionBytes = -1, -1 // only snapshots make entries superfluous
	c.DeletePolicy = true
	return log.Open(log.Options{
		FS: fsys, Clock: clk, Dir: dir, TP: kafka.TopicPartition{Topic: kafka.ClusterMetadataTopic}, TopicID: kafka.MetadataTopicID,
		Config: c, Logger: logger, OwnCheckpoints: true,
	})
}

// InitialState gives Raft what it must not have forgotten. The commit index is only known to be no less than the snapshot.
func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return &raftpb.HardState{Term: new(s.state.Term), Vote: new(s.state.Vote), Commit: new(s.snap.index)}, s.snap.conf, nil
}

// FirstIndex is that of the first entry that Entries can give.
func (s *storage) FirstIndex() (uint64, error) { return s.first(), nil }

func (s *storage) first() uint64 {
	start := uint64(s.log.StartOffset())
	if start > s.snap.index {
		return start
	}
	return start + 1
}

// LastIndex is that of the last entry, or of the snapshot where the log has none.
func (s *storage) LastIndex() (uint64, error) { return s.last(), nil }

func (s *storage) last() uint64 { return uint64(s.log.EndOffset()) - 1 }

// Term returns the term of an entry, also of the one before the first.
func (s *storage) Term(i uint64) (uint64, error) {
	switch {
	case i == s.snap.index:
		return s.snap.term, nil
	case i > s.last():
		return 0, raft.ErrUnavailable
	case i < uint64(s.log.StartOffset()):
		return 0, raft.ErrCompacted
	}
	return uint64(s.log.EpochForOffset(int64(i))), nil
}

// Entries returns the entries of [lo, hi), at least one, at most maxSize bytes.
func (s *storage) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	switch {
	case lo < s.first():
		return nil, raft.ErrCompacted
	case hi > s.last()+1:
		return nil, raft.ErrUnavailable
	}
	if cached := s.last() + 1 - uint64(len(s.tail)); lo >= cached {
		return limit(s.tail[lo-cached:hi-cached], maxSize), nil
	}
	entries, err := s.read(int64(lo), int64(hi), maxSize)
	if err != nil {
		return nil, err
	}
	return limit(entries, maxSize), nil
}

// limit returns entries of at most maxSize bytes of data together, at least one. The result cannot be appended to in place.
func limit(entries []*raftpb.Entry, maxSize uint64) []*raftpb.Entry {
	size := uint64(0)
	for i, e := range entries {
		if size += uint64(len(e.GetData())); size > maxSize && i > 0 {
			return entries[:i:i]
		}
	}
	return entries[:len(entries):len(entries)]
}

// read decodes entries from the log's file, as many as one read gives.
func (s *storage) read(lo, hi int64, maxSize uint64) ([]*raftpb.Entry, error) {
	maxBytes := int(min(maxSize, cacheBytes))
	records, err := s.log.Read(log.ReadRequest{Offset: lo, MaxBytes: maxBytes, EndOffset: hi, AtLeastOne: true})
	if err != nil {
		return nil, err
	}
	defer records.Release()
	buf := make([]byte, records.Len())
	if _, err := records.ReadAt(buf, 0); err != nil {
		return nil, err
	}
	var entries []*raftpb.Entry
	for b, err := range batch.Batches(buf) {
		if err != nil {
			return nil, err
		}
		r, err := parseRecord(b)
		if err != nil {
			return nil, err
		}
		if want := lo + int64(len(entries)); r.offset != want {
			return nil, fmt.Errorf("metadata log: entry at offset %d where %d is due", r.offset, want)
		}
		e, err := r.toEntry()
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return nil, raft.ErrUnavailable
	}
	return entries, nil
}

// Snapshot returns the newest snapshot, for a follower that needs entries which are gone.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) {
	content, err := readFile(s.fs, filepath.Join(s.dir, snapshotName(s.snap.index, s.snap.term)))
	if err != nil {
		return nil, err
	}
	meta := &raftpb.SnapshotMetadata{Index: new(s.snap.index), Term: new(s.snap.term), ConfState: s.snap.conf}
	return &raftpb.Snapshot{Data: content, Metadata: meta}, nil
}

// saveState makes term and vote durable, if they changed.
func (s *storage) saveState(term, vote uint64) error {
	next := raftState{s.state.RaftID, term, vote}
	if next == s.state {
		return nil
	}
	if err := writeRaftState(s.fs, s.dir, next); err != nil {
		return err
	}
	s.state = next
	return nil
}

// append makes entries durable, in the place of those that the log has from the first of them on.
func (s *storage) append(entries []*raftpb.Entry, now time.Time) error {
	first := entries[0].GetIndex()
	if first <= s.last() {
		if err := s.truncate(first); err != nil {
			return err
		}
	}
	var buf []byte
	for _, e := range entries {
		var err error
		if buf, err = appendRecord(buf, s.builder, toRecord(e), now.UnixMilli()); err != nil {
			return err
		}
	}
	if _, err := s.log.AppendAsFollower(buf); err != nil {
		return err
	}
	if err := s.log.Sync(); err != nil {
		return err
	}
	s.remember(entries)
	return nil
}

// truncate cuts entries off that conflict with the leader's. It is durable when the log returns: otherwise a power cut may
// bring the old ones back behind those that take their place, and such a log passes for another's.
func (s *storage) truncate(index uint64) error {
	if err := s.log.TruncateTo(int64(index)); err != nil {
		return err
	}
	for n := len(s.tail); n > 0 && s.tail[n-1].GetIndex() >= index; n-- {
		s.tailLen -= len(s.tail[n-1].GetData())
		s.tail = s.tail[: n-1 : n-1] // whoever holds the slice keeps its entries
	}
	return nil
}

func (s *storage) remember(entries []*raftpb.Entry) {
	s.tail = append(s.tail, entries...)
	for _, e := range entries {
		s.tailLen += len(e.GetData())
	}
	drop := 0
	for ; s.tailLen > cacheBytes && drop < len(s.tail)-1; drop++ {
		s.tailLen -= len(s.tail[drop].GetData())
	}
	if drop > 0 {
		s.tail = append([]*raftpb.Entry(nil), s.tail[drop:]...)
	}
}

// save makes a snapshot durable that this node took, and gives up the log below it but for keep entries.
func (s *storage) save(snap snapshot, keep uint64, now time.Time) error {
	if err := s.writeSnapshot(snap, now); err != nil {
		return err
	}
	// Nothing that was applied is cut off any more, and the log removes no segment above its high watermark.
	s.log.SetHighWatermark(int64(snap.index) + 1)
	if snap.index > keep {
		if err := s.log.AdvanceStartOffset(int64(snap.index - keep)); err != nil {
			return err
		}
	}
	if _, err := s.log.DeleteOldSegments(now); err != nil {
		return err
	}
	return removeSnapshotsBelow(s.fs, s.dir, snap.index)
}

func (s *storage) writeSnapshot(snap snapshot, now time.Time) error {
	content, err := snap.encode(now.UnixMilli())
	if err != nil {
		return err
	}
	if err := writeFile(s.fs, filepath.Join(s.dir, snapshotName(snap.index, snap.term)), content); err != nil {
		return err
	}
	s.keep(snap, int64(len(content)))
	return nil
}

// keep makes snap the newest snapshot.
func (s *storage) keep(snap snapshot, size int64) {
	s.snap, s.size = snap, size
	s.snap.image = nil
}

// install makes a leader's snapshot the beginning of the log.
func (s *storage) install(content []byte, snap snapshot) error {
	if err := writeFile(s.fs, filepath.Join(s.dir, snapshotName(snap.index, snap.term)), content); err != nil {
		return err
	}
	s.keep(snap, int64(len(content)))
	if err := s.restart(); err != nil {
		return err
	}
	return removeSnapshotsBelow(s.fs, s.dir, snap.index)
}

// restart empties the log and begins it behind the snapshot.
func (s *storage) restart() error {
	s.tail, s.tailLen = nil, 0
	return s.log.TruncateFullyAndStartAt(int64(s.snap.index) + 1)
}
