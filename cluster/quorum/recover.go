package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// What a majority decided that is lost may have given away epochs, offsets and ids that this node knows nothing of. Recover
// begins so much further on that none of them is given twice: logs that part could not be told apart by an epoch that both have.
const (
	recoverySkip         = 1 << 20 // indexes and terms of the metadata log, leader epochs, partition epochs, blocks of producer ids
	recoveredProducerIDs = 1000    // in a block
)

const (
	recoveringSuffix = ".recovering-stray" // what Recover prepares; the suffix keeps it from being taken for a partition
	lostSuffix       = ".lost-majority"    // what there was, with a number and that suffix
)

// Recovery is what Recover does, or did.
type Recovery struct {
	ClusterID string
	Self      metadata.QuorumMember
	// LastTerm and LastIndex are those of the last entry of this node's log. Of the nodes that are left, the one that is first
	// by these, in this order, has the most.
	LastTerm, LastIndex int64
	Committed           int64                   // the log up to here (exclusive) was known to be committed, -1 for unknown; all of it counts from now on
	Others              []metadata.QuorumMember // lose their votes, and what their logs have beyond; they follow when they are there

	Brokers, Topics, Partitions int
	Index, Term                 int64  // where the log goes on
	Backup                      string // the directory that the old log is in; "" where nothing was done
}

// Recover makes a node whose quorum has lost its majority for good the only voter, with what its own log has. dir is that of the
// log. It is the last resort: what others had committed beyond that is lost, and nobody can tell. Therefore
//
//   - all counts as committed that the log has, also what was never acknowledged to anybody;
//   - indexes, terms, epochs and producer ids go on far ahead, so that none is given twice;
//   - the registrations of all brokers are void, and no replica counts as in sync or eligible. For each partition one is waited
//     for: that of this node, if it was in sync, else the last leader. It leads when it is back, and the others follow it;
//     where it does not come back, an operator has to ask for an unclean election;
//   - the other members follow when they are there, whatever their logs have, and get votes again when they have kept up.
//
// No partition is deleted: of which the metadata do not know, brokers set aside. Without force nothing is changed. The old log is
// kept (Recovery.Backup).
//
// Errors: *RefusedError where there is no log that could be recovered; vfs.ErrLocked where the node runs; those of the disk.
func Recover(fsys vfs.FS, dir string, now time.Time, force bool) (*Recovery, error) {
	lock, err := fsys.Lock(filepath.Join(filepath.Dir(dir), ".lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	old, err := surviving(fsys, dir)
	if err != nil {
		return nil, err
	}
	next, report, err := old.recover()
	if err != nil || !force {
		return report, err
	}
	content, err := next.encode(now.UnixMilli())
	if err != nil {
		return nil, err
	}
	prepared := dir + recoveringSuffix
	if err := prepare(fsys, prepared, next, content, old.state.RaftID); err != nil {
		return nil, err
	}
	report.Backup, err = backupName(fsys, dir)
	if err != nil {
		return nil, err
	}
	// A crash in between leaves no log, with which the node does not start (raft-member), and both directories.
	if err := errors.Join(fsys.Rename(dir, report.Backup), fsys.Rename(prepared, dir), fsys.SyncDir(filepath.Dir(dir))); err != nil {
		return nil, fmt.Errorf("put the recovered metadata log into its place: %w; the old one is %s, the recovered one %s", err, report.Backup, prepared)
	}
	return report, nil
}

// remains is what is left of a quorum on one disk.
type remains struct {
	dir    string
	state  raftState
	image  *metadata.Image
	last   record // the last entry
	parted bool   // the log does not lead to the snapshot, which came from a leader; it counts for nothing
}

// surviving reads a log without changing anything: the newest snapshot, and all entries behind it.
func surviving(fsys vfs.FS, dir string) (*remains, error) {
	refuse := func(reason string, err error) (*remains, error) { return nil, &RefusedError{dir, reason, err} }
	state, err := readRaftState(fsys, dir)
	switch {
	case err != nil:
		return refuse("term and vote cannot be read", err)
	case state == nil && exists(fsys, dir+recoveringSuffix):
		return refuse("a recovery was cut short: rename "+dir+recoveringSuffix+" to it", nil)
	case state == nil || state.Committed == 0:
		return refuse("there is no metadata log here that could be recovered", nil)
	}
	r := &remains{dir: dir, state: *state, image: metadata.Empty(), last: record{offset: -1}}
	snap, err := newestSnapshot(fsys, dir)
	if err != nil {
		return refuse("its newest snapshot cannot be read", err)
	}
	if snap != nil {
		r.image, r.last = snap.image, record{offset: int64(snap.index), epoch: int32(snap.term)}
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // sorted, and so by offset
		if !strings.HasSuffix(e.Name(), ".log") {
			continue
		}
		content, err := vfs.ReadFile(fsys, filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if err := r.replay(content); err != nil {
			return refuse("an entry cannot be read", err)
		}
	}
	if r.image.ClusterID == "" || state.Committed > r.last.offset+1 {
		return refuse(fmt.Sprintf("entries are lost: it ends at offset %d, and was committed up to %d", r.last.offset, state.Committed-1), nil)
	}
	return r, nil
}

// replay applies the entries of a segment. One that a crash cut short at the end was never acknowledged.
func (r *remains) replay(segment []byte) error {
	for b, err := range batch.Batches(segment) {
		if errors.Is(err, batch.ErrTorn) {
			return nil
		}
		if err != nil {
			return err
		}
		e, err := parseRecord(b)
		if err != nil {
			return err
		}
		r.parted = r.parted || e.offset == r.last.offset && e.epoch != r.last.epoch
		if r.parted || e.offset <= r.last.offset {
			continue // the snapshot has it
		}
		if e.offset != r.last.offset+1 {
			return fmt.Errorf("entry at offset %d where %d is due", e.offset, r.last.offset+1)
		}
		if e.kind == kindMetadata {
			if r.image, _, err = metadata.Apply(r.image, e.offset, e.epoch, e.value); err != nil {
				return err
			}
		}
		e.value = nil
		r.last = e
	}
	return nil
}

// recover makes the snapshot that the log begins with anew, with a configuration of this node alone.
func (r *remains) recover() (*snapshot, *Recovery, error) {
	self, known := r.image.Quorum.ByRaftID(r.state.RaftID)
	if !known {
		return nil, nil, &RefusedError{Dir: r.dir, Reason: fmt.Sprintf("raft id 0x%016x is no member of the cluster", r.state.RaftID)}
	}
	report := &Recovery{
		ClusterID: r.image.ClusterID, Self: self, LastTerm: int64(r.last.epoch), LastIndex: r.last.offset, Committed: r.state.Committed,
		Brokers: r.image.Brokers.Len(), Index: r.last.offset + recoverySkip, Term: max(int64(r.state.Term), int64(r.last.epoch)) + recoverySkip,
	}
	if report.Term > maxTerm {
		return nil, nil, &RefusedError{Dir: r.dir, Reason: fmt.Sprintf("there is no term beyond %d to go on in", report.Term-recoverySkip)}
	}
	for m := range r.image.Quorum.All() {
		if m.RaftID != self.RaftID {
			report.Others = append(report.Others, m)
		}
	}
	records := []metadata.Record{metadata.ProducerIDsRecord{Next: r.image.NextProducerID + recoverySkip*recoveredProducerIDs}}
	for b := range r.image.Brokers.All() {
		void := *b
		void.Epoch, void.Incarnation, void.Fenced, void.InControlledShutdown = kafka.BrokerEpoch(report.Index), kafka.UUID{}, true, false
		records = append(records, metadata.RegisterBrokerRecord{BrokerRegistration: void})
	}
	for topic := range r.image.Topics.All() {
		report.Topics++
		report.Partitions += len(topic.Partitions)
		for i := range topic.Partitions {
			records = append(records, metadata.PartitionRecord{TopicID: topic.ID, Partition: int32(i), PartitionRegistration: leaderless(topic.Partitions[i], self.Node)})
		}
	}
	next, _, err := r.image.With(records)
	if err != nil {
		return nil, nil, err
	}
	image := *next
	image.Index, image.Term = report.Index, int32(report.Term)
	conf := &raftpb.ConfState{Voters: []uint64{self.RaftID}}
	return &snapshot{index: uint64(report.Index), term: uint64(report.Term), conf: conf, image: &image}, report, nil
}

// leaderless is a partition of which nobody knows any more who has what. One replica is waited for.
func leaderless(p metadata.PartitionRegistration, self kafka.BrokerID) metadata.PartitionRegistration {
	switch {
	case p.InISR(self) || len(p.ISR) == 0 && slices.Contains(p.ELR, self):
		p.LastKnownELR = []kafka.BrokerID{self}
	case p.Leader != kafka.NoBroker:
		p.LastKnownELR = []kafka.BrokerID{p.Leader}
	case len(p.ISR) > 0:
		p.LastKnownELR = p.ISR[:1:1]
	case len(p.ELR) > 0:
		p.LastKnownELR = p.ELR[:1:1]
	}
	p.Leader, p.ISR, p.ELR = kafka.NoBroker, nil, nil
	p.LeaderEpoch += recoverySkip
	p.PartitionEpoch += recoverySkip
	return p
}

// prepare writes a directory with nothing but a snapshot and a raft-state that agrees with it. What an earlier try left is gone then.
func prepare(fsys vfs.FS, dir string, s *snapshot, content []byte, raftID uint64) error {
	if err := errors.Join(fsys.RemoveAll(dir), fsys.MkdirAll(dir, dirPerm)); err != nil {
		return err
	}
	if err := writeFile(fsys, filepath.Join(dir, snapshotName(s.index, s.term)), content); err != nil {
		return err
	}
	if err := writeRaftState(fsys, dir, raftState{RaftID: raftID, Term: s.term, Committed: int64(s.index) + 1}); err != nil {
		return err
	}
	return errors.Join(fsys.SyncDir(dir), fsys.SyncDir(filepath.Dir(dir)))
}

func exists(fsys vfs.FS, path string) bool {
	_, err := fsys.Stat(path)
	return err == nil
}

// backupName finds a name beside the log that nothing has.
func backupName(fsys vfs.FS, dir string) (string, error) {
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s%s-%d-stray", dir, lostSuffix, i)
		if _, err := fsys.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}
