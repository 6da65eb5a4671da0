// Package quorum agrees with the other nodes on the metadata log, and folds it into an image.
//
// It is etcd's raft.RawNode, which has no goroutines, timers or I/O, with a disk below it: the log is a log.Log of Weir's
// own in Kafka's format, beside it lie snapshots and a file with term and vote (docs/format/metadata.md). A Node is driven by
// Step, from one goroutine; the same events give the same effects. Package cluster feeds it.
//
// What Step does for every Ready of Raft, in this order, and the crash that each order survives:
//
//  1. Term and vote, synced. Crash: a node that forgets its vote could vote twice in one term. They go before the entries,
//     for entries of a term that the node does not remember would let it vote in that term as if it had never been there;
//     the other way round the entries are merely not there, as if their message had been lost.
//  2. A snapshot from the leader is written and synced, then the log begins anew behind it. Crash in between: the log still
//     ends below the snapshot, which Open sees, and it is cut then.
//  3. Entries, appended and synced. Conflicting ones are cut first: only what was never committed can conflict. Changes of
//     members have an order of their own, see below.
//  4. Messages. All of them may say "I have that", so none leaves before 1 to 3: an acknowledgement that a crash takes
//     back can undo a commit that others have seen.
//  5. Committed entries are applied to the image. The image is memory only: after a crash it is the newest snapshot
//     plus the log behind it.
//  6. When enough was applied, a snapshot of the image is written, and only when it is durable the log gives up what the
//     snapshot covers. Crash in between: too much log, which the next snapshot removes.
//
// A node that is the only voter elects itself at the first Step, without waiting for an election timeout.
//
// # Members
//
// A node is known by its Raft id, which is that of its metadata directory (RaftID). Founders write offset 0, all the same
// bytes, and begin as voters. Everybody else joins: it opens without a log, is added as a learner, is sent a snapshot, and
// has a vote only when it is promoted. A voter that may come back becomes a learner, and keeps its log and its Raft id; who is
// removed does not come back. Offset 0 cannot be sent as an entry, so a leader gives a snapshot, which has what it
// says, to whoever lacks the entries from the beginning; a snapshot that a member needs and that does not know all members
// is taken anew.
//
// A change counts when it is applied, and two neighbouring configurations have no majorities apart. Two that are further
// apart may have. So a node must not fall back by two changes after a crash, which would be easy if it forgot how far the
// log is committed: {1} became {1, 2, 3}, 2 and 3 have gone on, and 1 comes back and elects itself alone. It would not even
// take an acknowledgement: a candidate wins by the log that it has. Therefore raft-state says that a change is committed
// before the next change is written to the log, and before votes count by it.
//
// # Failover
//
// PreVote and CheckQuorum are on: whoever was cut off disturbs nobody, and a leader that is cut off steps down. A leader
// that stops in good order hands over (TransferLeadership). One whose process is proven gone is not waited for (Suspect).
//
// # Recovery
//
// A quorum that has lost its majority for good decides nothing any more. Recover makes one node the only voter, by a log that begins
// anew with a snapshot far ahead of all that anybody has: so whoever else comes back takes it over, as every follower that is behind.
//
// # What is refused
//
// What cannot be trusted is refused by name and left as it is: another cluster's log, another directory's, Kafka's own, a log
// without its raft-state or the reverse, a log that lost what it had acknowledged. A voter that began anew with an empty log
// could help a stale candidate to win, and committed metadata would be gone. That a log was there is also told by the file
// raft-member in the metadata directory itself, and a node that joins has no vote until a leader has sent it what is
// committed. What remains: a founder of which nothing is left but meta.properties with its directory id (or which has been put
// there again by hand), and any voter whose whole disk was put back as it had been some time ago. They look like a founder that
// comes late, and like a voter that was away, and nothing in Raft tells the difference. Whoever loses a disk must not give the
// new one the old id; whoever restores a disk must remove the member first and have it join.
package quorum
