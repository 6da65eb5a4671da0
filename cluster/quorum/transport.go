package quorum

import "go.etcd.io/raft/v3/raftpb"

// Transport carries messages to other members, by Raft id. It may drop, delay and reorder them. It must not block: Send is
// called by the goroutine that steps the Node, and whoever waits there delays elections.
//
// A message of type MsgSnap carries a whole snapshot file as its data; how it went must be told by a SnapshotSent event.
type Transport interface {
	Send(messages []*raftpb.Message)
}
