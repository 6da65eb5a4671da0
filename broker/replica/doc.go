// Package replica holds the partitions that live on this broker: their role, leader epoch and high watermark, the
// replies that wait for acknowledgement and the fetches that wait for records.
//
// A Manager has one Partition for each replica that the metadata image assigns to this broker; it follows the image and
// nothing else. A Partition decides whether an append or a read is allowed (role, epoch, minimum of in-sync replicas),
// moves the bytes through log.Log, and lets the pure tracker move the high watermark.
//
// Locks: Manager → Partition → log.Log, never the other way. None is held across a channel, an fsync or a callback;
// whoever waits is woken after unlock. Consumers' reads take no partition lock: leadership is an immutable value behind an
// atomic pointer, offsets are atomics of the log.
//
// Goroutines: none of its own. Appends and reads run in the caller's; completion runs in the goroutine that made it
// true (an append, the log's group commit, a metadata change).
//
// Where acknowledgements promise what is durable (weir.fsync.policy=ack, flush.messages=1), so does the high watermark. A
// partition then asks for a group commit with every append, and once when its leadership begins, for what a crash left.
package replica
