// Package group decides for consumer groups and their committed offsets: it is the shard of one partition of
// __consumer_offsets.
//
// The package is pure: no goroutines, no clock, no I/O. A Shard is called by one goroutine, that of its actor in package
// coordinator.
//
// # Hard and soft
//
// Hard state (group metadata and offsets, as the records hold them) is written by Apply alone, soft state (classic groups
// that live: members that wait, sessions, rebalances) by Step alone. Replaying the records of a shard gives the same hard
// state; of soft state a replay gives what members last synced, and their sessions begin anew.
//
// # The classic protocol
//
// A group goes from Empty to PreparingRebalance (members send JoinGroup, which waits for the others), to
// CompletingRebalance (members send SyncGroup, which waits for the leader's), to Stable when the leader's assignment is
// committed; whatever changes the members leads back to PreparingRebalance, and with the last member gone to Empty. There is
// a file for each request (classic_join.go, …), one for what they share of rebalances, and classic_step.go for how a Step is put
// together.
//
//   - A generation has one leader, and goes up with every completed rebalance.
//   - An assignment is opaque, is given back as it came, and is told to nobody before it is committed.
//   - A call that waits is answered once: by the end of what it waits for, a timer, or the removal of its member.
//   - Every member has a session timer, a rebalance that is prepared a join timer, and members that have joined and not
//     asked for their assignment a sync timer. Timers may fire for what is no more.
//   - What is kept of a request is cloned. The bytes of members are replaced and never changed, as answers refer to them.
//
// # Committed offsets
//
// Offsets need no members: whoever commits without being one gets a group that is Empty and has no protocol type (a simple
// group). Offsets expire by KIP-211 (expiry.go). A group is removed by DeleteGroups, or when it is Empty and has no offset left;
// it is forgotten in the Step that writes its tombstones, and made anew of hard state should they not be appended. What is
// removed while nobody waits for an answer goes in batches that the topic takes.
//
// # Kafka
//
// Errors, their order and what they leave behind are Apache Kafka's. Where Kafka leaves a call without an answer, because
// the member asked again or was removed, it is given one here: REBALANCE_IN_PROGRESS or UNKNOWN_MEMBER_ID.
package group
