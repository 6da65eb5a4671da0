package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
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
	Self      metadata.QuorumMember // RaftID may be 0: then it is that of the directory, here and among the founders

	// Founders are the first voters, the same on each of them, Self among them; nil: this node alone. Join says that others
	// have founded the cluster and that this node waits for the log: it has no vote, and stands for no election, until a
	// snapshot says otherwise. Either counts only until the node has a raft-state, which remembers.
	Founders []metadata.QuorumMember
	Join     bool

	Transport Transport // nil where there is nobody else
	Logger    *slog.Logger

	// ElectionTimeout is how long voters wait for a sign of the leader, up to twice as long by chance, before they elect
	// another, and a leader for signs of a majority before it steps down. 0: 1 s (controller.quorum.election.timeout.ms).
	ElectionTimeout time.Duration
	Rand            *rand.Rand // spreads candidacies after a Suspect; nil: seeded by chance

	SegmentBytes  int32  // 0: 8 MiB
	SnapshotBytes int64  // a snapshot is taken at the latest when so many bytes of entries were applied since the last; 0: 20 MiB, as in Kafka
	KeepEntries   uint64 // how many entries below the newest snapshot stay for slow followers; 0: 10,000
}

const (
	defaultElectionTimeout = electionTicks * TickInterval
	defaultSegmentBytes    = 8 << 20
	defaultSnapshotBytes   = 20 << 20
	defaultKeepEntries     = 10_000
)

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	o.ElectionTimeout = cmp.Or(o.ElectionTimeout, defaultElectionTimeout)
	o.SegmentBytes = cmp.Or(o.SegmentBytes, defaultSegmentBytes)
	o.SnapshotBytes = cmp.Or(o.SnapshotBytes, defaultSnapshotBytes)
	o.KeepEntries = cmp.Or(o.KeepEntries, defaultKeepEntries)
	o.Self.RaftID = cmp.Or(o.Self.RaftID, RaftID(o.Self.Directory))
}

// openStorage opens the log of a directory, founds it, or begins to wait for it. The image is what snapshot and offset 0
// say; entries behind come with the first steps.
func openStorage(o *Options) (*storage, *metadata.Image, error) {
	d, err := inspect(o)
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
	image, err := s.begin(o, d)
	if err == nil {
		err = s.settle()
	}
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	s.conf = s.snap.conf
	return s, image, nil
}

// settle makes durable what the node has read: after the end of the process alone it may have found what was written and
// not yet synced, and Raft takes all for kept.
func (s *storage) settle() error {
	if err := s.log.Sync(); err != nil {
		return err
	}
	return errors.Join(s.fs.SyncDir(s.dir), s.fs.SyncDir(filepath.Dir(s.dir)))
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
func (s *storage) begin(o *Options, d disk) (image *metadata.Image, err error) {
	if err := s.whole(o, d); err != nil {
		return nil, err
	}
	if d.state != nil {
		s.state = *d.state
	}
	switch {
	case d.waits(), d.state == nil && o.Join:
		return metadata.Empty(), s.wait(o)
	case !d.begun:
		if err := s.found(o); err != nil {
			return nil, err
		}
	}
	if d.snap == nil {
		image, err = s.beginAtZero()
	} else {
		image, err = s.beginAtSnapshot(d.snap)
	}
	if err == nil {
		err = s.admit(d)
	}
	return image, err
}

// whole checks that the log has all that it had.
func (s *storage) whole(o *Options, d disk) error {
	reason, end := "", s.log.EndOffset()
	if d.snap != nil {
		next := int64(d.snap.index) + 1
		if start := s.log.StartOffset(); start > next {
			reason = fmt.Sprintf("entries between the snapshot, which ends at offset %d, and the log, which begins at %d, are missing", d.snap.index, start)
		}
		end = max(end, next)
	}
	switch {
	case s.log.Lossy():
		reason = "entries that had been made durable are lost"
	case d.state != nil && d.state.Committed > end:
		reason = fmt.Sprintf("entries are lost: it ends at offset %d, and was committed up to %d", end-1, d.state.Committed-1)
	}
	if reason == "" {
		return nil
	}
	return &RefusedError{Dir: o.Dir, Reason: reason}
}

// beginAtSnapshot takes a snapshot as what is true.
func (s *storage) beginAtSnapshot(snap *snapshot) (*metadata.Image, error) {
	image := snap.image
	s.keep(*snap, snap.size)
	// A crash while a leader's snapshot was installed: the log is still the old one, which does not lead to it.
	if term, err := s.logTerm(snap.index); err != nil || term != snap.term {
		if err := s.restart(int64(snap.index) + 1); err != nil {
			return nil, err
		}
	}
	return image, nil
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

// admit notes what a founding, a crash or an older version left unsaid.
func (s *storage) admit(d disk) error {
	if s.state.Committed == unknown {
		s.state.Committed = int64(s.snap.index) + 1 // put down with the next change of term or members
	}
	if d.member == s.state.RaftID {
		return nil
	}
	return writeMember(s.fs, s.dir, s.state.RaftID)
}

// wait begins without a log. The first snapshot from a leader brings it.
func (s *storage) wait(o *Options) error {
	s.snap.conf = &raftpb.ConfState{}
	if s.log.EndOffset() > 0 {
		if err := s.restart(0); err != nil {
			return err
		}
	}
	if s.state.RaftID != 0 {
		return nil
	}
	s.state = raftState{RaftID: o.Self.RaftID}
	return writeRaftState(s.fs, s.dir, s.state)
}

// found writes offset 0, then raft-state. A crash in between: the next start founds again, maybe with others, for nothing
// depends on it yet. The other way round a start that is told of no founders would take the node for one that is alone.
func (s *storage) found(o *Options) error {
	self := o.Self
	self.RaftID = cmp.Or(s.state.RaftID, self.RaftID) // an older version came no further than to draw it
	zero, err := s.founding(o, self)
	if err != nil {
		return err
	}
	if s.log.EndOffset() > 0 {
		if err := s.restart(0); err != nil {
			return err
		}
	}
	if _, err := s.log.AppendAsFollower(zero); err != nil {
		return err
	}
	if err := s.log.Sync(); err != nil {
		return err
	}
	s.state, s.founded = raftState{RaftID: self.RaftID, Committed: 1}, true
	return writeRaftState(s.fs, s.dir, s.state)
}

// isFirst reports whether this node is the one of several founders that has the lowest node id.
func (o *Options) isFirst() bool {
	others := false
	for _, m := range o.Founders {
		if m.Node < o.Self.Node {
			return false
		}
		others = others || m.Node != o.Self.Node
	}
	return others
}

// founding makes offset 0, the same bytes on every founder: in order of Raft ids, and with no time of its own.
func (s *storage) founding(o *Options, self metadata.QuorumMember) ([]byte, error) {
	founders := slices.Clone(o.Founders)
	if founders == nil {
		founders = []metadata.QuorumMember{self}
	}
	for i, m := range founders {
		founders[i].RaftID = cmp.Or(m.RaftID, RaftID(m.Directory))
	}
	slices.SortFunc(founders, func(a, b metadata.QuorumMember) int { return cmp.Compare(a.RaftID, b.RaftID) })
	records := []metadata.Record{metadata.FormatRecord{FormatVersion: metadata.FormatVersion, ClusterID: o.ClusterID}}
	named := false
	for i, m := range founders {
		if i > 0 && m.RaftID == founders[i-1].RaftID {
			return nil, fmt.Errorf("raft id 0x%016x is among the founders twice: %v", m.RaftID, founders)
		}
		named = named || m.RaftID == self.RaftID && m.Node == self.Node && m.Directory == self.Directory
		records = append(records, metadata.QuorumMemberRecord{Member: m})
	}
	if !named {
		return nil, fmt.Errorf("node %d with raft id 0x%016x is not among the founders %v", self.Node, self.RaftID, founders)
	}
	return appendRecord(nil, s.builder, record{kind: kindMetadata, value: metadata.AppendEntry(nil, metadata.NoBase, records)}, batch.NoTimestamp)
}
