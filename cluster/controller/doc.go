// Package controller decides what should become true of the cluster.
//
// Decide takes the image that is true now, a command and the time, and returns the records that would make the command
// true, with the reply to give once they are in the log. It changes nothing and knows nothing else: no clock, no I/O, no
// randomness (ids and seeds come with the command), no goroutines. Its only caller is the active controller's loop in
// package cluster, which gives every command the image plus what it decided before.
//
// Codes and texts of errors are those of Kafka 4.4's controller, for users search for them.
//
// What holds of every decision: only a committed record makes a leader. Leaders are active brokers (registered, unfenced, not
// shutting down) and come from the ISR, else from the ELR; whoever else is elected, because that is wished or because it was
// the last leader that is known, is to recover first. The leader epoch counts changes of the leader and replicas that are
// taken away, the partition epoch every change. Who leaves an ISR below min.insync.replicas becomes an eligible leader replica
// (KIP-966), unless what it has is doubtful. A broker id has one incarnation with a live session, and every request of a
// broker names its incarnation by the epoch. A reassignment ends with the change of the ISR that makes it complete. A node id is
// given once, and a directory that was removed from the cluster is not let in again.
//
// Leases is the one piece of state here, which the caller owns: who was heard of when, and who is said to be gone.
package controller
