package broker

import (
	"weir/broker/handler"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// quorumStatus is where Raft stands, with the nodes behind its ids.
func (b *Broker) quorumStatus() handler.QuorumStatus {
	raft, members := b.node.QuorumStatus(), b.node.Image().Quorum
	s := handler.QuorumStatus{Leader: kafka.NoBroker, LeaderEpoch: kafka.LeaderEpoch(raft.Term), HighWatermark: raft.HighWatermark}
	if leader, ok := members.ByRaftID(raft.Leader); ok {
		s.Leader = leader.Node
	}
	s.Voters, s.Learners = quorumReplicas(members, raft.Voters), quorumReplicas(members, raft.Learners)
	return s
}

// quorumReplicas leaves out whom the image does not know yet: a member is named in it before it becomes one.
func quorumReplicas(members *metadata.Quorum, replicas []quorum.Replica) (out []handler.QuorumReplica) {
	for _, r := range replicas {
		if m, ok := members.ByRaftID(r.RaftID); ok {
			out = append(out, handler.QuorumReplica{Node: m.Node, Directory: m.Directory, LogEndOffset: r.LogEndOffset})
		}
	}
	return out
}
