package handler

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/internal/kafka"
)

// ListOffsets: v1–11
//   - v2: isolation level. v4: leader epochs (KIP-320). v5: OFFSET_NOT_AVAILABLE (KIP-207).
//   - v7: max timestamp (-3). v8: local log start (-4, KIP-405). v9: last tiered (-5). v11: earliest pending upload (-6).
//
// Nothing is tiered, so -4 is -2, and -5 and -6 find nothing.

// timestampSince maps the special timestamps to the version that brought them.
var timestampSince = map[int64]int16{
	replica.TimestampLatest:                0,
	replica.TimestampEarliest:              0,
	replica.TimestampMax:                   7,
	replica.TimestampEarliestLocal:         8,
	replica.TimestampLatestTiered:          9,
	replica.TimestampEarliestPendingUpload: 11,
}

// debuggingReplica is for tools that compare replicas (kafka-replica-verification): a follower answers it, too.
const debuggingReplica = -2

func (h *Handlers) listOffsets(r *Request, req *kmsg.ListOffsetsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	if !replica.Isolation(req.IsolationLevel).Valid() {
		return Now(listOffsetsFailed(req, resp, kafka.UnknownServerError))
	}
	duplicates := duplicatePartitions(req)
	at := make(map[string]int) // topic → its row
	answered := make(map[kafka.TopicPartition]bool)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			if answered[tp] {
				continue // one row for all of them
			}
			answered[tp] = true
			k, ok := at[t.Topic]
			if !ok {
				k = len(resp.Topics)
				at[t.Topic] = k
				resp.Topics = append(resp.Topics, kmsg.ListOffsetsResponseTopic{Topic: t.Topic})
			}
			resp.Topics[k].Partitions = append(resp.Topics[k].Partitions, h.listedRow(r, req, tp, p, duplicates[tp]))
		}
	}
	return Now(resp)
}

func (h *Handlers) listedRow(r *Request, req *kmsg.ListOffsetsRequest, tp kafka.TopicPartition, p *kmsg.ListOffsetsRequestTopicPartition, duplicate bool) kmsg.ListOffsetsResponseTopicPartition {
	row := kmsg.NewListOffsetsResponseTopicPartition()
	row.Partition, row.Offset, row.Timestamp, row.LeaderEpoch = p.Partition, -1, -1, -1
	since, special := timestampSince[p.Timestamp]
	switch {
	case duplicate:
		row.ErrorCode = int16(kafka.InvalidRequest)
	case p.Timestamp < 0 && (!special || req.Version < since):
		row.ErrorCode = int16(kafka.UnsupportedVersion)
	default:
		found, err := h.listOffset(req, tp, p)
		if err != nil {
			row.ErrorCode = h.listOffsetsCode(r, req.Version, err)
		} else {
			row.Offset, row.Timestamp, row.LeaderEpoch = found.Offset, found.Timestamp, int32(found.LeaderEpoch)
		}
	}
	return row
}

// listOffsetsFailed answers a request that is wrong as a whole: the error at each partition.
func listOffsetsFailed(req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse, code kafka.Code) *kmsg.ListOffsetsResponse {
	for i := range req.Topics {
		out := kmsg.ListOffsetsResponseTopic{Topic: req.Topics[i].Topic}
		for j := range req.Topics[i].Partitions {
			row := kmsg.NewListOffsetsResponseTopicPartition()
			row.Partition, row.ErrorCode = req.Topics[i].Partitions[j].Partition, int16(code)
			row.Offset, row.Timestamp, row.LeaderEpoch = -1, -1, -1
			out.Partitions = append(out.Partitions, row)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (h *Handlers) listOffset(req *kmsg.ListOffsetsRequest, tp kafka.TopicPartition, p *kmsg.ListOffsetsRequestTopicPartition) (replica.ListedOffset, error) {
	partition, err := h.topicPartition(byName(h.Image(), tp.Topic), tp.Partition)
	if err != nil {
		return replica.ListedOffset{}, err
	}
	isolation := replica.Isolation(req.IsolationLevel)
	switch {
	case req.ReplicaID == debuggingReplica:
		return partition.ListOwnOffset(p.Timestamp, kafka.LeaderEpoch(p.CurrentLeaderEpoch))
	case req.ReplicaID >= 0: // a follower
		isolation = replica.UpToLogEnd
	}
	return partition.ListOffset(p.Timestamp, isolation, kafka.LeaderEpoch(p.CurrentLeaderEpoch))
}

// listOffsetsCode tells clients from before KIP-207 in a way they know that the answer is not there yet.
func (h *Handlers) listOffsetsCode(r *Request, version int16, err error) int16 {
	var refused *replica.Error
	if errors.As(err, &refused) && refused.Code() == kafka.OffsetNotAvailable && version < 5 {
		return int16(kafka.LeaderNotAvailable)
	}
	return h.code(r, err)
}

func duplicatePartitions(req *kmsg.ListOffsetsRequest) map[kafka.TopicPartition]bool {
	duplicates := make(map[kafka.TopicPartition]bool)
	seen := make(map[kafka.TopicPartition]bool)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			tp := kafka.TopicPartition{Topic: req.Topics[i].Topic, Partition: req.Topics[i].Partitions[j].Partition}
			if seen[tp] {
				duplicates[tp] = true
			}
			seen[tp] = true
		}
	}
	return duplicates
}
