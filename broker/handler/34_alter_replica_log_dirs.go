package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

// AlterReplicaLogDirs: v1–2 (KIP-113)
//   - v2: flexible.
//
// Moves replicas of the broker that is asked between its data directories; it is for that broker alone, whoever leads. It answers when
// the moves have begun; DescribeLogDirs shows how far they are. Of a partition that stands twice the last directory counts. One that
// this broker has no replica of is answered REPLICA_NOT_AVAILABLE, and will be made in that directory should it come. Tools rely on
// both: they name directories before they have partitions reassigned.

func (h *Handlers) alterReplicaLogDirs(r *Request, req *kmsg.AlterReplicaLogDirsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.AlterReplicaLogDirsResponse)
	last := make(map[kafka.TopicPartition]string)
	for i := range req.Dirs {
		eachInDir(&req.Dirs[i], func(tp kafka.TopicPartition) { last[tp] = req.Dirs[i].Dir })
	}
	at := make(map[string]int) // topic → its row
	for i := range req.Dirs {
		eachInDir(&req.Dirs[i], func(tp kafka.TopicPartition) {
			path, todo := last[tp]
			if !todo {
				return
			}
			delete(last, tp)
			k, ok := at[tp.Topic]
			if !ok {
				k = len(resp.Topics)
				at[tp.Topic] = k
				resp.Topics = append(resp.Topics, kmsg.AlterReplicaLogDirsResponseTopic{Topic: tp.Topic})
			}
			row := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
			row.Partition = tp.Partition
			if err := h.Replicas.MoveReplica(tp, path); err != nil {
				h.Logger.Warn("a replica is not moved to another directory", "partition", tp, "dir", path, "error", err)
				row.ErrorCode = h.code(r, err)
			}
			resp.Topics[k].Partitions = append(resp.Topics[k].Partitions, row)
		})
	}
	return Now(resp)
}

func eachInDir(d *kmsg.AlterReplicaLogDirsRequestDir, f func(kafka.TopicPartition)) {
	for i := range d.Topics {
		for _, p := range d.Topics[i].Partitions {
			f(kafka.TopicPartition{Topic: d.Topics[i].Topic, Partition: p})
		}
	}
}
