package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

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

type produceKey struct {
	topicKey
	partition int32
}

func repeats(req *kmsg.ProduceRequest) bool {
	for i := range req.Topics {
		var seen partitionSet
		for j := range req.Topics[i].Partitions {
			if !seen.add(req.Topics[i].Partitions[j].Partition) {
				return true
			}
		}
	}
	return !distinct(len(req.Topics), func(i int) topicKey { return topicKey{req.Topics[i].Topic, req.Topics[i].TopicID} })
}
