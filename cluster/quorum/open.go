package quorum

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// Options say where the metadata log lies and how it is kept. FS, Dir, ClusterID and Self are needed.
type Options struct {
	FS        vfs.FS
	Clock     clock.Clock // for the log's own bookkeeping; nil for the system's
	Dir       string      // <metadata directory>/__cluster_metadata-0
	ClusterID string
	Self      metadata.QuorumMember // RaftID may be 0: one is drawn when the log is founded
	// Founders are the first voters, the same list on each of them, Self among them. Nil: this node alone. It counts only
	// where there is no log yet.
	Founders  []metadata.QuorumMember
	Transport Transport // nil where there is nobody else
	Logger    *slog.Logger

	SegmentBytes  int32  // 0: 8 MiB
	SnapshotBytes int64  // a snapshot is taken at the latest when so many bytes of entries were applied since the last; 0: 20 MiB, as in Kafka
	KeepEntries   uint64 // how many entries below the newest snapshot stay for slow followers; 0: 10,000
}

const (
	defaultSegmentBytes  = 8 << 20
	defaultSnapshotBytes = 20 << 20
	defaultKeepEntries   = 10_000
)

// RefusedError is a directory that this node must not use as its metadata log. Nothing in it was changed.
type RefusedError struct {
	Dir    string
	Reason string
	Err    error // may be nil
}

func (e *RefusedError) Error() string {
	s := fmt.Sprintf("metadata log %s is refused and left as it is: %s", e.Dir, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *RefusedError) Unwrap() error { return e.Err }

// openStorage opens the log of a directory, or founds it. The image is what snapshot and offset 0 say; entries behind
// come with the first steps.
func openStorage(o *Options, now time.Time) (*storage, *metadata.Image, error) {
	snap, state, founded, err := inspect(o)
	if err != nil {
		return nil, nil, err
	}
	if err := removeTemporary(o.FS, o.Dir); err != nil {
		return nil, nil, err
	}
	l, err := openLog(o.FS, o.Clock, o.Dir, o.SegmentBytes, o.Logger)
	if err != nil {
		return nil, nil, err
	}
	s := &storage{fs: o.FS, dir: o.Dir, log: l, builder: batch.NewBuilder(batch.None, 0)}
	image, err := s.begin(o, snap, state, founded, now)
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	return s, image, nil
}

// removeTemporary removes what a crash left while a small file was written.
func removeTemporary(fsys vfs.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") {
			if err := fsys.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin brings log, snapshot and raft-state together.
func (s *storage) begin(o *Options, snap *snapshot, state *raftState, founded bool, now time.Time) (*metadata.Image, error) {
	if s.log.Lossy() {
		return nil, &RefusedError{Dir: o.Dir, Reason: "entries that had been made durable are lost"}
	}
	if !founded {
		if err := s.found(o, state, now); err != nil {
			return nil, err
		}
		return s.beginAtZero()
	}
	s.state = *state
	if snap == nil {
		return s.beginAtZero()
	}
	s.keep(*snap, snap.size)
	if start := uint64(s.log.StartOffset()); start > snap.index+1 {
		return nil, &RefusedError{Dir: o.Dir, Reason: fmt.Sprintf("entries between the snapshot, which ends at offset %d, and the log, which begins at %d, are missing", snap.index, start)}
	}
	// A crash while a leader's snapshot was installed: the log is still the old one, which does not lead to it.
	term, err := s.logTerm(snap.index)
	if err != nil || term != snap.term {
		if err := s.restart(); err != nil {
			return nil, err
		}
	}
	return snap.image, nil
}

// logTerm is the term that the log itself has for an index; one that begins right behind the snapshot agrees with it.
func (s *storage) logTerm(index uint64) (uint64, error) {
	switch start := uint64(s.log.StartOffset()); {
	case start == index+1:
		return s.snap.term, nil
	case index > s.last() || index < start:
		return 0, errors.New("not in the log")
	}
	return uint64(s.log.EpochForOffset(int64(index))), nil
}

// beginAtZero takes the first voters and the image from offset 0.
func (s *storage) beginAtZero() (*metadata.Image, error) {
	zero, err := s.read(0, 1, 1)
	if err != nil {
		return nil, err
	}
	image, _, err := metadata.Apply(metadata.Empty(), 0, 0, zero[0].GetData())
	if err != nil {
		return nil, err
	}
	s.snap.conf = &raftpb.ConfState{}
	for m := range image.Quorum.All() {
		s.snap.conf.Voters = append(s.snap.conf.Voters, m.RaftID)
	}
	return image, nil
}

// found writes raft-state, then offset 0. Crash in between: the next start goes on with the same Raft id.
func (s *storage) found(o *Options, state *raftState, now time.Time) error {
	if state == nil {
		state = &raftState{RaftID: o.Self.RaftID}
		if state.RaftID == 0 {
			state.RaftID = newRaftID()
		}
		if err := writeRaftState(s.fs, s.dir, *state); err != nil {
			return err
		}
	}
	s.state = *state
	self := o.Self
	self.RaftID = state.RaftID
	founders := o.Founders
	if founders == nil {
		founders = []metadata.QuorumMember{self}
	}
	if !slices.Contains(founders, self) {
		return fmt.Errorf("node %d with raft id %d is not among the founders %v", self.Node, self.RaftID, founders)
	}
	records := []metadata.Record{metadata.FormatRecord{FormatVersion: metadata.FormatVersion, ClusterID: o.ClusterID}}
	for _, m := range founders {
		records = append(records, metadata.QuorumMemberRecord{Member: m})
	}
	zero, err := appendRecord(nil, s.builder, record{kind: kindMetadata, value: metadata.AppendEntry(nil, metadata.NoBase, records)}, now.UnixMilli())
	if err != nil {
		return err
	}
	if _, err := s.log.AppendAsFollower(zero); err != nil {
		return err
	}
	return s.log.Sync()
}

// newRaftID draws a Raft id. 2^63 and above are kept out of the way of Raft's own markers.
func newRaftID() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails (crypto/rand)
		if id := binary.BigEndian.Uint64(b[:]) >> 1; id != 0 {
			return id
		}
	}
}

// inspect looks at a directory without changing it: whose log it is, and whether it is whole.
func inspect(o *Options) (snap *snapshot, state *raftState, founded bool, err error) {
	refuse := func(reason string, err error) (*snapshot, *raftState, bool, error) {
		return nil, nil, false, &RefusedError{o.Dir, reason, err}
	}
	if snap, err = newestSnapshot(o.FS, o.Dir); err != nil {
		return refuse("its newest snapshot cannot be read", err)
	}
	if state, err = readRaftState(o.FS, o.Dir); err != nil {
		return refuse("term and vote cannot be read", err)
	}
	clusterID := ""
	if snap != nil {
		clusterID = snap.image.ClusterID
	} else if clusterID, err = clusterIDAtZero(o.FS, o.Dir); err != nil {
		// A crash while the log was founded leaves anything at offset 0. Nothing depends on it yet: the term is 0.
		var corrupt *batch.CorruptError
		if state == nil || state.Term > 0 || !errors.As(err, &corrupt) {
			return refuse("its first entry cannot be read", err)
		}
	}
	founded = clusterID != ""
	switch {
	case founded && clusterID != o.ClusterID:
		return refuse(fmt.Sprintf("it belongs to cluster %s, and this node to cluster %s", clusterID, o.ClusterID), nil)
	case founded && state == nil:
		return refuse("term and vote are gone (raft-state)", nil)
	case !founded && state != nil && state.Term > 0:
		return refuse(fmt.Sprintf("it is empty, and this node has taken part in term %d already", state.Term), nil)
	}
	return snap, state, founded, nil
}

// clusterIDAtZero reads the format record at offset 0, by the file alone. It is empty where there is no log yet, or only
// the torn beginning of one.
func clusterIDAtZero(fsys vfs.FS, dir string) (string, error) {
	first, err := firstBatch(fsys, dir)
	if err != nil || first == nil {
		return "", err
	}
	r, err := parseRecord(first)
	if errors.Is(err, batch.ErrTorn) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if r.offset != 0 || r.kind != kindMetadata {
		return "", &ForeignEntryError{r.offset, fmt.Sprintf("kind %d", r.kind)}
	}
	image, _, err := metadata.Apply(metadata.Empty(), 0, 0, r.value)
	if err != nil {
		return "", err
	}
	if image.ClusterID == "" {
		return "", &ForeignEntryError{0, "no format record"}
	}
	return image.ClusterID, nil
}

// maxFirstBatch bounds what is read of a file that may be anybody's. Offset 0 of a log of Weir has a few hundred bytes.
const maxFirstBatch = 1 << 20

// firstBatch reads the first batch of the log's first segment; nil where there is none.
func firstBatch(fsys vfs.FS, dir string) ([]byte, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".log") })
	if i < 0 {
		return nil, nil
	}
	if zero := fmt.Sprintf("%020d.log", 0); entries[i].Name() != zero {
		return nil, fmt.Errorf("the log begins with %s, and there is no snapshot", entries[i].Name())
	}
	f, err := fsys.OpenFile(filepath.Join(dir, entries[i].Name()), os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == 0 {
		return nil, err
	}
	b := make([]byte, min(size, maxFirstBatch))
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	if h, err := batch.ParseHeader(b); err == nil && h.Size() <= len(b) {
		b = b[:h.Size()]
	}
	return b, nil
}
