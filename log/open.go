package log

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"weir/internal/clock"
	"weir/internal/kafka"
)

// ownFileCacheSize is how many segment files a log without a Store keeps open.
const ownFileCacheSize = 16

// Open opens the log in o.Dir, or makes it. What a crash may have left behind is repaired; see recovery.go.
//
// Errors: ErrCorrupt where batches below the recovery point are damaged, ErrStorage, INCONSISTENT_TOPIC_ID where the
// directory belongs to another topic of the same name.
func Open(o Options) (*Log, error) {
	l := newLog(o)
	if err := l.open(); err != nil {
		l.retireFiles()
		if kafka.CodeOf(err) == kafka.UnknownServerError {
			err = ErrStorage{TP: l.tp, Err: err}
		}
		return nil, fmt.Errorf("open log of %v: %w", l.tp, err)
	}
	return l, nil
}

func newLog(o Options) *Log {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Config == (Config{}) {
		o.Config = DefaultConfig()
	}
	if o.expirationMs == nil {
		o.expirationMs = new(atomic.Int64)
		o.expirationMs.Store(cmp.Or(o.ProducerExpirationMs, defaultProducerExpirationMs))
	}
	if o.files == nil {
		o.files = newFileCache(o.FS, ownFileCacheSize)
	}
	l := &Log{fs: o.FS, clock: o.Clock, tp: o.TP, logger: o.Logger, files: o.files, opts: o}
	l.at.Store(&place{dir: o.Dir, data: o.data})
	l.mu.names = map[string]int{}
	l.mu.truncatingTo, l.mu.holdingAt, l.mu.cutTo = math.MaxInt64, math.MaxInt64, noCut
	l.savedPoint.Store(o.RecoveryPoint)
	l.savedStart.Store(o.StartOffset)
	l.savedMark.Store(o.HighWatermark)
	l.config.Store(&o.Config)
	l.topicID.Store(&o.TopicID)
	l.segments.Store(&segmentSet{})
	l.lastSyncMs.Store(l.clock.Now().UnixMilli())
	return l
}

func (l *Log) open() error {
	entries, err := l.fs.ReadDir(l.Dir())
	if errors.Is(err, fs.ErrNotExist) {
		if err := l.fs.MkdirAll(l.Dir(), 0o755); err != nil {
			return err
		}
		l.noteNameLocked(ownName)
	} else if err != nil {
		return err
	}
	if err := l.openTopicID(); err != nil {
		return err
	}
	if l.opts.OwnCheckpoints {
		l.readOwnCheckpoints()
	}
	swapped, err := l.completeSwaps(entries)
	if err != nil {
		return err
	}
	if swapped {
		if entries, err = l.fs.ReadDir(l.Dir()); err != nil {
			return err
		}
	}
	bases, err := l.tidy(entries)
	if err != nil {
		return err
	}
	return l.recover(bases)
}

// tidy removes what is no part of the log, and returns the base offsets of its segments.
func (l *Log) tidy(entries []os.DirEntry) (bases []int64, err error) {
	segments := map[int64]bool{}
	for _, e := range entries {
		if base, suffix, ok := parseSegmentName(e.Name()); ok && suffix == logSuffix {
			segments[base] = true
			bases = append(bases, base) // in order: entries are sorted, and names have twenty digits
		} else if ok && suffix == snapshotSuffix {
			l.mu.snapshots = append(l.mu.snapshots, base)
		}
	}
	for _, e := range entries {
		base, suffix, ok := parseSegmentName(e.Name())
		var why string
		switch {
		case ok && !segments[base] && isIndexSuffix(suffix):
			why = "index without a segment" // a crash between the removal of a segment and of its indexes
		case strings.HasSuffix(e.Name(), deletedSuffix), strings.HasSuffix(e.Name(), cleanedSuffix):
			why = "left by Kafka: deleted, or cleaning that did not end"
		case strings.HasSuffix(e.Name(), ".tmp"):
			why = "left by a crash while a small file was written"
		default:
			continue
		}
		l.logger.Info("removing a file that is no part of the log", "path", l.path(e.Name()), "why", why)
		if err := l.fs.Remove(l.path(e.Name())); err != nil {
			return nil, err
		}
	}
	return bases, nil
}

func isIndexSuffix(suffix string) bool {
	return suffix == indexSuffix || suffix == timeIndexSuffix || suffix == txnIndexSuffix
}

// parseSegmentName takes a name like 00000000000000000000.log apart.
func parseSegmentName(name string) (baseOffset int64, suffix string, ok bool) {
	const digits = 20
	if len(name) <= digits || name[digits] != '.' {
		return 0, "", false
	}
	n, err := strconv.ParseUint(name[:digits], 10, 63)
	if err != nil {
		return 0, "", false
	}
	return int64(n), name[digits:], true
}

// Close writes down what makes the next start cheap: the indexes and the producers' state; and makes everything durable.
// Appends and reads fail from then on; Records that were read before stay readable.
func (l *Log) Close() error {
	if l.closed.Load() {
		return nil
	}
	err := l.Offline()
	if err == nil {
		err = l.complete()
	}
	if err == nil {
		err = l.Sync()
	}
	if err == nil && l.opts.OwnCheckpoints {
		err = l.saveOwnPoint(true)
	}
	l.retire()
	return err
}

// retire ends the use of the log as it is. It waits for an append that is under way.
func (l *Log) retire() {
	l.mu.Lock()
	l.closed.Store(true)
	l.mu.Unlock()
	l.retireFiles()
}

// complete brings the indexes and the producers' snapshot up to the log's end.
func (l *Log) complete() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	active := l.segments.Load().active()
	if err := errors.Join(active.trim(), active.complete()); err != nil {
		return l.fail(err)
	}
	return l.failing(l.snapshotProducersLocked())
}

func (l *Log) retireFiles() {
	for _, seg := range l.segments.Load().all {
		seg.retire()
	}
}
