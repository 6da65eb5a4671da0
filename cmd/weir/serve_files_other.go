//go:build !unix

package main

// openFiles leaves everything to the defaults.
func openFiles() descriptors { return descriptors{http: httpMaxConnections} }
