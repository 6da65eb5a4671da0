package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

// partitionError is the error of a partition of a request, by the index of its topic and its own.
type partitionError map[[2]int]error

// nameOnce returns the request with every topic and partition in it once. Clients send nothing else; for what does, it is
// as in Kafka: of several record sets for one partition the last that is well formed is appended, and if any is not, its
// error is the answer.
func nameOnce(req *kmsg.ProduceRequest) (*kmsg.ProduceRequest, partitionError) {
	if len(req.Topics) == 1 && len(req.Topics[0].Partitions) == 1 || !repeats(req) {
		return req, nil
	}
	once := *req
	once.Topics = nil
	errs := make(partitionError)
	topics, partitions := make(map[topicKey]int), make(map[produceKey]int)
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := topicKey{t.Topic, t.TopicID}
		at, ok := topics[topic]
		if !ok {
			at = len(once.Topics)
			topics[topic] = at
			once.Topics = append(once.Topics, kmsg.ProduceRequestTopic{Topic: t.Topic, TopicID: t.TopicID})
		}
		out := &once.Topics[at]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			k, seen := partitions[produceKey{topic, p.Partition}]
			if !seen {
				k = len(out.Partitions)
				partitions[produceKey{topic, p.Partition}] = k
				out.Partitions = append(out.Partitions, *p)
			}
			if _, err := batch.OnlyBatch(p.Records, req.Version); err != nil {
				errs[[2]int{at, k}] = err
			} else {
				out.Partitions[k].Records = p.Records
			}
		}
	}
	return &once, errs
}

type topicKey struct {
	name string
	id   kafka.TopicID
}

type produceKey struct {
	topicKey
	partition int32
}

// repeats is asked of every request, so the usual shapes need no memory for the answer.
func repeats(req *kmsg.ProduceRequest) bool {
	for i := range req.Topics {
		if repeatsPartition(req.Topics[i].Partitions) {
			return true
		}
	}
	return repeatsTopic(req.Topics)
}

func repeatsTopic(topics []kmsg.ProduceRequestTopic) bool {
	const few = 8 // are compared with each other
	if len(topics) > few {
		seen := make(map[topicKey]bool, len(topics))
		for i := range topics {
			seen[topicKey{topics[i].Topic, topics[i].TopicID}] = true
		}
		return len(seen) < len(topics)
	}
	for i := range topics {
		for j := range i {
			if topics[i].Topic == topics[j].Topic && topics[i].TopicID == topics[j].TopicID {
				return true
			}
		}
	}
	return false
}

func repeatsPartition(partitions []kmsg.ProduceRequestTopicPartition) bool {
	var low [16]uint64 // a bit for each of the lowest numbers
	var high map[int32]bool
	for i := range partitions {
		n := partitions[i].Partition
		if word := uint32(n) / 64; word < uint32(len(low)) {
			bit := uint64(1) << (n % 64)
			if low[word]&bit != 0 {
				return true
			}
			low[word] |= bit
			continue
		}
		if high[n] {
			return true
		}
		if high == nil {
			high = make(map[int32]bool)
		}
		high[n] = true
	}
	return false
}
