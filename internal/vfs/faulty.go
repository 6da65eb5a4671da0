package vfs

import (
	"io"
	"os"
	"strings"
	"sync"
)

// Op names an operation of FS or File.
type Op string

// The operations that a Fault can hit.
const (
	OpOpen        Op = "open"
	OpMkdir       Op = "mkdir"
	OpRemove      Op = "remove" // Remove and RemoveAll
	OpRename      Op = "rename" // by its new name
	OpStat        Op = "stat"
	OpReadDir     Op = "readdir"
	OpSyncDir     Op = "syncdir"
	OpSyncFS      Op = "syncfs"
	OpLock        Op = "lock"
	OpUsage       Op = "usage"
	OpRead        Op = "read"
	OpWrite       Op = "write"
	OpSize        Op = "size"
	OpTruncate    Op = "truncate"
	OpSync        Op = "sync" // Sync and Datasync
	OpPreallocate Op = "preallocate"
	OpClose       Op = "close"
)

// Fault makes calls fail: those of one operation on paths that contain a text, from the Nth such call on.
type Fault struct {
	Op    Op
	Path  string // part of the path; "" is in every path
	Nth   int    // the first call to fail, counted from 1 since Inject; 0 means 1
	Times int    // how many calls fail; 0 means all further ones
	Err   error  // such as syscall.ENOSPC or EIO; the call returns it in an *os.PathError
	Short int    // of a write: bytes that are written all the same, as when a disk fills up; of a read: bytes that are read
}

// Faulty is a file system that fails on demand and counts its calls. Its files are no OSFile, so that nothing is sent
// past the faults. Safe for concurrent use.
type Faulty struct {
	fs FS
	mu struct {
		sync.Mutex
		faults []*armedFault
		calls  map[call]int
	}
}

type armedFault struct {
	Fault
	seen int
}

type call struct {
	op   Op
	path string
}

// NewFaulty wraps a file system, with the faults that it begins with.
func NewFaulty(fs FS, faults ...Fault) *Faulty {
	f := &Faulty{fs: fs}
	f.mu.calls = map[call]int{}
	for _, fault := range faults {
		f.Inject(fault)
	}
	return f
}

var _ FS = (*Faulty)(nil)

// Inject adds a fault. Where several match a call, the first one added decides; all count it.
func (f *Faulty) Inject(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.faults = append(f.mu.faults, &armedFault{Fault: fault})
}

// Heal removes all faults.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.faults = nil
}

// Calls counts the calls so far of an operation on paths that contain a text, failed ones included.
func (f *Faulty) Calls(op Op, path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := 0
	for c, n := range f.mu.calls {
		if c.op == op && strings.Contains(c.path, path) {
			count += n
		}
	}
	return count
}

// enter counts a call and returns the fault that hits it, with its error.
func (f *Faulty) enter(op Op, path string) (*Fault, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.calls[call{op, path}]++
	var hit *Fault
	for _, fault := range f.mu.faults {
		if fault.Op != op || !strings.Contains(path, fault.Path) {
			continue
		}
		fault.seen++
		first := max(fault.Nth, 1)
		if hit == nil && fault.seen >= first && (fault.Times == 0 || fault.seen < first+fault.Times) {
			hit = &fault.Fault
		}
	}
	if hit == nil {
		return nil, nil
	}
	return hit, &os.PathError{Op: string(op), Path: path, Err: hit.Err}
}

// OpenFile can be hit by a Fault, and so can the file's own operations.
func (f *Faulty) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	if _, err := f.enter(OpOpen, name); err != nil {
		return nil, err
	}
	file, err := f.fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &faultyFile{fs: f, file: file}, nil
}

// MkdirAll can be hit by a Fault, as can all that follow.
func (f *Faulty) MkdirAll(name string, perm os.FileMode) error {
	if _, err := f.enter(OpMkdir, name); err != nil {
		return err
	}
	return f.fs.MkdirAll(name, perm)
}

// Remove is OpRemove.
func (f *Faulty) Remove(name string) error {
	if _, err := f.enter(OpRemove, name); err != nil {
		return err
	}
	return f.fs.Remove(name)
}

// RemoveAll is OpRemove.
func (f *Faulty) RemoveAll(name string) error {
	if _, err := f.enter(OpRemove, name); err != nil {
		return err
	}
	return f.fs.RemoveAll(name)
}

// Rename is hit by faults on its new name.
func (f *Faulty) Rename(oldName, newName string) error {
	if _, err := f.enter(OpRename, newName); err != nil {
		return err
	}
	return f.fs.Rename(oldName, newName)
}

// Stat is OpStat.
func (f *Faulty) Stat(name string) (os.FileInfo, error) {
	if _, err := f.enter(OpStat, name); err != nil {
		return nil, err
	}
	return f.fs.Stat(name)
}

// ReadDir is OpReadDir.
func (f *Faulty) ReadDir(name string) ([]os.DirEntry, error) {
	if _, err := f.enter(OpReadDir, name); err != nil {
		return nil, err
	}
	return f.fs.ReadDir(name)
}

// SyncDir is OpSyncDir.
func (f *Faulty) SyncDir(name string) error {
	if _, err := f.enter(OpSyncDir, name); err != nil {
		return err
	}
	return f.fs.SyncDir(name)
}

// SyncFS is OpSyncFS.
func (f *Faulty) SyncFS(name string) error {
	if _, err := f.enter(OpSyncFS, name); err != nil {
		return err
	}
	return f.fs.SyncFS(name)
}

// Lock is OpLock.
func (f *Faulty) Lock(name string) (io.Closer, error) {
	if _, err := f.enter(OpLock, name); err != nil {
		return nil, err
	}
	return f.fs.Lock(name)
}

// Usage is OpUsage.
func (f *Faulty) Usage(name string) (Usage, error) {
	if _, err := f.enter(OpUsage, name); err != nil {
		return Usage{}, err
	}
	return f.fs.Usage(name)
}

type faultyFile struct {
	fs   *Faulty
	file File
}

func (f *faultyFile) Name() string { return f.file.Name() }

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	fault, err := f.fs.enter(OpRead, f.Name())
	if err == nil {
		return f.file.ReadAt(p, off)
	}
	n, _ := f.file.ReadAt(p[:min(fault.Short, len(p))], off) // the injected error hides the file's own
	return n, err
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	fault, err := f.fs.enter(OpWrite, f.Name())
	if err == nil {
		return f.file.WriteAt(p, off)
	}
	if fault.Short == 0 {
		return 0, err
	}
	n, _ := f.file.WriteAt(p[:min(fault.Short, len(p))], off) // the injected error hides the file's own
	return n, err
}

func (f *faultyFile) Size() (int64, error) {
	if _, err := f.fs.enter(OpSize, f.Name()); err != nil {
		return 0, err
	}
	return f.file.Size()
}

func (f *faultyFile) Truncate(size int64) error {
	if _, err := f.fs.enter(OpTruncate, f.Name()); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

func (f *faultyFile) Sync() error {
	if _, err := f.fs.enter(OpSync, f.Name()); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *faultyFile) Datasync() error {
	if _, err := f.fs.enter(OpSync, f.Name()); err != nil {
		return err
	}
	return f.file.Datasync()
}

func (f *faultyFile) Preallocate(off, length int64) error {
	if _, err := f.fs.enter(OpPreallocate, f.Name()); err != nil {
		return err
	}
	return f.file.Preallocate(off, length)
}

// Close closes the file even where it returns an injected error, as close(2) does.
func (f *faultyFile) Close() error {
	_, injected := f.fs.enter(OpClose, f.Name())
	if err := f.file.Close(); err != nil {
		return err
	}
	return injected
}
