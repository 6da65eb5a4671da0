package sim

import (
	"fmt"
	"strings"
)

// rarity is a path that runs must take at times: faults that lead nowhere prove nothing.
type rarity int

const (
	rareTruncated rarity = iota
	rareSecondRound
	rareOutOfRangeFollower
	rareEmptyEpoch
	rareSkippedEpoch
	rareElectedFromELR
	rareLastKnownLeader
	rareUnclean
	rareLeaderless
	rareExpandReverted
	rareISRProposalFenced
	rareISRShrunk
	rareISRExpanded
	rareHeldByMinISR
	rareNotEnoughReplicas
	rareFencedBySession
	rareFencedByEvidence
	rareUncleanShutdown
	rareLosslessKill
	rareLostRecords
	rareWiped
	rareDirectoryFailed
	rareProcessFailed
	rareControlledShutdown
	rareControllerMoved
	rareSnapshotInstalled
	rareDuplicateSequence
	rareOffsetNotAvailable
	rareTopicRecreated

	rareGroupMoved
	rareSegmentsRolled
	rareSegmentsDeleted
	rareRumourShortened
	rareLieHarmless
	rareRumouredAddress
	rareJoined
	rareVotersGrew
	rareVoterLost
	rareReplaced
	rareRemovedAlive
	rareRemovalRefused
	rareRemovedStopped
	rareHung
	rareReassigned
	rareReassignedLeader
	rareReassignmentCancelled
	rarities
)

var rareNames = [rarities]string{
	rareTruncated:             "a follower truncated its log",
	rareSecondRound:           "it had to do so twice in one epoch (KIP-279)",
	rareOutOfRangeFollower:    "a follower began anew at its leader's start",
	rareEmptyEpoch:            "a leader epoch without a record lies in a log",
	rareSkippedEpoch:          "a replica missed a leader epoch altogether",
	rareElectedFromELR:        "a leader was elected from the ELR",
	rareLastKnownLeader:       "the last known leader was elected again",
	rareUnclean:               "a leader was elected uncleanly",
	rareLeaderless:            "a partition had no leader",
	rareExpandReverted:        "the controller refused a member of an ISR",
	rareISRProposalFenced:     "an ISR proposal was fenced by its epochs",
	rareISRShrunk:             "a leader shrank its ISR",
	rareISRExpanded:           "a leader expanded its ISR",
	rareHeldByMinISR:          "the high watermark stood still below the minimum of the ISR",
	rareNotEnoughReplicas:     "an append was refused for want of replicas",
	rareFencedBySession:       "a broker was fenced when its session was over",
	rareFencedByEvidence:      "a broker was fenced before its session was over",
	rareUncleanShutdown:       "a broker registered after an unclean shutdown",
	rareLosslessKill:          "a broker registered as whole after it was killed",
	rareLostRecords:           "a power cut took records",
	rareWiped:                 "a disk was lost",
	rareDirectoryFailed:       "a data directory failed, and the broker went on",
	rareProcessFailed:         "a broker stopped because of its disk",
	rareControlledShutdown:    "a broker ended a controlled shutdown",
	rareControllerMoved:       "the active controller changed",
	rareSnapshotInstalled:     "a node took the leader's snapshot of the metadata",
	rareDuplicateSequence:     "a batch was sent again that was there already",
	rareOffsetNotAvailable:    "a new leader did not tell its end yet (KIP-207)",
	rareTopicRecreated:        "a topic was deleted and created anew",
	rareGroupMoved:            "a group's coordinator moved, and had offsets to load",
	rareSegmentsRolled:        "a log had several segments",
	rareSegmentsDeleted:       "a log began above offset 0",
	rareRumourShortened:       "gossip shortened the session of a silent broker",
	rareLieHarmless:           "gossip said that a living broker is gone, and it was not fenced",
	rareRumouredAddress:       "a member was looked for at an address that only gossip named",
	rareJoined:                "a node asked for its id, and joined",
	rareVotersGrew:            "the quorum got more voters",
	rareVoterLost:             "a voter lost its log",
	rareReplaced:              "another machine took a node's place",
	rareRemovedAlive:          "an operator removed a node that lived",
	rareRemovalRefused:        "the quorum could not do without a node that was to be removed",
	rareRemovedStopped:        "a removed node was refused, and stopped",
	rareHung:                  "a disk kept a broker waiting for so long that it fell silent",
	rareReassigned:            "a reassignment was completed under faults",
	rareReassignedLeader:      "the completion of a reassignment moved the leader",
	rareReassignmentCancelled: "a reassignment was cancelled",
}

// Rare counts how often runs took each path.
type Rare [rarities]int

func (r *Rare) count(p rarity) { r[p]++ }

// Add adds the counts of another run.
func (r *Rare) Add(o Rare) {
	for i, n := range o {
		r[i] += n
	}
}

// Missing names the paths that were never taken.
func (r Rare) Missing() (names []string) {
	for i, n := range r {
		if n == 0 {
			names = append(names, rareNames[i])
		}
	}
	return names
}

func (r Rare) String() string {
	var b strings.Builder
	for i, n := range r {
		fmt.Fprintf(&b, "%9d  %s\n", n, rareNames[i])
	}
	return b.String()
}
