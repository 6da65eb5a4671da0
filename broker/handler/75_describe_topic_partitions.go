package handler

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// DescribeTopicPartitions: v0 (KIP-966)
//
// Topics in the order of their names, page by page: a cursor names the next topic and partition.

func (h *Handlers) describeTopicPartitions(r *Request, req *kmsg.DescribeTopicPartitionsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	img := h.Image()
	names, err := describedTopics(img, req)
	if err != nil {
		return Now(describeTopicsRefused(req, resp, err))
	}
	left := int(max(min(req.ResponsePartitionLimit, h.Config.Topics.DescribeLimit), 1))
	for _, name := range names {
		if left == 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name}
			break
		}
		from := 0
		if req.Cursor != nil && req.Cursor.Topic == name {
			from = int(req.Cursor.Partition)
		}
		t := byName(img, name)
		if t == nil {
			if len(req.Topics) > 0 {
				resp.Topics = append(resp.Topics, unknownDescribedTopic(name))
			}
			continue
		}
		end := min(len(t.Partitions), from+left)
		resp.Topics = append(resp.Topics, h.describedTopic(img, t, r.Conn.Listener, from, end))
		if end < len(t.Partitions) {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: int32(end)}
			break
		}
		left -= max(end-from, 0)
	}
	return Now(resp)
}

// describedTopics lists the names to describe, in order, from the cursor's on.
func describedTopics(img *metadata.Image, req *kmsg.DescribeTopicPartitionsRequest) ([]string, error) {
	var names []string
	from := ""
	if req.Cursor != nil {
		from = req.Cursor.Topic
	}
	if len(req.Topics) == 0 {
		for t := range img.Topics.All() {
			if t.Name >= from {
				names = append(names, t.Name)
			}
		}
	} else {
		for i := range req.Topics {
			if req.Topics[i].Topic >= from {
				names = append(names, req.Topics[i].Topic)
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		if req.Cursor != nil && !slices.Contains(names, from) {
			return nil, kafka.Errorf(kafka.InvalidRequest, "DescribeTopicPartitionsRequest topic list should contain the cursor topic: %s", from)
		}
	}
	if req.Cursor != nil && req.Cursor.Partition < 0 {
		return nil, kafka.Errorf(kafka.InvalidRequest, "DescribeTopicPartitionsRequest cursor partition must be valid: %d", req.Cursor.Partition)
	}
	return names, nil
}

// describeTopicsRefused answers a request that is wrong as a whole: the error at each topic that it names.
func describeTopicsRefused(req *kmsg.DescribeTopicPartitionsRequest, resp *kmsg.DescribeTopicPartitionsResponse, err error) *kmsg.DescribeTopicPartitionsResponse {
	for i := range req.Topics {
		row := kmsg.NewDescribeTopicPartitionsResponseTopic()
		row.ErrorCode, row.Topic = int16(kafka.CodeOf(err)), &req.Topics[i].Topic
		resp.Topics = append(resp.Topics, row)
	}
	return resp
}

func unknownDescribedTopic(name string) kmsg.DescribeTopicPartitionsResponseTopic {
	row := kmsg.NewDescribeTopicPartitionsResponseTopic()
	row.Topic, row.ErrorCode, row.IsInternal = &name, int16(kafka.UnknownTopicOrPartition), kafka.IsInternalTopic(name)
	row.AuthorizedOperations = topicOperations
	if err := kafka.ValidateTopicName(name); err != nil {
		row.ErrorCode = int16(kafka.CodeOf(err))
	}
	return row
}

func (h *Handlers) describedTopic(img *metadata.Image, t *metadata.Topic, listener string, from, end int) kmsg.DescribeTopicPartitionsResponseTopic {
	row := kmsg.NewDescribeTopicPartitionsResponseTopic()
	row.Topic, row.TopicID, row.IsInternal, row.AuthorizedOperations = &t.Name, t.ID, kafka.IsInternalTopic(t.Name), topicOperations
	for i := from; i < end; i++ {
		p := &t.Partitions[i]
		out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		out.Partition, out.LeaderID, out.LeaderEpoch = int32(i), int32(p.Leader), int32(p.LeaderEpoch)
		out.Replicas, out.ISR, out.OfflineReplicas = brokerIDs(p.Replicas), brokerIDs(p.ISR), offlineReplicas(img, p, listener)
		out.EligibleLeaderReplicas, out.LastKnownELR = brokerIDs(p.ELR), brokerIDs(p.LastKnownELR)
		if _, ok := liveEndpoint(img, p.Leader, listener); !ok {
			out.LeaderID = int32(kafka.NoBroker) // which is no error here, unlike in Metadata
		}
		row.Partitions = append(row.Partitions, out)
	}
	return row
}
