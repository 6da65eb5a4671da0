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
	snap    snapshot          // index 0: none but what offset 0 says; the image is not kept
	size    int64             // bytes of the newest snapshot
	conf    *raftpb.ConfState // at the last entry applied; nil while it changes
	changed bool              // an applied entry has changed who is a member
	wanted  bool              // Raft asked for a snapshot that is not there
	failed  error             // of the disk, while Raft asked for something
	builder *batch.Builder
	tail    []*raftpb.Entry // the log's last entries, without a gap
	tailLen int             // bytes of their data
	founded bool            // by this process
}

var _ raft.Storage = (*storage)(nil)

// dirPerm lets nobody else into the log's directory: the metadata has the cluster's secrets.
const dirPerm = 0o700

func openLog(fsys vfs.FS, clk clock.Clock, dir string, segmentBytes int32, logger *slog.Logger) (*log.Log, error) {
	if err := fsys.MkdirAll(dir, dirPerm); err != nil {
		return nil, err
	}
	c := log.DefaultConfig()
	c.SegmentBytes = segmentBytes
	c.RetentionMs, c.RetentionBytes = -1, -1 // only snapshots make entries superfluous
	c.DeletePolicy = true
	return log.Open(log.Options{
		FS: fsys, Clock: clk, Dir: dir, TP: kafka.TopicPartition{Topic: kafka.ClusterMetadataTopic}, TopicID: kafka.MetadataTopicID,
		Config: c, Logger: logger, OwnCheckpoints: true,
	})
}

// InitialState gives Raft what it must not have forgotten.
func (s *storage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	committed := max(s.snap.index, uint64(max(s.state.Committed, 1)-1))
	return &raftpb.HardState{Term: new(s.state.Term), Vote: new(s.state.Vote), Commit: new(committed)}, s.snap.conf, nil
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

// last is 0 for a log without offset 0, too: Raft's own logs begin at 1.
func (s *storage) last() uint64 { return uint64(max(s.log.EndOffset(), 1)) - 1 }

// Term returns the term of an entry, also of the one before the first.
//
// Offset 0 is not Raft's, which cannot send it; only founders have it by themselves. So it counts as gone when there may
// be others: whoever lacks the entries from the beginning is given a snapshot, which has all.
func (s *storage) Term(i uint64) (uint64, error) {
	switch {
	case i == 0 && (s.changed || s.snap.index > 0):
		return 0, raft.ErrCompacted
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
		s.failed = err // Raft panics; see Node.Step
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

// Snapshot returns the newest snapshot, for a follower that needs entries which are gone. It must know all members: one that
// does not find itself in a snapshot ignores it. If it does not, there is none for the moment; Node.Step takes one.
func (s *storage) Snapshot() (*raftpb.Snapshot, error) {
	if s.snap.index == 0 || s.conf == nil || s.conf.Equivalent(s.snap.conf) != nil {
		s.wanted = true
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	content, err := vfs.ReadFile(s.fs, filepath.Join(s.dir, snapshotName(s.snap.index, s.snap.term)))
	if err != nil {
		s.failed = err
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	meta := &raftpb.SnapshotMetadata{Index: new(s.snap.index), Term: new(s.snap.term), ConfState: s.snap.conf}
	return &raftpb.Snapshot{Data: content, Metadata: meta}, nil
}

// saveVote makes term and vote durable, if they changed.
func (s *storage) saveVote(term, vote uint64) error {
	if term == s.state.Term && vote == s.state.Vote {
		return nil
	}
	return s.saveState(raftState{s.state.RaftID, term, vote, s.state.Committed})
}

// saveCommitted makes durable that the log is committed up to an offset (exclusive), if that is news.
func (s *storage) saveCommitted(end int64) error {
	if end <= s.state.Committed {
		return nil
	}
	return s.saveState(raftState{s.state.RaftID, s.state.Term, s.state.Vote, end})
}

func (s *storage) saveState(next raftState) error {
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

// install makes a leader's snapshot the beginning of the log. The first one also makes the node one that has had a log.
func (s *storage) install(content []byte, snap snapshot) error {
	if err := writeFile(s.fs, filepath.Join(s.dir, snapshotName(snap.index, snap.term)), content); err != nil {
		return err
	}
	s.keep(snap, int64(len(content)))
	if err := s.restart(int64(snap.index) + 1); err != nil {
		return err
	}
	if s.state.Committed == 0 {
		if err := s.saveCommitted(int64(snap.index) + 1); err != nil {
			return err
		}
		if err := writeMember(s.fs, s.dir, s.state.RaftID); err != nil {
			return err
		}
	}
	return removeSnapshotsBelow(s.fs, s.dir, snap.index)
}

// restart empties the log and has it begin at an offset.
func (s *storage) restart(offset int64) error {
	s.tail, s.tailLen = nil, 0
	return s.log.TruncateFullyAndStartAt(offset)
}
