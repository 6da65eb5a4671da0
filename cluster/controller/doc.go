// Package controller decides what should become true of the cluster.
//
// Decide takes the image that is true now, a command and the time, and returns the records that would make the command
// true, with the reply to give once they are in the log. It changes nothing and knows nothing else: no clock, no I/O, no
// randomness (ids and seeds come with the command), no goroutines. Its only caller is the active controller's loop in
// package cluster, which gives every command the image plus what it decided before.
//
// Codes and texts of errors are those of Kafka 4.4's controller, for users search for them. Rules named R1 to R9 in comments
// are: only a committed record makes a leader (R1); leaders come from the ISR, else from the ELR, of active brokers (R2);
// the leader epoch counts changes of leader, the partition epoch every change (R3); who leaves an ISR below
// min.insync.replicas becomes an eligible leader replica, unless what it has is doubtful (R6, R7); a broker id has one
// incarnation with a live session (R8), and every request names the incarnation by its epoch (R9).
package controller
