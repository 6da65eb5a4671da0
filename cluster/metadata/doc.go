// Package metadata is what is true of the cluster: topics, partitions, brokers, configurations.
//
// An Image is the fold of the metadata log. It never changes: Apply makes a new one that shares what did not change, and a
// Delta that says what did. Two nodes that applied the same entries have equal images, so everything here is a function of
// its arguments: no clock, no I/O, no randomness, no goroutines, no locks. Images, topics and registrations may be read
// from any goroutine; who holds one must not write to it, nor to the slices and maps that it hands out.
//
// The encoding of records is docs/format/metadata.md. A record that this version does not know is an error that names it.
package metadata
