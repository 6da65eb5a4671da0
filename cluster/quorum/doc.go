// Package quorum agrees with the other nodes on the metadata log, and folds it into an image.
//
// It is etcd's raft.RawNode, which has no goroutines, timers or I/O, with a disk below it: the log is a log.Log of Weir's
// own in Kafka's format, beside it lie snapshots and a file with term and vote (docs/format/metadata.md). A Node is driven by
// Step, from one goroutine; the same events give the same effects. Package cluster feeds it.
//
// What Step does for every Ready of Raft, in this order, and the crash that each order survives:
//
//  1. A snapshot from the leader is written and synced, then the log begins anew behind it. Crash in between: the log still
//     ends below the snapshot, which Open sees, and it is cut then.
//  2. Term and vote, synced. Crash: a node that forgets its vote could vote twice in one term. They go before the entries,
//     for entries of a term that the node does not remember would let it vote in that term as if it had never been there;
//     the other way round the entries are merely not there, as if their message had been lost.
//  3. Entries, appended and synced. Conflicting ones are cut first: only what was never committed can conflict.
//  4. Messages. All of them may say "I have that", so none leaves before 2 and 3: an acknowledgement that a crash takes
//     back can undo a commit that others have seen.
//  5. Committed entries are applied to the image. The image is memory only: after a crash it is the newest snapshot
//     plus the log behind it.
//  6. When enough was applied, a snapshot of the image is written, and only when it is durable the log gives up what the
//     snapshot covers. Crash in between: too much log, which the next snapshot removes.
//
// A node that is the only voter elects itself at the first Step, without waiting for an election timeout.
//
// What cannot be trusted is refused by name and left as it is: another cluster's log, Kafka's own metadata log, a log without
// its raft-state or the reverse, a log that lost what it had acknowledged. A voter that began anew with an empty log could
// help a stale candidate to win, and committed metadata would be gone.
package quorum
