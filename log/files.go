package log

import (
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"weir/internal/vfs"
)

// fileCache bounds how many segment files are open at once. It closes the one that was not used for longest, roughly:
// a hand goes round and takes the first that was not used since it passed. Files in use stay open until released.
type fileCache struct {
	fs    vfs.FS
	limit int

	mu struct {
		sync.Mutex
		files []*openFile
		hand  int
	}
}

func newFileCache(fs vfs.FS, limit int) *fileCache { return &fileCache{fs: fs, limit: max(limit, 1)} }

// segmentFile is the .log file of one segment, opened when it is needed.
type segmentFile struct {
	cache  *fileCache
	path   string
	unused func() // called when the cache lets go of the file: nobody has read it for a while; nil for none
	open   atomic.Pointer[openFile]
	mu     sync.Mutex // taken to open or retire; readers of an open file do without
	gone   bool       // guarded by mu: the file was removed, or its directory renamed. Another may have its name
}

// openFile is an open segment file. It is closed when the cache and all readers have let go of it.
type openFile struct {
	vfs.File
	os    *os.File // nil where the kernel cannot send from it
	owner *segmentFile
	refs  atomic.Int32 // one is the cache's
	used  atomic.Bool  // since the cache's hand passed
	slot  int          // place in the cache's list, -1 outside; guarded by the cache's lock
}

func (h *openFile) retain() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *openFile) release() {
	if h.refs.Add(-1) == 0 {
		// Nothing hangs on the error: what must be durable was synced, and its error reported there.
		_ = h.Close()
	}
}

// acquire returns the open file, which the caller must release. The fast path is two atomic operations.
func (s *segmentFile) acquire() (*openFile, error) {
	if h := s.open.Load(); h != nil && h.retain() {
		if !h.used.Load() {
			h.used.Store(true)
		}
		return h, nil
	}
	return s.acquireSlow(os.O_RDWR)
}

func (s *segmentFile) acquireSlow(flag int) (*openFile, error) {
	s.mu.Lock()
	if h := s.open.Load(); h != nil && h.retain() {
		s.mu.Unlock()
		return h, nil
	}
	if s.gone {
		s.mu.Unlock()
		return nil, &fs.PathError{Op: "open", Path: s.path, Err: fs.ErrNotExist}
	}
	f, err := s.cache.fs.OpenFile(s.path, flag, 0o644)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	h := &openFile{File: f, owner: s, slot: -1}
	if o, ok := f.(vfs.OSFile); ok {
		h.os = o.OSFile()
	}
	h.refs.Store(2) // the cache's and the caller's
	h.used.Store(true)
	s.open.Store(h)
	s.mu.Unlock()
	s.cache.add(h)
	if s.isGone() {
		s.cache.drop(h) // retired in between, when the cache did not know the file yet
	}
	return h, nil
}

func (s *segmentFile) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// create makes the file, which must not exist yet.
func (s *segmentFile) create() error {
	h, err := s.acquireSlow(os.O_RDWR | os.O_CREATE | os.O_EXCL)
	if err != nil {
		return err
	}
	h.release()
	return nil
}

// retire ends the file's use under this path. Readers that have it open go on; nobody can open it any more.
func (s *segmentFile) retire() {
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	s.close()
}

// remove unlinks the file and retires it.
func (s *segmentFile) remove() error {
	s.retire()
	return s.cache.fs.Remove(s.path)
}

// close lets the cache go of the file; it can be opened again.
func (s *segmentFile) close() {
	if h := s.open.Load(); h != nil {
		s.cache.drop(h)
	}
}

func (c *fileCache) add(h *openFile) {
	c.mu.Lock()
	var victim *openFile
	if len(c.mu.files) >= c.limit {
		victim = c.victimLocked()
	}
	h.slot = len(c.mu.files)
	c.mu.files = append(c.mu.files, h)
	c.mu.Unlock()
	if victim != nil {
		c.letGo(victim)
	}
}

// victimLocked removes a file from the list: one that was not used since the hand last passed, or else the one at the
// hand. A file that somebody reads right now would free no descriptor, so it counts as used.
func (c *fileCache) victimLocked() *openFile {
	files := c.mu.files
	for range 2 * len(files) {
		c.mu.hand %= len(files)
		if h := files[c.mu.hand]; !h.used.Swap(false) && h.refs.Load() == 1 {
			break
		}
		c.mu.hand++
	}
	c.mu.hand %= len(files)
	h := files[c.mu.hand]
	c.takeLocked(h)
	return h
}

func (c *fileCache) takeLocked(h *openFile) {
	last := len(c.mu.files) - 1
	c.mu.files[h.slot], c.mu.files[last] = c.mu.files[last], nil
	if h.slot < last {
		c.mu.files[h.slot].slot = h.slot
	}
	c.mu.files = c.mu.files[:last]
	h.slot = -1
}

func (c *fileCache) drop(h *openFile) {
	c.mu.Lock()
	found := h.slot >= 0
	if found {
		c.takeLocked(h)
	}
	c.mu.Unlock()
	if found {
		c.letGo(h)
	}
}

func (c *fileCache) letGo(h *openFile) {
	h.owner.open.CompareAndSwap(h, nil)
	h.release()
	if h.owner.unused != nil {
		h.owner.unused()
	}
}
