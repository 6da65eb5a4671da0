//go:build unix

package main

import "syscall"

// openFiles is how many segment files the broker may keep open: three fifths of what the process may have, since
// connections need the rest. Go has raised the soft limit to the hard one when the process started.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, maxOpenFiles) / 5 * 3)
}

const maxOpenFiles = 1 << 20 // "unlimited", within what a kernel grants
