package log

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// FsyncPolicy is weir.fsync.policy: what an acknowledgement waits for.
type FsyncPolicy string

const (
	FsyncBackground FsyncPolicy = "background" // nothing: the page cache, flushed at most every FlushInterval
	FsyncAck        FsyncPolicy = "ack"        // a group commit
	FsyncNever      FsyncPolicy = "never"      // nothing, and nothing is flushed: for tests in memory
)

// Identity is whose data directories are.
type Identity struct {
	ClusterID string         // empty where that is not known yet
	NodeID    kafka.BrokerID // NoBroker likewise
	Joined    bool           // the node was taken into a cluster that there was already, so it never founds one
}

// StoreOptions say which data directories to open. FS and Dirs are needed, and NodeID without Found.
type StoreOptions struct {
	FS          vfs.FS
	Clock       clock.Clock    // nil for the system's
	Dirs        []string       // log.dirs
	MetadataDir string         // metadata.log.dir; "" for the first of Dirs
	NodeID      kafka.BrokerID // NoBroker for what the directories say, or Found
	ClusterID   string         // "" for what the directories say, or a new one
	// Found is asked, where there is no metadata log yet, as which node of which cluster the store is to be: one that the
	// node founds or joins. It is given the metadata directory's id, which is durable by then, and what is known. It may take
	// as long as the other nodes need; nil stands for a node that is alone.
	Found func(metadata kafka.DirectoryID, known Identity) (Identity, error)

	FsyncPolicy   FsyncPolicy // "" for FsyncBackground
	FsyncFileOnly bool        // never syncfs, where others write much to the same file system

	FlushInterval          time.Duration // 0 for 1 s
	CheckpointInterval     time.Duration // log.flush.offset.checkpoint.interval.ms; 0 for 1 min
	HighWatermarkInterval  time.Duration // replica.high.watermark.checkpoint.interval.ms; 0 for 5 s
	RetentionCheckInterval time.Duration // log.retention.check.interval.ms; 0 for 5 min
	ProducerExpirationMs   int64         // producer.id.expiration.ms until SetProducerExpiration; 0 for a day

	DefaultConfig Config       // of logs found at start, until SetConfig; zero for DefaultConfig()
	OpenFiles     int          // how many segment files are kept open; 0 for 500
	Recoveries    int          // how many logs are opened at a time; 0 for 4
	Logger        *slog.Logger // nil for the default

	// DirFailed is called once for each directory that fails while the Store is open, without any lock. It must not
	// block. A failed metadata directory should end the process.
	DirFailed func(dir string, err error)
}

// DirInfo describes one data directory.
type DirInfo struct {
	Path    string
	ID      kafka.DirectoryID
	Offline error // why it cannot be used, nil if it can
}

// Store is all logs of a broker, in its data directories.
type Store struct {
	opts     StoreOptions
	fs       vfs.FS
	clock    clock.Clock
	logger   *slog.Logger
	identity Identity
	files    *fileCache
	dirs     []*dataDir // in the order of Dirs; the metadata directory last where it is not one of them
	metadata *dataDir
	tasks    *Tasks
	events   chan Event
	overflow struct { // of events: what must not be forgotten
		sync.Mutex
		deleted []Event
	}
	stalls []*stall // of the tasks, and of each directory's commits in the order of dirs

	brokerEpoch          atomic.Int64
	producerExpirationMs atomic.Int64

	creating sync.Mutex // held while a log is made or deleted; before mu

	mu struct {
		sync.RWMutex
		logs   map[kafka.TopicPartition]*Log
		sorted []*Log                             // what Logs returned, nil since logs changed
		broken map[kafka.TopicPartition]brokenLog // found at start but could not be opened
		moving                                    // see move.go
		closed bool
	}
}

// ClusterID returns the cluster's id.
func (s *Store) ClusterID() string { return s.identity.ClusterID }

// NodeID returns the id of the node that the directories belong to.
func (s *Store) NodeID() kafka.BrokerID { return s.identity.NodeID }

// Dirs describes the data directories in the order of their configuration; the metadata directory comes last where it is
// one of its own.
func (s *Store) Dirs() []DirInfo {
	infos := make([]DirInfo, len(s.dirs))
	for i, d := range s.dirs {
		infos[i] = DirInfo{Path: d.path, ID: d.id, Offline: d.failure()}
	}
	return infos
}

// DirectoryIDs maps the paths of the usable data directories to their ids.
func (s *Store) DirectoryIDs() map[string]kafka.DirectoryID {
	ids := map[string]kafka.DirectoryID{}
	for _, d := range s.dirs {
		if d.failure() == nil {
			ids[d.path] = d.id
		}
	}
	return ids
}

// MetadataDir is the data directory that the metadata log lives in.
func (s *Store) MetadataDir() string { return s.metadata.path }

// DirectoryOf returns the id of the data directory that a log of this Store lives in.
func (s *Store) DirectoryOf(l *Log) kafka.DirectoryID { return l.home().id }

// Log returns the log of a partition, nil if there is none here.
func (s *Store) Log(tp kafka.TopicPartition) *Log {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.logs[tp]
}

// Logs returns all logs, by topic and partition. The slice must not be changed.
func (s *Store) Logs() []*Log {
	s.mu.RLock()
	sorted := s.mu.sorted
	s.mu.RUnlock()
	if sorted != nil {
		return sorted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := make([]*Log, 0, len(s.mu.logs))
	for _, l := range s.mu.logs {
		logs = append(logs, l)
	}
	slices.SortFunc(logs, func(a, b *Log) int {
		return cmp.Or(strings.Compare(a.tp.Topic, b.tp.Topic), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
	s.mu.sorted = logs
	return logs
}

// putLocked adds a log, or with nil removes it.
func (s *Store) putLocked(tp kafka.TopicPartition, l *Log) {
	if l == nil {
		delete(s.mu.logs, tp)
	} else {
		s.mu.logs[tp] = l
	}
	s.mu.sorted = nil
}

// Broken returns the partitions whose logs were found at start but could not be opened, and why (ErrCorrupt, ErrStorage).
// They are left as they are, and Create refuses them, until Delete or MarkStray puts them aside.
func (s *Store) Broken() map[kafka.TopicPartition]error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	broken := make(map[kafka.TopicPartition]error, len(s.mu.broken))
	for tp, b := range s.mu.broken {
		broken[tp] = b.err
	}
	return broken
}

// Create makes the log of a partition in the usable directory that has the fewest, or returns the one there is. While a
// directory is offline nothing is created: what it holds might be the very log (KIP-858 does the same).
//
// Errors: INCONSISTENT_TOPIC_ID where the log belongs to another topic of that name; KAFKA_STORAGE_ERROR.
func (s *Store) Create(tp kafka.TopicPartition, id kafka.TopicID, c Config) (*Log, error) {
	if err := kafka.ValidateTopicName(tp.Topic); err != nil {
		return nil, err
	}
	s.creating.Lock() // apart from mu, so that nobody who looks a log up waits for the disk
	defer s.creating.Unlock()
	dir, l, err := s.findOrPlace(tp)
	if err != nil {
		return nil, err
	}
	if l != nil {
		if have := l.TopicID(); have != id && !have.IsZero() && !id.IsZero() {
			return nil, kafka.Errorf(kafka.InconsistentTopicID, "log of %v belongs to topic id %v, not %v", tp, have, id)
		}
		l.SetConfig(c)
		return l, nil
	}
	if err := dir.prepare(tp); err != nil {
		s.failDir(dir, err)
		return nil, ErrStorage{TP: tp, Err: err}
	}
	if l, err = Open(s.logOptions(dir, dir.pathOf(tp.String()), tp, id, c)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(tp, l)
	delete(s.mu.wanted, tp)
	return l, nil
}

// findOrPlace returns the log of a partition or, if there is none, the directory that it should be made in.
func (s *Store) findOrPlace(tp kafka.TopicPartition) (*dataDir, *Log, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if l := s.mu.logs[tp]; l != nil {
		return nil, l, nil
	}
	if b, ok := s.mu.broken[tp]; ok {
		return nil, nil, b.err
	}
	if rivals := s.mu.rivals[tp]; len(rivals) > 0 {
		return nil, nil, kafka.Errorf(kafka.KafkaStorageError, "Duplicate log directories found: %s, %s", rivals[0].path, rivals[1].path)
	}
	if s.mu.closed {
		return nil, nil, ErrClosed{TP: tp}
	}
	dir, err := s.chooseDirLocked(tp)
	return dir, nil, err
}

// chooseDirLocked picks the directory that was asked for, else the one with the fewest logs, the first of several.
func (s *Store) chooseDirLocked(tp kafka.TopicPartition) (*dataDir, error) {
	counts := map[*dataDir]int{}
	for _, l := range s.mu.logs {
		counts[l.home()]++
	}
	var best *dataDir
	for _, d := range s.dirs {
		if err := d.failure(); err != nil {
			return nil, kafka.Errorf(kafka.KafkaStorageError, "data directory %s is offline, which may hold the log: %v", d.path, err)
		}
		if d.holdsPartitions && (best == nil || counts[d] < counts[best]) {
			best = d
		}
	}
	if wanted := s.mu.wanted[tp]; wanted != nil {
		return wanted, nil
	}
	return best, nil
}

// logOptions are those of a log in one of the directories.
func (s *Store) logOptions(d *dataDir, path string, tp kafka.TopicPartition, id kafka.TopicID, c Config) Options {
	return Options{
		FS: s.fs, Clock: s.clock, Dir: path, TP: tp, TopicID: id, Config: c, Logger: s.logger,
		FlushNeeded: s.flushNeeded, Failed: s.logFailed,
		files: s.files, data: d, expirationMs: &s.producerExpirationMs, noSync: s.opts.FsyncPolicy == FsyncNever,
	}
}

// SetProducerExpiration changes producer.id.expiration.ms; logs follow it when they next look for producers to forget.
func (s *Store) SetProducerExpiration(ms int64) { s.producerExpirationMs.Store(ms) }

// flushNeeded has a log flushed out of turn. If the tasks have so much to do already, the next tick does it.
func (s *Store) flushNeeded(l *Log) {
	select {
	case s.events <- Event{Flush: l}:
	default:
	}
}

// logFailed takes the directory of a log whose disk failed offline, with all its logs.
func (s *Store) logFailed(l *Log, err error) { s.failDir(l.home(), err) }

func (s *Store) failDir(d *dataDir, err error) {
	if !d.fail(err) {
		return
	}
	s.logger.Error("data directory goes offline, and its partitions with it", "dir", d.path, "err", err)
	for _, l := range s.all() {
		if l.home() == d {
			l.reported.Store(true)
			_ = l.fail(fmt.Errorf("data directory %s failed: %w", d.path, err)) // nobody waits for an answer here
		}
	}
	if s.opts.DirFailed != nil {
		s.opts.DirFailed(d.path, err)
	}
}
