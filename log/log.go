package log

import (
	"log/slog"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/clock"
	"weir/internal/invariant"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// noUnstableOffset is the first unstable offset of a log without open transactions.
const noUnstableOffset = math.MaxInt64

// Options say which log to open and what is known about it from outside. FS, Dir and TP are needed.
type Options struct {
	FS      vfs.FS
	Clock   clock.Clock // nil for the system's
	Dir     string      // the log's own directory, by convention <data directory>/<topic>-<partition>
	TP      kafka.TopicPartition
	TopicID kafka.TopicID // zero to take what partition.metadata says
	Config  Config        // zero for DefaultConfig
	Logger  *slog.Logger  // nil for the default

	// ProducerExpirationMs is producer.id.expiration.ms; 0 for Kafka's default of a day.
	ProducerExpirationMs int64

	// What the data directory's checkpoints say. RecoveryPoint is the offset up to which everything was durable;
	// CleanShutdown that nothing was written behind it.
	RecoveryPoint int64
	StartOffset   int64
	HighWatermark int64
	CleanShutdown bool

	// OwnCheckpoints makes the log keep its recovery point and start offset in checkpoint files of its own directory,
	// instead of being told them: for a log that no Store looks after.
	OwnCheckpoints bool

	// FlushNeeded is called, without any lock, when so much is unsynced that the next regular flush should not be
	// waited for. It must not block. Failed is called likewise, once, when a failing disk took the log offline.
	FlushNeeded func(*Log)
	Failed      func(*Log, error)

	files        *fileCache    // of the Store; nil for one of its own
	data         *dataDir      // of the Store, nil without
	expirationMs *atomic.Int64 // of producers, as the Store has it now; nil for ProducerExpirationMs
	noSync       bool          // the policy FsyncNever: a sync does nothing
}

// place is where a log is.
type place struct {
	dir  string   // the log's own
	data *dataDir // nil without a Store
}

// Log is one replica's log. See the package's documentation for locks and invariants.
type Log struct {
	fs     vfs.FS
	clock  clock.Clock
	tp     kafka.TopicPartition
	logger *slog.Logger
	files  *fileCache
	opts   Options

	at atomic.Pointer[place] // another one when the replica moved; written under the log lock

	config   atomic.Pointer[Config]
	segments atomic.Pointer[segmentSet]
	topicID  atomic.Pointer[kafka.TopicID]

	// Written under the log lock, read without. startOffset <= highWatermark <= endOffset.
	startOffset    atomic.Int64
	endOffset      atomic.Int64
	highWatermark  atomic.Int64
	firstUnstable  atomic.Int64 // noUnstableOffset without open transactions
	recoveryPoint  atomic.Int64 // everything below is durable
	unsyncedBytes  atomic.Int64 // written since the last sync began
	lastSyncMs     atomic.Int64 // when the last sync ended, or the log was opened
	offline        atomic.Pointer[ErrStorage]
	reported       atomic.Bool // Failed was called
	closed         atomic.Bool
	savedPoint     atomic.Int64 // the recovery point that a checkpoint file has
	savedStart     atomic.Int64 // likewise the start offset
	savedMark      atomic.Int64 // likewise the high watermark
	unsavedBytes   atomic.Int64 // synced since, with OwnCheckpoints
	lossy          atomic.Bool  // see Lossy
	truncations    atomic.Int64 // counts them: who was at work meanwhile does not claim, or look for, what was cut off
	flushRequested atomic.Bool  // FlushNeeded was called and no sync has begun since

	mu struct {
		sync.Mutex
		epochs       *LeaderEpochs
		producers    *ProducerStates
		snapshots    []int64        // offsets of the producer snapshots, ascending
		unsynced     []*segment     // sealed since the last sync, to be synced with the active one
		names        map[string]int // files made or replaced without a sync, by when: the namesCount of then
		namesCount   int
		truncatingTo int64 // where a truncation that is about to begin will cut; math.MaxInt64 if none is
		holdingAt    int64 // above this nothing counts as durable while the log moves; else math.MaxInt64
		cutTo        int64 // the lowest end that a truncation left since a copy was last aligned; see noCut
	}
}

// TP returns the partition.
func (l *Log) TP() kafka.TopicPartition { return l.tp }

// Dir returns the log's directory.
func (l *Log) Dir() string { return l.at.Load().dir }

// home is the data directory that the log is in, nil without a Store.
func (l *Log) home() *dataDir { return l.at.Load().data }

// TopicID returns the topic's id, zero if none is known.
func (l *Log) TopicID() kafka.TopicID { return *l.topicID.Load() }

// StartOffset is the lowest offset that can be read.
func (l *Log) StartOffset() int64 { return l.startOffset.Load() }

// EndOffset is the offset that the next record gets.
func (l *Log) EndOffset() int64 { return l.endOffset.Load() }

// HighWatermark is the offset below which consumers may read.
func (l *Log) HighWatermark() int64 { return l.highWatermark.Load() }

// LastStableOffset is the offset below which every transaction has ended, and consumers may read what is committed:
// never above the high watermark.
func (l *Log) LastStableOffset() int64 {
	// The high watermark is read first: a transaction that begins meanwhile begins above it.
	hw := l.highWatermark.Load()
	return min(hw, l.firstUnstable.Load())
}

// DurableEndOffset is the offset below which everything survives a power cut.
func (l *Log) DurableEndOffset() int64 { return l.recoveryPoint.Load() }

// Size is the number of bytes in the log's segments.
func (l *Log) Size() int64 { return l.segments.Load().size() }

// SegmentCount is the number of the log's segments.
func (l *Log) SegmentCount() int { return len(l.segments.Load().all) }

// Config returns what is in force.
func (l *Log) Config() Config { return *l.config.Load() }

// SetConfig changes the configuration; rolling, flushing and retention follow it from now on.
func (l *Log) SetConfig(c Config) { l.config.Store(&c) }

// SetHighWatermark moves the high watermark forward to hw, at most to the log's end, and returns what is in force. A
// lower one is ignored: only truncation moves it back.
func (l *Log) SetHighWatermark(hw int64) int64 {
	if now := l.highWatermark.Load(); hw <= now {
		return now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	hw = min(hw, l.endOffset.Load())
	if now := l.highWatermark.Load(); hw <= now {
		return now
	}
	l.setHighWatermarkLocked(hw)
	return hw
}

func (l *Log) setHighWatermarkLocked(hw int64) {
	if end := l.endOffset.Load(); hw > end { // asked first: the arguments would be allocated for every append
		invariant.Assert(false, "%v: high watermark %d beyond the log's end %d", l.tp, hw, end)
	}
	l.highWatermark.Store(hw)
	l.publishUnstableLocked()
	if d := l.home(); d != nil && !d.marksChanged.Load() { // all logs of a directory share the flag: mostly it is only read
		d.marksChanged.Store(true)
	}
}

// LatestEpoch is the newest leader epoch that the log knows, NoLeaderEpoch if none.
func (l *Log) LatestEpoch() kafka.LeaderEpoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.epochs.Latest()
}

// EpochForOffset is the leader epoch in which the record at offset was appended, NoLeaderEpoch if that is not known.
func (l *Log) EpochForOffset(offset int64) kafka.LeaderEpoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.epochs.ForOffset(offset)
}

// EndOffsetForEpoch finds the largest known epoch that is not above the one asked for, and the offset where it ends:
// where the next known one begins, or the log's end. (NoLeaderEpoch, -1) is the answer to an epoch above all known
// ones (KIP-101, OffsetForLeaderEpoch).
func (l *Log) EndOffsetForEpoch(epoch kafka.LeaderEpoch) (kafka.LeaderEpoch, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.epochs.EndOffset(epoch, l.endOffset.Load())
}

// AssignEpoch notes that a leader epoch begins at an offset: when this replica becomes the leader, at the log's end, even
// if nothing is ever written in it. Without that, a follower that asks where the epoch ends gets no answer and is stuck
// for ever. Entries of the same or later epochs, or at or above the offset, are dropped.
func (l *Log) AssignEpoch(epoch kafka.LeaderEpoch, startOffset int64) error {
	l.mu.Lock()
	err := l.usable()
	if err == nil {
		l.mu.epochs.Assign(epoch, startOffset)
		err = l.failing(l.flushEpochsLocked())
	}
	l.mu.Unlock()
	if err != nil {
		l.reportFailure()
	}
	return err
}

// flushEpochsLocked writes the epochs down if they changed. The next sync makes them durable, before anything that was
// appended in a new epoch counts as durable itself.
func (l *Log) flushEpochsLocked() error {
	written, err := l.mu.epochs.Flush(false)
	if written {
		l.noteNameLocked(leaderEpochCheckpoint)
	}
	return err
}

// ActiveProducers lists the producers whose state the log keeps, by producer id.
func (l *Log) ActiveProducers() []ProducerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.producers.Active()
}

// expireProducers forgets producers that have been silent for long.
func (l *Log) expireProducers(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.producers.expirationMs = l.opts.expirationMs.Load()
	l.mu.producers.Expire(now.UnixMilli())
}

// usable returns why the log must not be used, if so.
func (l *Log) usable() error {
	if err := l.offline.Load(); err != nil {
		return *err
	}
	if l.closed.Load() {
		return ErrClosed{TP: l.tp}
	}
	return nil
}

// fail takes the log offline after a disk error and returns the error to answer with. Nothing is tried again: after a
// failed fsync the kernel may have dropped the pages, and a later one that succeeds proves nothing. The caller sees to
// reportFailure after it has unlocked. A log that was closed or deleted meanwhile does not fail: its files may have gone.
func (l *Log) fail(err error) error {
	if l.closed.Load() {
		return ErrClosed{TP: l.tp}
	}
	failure := &ErrStorage{TP: l.tp, Err: err}
	if l.offline.CompareAndSwap(nil, failure) {
		return *failure
	}
	return *l.offline.Load()
}

// reportFailure tells, once, that the log went offline. No lock is held.
func (l *Log) reportFailure() {
	if failure := l.offline.Load(); failure != nil && l.opts.Failed != nil && l.reported.CompareAndSwap(false, true) {
		l.opts.Failed(l, failure.Err)
	}
}

// Lossy reports whether something that had been made durable was lost when the log was opened. Such a replica must not be
// trusted to have what it acknowledged: it must not lead before it was compared with another.
func (l *Log) Lossy() bool { return l.lossy.Load() }

// Offline returns the disk error that took the log offline, else nil.
func (l *Log) Offline() error {
	if err := l.offline.Load(); err != nil {
		return *err
	}
	return nil
}

func (l *Log) path(name string) string { return filepath.Join(l.Dir(), name) }
