package cluster

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// DescribeQuorum is where the metadata log stands, as far as this node knows: only the one that leads knows how far the others
// have come, and when. Whoever wants to hear that one submits a controller.DescribeQuorum.
func (n *Node) DescribeQuorum() controller.DescribeQuorumReply {
	return describeQuorum(n.QuorumStatus(), n.Image().Quorum, n.o.Clock.Now())
}

// decision is what becomes of a command on an image.
func (c *control) decision(img *metadata.Image, cmd controller.Command) ([]metadata.Record, controller.Reply, error) {
	if _, asks := cmd.(controller.DescribeQuorum); asks {
		return nil, describeQuorum(c.status.Load(), img.Quorum, c.now), nil
	}
	records, reply, err := controller.Decide(&c.o.Settings, img, c.active.leases, c.now, cmd)
	if removal, removes := cmd.(controller.RemoveMember); removes && len(records) > 0 {
		if err := c.checkRemoval(img, removal); err != nil {
			return nil, nil, err
		}
	}
	return records, reply, c.lastWord(cmd, err)
}

// describeQuorum finds the nodes behind Raft's ids.
func describeQuorum(raft *quorum.Status, members *metadata.Quorum, now time.Time) controller.DescribeQuorumReply {
	r := controller.DescribeQuorumReply{Leader: kafka.NoBroker, LeaderEpoch: kafka.LeaderEpoch(raft.Term), HighWatermark: raft.HighWatermark}
	if leader, ok := members.ByRaftID(raft.Leader); ok {
		r.Leader = leader.Node
	}
	replicas := func(all []quorum.Replica) (out []controller.QuorumReplica) {
		for _, q := range all {
			if raft.Ready && q.RaftID == raft.Leader { // which has always just asked itself
				q.LastContact, q.LastCaughtUp = now, now
			}
			if m, ok := members.ByRaftID(q.RaftID); ok {
				out = append(out, quorumReplica(q, m))
			}
		}
		slices.SortFunc(out, func(a, b controller.QuorumReplica) int {
			return cmp.Or(cmp.Compare(a.Node, b.Node), bytes.Compare(a.Directory[:], b.Directory[:]))
		})
		return out
	}
	// Whom the image does not know is left out: a member is named in it before it becomes one, and removed before it is none.
	r.Voters, r.Learners = replicas(raft.Voters), replicas(raft.Learners)
	return r
}

func quorumReplica(q quorum.Replica, m metadata.QuorumMember) controller.QuorumReplica {
	ms := func(at time.Time) int64 {
		if at.IsZero() {
			return 0
		}
		return at.UnixMilli()
	}
	return controller.QuorumReplica{
		Node: m.Node, Directory: m.Directory, LogEndOffset: q.LogEndOffset, LastFetchMs: ms(q.LastContact), LastCaughtUpMs: ms(q.LastCaughtUp),
	}
}
