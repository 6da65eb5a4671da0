//go:build unix

package main

import "syscall"

// openFiles shares out what the process may have: where connections took it all, a log could not open its next segment, and
// its directory would count as failed. A fifth or so is left to everything else. Go has raised the soft limit to the hard one
// when the process started.
func openFiles() descriptors {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return descriptors{http: httpMaxConnections}
	}
	n := int(min(limit.Cur, maxOpenFiles))
	return descriptors{segments: n / 5 * 3, connections: max(1, n/5), http: max(1, min(n/20, httpMaxConnections))}
}

const maxOpenFiles = 1 << 20 // "unlimited", within what a kernel grants
