//go:build darwin || freebsd

package vfs

import (
	"errors"
	"os"
)

// datasync is a full sync: darwin has no fdatasync that reaches the disk (Go's Sync is F_FULLFSYNC there).
func datasync(f *os.File) error { return f.Sync() }

// syncFS is unsupported: sync(2) may return before the disk is done.
func syncFS(name string) error {
	return &os.PathError{Op: "syncfs", Path: name, Err: errors.ErrUnsupported}
}

// preallocate does nothing: it is an optimisation, and darwin's F_PREALLOCATE is relative to the physical end.
func preallocate(*os.File, int64, int64) error { return nil }

// tryLock reports whether it took the lock; it does not wait.
func tryLock(f *os.File) (bool, error) {
	held := false
	err := withFD(f, "flock", func(fd int) (err error) {
		held, err = flock(fd)
		return err
	})
	return held, err
}
