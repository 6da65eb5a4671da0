// Package log keeps the records of one replica on disk (Log), and all replicas of a broker (Store), in the files and
// formats of Apache Kafka: its tools read them, and a directory that Kafka wrote is opened as it is.
//
// It knows numbers that it is given (offsets, leader epochs, high watermarks, producer ids) and what they mean for the
// files; it knows no broker, no socket and no ISR. Stateless checks of what clients send are in protocol/batch and come
// before the log lock; checks that need the log's state (sequences, epochs, offsets) are made here, under it.
//
//	<data directory>/
//	    meta.properties .lock .kafka_cleanshutdown weir-run.json
//	    recovery-point-offset-checkpoint log-start-offset-checkpoint replication-offset-checkpoint
//	    <topic>-<partition>.<id>-future/   a copy on its way here from another data directory; -delete and -stray likewise
//	    <topic>-<partition>/
//	        00000000000000000000.log         batches, from that base offset on, exactly the bytes of the wire
//	        00000000000000000000.index       offset → position, sparse
//	        00000000000000000000.timeindex   newest time so far → offset, sparse
//	        00000000000000000000.txnindex    aborted transactions, if any
//	        00000000000000004711.snapshot    the producers' state at that offset
//	        leader-epoch-checkpoint partition.metadata
//
// docs/format/log.md has them byte by byte.
//
// # Invariants
//
//   - startOffset <= highWatermark <= endOffset; recoveryPoint <= endOffset. The end is where the last batch ends, or the
//     base offset of the active segment if that is empty.
//   - Bytes of a segment below its published end change by truncation only. What was appended is published when it is
//     written as a whole, first the position, then the offset; a write that failed leaves nothing visible.
//   - Everything below the recovery point survives a power cut, with what is needed to read it: the names of files, leader
//     epochs, the transaction index.
//   - After a crash the log is a prefix of what it was, and at least what was durable. Recovery never cuts below the
//     recovery point; damage there is an ErrCorrupt. See recovery.go for what each kind of crash leaves.
//   - Index files are never wrong, only behind, but for what a power cut does to them: they have no checksum, so they are
//     checked where they are used and made again from the batches.
//
// # Locks
//
// Store.creating, then Store.mu, then dataDir.writing, then the log lock (Log.mu), then that of the log's copy, then segment.index,
// segmentFile.mu and fileCache.mu. No two of them are taken in another order, and a log never takes a lock of its Store.
//
// The log lock orders appends, rolls, truncations and deletions; write(2) under it is what it is for. No sync, no channel and no
// callback happens under it: a sync notes under the lock what there is to do, unlocks, syncs, and takes note of the end
// under the lock again. Reads do not take it: they load the end, then the immutable set of segments, and hold the
// segment's file by a count of references, so that retention just unlinks. Only dataDir.writing is held across a sync: of
// the small files that it orders the writers of.
//
// # Moves
//
// A log moves to another data directory by being copied there (Store.BeginMove, Copy) and by the copy taking its place (Promote).
// It is the same Log before and after, with other segments; readers find them with the set that they load, and those that read in
// the old ones look again if these are gone. In the end the log lock is held over a rename and the opening of the copy's files, but
// over no sync. See takePlaceOf and Settle for what a crash leaves.
//
// # Goroutines
//
// Store.Run owns one for the tasks (flush, checkpoints, retention, deletions; see Tasks) and one for the commits of each
// data directory, and returns when they have ended. OpenStore opens logs with a few that end before it returns, a group of
// files is synced by up to four that end with the call. A Log by itself has none.
package log
