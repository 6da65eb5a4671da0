// Package replica holds the partitions that live on this broker: their role, leader epoch and high watermark, the
// replies that wait for acknowledgement and the fetches that wait for records.
//
// A Manager has one Partition for each replica that the metadata image assigns to this broker; it follows the image and
// nothing else. A Partition decides whether an append or a read is allowed (role, epoch, minimum of in-sync replicas),
// moves the bytes through log.Log, and lets the pure tracker move the high watermark and say who is in sync. What others
// lead, Fetchers fetch; what the leaders here want of the controller, ISRUpdates asks for; what is to be in another data directory
// of this broker, Moves takes there. A log that moves stays the same log.Log, so that a Partition does not notice. While partitions
// are fenced (Manager.SetFenced) those that are led refuse all requests, and keep their roles.
//
// Locks: Manager → Partition → log.Log, never the other way. None is held across a channel, an fsync or a callback, but placing,
// Manager's own; whoever waits is woken after unlock. What a fetcher does to a follower's log, a truncation's syncs included, it does under
// followed.guard: Manager takes that (Unfollow, or Follow in a new epoch) before it changes the role, under no other lock but
// placing, which keeps moves from beginning while partitions come and go.
// Consumers' reads from the leader take no partition lock: leadership is an immutable value behind an atomic pointer, offsets are
// atomics of the log. A follower looks once at whom it follows; a leader once at who else could be read from (KIP-392).
//
// Goroutines: Fetchers has one for each leader's broker and fetcher number, from Start to Close; ISRUpdates and Moves have that of their
// Run; no others. All are stepped instead where a test drives them. Appends and reads run
// in the caller's; completion runs in the goroutine that made it true (an append, a follower's fetch, the log's group
// commit, the controller's answer, a metadata change).
//
// A follower's fetch takes the partition lock once, to note its progress; it is noted once for each fetch, however often that
// looks while it waits, and never if the logs differ.
//
// Where acknowledgements promise what is durable (weir.fsync.policy=ack, flush.messages=1), so does the high watermark. A
// partition then asks for a group commit with every append, and once when its leadership begins, for what a crash left.
package replica
