package vfs

import (
	"io"
	"os"
	"path/filepath"
)

// ErrLocked is returned by Lock where another process, or another Lock in this one, has the file.
type ErrLocked struct {
	Path string
}

func (e ErrLocked) Error() string { return e.Path + " is locked by another process" }

// OS is the file system of the machine. It holds no state and is safe for concurrent use.
func OS() FS { return osFS{} }

type osFS struct{}

var _ FS = osFS{}

func (osFS) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

func (osFS) MkdirAll(name string, perm os.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                  { return os.RemoveAll(name) }
func (osFS) Rename(oldName, newName string) error         { return os.Rename(oldName, newName) }
func (osFS) Stat(name string) (os.FileInfo, error)        { return os.Stat(name) }
func (osFS) ReadDir(name string) ([]os.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) SyncDir(name string) error                    { return syncDir(name) }
func (osFS) SyncFS(name string) error                     { return syncFS(name) }
func (osFS) Usage(name string) (Usage, error)             { return usage(name) }

// Lock leaves the file behind when it is closed: to remove it would let two processes lock two files of one name.
func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	held, err := tryLock(f)
	switch {
	case err != nil:
		_ = f.Close() // nothing was written; the lock's error is the one that matters
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	case !held:
		_ = f.Close() // as above
		return nil, ErrLocked{Path: filepath.Clean(name)}
	}
	return f, nil
}

type osFile struct {
	f *os.File
}

var _ OSFile = (*osFile)(nil)

func (f *osFile) ReadAt(p []byte, off int64) (int, error)  { return f.f.ReadAt(p, off) }
func (f *osFile) WriteAt(p []byte, off int64) (int, error) { return f.f.WriteAt(p, off) }
func (f *osFile) Close() error                             { return f.f.Close() }
func (f *osFile) Name() string                             { return f.f.Name() }
func (f *osFile) Truncate(size int64) error                { return f.f.Truncate(size) }
func (f *osFile) Sync() error                              { return f.f.Sync() }
func (f *osFile) Datasync() error                          { return datasync(f.f) }
func (f *osFile) Preallocate(off, length int64) error      { return preallocate(f.f, off, length) }
func (f *osFile) OSFile() *os.File                         { return f.f }

func (f *osFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
