// Package coordinator runs state machines that live in partitions of internal topics: an actor for each partition that
// this broker leads, which loads the partition's records, hands inputs to the Shard one after the other, appends the
// records that it returns, and releases its replies when they are committed.
//
// # Order
//
// For every input: Step → append → Apply → park the replies. Since the append succeeds or fails before hard state changes,
// nothing has ever to be taken back. While more inputs wait, so that a storm of commits does not cost a write each, their
// records go into one batch, and Apply goes before the append: the next Step must see them. The partition is asked first
// whether it takes appends. Should one of such a batch fail all the same, hard state is ahead of the log; then the shard
// is thrown away and loaded anew, as if another broker had taken over. What each order survives: a crash before the
// append loses requests that nobody had an answer to; a crash after it loses answers, and clients ask again.
//
// Replies wait until everything that was appended before them is committed, also those to calls that only read, and also
// behind what a load found above the high watermark. Waiting ends with offsets.commit.timeout.ms.
//
// Every append names the leader epoch in which the shard was loaded, and the partition refuses another one. So a shard that
// was deposed and does not know it cannot write, and all its answers are withheld.
//
// # Ends
//
// While a partition is loaded its calls get COORDINATOR_LOAD_IN_PROGRESS; where there is nothing to load they wait. At most four
// loads run at a time.
//
// A partition that cannot be read is not served, aloud, and is tried again after a while. One whose records cannot be understood
// stays so until it is elected again: its calls get NOT_COORDINATOR, and nothing is appended to it. A shard that panics is
// loaded anew: the call that it stumbled over is answered with UNKNOWN_SERVER_ERROR, those that waited with NOT_COORDINATOR;
// so no request can take the broker down.
//
// # Goroutines and locks
//
// One goroutine for each owned partition (actor.run), started by Elect, ended by Resign and awaited by Close; while nothing
// happens it sleeps without a timer, unless the shard has set one. It alone calls the shard. Others speak to it through
// its mailbox: callers of Submit, Resign and Each, and whoever finds out that an append is committed. Calls are answered
// (Call.Done) by the actor, or by the caller of Submit where they are refused. A Runtime that is Stepped has no goroutines:
// Step does in its caller's what they would do.
//
// Locks: Runtime's, then a mailbox's. Neither is held across a call to anything else, but for Partition.Offsets, which waits
// for nothing.
package coordinator
