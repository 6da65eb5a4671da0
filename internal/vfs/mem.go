package vfs

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory that knows what is durable, so that a test can look at the disk as a power cut (Crash)
// or a kill of the process (Kill) would have left it. It is stricter than most real ones: syncing a file does not make
// its name durable, only SyncDir of the parent does. Safe for concurrent use.
type Mem struct {
	mu struct {
		sync.Mutex
		root *memNode
		// pending are the changes of names that no SyncDir has made durable, in the order in which they were made.
		pending []nameChange
		locked  map[*memNode]bool
	}
}

// NewMem returns an empty file system whose root directory exists.
func NewMem() *Mem {
	m := &Mem{}
	m.mu.root = newDir()
	m.mu.locked = map[*memNode]bool{}
	return m
}

var _ FS = (*Mem)(nil)

// memNode is a file or a directory. It is guarded by the lock of its Mem, and lives on without a name while a handle
// is open, as on a real file system.
type memNode struct {
	mode    os.FileMode
	modTime time.Time

	// Of a directory (nil for files): its entries as programs see them, and as they are on the disk.
	names, durableNames map[string]*memNode

	// Of a file: its content as programs see it, and as it is on the disk.
	content, durable memContent
	dirty            map[int64]bool // pages in which the two may differ
}

// nameChange is one change of names, possibly in two directories (a rename), that a crash takes whole or not at all.
type nameChange []nameEdit

type nameEdit struct {
	dir  *memNode
	name string
	node *memNode // nil: the name is gone
}

func (c nameChange) touches(dir *memNode) bool {
	return slices.ContainsFunc(c, func(e nameEdit) bool { return e.dir == dir })
}

func newDir() *memNode {
	return &memNode{mode: os.ModeDir | 0o755, modTime: time.Now(), names: map[string]*memNode{}, durableNames: map[string]*memNode{}}
}

func newFile(perm os.FileMode) *memNode {
	return &memNode{mode: perm.Perm(), modTime: time.Now(), dirty: map[int64]bool{}}
}

// changeLocked makes a change visible and remembers it until a SyncDir.
func (m *Mem) changeLocked(c nameChange) {
	for _, e := range c {
		e.put(e.dir.names)
	}
	m.mu.pending = append(m.mu.pending, c)
}

func (e nameEdit) put(names map[string]*memNode) {
	if e.node == nil {
		delete(names, e.name)
		return
	}
	names[e.name] = e.node
}

// lookupLocked follows a path.
func (m *Mem) lookupLocked(name string) (*memNode, error) {
	node := m.mu.root
	for _, part := range pathParts(name) {
		if node.names == nil {
			return nil, syscall.ENOTDIR
		}
		next, ok := node.names[part]
		if !ok {
			return nil, syscall.ENOENT
		}
		node = next
	}
	return node, nil
}

// parentLocked follows a path up to the directory that holds its last name.
func (m *Mem) parentLocked(name string) (dir *memNode, base string, err error) {
	parts := pathParts(name)
	if len(parts) == 0 {
		return nil, "", syscall.EINVAL // the root itself
	}
	base = parts[len(parts)-1]
	dir, err = m.lookupLocked(strings.Join(parts[:len(parts)-1], "/"))
	if err == nil && dir.names == nil {
		err = syscall.ENOTDIR
	}
	return dir, base, err
}

// pathParts splits a path into names; relative paths begin at the root.
func pathParts(name string) []string {
	clean := strings.TrimPrefix(filepath.ToSlash(filepath.Clean("/"+name)), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}

// OpenFile opens files only; a directory is EISDIR.
func (m *Mem) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.openLocked(name, flag, perm)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &memFile{fs: m, node: node, name: name, flag: flag}, nil
}

func (m *Mem) openLocked(name string, flag int, perm os.FileMode) (*memNode, error) {
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return nil, err
	}
	node, ok := dir.names[base]
	switch {
	case !ok && flag&os.O_CREATE == 0:
		return nil, syscall.ENOENT
	case !ok:
		node = newFile(perm)
		m.changeLocked(nameChange{{dir, base, node}})
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, syscall.EEXIST
	case node.names != nil:
		return nil, syscall.EISDIR
	}
	if flag&os.O_TRUNC != 0 {
		node.truncate(0)
	}
	return node, nil
}

// MkdirAll makes a directory and the missing ones above it.
func (m *Mem) MkdirAll(name string, _ os.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir := m.mu.root
	for _, part := range pathParts(name) {
		next, ok := dir.names[part]
		if !ok {
			next = newDir()
			m.changeLocked(nameChange{{dir, part, next}})
		}
		if next.names == nil {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		dir = next
	}
	return nil
}

// Remove removes a file or an empty directory.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	node, ok := dir.names[base]
	switch {
	case !ok:
		return pathError("remove", name, syscall.ENOENT)
	case len(node.names) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	m.changeLocked(nameChange{{dir, base, nil}})
	return nil
}

// RemoveAll removes a tree, one name at a time from the bottom up: a crash may leave any part of it.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	if err == syscall.ENOENT {
		return nil
	}
	if err != nil {
		return pathError("unlinkat", name, err)
	}
	if _, ok := dir.names[base]; ok {
		m.removeTreeLocked(dir, base)
	}
	return nil
}

func (m *Mem) removeTreeLocked(dir *memNode, base string) {
	node := dir.names[base]
	for _, child := range slices.Sorted(maps.Keys(node.names)) {
		m.removeTreeLocked(node, child)
	}
	m.changeLocked(nameChange{{dir, base, nil}})
}

// Rename replaces a file or an empty directory that has the new name.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.renameLocked(oldName, newName); err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	return nil
}

func (m *Mem) renameLocked(oldName, newName string) error {
	from, fromBase, err := m.parentLocked(oldName)
	if err != nil {
		return err
	}
	to, toBase, err := m.parentLocked(newName)
	if err != nil {
		return err
	}
	node, ok := from.names[fromBase]
	if !ok {
		return syscall.ENOENT
	}
	replaced, ok := to.names[toBase]
	switch {
	case ok && replaced == node:
		return nil
	case ok && node.names != nil && replaced.names == nil:
		return syscall.ENOTDIR
	case ok && node.names == nil && replaced.names != nil:
		return syscall.EISDIR
	case ok && len(replaced.names) > 0:
		return syscall.ENOTEMPTY
	}
	m.changeLocked(nameChange{{from, fromBase, nil}, {to, toBase, node}})
	return nil
}

// Stat gives the size as programs see it, synced or not.
func (m *Mem) Stat(name string) (os.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.lookupLocked(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return node.info(filepath.Base(name)), nil
}

// ReadDir returns the entries sorted by name.
func (m *Mem) ReadDir(name string) ([]os.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.lookupLocked(name)
	if err == nil && dir.names == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	entries := make([]os.DirEntry, 0, len(dir.names))
	for _, child := range slices.Sorted(maps.Keys(dir.names)) {
		entries = append(entries, dir.names[child].info(child))
	}
	return entries, nil
}

// SyncDir makes durable what changed in this directory, in order, and leaves other directories as they are.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.lookupLocked(name)
	if err == nil && dir.names == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("sync", name, err)
	}
	m.mu.pending = slices.DeleteFunc(m.mu.pending, func(c nameChange) bool {
		if !c.touches(dir) {
			return false
		}
		for _, e := range c {
			e.put(e.dir.durableNames)
		}
		return true
	})
	return nil
}

// SyncFS makes all names and all content durable.
func (m *Mem) SyncFS(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.lookupLocked(name); err != nil {
		return pathError("syncfs", name, err)
	}
	for _, c := range m.mu.pending {
		for _, e := range c {
			e.put(e.dir.durableNames)
		}
	}
	m.mu.pending = nil
	m.mu.root.walk(map[*memNode]bool{}, (*memNode).sync)
	return nil
}

// Lock is exclusive among the users of this Mem; an image of Crash or Kill has no locks.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.openLocked(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if m.mu.locked[node] {
		return nil, ErrLocked{Path: filepath.Clean(name)}
	}
	m.mu.locked[node] = true
	return memLock{m, node}, nil
}

type memLock struct {
	fs   *Mem
	node *memNode
}

func (l memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if !l.fs.mu.locked[l.node] {
		return os.ErrClosed
	}
	delete(l.fs.mu.locked, l.node)
	return nil
}

const memTotal = 1 << 40 // bytes that Usage claims to exist

// Usage counts the bytes of all files that have a name.
func (m *Mem) Usage(name string) (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.lookupLocked(name); err != nil {
		return Usage{}, pathError("statfs", name, err)
	}
	used := int64(0)
	m.mu.root.walk(map[*memNode]bool{}, func(n *memNode) { used += n.content.size })
	return Usage{Total: memTotal, Usable: memTotal - used}, nil
}

// walk visits a node and what is below it, each once.
func (n *memNode) walk(seen map[*memNode]bool, visit func(*memNode)) {
	if seen[n] {
		return
	}
	seen[n] = true
	visit(n)
	for _, child := range n.names {
		child.walk(seen, visit)
	}
}

// memInfo is what Stat and ReadDir tell of a node at one moment.
type memInfo struct {
	name    string
	size    int64
	mode    os.FileMode
	modTime time.Time
}

func (n *memNode) info(name string) memInfo {
	return memInfo{name: name, size: n.content.size, mode: n.mode, modTime: n.modTime}
}

func (i memInfo) Name() string               { return i.name }
func (i memInfo) Size() int64                { return i.size }
func (i memInfo) Mode() os.FileMode          { return i.mode }
func (i memInfo) ModTime() time.Time         { return i.modTime }
func (i memInfo) IsDir() bool                { return i.mode.IsDir() }
func (i memInfo) Sys() any                   { return nil }
func (i memInfo) Type() os.FileMode          { return i.mode.Type() }
func (i memInfo) Info() (os.FileInfo, error) { return i, nil }
