package vfs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

func datasync(f *os.File) error {
	return withFD(f, "fdatasync", unix.Fdatasync)
}

// syncFS also reports what background writeback failed to write since somebody was last told (Linux 5.8 and later).
func syncFS(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	if err := withFD(d, "syncfs", unix.Syncfs); err != nil {
		_ = d.Close() // opened to read only; the sync's error is the one that matters
		return err
	}
	return d.Close()
}

func preallocate(f *os.File, off, length int64) error {
	err := withFD(f, "fallocate", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, length)
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

// tryLock reports whether it took the lock; it does not wait. A record lock of the open file description goes when the
// file is closed, as with flock, and unlike flock it also excludes a JVM, whose FileChannel.tryLock makes record locks:
// Kafka and Weir must not serve one directory. flock is for kernels that lack it (before 3.15, some sandboxes).
func tryLock(f *os.File) (bool, error) {
	held := true
	err := withFD(f, "lock", func(fd int) error {
		whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
		err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &whole)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
			held, err = false, nil
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
			held, err = flock(fd)
		}
		return err
	})
	return held && err == nil, err
}
