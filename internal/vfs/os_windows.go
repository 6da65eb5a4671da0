package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

func datasync(f *os.File) error { return f.Sync() }

// syncDir does nothing: NTFS journals names, and a directory cannot be flushed without special rights.
func syncDir(string) error { return nil }

// syncFS fails: flushing a volume needs special rights, so that callers must sync each file.
func syncFS(name string) error {
	return &os.PathError{Op: "syncfs", Path: name, Err: errors.ErrUnsupported}
}

func preallocate(*os.File, int64, int64) error { return nil }

func usage(name string) (Usage, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return Usage{}, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: name, Err: err}
	}
	var usable, total uint64
	if err := windows.GetDiskFreeSpaceEx(path, &usable, &total, nil); err != nil {
		return Usage{}, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: name, Err: err}
	}
	return Usage{Total: int64(total), Usable: int64(usable)}, nil
}

// tryLock reports whether it took the lock; it does not wait.
func tryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}
