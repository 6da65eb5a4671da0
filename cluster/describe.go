package cluster

import (
	"cmp"
	"slices"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// DescribeQuorum is where the metadata log stands, as far as this node knows: only the one that leads knows how far the others
// have come. Whoever wants to hear that one submits a controller.DescribeQuorum.
func (n *Node) DescribeQuorum() controller.DescribeQuorumReply {
	return describeQuorum(n.QuorumStatus(), n.Image().Quorum)
}

// decision is what becomes of a command on an image.
func (c *control) decision(img *metadata.Image, cmd controller.Command) ([]metadata.Record, controller.Reply, error) {
	if _, asks := cmd.(controller.DescribeQuorum); asks {
		return nil, describeQuorum(c.status.Load(), img.Quorum), nil
	}
	return controller.Decide(&c.o.Settings, img, c.active.leases, c.now, cmd)
}

// describeQuorum finds the nodes behind Raft's ids.
func describeQuorum(raft *quorum.Status, members *metadata.Quorum) controller.DescribeQuorumReply {
	r := controller.DescribeQuorumReply{Leader: kafka.NoBroker, LeaderEpoch: kafka.LeaderEpoch(raft.Term), HighWatermark: raft.HighWatermark}
	if leader, ok := members.ByRaftID(raft.Leader); ok {
		r.Leader = leader.Node
	}
	r.Voters, r.Learners = quorumReplicas(raft.Voters, members), quorumReplicas(raft.Learners, members)
	return r
}

// quorumReplicas are in the order of their nodes. It leaves out whom the image does not know yet: a member is named in it before
// it becomes one.
func quorumReplicas(replicas []quorum.Replica, members *metadata.Quorum) (out []controller.QuorumReplica) {
	for _, r := range replicas {
		if m, ok := members.ByRaftID(r.RaftID); ok {
			out = append(out, controller.QuorumReplica{Node: m.Node, Directory: m.Directory, LogEndOffset: r.LogEndOffset})
		}
	}
	slices.SortFunc(out, func(a, b controller.QuorumReplica) int { return cmp.Compare(a.Node, b.Node) })
	return out
}
