// Package cluster is this node's part in the cluster: decide, replicate, apply, publish.
//
// A command is submitted (Submit) on any node and decided on one: the active controller, which is the node that leads Raft
// and has applied what was decided before. Elsewhere the router gives it to that node, through Peers, and again, to whoever
// leads by then, until there is an answer (route.go, repeat.go). There it waits in a queue. The control loop takes the whole
// queue, has package controller decide each command on the image plus what it decided before, and proposes everything as one
// entry to package quorum. When the entry is applied, the publisher of every node tells its subscribers, in their order, then
// makes the image the one that Image returns, then answers the commands that this node submitted. So whoever has an answer
// finds on its own broker what the answer says, and clients see of a topic only what can be used already.
//
// One entry is in flight at a time: the queue meanwhile becomes the next one, so that a thousand commands cost a few syncs
// of the disk. An entry that was decided on an image that is no longer the newest is skipped by every node, and its
// commands are decided again. When a node stops leading, other nodes' commands fail with NOT_CONTROLLER, and its own are
// routed; a command that was in flight may have come true nevertheless.
//
// The broker of a node registers, and keeps its session by heartbeats, as in KIP-631 (lifecycle.go); that goes the way of
// every command. A broker whose disks neither answer nor fail is silent (Stalled), and one that no controller hears may be told that
// its session may be over (LeaseLost). Leases are what the active controller heard since it became that: whose session is over is
// fenced. A process that is gone need not be waited for: other nodes saw its host refuse them (Observe), tell so in a heartbeat at
// once, and two witnesses are enough. If that process was the active controller itself, they elect another one at once too, and
// what they saw is told to that one. A node that is alone in its cluster sends itself no heartbeats and has no ticks.
//
// Who is registered as a member becomes a learner of Raft: that is how a node joins. Who votes is a matter of the active
// controller (autopilot.go), by a pure decision (membership.go): learners that may and keep up get votes, so that the number of
// voters is odd, from one to three in one change; one takes the place of a voter that cannot come back, or was silent for long;
// and who is removed from the image leaves Raft. No vote is given up unless a majority is healthy afterwards, and what the quorum
// would not survive is refused. A node that goes gives away what it leads first (Shutdown).
//
// Gossip is a hint and no more (gossip.go, rumours.go): it shortens a silence, names an address where that of the image has failed, and
// whom to ask where nobody is known to lead.
//
// Goroutines: the control loop owns the quorum and all that is not the publisher's; the publisher calls subscribers. Both are
// structs with a Step that Run loops only feed (control.go, publish.go). Start begins both, Close ends and awaits them; or one
// goroutine drives a node by hand (Open, Step, NextWake): the same inputs at the same times give the same run. What others may
// know of the quorum is left behind, immutable, after each of its steps (QuorumStatus): nobody waits for the loop, which may
// wait for the disk. Callbacks given to a node must not block; those of Options, Peers and Decide are called by the control
// loop. Locks: only those of the two mailboxes, never held while anything else is done.
package cluster
