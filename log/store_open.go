package log

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
)

// Suffixes of partition directories that are no live logs. They are Kafka's.
const (
	deleteSuffix = "-delete" // to be removed
	straySuffix  = "-stray"  // its topic is not known; only an operator removes it
	futureSuffix = "-future" // a replica on its way from one directory to another
)

// OpenStore opens the data directories and all logs in them.
//
// A directory that cannot be used (no permission, a failing disk) is offline, if it is one of several and not the metadata
// directory; else it is an error. Refused, with nothing changed, is a directory that another process uses, that belongs to
// another cluster or node, or whose metadata log is Kafka's own. A log that cannot be opened is left as it is; see Broken.
func OpenStore(o StoreOptions) (*Store, error) {
	s := newStore(o)
	if err := s.open(); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

func newStore(o StoreOptions) *Store {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.DefaultConfig == (Config{}) {
		o.DefaultConfig = DefaultConfig()
	}
	o.FsyncPolicy = cmp.Or(o.FsyncPolicy, FsyncBackground)
	o.FlushInterval = cmp.Or(o.FlushInterval, defaultFlushInterval)
	o.CheckpointInterval = cmp.Or(o.CheckpointInterval, defaultCheckpointInterval)
	o.HighWatermarkInterval = cmp.Or(o.HighWatermarkInterval, defaultHighWatermarkInterval)
	o.RetentionCheckInterval = cmp.Or(o.RetentionCheckInterval, defaultRetentionInterval)
	o.OpenFiles = cmp.Or(o.OpenFiles, defaultOpenFiles)
	o.Recoveries = cmp.Or(o.Recoveries, defaultRecoveries)
	s := &Store{
		opts: o, fs: o.FS, clock: o.Clock, logger: o.Logger, identity: Identity{ClusterID: o.ClusterID, NodeID: o.NodeID},
		files: newFileCache(o.FS, o.OpenFiles), events: make(chan Event, eventQueue),
	}
	s.brokerEpoch.Store(int64(noBrokerEpoch))
	s.producerExpirationMs.Store(cmp.Or(o.ProducerExpirationMs, defaultProducerExpirationMs))
	s.mu.logs = map[kafka.TopicPartition]*Log{}
	s.mu.broken = map[kafka.TopicPartition]brokenLog{}
	s.mu.moving = newMoving()
	for _, path := range o.Dirs {
		s.addDir(path).holdsPartitions = true
	}
	s.metadata = s.addDir(cmp.Or(o.MetadataDir, slices.Concat(o.Dirs, []string{""})[0]))
	s.tasks = newTasks(s, s.clock.Now())
	s.stalls = []*stall{new(stall)}
	for range s.dirs {
		s.stalls = append(s.stalls, new(stall))
	}
	return s
}

func (s *Store) addDir(path string) *dataDir {
	path = filepath.Clean(path)
	for _, d := range s.dirs {
		if d.path == path {
			return d
		}
	}
	d := &dataDir{store: s, path: path, previousEpoch: noBrokerEpoch, stale: map[kafka.TopicPartition]bool{}, committer: newCommitter(s.fs, path, s.opts.FsyncFileOnly)}
	s.dirs = append(s.dirs, d)
	return d
}

func (s *Store) open() error {
	if len(s.opts.Dirs) == 0 {
		return kafka.Errorf(kafka.InvalidConfig, "no data directory is given")
	}
	if err := s.claimDirs(); err != nil {
		return err
	}
	if err := s.identifyDirs(); err != nil {
		return err
	}
	var found []foundLog
	for _, d := range s.dirs {
		if d.failure() != nil {
			continue
		}
		logs, err := d.begin()
		if err != nil {
			if err := s.setAside(d, err); err != nil {
				return err
			}
			continue
		}
		found = append(found, logs...)
	}
	s.openLogs(s.sortOut(found))
	return nil
}

// setAside takes a directory that cannot be used offline, unless that leaves nothing to work with.
func (s *Store) setAside(d *dataDir, err error) error {
	err = d.pathError(err)
	usable := 0
	for _, other := range s.dirs {
		if other != d && other.holdsPartitions && other.failure() == nil {
			usable++
		}
	}
	if d == s.metadata || usable == 0 {
		return err
	}
	s.logger.Error("data directory cannot be used and is offline", "dir", d.path, "err", err)
	d.fail(err)
	return nil
}

// claimDirs makes sure that the directories may be used, and that nobody else does.
func (s *Store) claimDirs() error {
	for _, d := range s.dirs {
		if err := refuseForeignMetadata(s.fs, d.path); kafka.CodeOf(err) == kafka.KafkaStorageError {
			return err
		}
	}
	for _, d := range s.dirs {
		err := s.makeDir(d.path)
		if err == nil {
			err = d.takeLock()
		}
		if kafka.CodeOf(err) == kafka.KafkaStorageError {
			return err // locked by another process
		}
		if err != nil {
			if err := s.setAside(d, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeDir makes a directory, and its parents, so that a power cut does not take them with all that is in them.
func (s *Store) makeDir(path string) error {
	if _, err := s.fs.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := s.makeDir(parent); err != nil {
			return err
		}
	}
	if err := s.fs.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return s.fs.SyncDir(parent)
}

// identifyDirs agrees on the cluster and the node, and checks that all directories belong to them.
func (s *Store) identifyDirs() error {
	if err := s.readIdentity(); err != nil {
		return err
	}
	if err := s.found(); err != nil {
		return err
	}
	if s.identity.NodeID == kafka.NoBroker {
		return kafka.Errorf(kafka.InvalidConfig, "node.id is not set, and no data directory says which node it belongs to")
	}
	if s.identity.ClusterID == "" {
		s.identity.ClusterID = kafka.NewUUID().String()
	}
	ids := map[kafka.DirectoryID]string{}
	for _, d := range s.dirs {
		if d.failure() != nil {
			continue
		}
		err := d.identify()
		if err != nil && kafka.CodeOf(err) != kafka.UnknownServerError {
			return err
		}
		if err != nil {
			if err := s.setAside(d, err); err != nil {
				return err
			}
			continue
		}
		if other, taken := ids[d.id]; taken {
			return kafka.Errorf(kafka.InvalidConfig, "data directories %s and %s have the same id %v: one is a copy of the other", other, d.path, d.id)
		}
		ids[d.id] = d.path
	}
	return nil
}

// readIdentity has the directories say what the options leave open.
func (s *Store) readIdentity() error {
	known := &s.identity
	for _, d := range s.dirs {
		if d.failure() != nil {
			continue
		}
		m, err := ReadMetaProperties(s.fs, d.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := d.refuseNameless(); err != nil {
				return err
			}
		case err == nil && m.ClusterID != "":
			known.ClusterID = cmp.Or(known.ClusterID, m.ClusterID)
			known.Joined = known.Joined || m.Joined
			if known.NodeID == kafka.NoBroker {
				known.NodeID = m.NodeID
			}
		}
	}
	return nil
}

// found has the cluster and the node settled where this node has no metadata log yet.
func (s *Store) found() error {
	d := s.metadata
	if s.opts.Found == nil || d.failure() != nil {
		return nil
	}
	if _, err := s.fs.Stat(d.pathOf(filepath.Join(metadataLogDir, raftStateFile))); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m, err := ReadMetaProperties(s.fs, d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m = MetaProperties{NodeID: s.identity.NodeID}
	case err != nil:
		return err
	case !m.fits(s.identity.NodeID):
		return d.otherNode(m)
	}
	if m.DirectoryID.IsZero() {
		m.DirectoryID = kafka.NewUUID()
		if err := WriteMetaProperties(s.fs, d.path, m, s.clock.Now()); err != nil {
			return err
		}
	}
	s.identity, err = s.opts.Found(m.DirectoryID, s.identity)
	return err
}

// foundLog is a partition's directory.
type foundLog struct {
	dir  *dataDir
	path string
	tp   kafka.TopicPartition

	future bool // a copy on its way
	rival  bool // there are others
}

// brokenLog is one that could not be opened.
type brokenLog struct {
	foundLog
	err error
}

// begin reads the marker of a good end and the checkpoints, and lists the logs. The marker goes, durably, before anything
// else changes.
func (d *dataDir) begin() (logs []foundLog, err error) {
	if d.previousEpoch, d.clean, err = ReadCleanShutdown(d.store.fs, d.path); err != nil {
		return nil, err
	}
	if err := RemoveCleanShutdown(d.store.fs, d.path); err != nil {
		return nil, err
	}
	if !d.holdsPartitions {
		return nil, nil
	}
	d.readCheckpoints()
	entries, err := d.store.fs.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		switch tp, ok := parsePartitionDir(name); {
		case !e.IsDir() || name == metadataLogDir || strings.HasSuffix(name, straySuffix):
		case strings.HasSuffix(name, deleteSuffix):
			// The process before did not come to it; the delay was for who had the files open, and nobody has.
			if err := d.store.fs.RemoveAll(d.pathOf(name)); err != nil {
				return nil, err
			}
		case ok:
			logs = append(logs, foundLog{dir: d, path: d.pathOf(name), tp: tp})
		default:
			if tp, ok := parseFutureDir(name); ok {
				logs = append(logs, foundLog{dir: d, path: d.pathOf(name), tp: tp, future: true})
				continue
			}
			d.store.logger.Warn("directory is no partition's and is left alone", "dir", d.pathOf(name))
		}
	}
	d.forgetMissing(logs)
	return logs, nil
}

// parsePartitionDir takes a name like topic-0 apart.
func parsePartitionDir(name string) (kafka.TopicPartition, bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || strings.HasSuffix(name, futureSuffix) || strings.HasSuffix(name, deleteSuffix) {
		return kafka.TopicPartition{}, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[i+1:] || kafka.ValidateTopicName(name[:i]) != nil {
		return kafka.TopicPartition{}, false
	}
	return kafka.TopicPartition{Topic: name[:i], Partition: int32(n)}, true
}

// openLogs opens the logs, several at a time.
func (s *Store) openLogs(found []foundLog) {
	begin := s.clock.Now()
	var wg sync.WaitGroup
	queue := make(chan foundLog)
	for range min(s.opts.Recoveries, len(found)) {
		wg.Go(func() {
			for f := range queue {
				s.openLog(f)
			}
		})
	}
	for _, f := range found {
		queue <- f
	}
	close(queue)
	wg.Wait()
	if len(found) > 0 {
		s.logger.Info("logs are open", "logs", len(found), "took", s.clock.Now().Sub(begin).Round(time.Millisecond).String())
	}
}

func (s *Store) openLog(f foundLog) {
	o := s.logOptions(f.dir, f.path, f.tp, kafka.TopicID{}, s.opts.DefaultConfig)
	f.dir.writing.Lock()
	o.RecoveryPoint, o.StartOffset = f.dir.kept.points[f.tp], f.dir.kept.starts[f.tp]
	o.HighWatermark = f.dir.kept.highWatermarks[f.tp]
	f.dir.writing.Unlock()
	o.CleanShutdown = f.dir.clean
	if f.future {
		o.Failed = s.copyFailed
	}
	l, err := Open(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepLocked(f, l, err)
}

// release gives the directories back.
func (s *Store) release() {
	for _, d := range s.dirs {
		if d.lock != nil {
			_ = d.lock.Close() // it goes with the process at the latest
			d.lock = nil
		}
	}
}

// CleanShutdown reports whether the process that had the store before stopped in good order, in all directories that are
// usable now, and in which broker epoch: -1 where the markers do not tell, or disagree.
func (s *Store) CleanShutdown() (epoch kafka.BrokerEpoch, clean bool) {
	epoch, clean = noBrokerEpoch, true
	for i, d := range s.dirs {
		if d.failure() != nil || !d.clean {
			clean = false
		}
		if i == 0 {
			epoch = d.previousEpoch
		} else if epoch != d.previousEpoch {
			epoch = noBrokerEpoch
		}
	}
	return epoch, clean
}

// Lossy reports whether, when the store was opened, any log had lost something that had been made durable.
func (s *Store) Lossy() bool {
	return slices.ContainsFunc(s.all(), (*Log).Lossy) || len(s.Broken()) > 0 || s.orphans() || s.brokenRival(nil)
}

// deletedName is the name that a partition's directory has until it is removed. Kafka shortens the topic so that the name
// fits into 255 bytes.
func deletedName(tp kafka.TopicPartition, suffix string) string {
	id := kafka.NewUUID()
	tail := fmt.Sprintf("-%d.%x%s", tp.Partition, id[:], suffix)
	return tp.Topic[:min(len(tp.Topic), longestName-len(tail))] + tail
}
