// Package mutant leaves out, one at a time, the rules of replication without which records are lost, and those without which
// brokers are fenced or a quorum stands still for no reason, so that tests can show that they would notice. A rule is written as
//
//	if end < hw && !mutant.Is("truncateToHW") { … }
//
// and that is all: without the build tag mutant, Is is false for the compiler too, which drops what depends on it. With the
// tag, whoever tests sets Mutant. No goroutines; Mutant is set before anything runs.
package mutant

import "slices"

// names are the rules that can be left out. A name that is not here is a mistake of whoever asks.
var names = []string{
	"hwUnderMinISR",          // the high watermark moves although the ISR is below its minimum (KIP-966)
	"hwBeforeTruncation",     // a follower takes the leader's high watermark before it truncates (KAFKA-14704)
	"shrinkEarly",            // who is to leave the ISR does not count before the controller said so (KIP-497)
	"expandNotCounted",       // who is to join the ISR does not count before the controller said so (KIP-497)
	"electAnyAlive",          // a leader is elected from outside the ISR
	"noEpochBump",            // a change of the leader leaves the leader epoch as it was (KIP-101)
	"noDivergeCheck",         // a leader does not compare the follower's last epoch with its own (KIP-595)
	"truncateToHW",           // a follower truncates to its high watermark when the leader changes (KIP-101)
	"noELR",                  // who may have lost records stays eligible as a leader (KIP-966)
	"updateOnDivergence",     // a fetch that shows that the logs differ counts as progress (KAFKA-13141)
	"noBrokerEpoch",          // incarnations of a broker are not told apart (KIP-903)
	"noLeaderEpochStart",     // a follower joins the ISR without all that the leader began with (KAFKA-7128)
	"noEpochStartAssign",     // a leader notes its epoch only with the first record (KAFKA-10706)
	"noPartitionEpochFence",  // the controller takes an ISR that was decided on an older state (KIP-497)
	"removeVoterBelowQuorum", // a voter leaves the quorum though no majority of those that are left is healthy
	"gossipFences",           // the session of a broker that gossip says to be gone is over at once
	"gossipKeepsAlive",       // the session of a broker that gossip says to be alive goes on though it is silent
}

// Names returns all that can be left out.
func Names() []string { return slices.Clone(names) }
