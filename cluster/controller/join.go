package controller

import (
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// JoinNode asks for the id of a node that is to join the cluster, before it registers as a member. It is repeated without
// effect: a directory keeps its node. Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION (Node is alive with other
// directories), INVALID_REGISTRATION (the directory was removed from the cluster), INVALID_REQUEST.
type JoinNode struct {
	ClusterID string
	Directory kafka.DirectoryID // of its metadata log
	Node      kafka.BrokerID    // that it is configured with; NoBroker: the lowest id from 1 on that was never used
}

// JoinNodeReply is the id of the node.
type JoinNodeReply struct{ Node kafka.BrokerID }

// RemoveMember removes a node with its directory from the cluster for good: the member of the quorum, and the registration of
// its broker if the directory is one of its. Neither directory nor node id is let in again but for a member that has the
// id with another directory. Errors: INCONSISTENT_CLUSTER_ID, VOTER_NOT_FOUND.
type RemoveMember struct {
	ClusterID string
	Node      kafka.BrokerID
	Directory kafka.DirectoryID // of its metadata log
}

// RemoveMemberReply has nothing to say.
type RemoveMemberReply struct{}

// SetGossipKey gives a cluster the key that its members gossip with. It has no effect where there is one. Errors:
// INVALID_REQUEST (not 32 bytes).
type SetGossipKey struct{ Key metadata.GossipKey }

// SetGossipKeyReply has nothing to say.
type SetGossipKeyReply struct{}

func (JoinNode) command()     {}
func (RemoveMember) command() {}
func (SetGossipKey) command() {}

func (JoinNodeReply) reply()     {}
func (RemoveMemberReply) reply() {}
func (SetGossipKeyReply) reply() {}
