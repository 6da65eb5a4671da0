// Package vfs is the file system that the log is given: the machine's, one in memory that can crash and lose what was
// not synced, and one that fails on demand.
//
// The interfaces hold just what a log needs: positional reads and writes, explicit syncs of files and directories, and
// an exclusive lock. A File is safe for concurrent use as far as the offsets do not overlap; there is no file position.
// What a crash may take is the contract of the in-memory implementation: bytes since a file's last Sync or Datasync, and
// names created, renamed or removed since the directory's last SyncDir. No goroutines.
package vfs

import (
	"io"
	"os"
)

// FS is a file system. Paths are those of package os; errors wrap os.ErrNotExist and the like.
type FS interface {
	// OpenFile takes the flags of os.OpenFile but O_APPEND.
	OpenFile(name string, flag int, perm os.FileMode) (File, error)
	MkdirAll(name string, perm os.FileMode) error
	Remove(name string) error
	RemoveAll(name string) error
	// Rename replaces newName at once; it survives a crash only after SyncDir of the parent.
	Rename(oldName, newName string) error
	Stat(name string) (os.FileInfo, error)
	// ReadDir returns the entries sorted by name.
	ReadDir(name string) ([]os.DirEntry, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(name string) error
	// SyncFS makes everything durable on the file system that holds name (syncfs), what others wrote there included.
	// Only Linux has it; elsewhere the error wraps errors.ErrUnsupported, and the caller syncs its files one by one.
	SyncFS(name string) error
	// Lock takes the exclusive lock of a file, creating it; ErrLocked where another process has it.
	Lock(name string) (io.Closer, error)
	Usage(name string) (Usage, error)
}

// File is an open file. Writes are positional; a short write is an error.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Name() string
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes content and metadata durable (fsync).
	Sync() error
	// Datasync makes the content durable and of the metadata what reading it needs (fdatasync).
	Datasync() error
	// Preallocate reserves space for [off, off+length) without changing the size. A file system that cannot does nothing.
	// Truncate gives back what was reserved beyond the size.
	Preallocate(off, length int64) error
}

// OSFile is a File that the kernel can send from (sendfile). The returned file must not be closed or moved.
type OSFile interface {
	File
	OSFile() *os.File
}

// Usage is the space of a file system in bytes.
type Usage struct {
	Total, Usable int64
}
