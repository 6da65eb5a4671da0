package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"weir/internal/vfs"
)

// A sync of a log has three parts, so that syncs of many logs can share one call to the disk (Store.Commit): begin, under
// the log lock, notes what there is to make durable; then files are synced without any lock; end, under the lock again,
// moves the recovery point. Syncs of one log may overlap; each only claims what it began with.

// pendingSync is what one sync makes durable.
type pendingSync struct {
	log         *Log
	at          *place // where the log was when it began, and with it all that is to be synced
	upTo        int64  // the log's end then
	truncations int64
	bytes       int64      // roughly what there is to write
	segments    []*segment // the ones written to, in order
	sealed      int        // how many of them are sealed: their indexes are complete, and synced too
	names       []string   // of l.mu.names
	namesCount  int
}

// beginSync notes what is not durable yet; ok is false if nothing.
func (l *Log) beginSync() (p pendingSync, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return p, false, err
	}
	l.flushRequested.Store(false)
	end := l.endOffset.Load()
	if end == l.recoveryPoint.Load() && len(l.mu.unsynced) == 0 && len(l.mu.names) == 0 {
		return p, false, nil
	}
	p = pendingSync{
		log: l, at: l.at.Load(), upTo: end, truncations: l.truncations.Load(), bytes: l.unsyncedBytes.Load(),
		sealed: len(l.mu.unsynced), namesCount: l.mu.namesCount,
	}
	p.segments = append(append(make([]*segment, 0, p.sealed+1), l.mu.unsynced...), l.segments.Load().active())
	for name := range l.mu.names {
		p.names = append(p.names, name)
	}
	l.unsyncedBytes.Store(0)
	return p, true, nil
}

// run syncs file by file.
func (p *pendingSync) run() error {
	if p.log.opts.noSync {
		return nil
	}
	for i, seg := range p.segments {
		if err := p.log.syncSegment(seg, i < p.sealed); err != nil {
			return err
		}
	}
	return p.syncNames()
}

// syncSegment makes a segment durable. One that has been deleted meanwhile needs no sync.
func (l *Log) syncSegment(seg *segment, indexes bool) error {
	err := seg.file.sync()
	if err == nil && indexes {
		err = seg.syncIndexes()
	}
	if errors.Is(err, fs.ErrNotExist) && (!l.segments.Load().has(seg) || l.closed.Load()) {
		return nil
	}
	return err
}

// files is how many files run has to sync.
func (p *pendingSync) files() int {
	if p.log.opts.noSync {
		return 0
	}
	n := len(p.segments) + 2*p.sealed + len(p.names)
	if len(p.names) > 0 {
		n++ // the directory
	}
	return n
}

// syncNames makes small files durable, and the directory's names.
func (p *pendingSync) syncNames() error {
	fsys, dir := p.log.fs, p.at.dir
	for _, name := range p.names {
		if name == ownName {
			if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
				return err
			}
			continue
		}
		if err := syncFile(fsys, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(p.names) == 0 {
		return nil
	}
	return fsys.SyncDir(dir)
}

// ownName among the names to sync stands for the log's directory in its parent.
const ownName = ".."

// noteNameLocked remembers a file that was made or replaced without a sync; the next sync makes it durable. The directory
// itself is synced with any of them.
func (l *Log) noteNameLocked(name string) {
	l.mu.namesCount++
	l.mu.names[name] = l.mu.namesCount
}

// endSync takes note of how a sync ended. A failure takes the log offline, but where the log has moved meanwhile: what failed
// then is the disk that it has left, and what the sync was about is safe in the new place.
func (l *Log) endSync(p *pendingSync, err error) error {
	l.mu.Lock()
	switch {
	case err != nil && l.at.Load() != p.at:
		l.mu.Unlock()
		if d := p.at.data; !errors.Is(err, fs.ErrNotExist) { // else it was renamed while it was synced
			d.store.failDir(d, fmt.Errorf("sync: %w", err))
		}
		return nil
	case err != nil:
		err = l.fail(fmt.Errorf("sync: %w", err))
	default:
		l.mu.unsynced = slices.DeleteFunc(l.mu.unsynced, func(s *segment) bool {
			return slices.Contains(p.segments[:p.sealed], s)
		})
		for _, name := range p.names {
			if l.mu.names[name] <= p.namesCount {
				delete(l.mu.names, name)
			}
		}
		if p.truncations == l.truncations.Load() {
			l.recoveryPoint.Store(max(l.recoveryPoint.Load(), min(p.upTo, l.mu.truncatingTo, l.mu.holdingAt)))
		}
		l.lastSyncMs.Store(l.clock.Now().UnixMilli())
	}
	l.mu.Unlock()
	if err != nil {
		l.reportFailure()
	}
	return err
}

// Sync makes everything that was appended before the call durable. Appends go on meanwhile. An error takes the log
// offline; it is not tried again.
func (l *Log) Sync() error {
	p, ok, err := l.beginSync()
	if err != nil || !ok {
		return err
	}
	if err := l.endSync(&p, p.run()); err != nil || !l.opts.OwnCheckpoints {
		return err
	}
	if l.unsavedBytes.Add(p.bytes) < ownCheckpointBytes {
		return nil
	}
	l.unsavedBytes.Store(0)
	l.flushIndexes()
	return l.saveOwnPoint(true)
}

// unsynced reports whether there is anything to make durable.
func (l *Log) unsynced() bool {
	if l.endOffset.Load() != l.recoveryPoint.Load() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.unsynced) > 0 || len(l.mu.names) > 0
}

// flushIndexes brings the active segment's index files up to date.
func (l *Log) flushIndexes() {
	if err := l.segments.Load().active().flushIndexes(); err != nil {
		_ = l.fail(err) // nobody waits for an answer here
		l.reportFailure()
	}
}

// sync makes the content of the file durable.
func (s *segmentFile) sync() error {
	h, err := s.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	return h.Datasync()
}

func syncFile(fs vfs.FS, path string) error {
	f, err := fs.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Datasync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
