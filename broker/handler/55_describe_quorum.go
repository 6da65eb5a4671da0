package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// DescribeQuorum: v0–2 (KIP-595)
//   - v1: times of followers (KIP-836). v2: directory ids, where voters are reached, error texts (KIP-853).
//
// There is one log to ask for, __cluster_metadata-0, and whoever leads it answers, wherever the client asks. A request that names
// anything else, or more, has UNKNOWN_TOPIC_OR_PARTITION at each of its partitions.
//
// Followers are sent what there is, and do not fetch: the time of the last fetch is that of the last answer to the leader, ten a
// second while all is well. A voter is said to be reached where this client would reach that broker.

// quorumTimeoutMs is how long an answer waits for a leader. It is asked for where things are wrong, and clients wait for 10 s or so.
const quorumTimeoutMs = 5_000

func (h *Handlers) describeQuorum(r *Request, req *kmsg.DescribeQuorumRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	resp.ErrorMessage = new("")
	if !asksForMetadataLog(req) {
		for i := range req.Topics {
			resp.Topics = append(resp.Topics, unknownQuorum(&req.Topics[i]))
		}
		return Now(resp)
	}
	reply, err := h.submit(r, quorumTimeoutMs, controller.DescribeQuorum{})
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = h.code(r, err), messageOf(err)
		return Now(resp)
	}
	quorum := reply.(controller.DescribeQuorumReply)
	row := kmsg.NewDescribeQuorumResponseTopicPartition()
	row.ErrorMessage = new("")
	row.LeaderID, row.LeaderEpoch, row.HighWatermark = int32(quorum.Leader), int32(quorum.LeaderEpoch), quorum.HighWatermark
	row.CurrentVoters, row.Observers = quorumReplicas(quorum.Voters), quorumReplicas(quorum.Learners)
	resp.Nodes = quorumNodes(h.Image(), quorum.Voters, r.Conn.Listener)
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

func quorumReplicas(replicas []controller.QuorumReplica) (rows []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
	for _, q := range replicas {
		row := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		row.ReplicaID, row.ReplicaDirectoryID, row.LogEndOffset = int32(q.Node), q.Directory, q.LogEndOffset
		if q.LastFetchMs != 0 {
			row.LastFetchTimestamp = q.LastFetchMs
		}
		if q.LastCaughtUpMs != 0 {
			row.LastCaughtUpTimestamp = q.LastCaughtUpMs
		}
		rows = append(rows, row)
	}
	return rows
}

func quorumNodes(img *metadata.Image, voters []controller.QuorumReplica, listener string) (nodes []kmsg.DescribeQuorumResponseNode) {
	for _, v := range voters {
		if e, ok := endpoint(img, v.Node, listener); ok {
			nodes = append(nodes, kmsg.DescribeQuorumResponseNode{NodeID: int32(v.Node),
				Listeners: []kmsg.DescribeQuorumResponseNodeListener{{Name: e.Name, Host: e.Host, Port: e.Port}}})
		}
	}
	return nodes
}
