package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

// Names in a data directory. All but the second are Kafka's.
const (
	lockFile          = ".lock"
	raftStateFile     = "raft-state"   // in the metadata log's directory: Weir's
	quorumStateFile   = "quorum-state" // in the metadata log's directory: Kafka's
	metadataLogDir    = kafka.ClusterMetadataTopic + "-0"
	metadataSnapshots = ".checkpoint" // suffix of Kafka's snapshots in the metadata log's directory
)

// dataDir is one of a Store's directories.
type dataDir struct {
	store           *Store
	path            string
	id              kafka.DirectoryID
	holdsPartitions bool // it is one of log.dirs, and not only the metadata log's
	lock            io.Closer
	committer       *committer
	clean           bool              // the process before stopped in good order
	previousEpoch   kafka.BrokerEpoch // of the process before, as far as its marker told
	failed          atomic.Pointer[error]

	flushedBytes  atomic.Int64 // since the recovery points were last written
	startsChanged atomic.Bool  // since the start offsets were last written
	marksChanged  atomic.Bool  // since the high watermarks were last written
	namesChanged  atomic.Bool  // partitions' directories were renamed or removed since the directory was last synced

	// writing orders the writers of the checkpoint files: the tasks, truncations, Close. It is held while a file is synced,
	// and taken by nobody who holds another lock.
	writing sync.Mutex
	kept    struct { // what the checkpoints said of logs that could not be opened: it must outlive them
		points, starts, highWatermarks map[kafka.TopicPartition]int64
	}
	// stale are partitions without a log of which the checkpoint files may still tell what was true of an earlier one.
	// Guarded by writing.
	stale map[kafka.TopicPartition]bool
}

func (d *dataDir) pathOf(name string) string { return filepath.Join(d.path, name) }

func (d *dataDir) failure() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail takes the directory offline; it reports whether it was not so before.
func (d *dataDir) fail(err error) bool { return d.failed.CompareAndSwap(nil, &err) }

// refuseForeignMetadata refuses a directory whose metadata log Kafka wrote: Weir keeps its own in the same place, and would
// destroy the description of a Kafka cluster.
func refuseForeignMetadata(fsys vfs.FS, dir string) error {
	metadata := filepath.Join(dir, metadataLogDir)
	entries, err := fsys.ReadDir(metadata)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ours, theirs := false, ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == raftStateFile:
			ours = true
		case name == quorumStateFile, strings.HasSuffix(name, metadataSnapshots):
			theirs = name
		}
	}
	if ours || theirs == "" {
		return nil
	}
	return kafka.Errorf(kafka.KafkaStorageError,
		"%s holds the metadata log of an Apache Kafka cluster (there is %s); it is left untouched. Give Weir another data directory",
		metadata, theirs)
}

// takeLock keeps other processes out of the directory.
func (d *dataDir) takeLock() error {
	lock, err := d.store.fs.Lock(d.pathOf(lockFile))
	if errors.As(err, new(vfs.ErrLocked)) {
		return kafka.Errorf(kafka.KafkaStorageError,
			"data directory %s is in use by another process, which holds the lock on its %s file", d.path, lockFile)
	}
	if err != nil {
		return err
	}
	d.lock = lock
	return nil
}

// identify compares what a directory says of itself with what the store is, or writes it down in a new one.
func (d *dataDir) identify() error {
	s := d.store
	m, err := ReadMetaProperties(s.fs, d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known := err == nil
	pending := known && m.ClusterID == ""
	switch {
	case !known:
		m = MetaProperties{ClusterID: s.identity.ClusterID, NodeID: s.identity.NodeID, Joined: s.identity.Joined}
	case pending && m.fits(s.opts.NodeID):
		m.ClusterID, m.NodeID, m.Joined = s.identity.ClusterID, s.identity.NodeID, s.identity.Joined
	case m.ClusterID != s.identity.ClusterID && !pending:
		return kafka.Errorf(kafka.InconsistentClusterID,
			"data directory %s belongs to cluster %s, not %s (cluster.id in its %s)", d.path, m.ClusterID, s.identity.ClusterID, metaPropertiesFile)
	}
	if m.NodeID != s.identity.NodeID {
		return d.otherNode(m)
	}
	if known && !m.DirectoryID.IsZero() && !pending {
		d.id = m.DirectoryID
		return nil
	}
	if m.DirectoryID.IsZero() {
		m.DirectoryID = kafka.NewUUID()
	}
	d.id = m.DirectoryID
	return WriteMetaProperties(s.fs, d.path, m, s.clock.Now())
}

func (d *dataDir) otherNode(m MetaProperties) error {
	return kafka.Errorf(kafka.InvalidConfig,
		"data directory %s belongs to node %d, not %d (node.id in its %s)", d.path, m.NodeID, d.store.identity.NodeID, metaPropertiesFile)
}

// refuseNameless refuses a directory that has logs and has lost the file that says whose they are: another one would be
// made up, and the logs be taken for another cluster's.
func (d *dataDir) refuseNameless() error {
	entries, err := d.store.fs.ReadDir(d.path)
	if err != nil {
		return d.store.setAside(d, err)
	}
	for _, e := range entries {
		if _, partition := parsePartitionDir(e.Name()); e.IsDir() && (partition || e.Name() == metadataLogDir) {
			return kafka.Errorf(kafka.InvalidConfig, "data directory %s holds logs but no %s, which says whose they are; put the file back, or give Weir another directory",
				d.path, metaPropertiesFile)
		}
	}
	return nil
}

// readCheckpoints reads what the checkpoints say. A broken one says nothing: then more is read at start, records that
// were deleted are back, and consumers wait until the high watermark is known again.
func (d *dataDir) readCheckpoints() {
	read := func(name string) map[kafka.TopicPartition]int64 {
		offsets, err := ReadOffsetCheckpoint(d.store.fs, d.pathOf(name))
		if err != nil {
			d.store.logger.Warn("checkpoint is broken and is written anew", "path", d.pathOf(name), "err", err)
			offsets = map[kafka.TopicPartition]int64{}
		}
		return offsets
	}
	d.kept.points = read(RecoveryPointCheckpoint)
	d.kept.starts = read(LogStartOffsetCheckpoint)
	d.kept.highWatermarks = read(ReplicationOffsetCheckpoint)
}

// forget drops what the checkpoints said of a log that is gone.
func (d *dataDir) forget(tp kafka.TopicPartition) {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.forgetLocked(tp)
}

func (d *dataDir) forgetLocked(tp kafka.TopicPartition) {
	delete(d.kept.points, tp)
	delete(d.kept.starts, tp)
	delete(d.kept.highWatermarks, tp)
	d.stale[tp] = true
}

// forgetMissing drops what the checkpoints said of logs that are not there.
func (d *dataDir) forgetMissing(found []foundLog) {
	there := make(map[kafka.TopicPartition]bool, len(found))
	for _, f := range found {
		there[f.tp] = true
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	for _, offsets := range []map[kafka.TopicPartition]int64{d.kept.points, d.kept.starts, d.kept.highWatermarks} {
		for tp := range offsets {
			if !there[tp] {
				d.forgetLocked(tp)
			}
		}
	}
}

// prepare makes sure, durably, that no checkpoint tells of an earlier log of a partition that gets another one. Else a crash
// would have the new log end below its recovery point, where damage is no torn end, and show what is not committed.
func (d *dataDir) prepare(tp kafka.TopicPartition) error {
	d.writing.Lock()
	stale := d.stale[tp]
	d.writing.Unlock()
	if !stale {
		return nil
	}
	if err := errors.Join(d.checkpointRecovery(), d.checkpointStarts(), d.checkpointHighWatermarks(true)); err != nil {
		return err
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	clear(d.stale)
	return nil
}

// checkpointRecovery writes the recovery points of all logs in the directory, durably.
func (d *dataDir) checkpointRecovery() error {
	d.writing.Lock()
	defer d.writing.Unlock()
	points := copyOf(d.kept.points)
	logs := d.logs()
	d.flushedBytes.Store(0)
	for _, l := range logs {
		points[l.tp] = l.recoveryPoint.Load()
	}
	if err := WriteOffsetCheckpoint(d.store.fs, d.pathOf(RecoveryPointCheckpoint), points, true); err != nil {
		return err
	}
	for _, l := range logs {
		l.savedPoint.Store(points[l.tp])
	}
	return nil
}

// checkpointStarts writes the start offsets that the segments' names do not tell, durably.
func (d *dataDir) checkpointStarts() error {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.startsChanged.Store(false)
	starts := copyOf(d.kept.starts)
	logs := d.logs()
	for _, l := range logs {
		if start := l.startOffset.Load(); start > l.segments.Load().all[0].baseOffset {
			starts[l.tp] = start
		} else {
			delete(starts, l.tp)
		}
	}
	if err := WriteOffsetCheckpoint(d.store.fs, d.pathOf(LogStartOffsetCheckpoint), starts, true); err != nil {
		return err
	}
	for _, l := range logs {
		l.savedStart.Store(starts[l.tp])
	}
	return nil
}

// checkpointHighWatermarks writes the high watermarks. They are not worth a sync, but where a truncation lowers one: what a
// power cut leaves is a lower one, or none, and the leader's or the followers' fetches raise it again.
func (d *dataDir) checkpointHighWatermarks(durable bool) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.marksChanged.Store(false)
	marks := copyOf(d.kept.highWatermarks)
	logs := d.logs()
	for _, l := range logs {
		marks[l.tp] = l.highWatermark.Load()
	}
	if err := WriteOffsetCheckpoint(d.store.fs, d.pathOf(ReplicationOffsetCheckpoint), marks, durable); err != nil {
		return err
	}
	for _, l := range logs {
		l.savedMark.Store(marks[l.tp])
	}
	return nil
}

// logs are the open logs in the directory that did not fail.
func (d *dataDir) logs() []*Log {
	var logs []*Log
	for _, l := range d.store.all() {
		if l.home() == d {
			logs = append(logs, l)
		}
	}
	return logs
}

func copyOf(m map[kafka.TopicPartition]int64) map[kafka.TopicPartition]int64 {
	c := make(map[kafka.TopicPartition]int64, len(m))
	for tp, offset := range m {
		c[tp] = offset
	}
	return c
}

// pathError names the directory in an error that may not.
func (d *dataDir) pathError(err error) error { return fmt.Errorf("data directory %s: %w", d.path, err) }
