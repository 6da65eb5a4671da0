// Package cluster is this node's part in the cluster: decide, replicate, apply, publish.
//
// A command (Submit) waits in a queue. The control loop takes the whole queue, has package controller decide each command on
// the image plus what it decided before, and proposes everything as one entry to package quorum. When the entry is
// applied, the publisher tells the subscribers, in their order, then makes the image the one that Image returns, then
// answers the commands. So whoever has an answer finds on this broker what the answer says, and clients see of a topic only
// what can be used already.
//
// One entry is in flight at a time: the queue meanwhile becomes the next one, so that a thousand commands cost a few syncs
// of the disk. An entry that was decided on an image that is no longer the newest is skipped by every node, and its
// commands are decided again. When this node stops leading, commands fail with NOT_CONTROLLER; a command that was in
// flight may have come true nevertheless.
//
// Goroutines: the control loop owns quorum, queue and leases; the publisher calls subscribers. Both are structs with a
// Step that Run loops only feed (control.go, publish.go), so that a test can drive a node from one goroutine. Start begins
// both, Close ends and awaits them. What others may know of the quorum is left behind, immutable, after each of its steps
// (QuorumStatus): nobody waits for the loop, which may wait for the disk. Locks: only those of the two mailboxes, never held while anything else is done.
//
// Leases: a broker's session is what the active controller heard from it since it became active. They decide whether
// another incarnation of a broker may register. A node that is alone hears only from itself and never expires itself.
package cluster
