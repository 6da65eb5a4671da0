package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// DescribeQuorum: v0–2 (KIP-595)
//   - v1: times of followers (KIP-836). v2: directory ids, where voters are reached, error texts (KIP-853).
//
// There is one log to ask for, __cluster_metadata-0, and only its leader answers. A request that names anything else, or
// more, has UNKNOWN_TOPIC_OR_PARTITION at each of its partitions.
//
// Raft's own protocol does not say when a follower asked last or had all that there was: these times are unknown (-1) but
// for the leader. A voter is said to be reached where this client would reach that broker.

// QuorumStatus is where the metadata log's Raft stands, as far as this node knows.
type QuorumStatus struct {
	Leader           kafka.BrokerID // NoBroker where it is unknown
	LeaderEpoch      kafka.LeaderEpoch
	HighWatermark    int64 // exclusive
	Voters, Learners []QuorumReplica
}

// QuorumReplica is one node's copy of the metadata log.
type QuorumReplica struct {
	Node         kafka.BrokerID
	Directory    kafka.DirectoryID
	LogEndOffset int64 // exclusive; -1 where it is unknown
}

func (h *Handlers) describeQuorum(r *Request, req *kmsg.DescribeQuorumRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	resp.ErrorMessage = new("")
	if !asksForMetadataLog(req) {
		for i := range req.Topics {
			resp.Topics = append(resp.Topics, unknownQuorum(&req.Topics[i]))
		}
		return Now(resp)
	}
	status := h.Quorum()
	row := kmsg.NewDescribeQuorumResponseTopicPartition()
	row.ErrorMessage = new("")
	if status.Leader != h.Self {
		row.ErrorCode, row.ErrorMessage = int16(kafka.NotLeaderOrFollower), new("For requests intended only for the leader, this error indicates that the broker is not the current leader. For requests intended for any replica, this error indicates that the broker is not a replica of the topic partition.")
	} else {
		row.LeaderID, row.LeaderEpoch, row.HighWatermark = int32(status.Leader), int32(status.LeaderEpoch), status.HighWatermark
		row.CurrentVoters, row.Observers = h.quorumReplicas(status.Voters), h.quorumReplicas(status.Learners)
		resp.Nodes = quorumNodes(h.Image(), status.Voters, r.Conn.Listener)
	}
	resp.Topics = []kmsg.DescribeQuorumResponseTopic{{Topic: kafka.ClusterMetadataTopic, Partitions: []kmsg.DescribeQuorumResponseTopicPartition{row}}}
	return Now(resp)
}

func asksForMetadataLog(req *kmsg.DescribeQuorumRequest) bool {
	return len(req.Topics) == 1 && req.Topics[0].Topic == kafka.ClusterMetadataTopic &&
		len(req.Topics[0].Partitions) == 1 && req.Topics[0].Partitions[0].Partition == 0
}

func unknownQuorum(t *kmsg.DescribeQuorumRequestTopic) kmsg.DescribeQuorumResponseTopic {
	out := kmsg.DescribeQuorumResponseTopic{Topic: t.Topic}
	for _, p := range t.Partitions {
		row := kmsg.NewDescribeQuorumResponseTopicPartition()
		row.Partition, row.ErrorCode, row.ErrorMessage = p.Partition, int16(kafka.UnknownTopicOrPartition), new("This server does not host this topic-partition.")
		out.Partitions = append(out.Partitions, row)
	}
	return out
}

func (h *Handlers) quorumReplicas(replicas []QuorumReplica) (rows []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
	for _, q := range replicas {
		row := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		row.ReplicaID, row.ReplicaDirectoryID, row.LogEndOffset = int32(q.Node), q.Directory, q.LogEndOffset
		if q.Node == h.Self { // the leader has always just asked itself
			now := h.Clock.Now().UnixMilli()
			row.LastFetchTimestamp, row.LastCaughtUpTimestamp = now, now
		}
		rows = append(rows, row)
	}
	return rows
}

func quorumNodes(img *metadata.Image, voters []QuorumReplica, listener string) (nodes []kmsg.DescribeQuorumResponseNode) {
	for _, v := range voters {
		if e, ok := endpoint(img, v.Node, listener); ok {
			nodes = append(nodes, kmsg.DescribeQuorumResponseNode{NodeID: int32(v.Node),
				Listeners: []kmsg.DescribeQuorumResponseNodeListener{{Name: e.Name, Host: e.Host, Port: e.Port}}})
		}
	}
	return nodes
}
