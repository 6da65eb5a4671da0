package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// DescribeProducers: v0 (KIP-664)
//
// Any replica answers, so that a follower can be compared with its leader.

func (h *Handlers) describeProducers(r *Request, req *kmsg.DescribeProducersRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	img := h.Image()
	for i := range req.Topics {
		t := &req.Topics[i]
		topic, err := byName(img, t.Topic), kafka.ValidateTopicName(t.Topic)
		out := kmsg.DescribeProducersResponseTopic{Topic: t.Topic}
		for _, partition := range t.Partitions {
			out.Partitions = append(out.Partitions, h.partitionProducers(r, topic, partition, err))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return Now(resp)
}

func (h *Handlers) partitionProducers(r *Request, t *metadata.Topic, partition int32, nameErr error) kmsg.DescribeProducersResponseTopicPartition {
	row := kmsg.NewDescribeProducersResponseTopicPartition()
	row.Partition = partition
	if nameErr != nil {
		row.ErrorCode, row.ErrorMessage = h.code(r, nameErr), nullable(nameErr.Error())
		return row
	}
	producers, err := h.producers(t, partition)
	row.ErrorCode = h.code(r, err)
	if t == nil {
		row.ErrorMessage = nullable("This server does not host this topic-partition.")
	}
	for _, s := range producers {
		row.ActiveProducers = append(row.ActiveProducers, kmsg.DescribeProducersResponseTopicPartitionActiveProducer{
			ProducerID: s.ProducerID, ProducerEpoch: int32(s.Epoch), LastSequence: s.LastSequence, LastTimestamp: s.LastTimestamp,
			CoordinatorEpoch: s.CoordinatorEpoch, CurrentTxnStartOffset: s.TxnStartOffset})
	}
	return row
}

func (h *Handlers) producers(t *metadata.Topic, partition int32) ([]replica.ProducerState, error) {
	p, err := h.topicPartition(t, partition)
	if err != nil {
		return nil, err
	}
	return p.Producers(), nil
}
