//go:build unix

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		_ = d.Close() // opened to read only; the sync's error is the one that matters
		return err
	}
	return d.Close()
}

func usage(name string) (Usage, error) {
	var st unix.Statfs_t
	err := retry(func() error { return unix.Statfs(name, &st) })
	if err != nil {
		return Usage{}, &os.PathError{Op: "statfs", Path: name, Err: err}
	}
	// Bavail, not Bfree: what the superuser's reserve holds is of no use to a broker. Types differ by system.
	return Usage{Total: int64(st.Blocks) * int64(st.Bsize), Usable: int64(st.Bavail) * int64(st.Bsize)}, nil
}

// flock reports whether it took the lock; it does not wait.
func flock(fd int) (bool, error) {
	err := retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// withFD calls f with the descriptor of file, which stays open meanwhile even if another goroutine closes the file.
func withFD(file *os.File, op string, f func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	err = conn.Control(func(fd uintptr) {
		callErr = retry(func() error { return f(int(fd)) })
	})
	if err != nil {
		return err
	}
	if callErr != nil {
		return &os.PathError{Op: op, Path: file.Name(), Err: callErr}
	}
	return nil
}

// retry repeats a call that a signal interrupted, as package os does; the runtime preempts by signals.
func retry(f func() error) error {
	for {
		err := f()
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
