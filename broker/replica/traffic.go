package replica

import (
	"sync"

	"weir/internal/kafka"
	"weir/internal/metrics"
)

// Traffic counts what clients do with a topic's partitions on this broker, by Kafka's notion of each count
// (BrokerTopicMetrics). All partitions of the topic share it: counting is an atomic add for each batch or request.
type Traffic struct {
	messagesIn, bytesIn, bytesOut, bytesRejected metrics.Counter
	produceRequests, fetchRequests               metrics.Counter
	failedProduceRequests, failedFetchRequests   metrics.Counter
	copiedIn, copiedOut                          metrics.Counter // by followers
}

// TrafficCounts are the values of a Traffic at one moment. Requests are counted once for each partition that they name.
type TrafficCounts struct {
	MessagesIn            int64 // records of batches that were appended, or had been before (a duplicate)
	BytesIn               int64 // of these batches, as they came
	BytesOut              int64 // of batches sent to consumers; to followers they do not count
	BytesRejected         int64 // of batches that were too large
	ProduceRequests       int64
	FetchRequests         int64
	FailedProduceRequests int64 // failures that are no usual part of a client's life, such as finding the new leader
	FailedFetchRequests   int64
	CopiedIn, CopiedOut   int64 // bytes of batches that this broker fetched as a follower, and that its followers were sent
}

// appended counts a batch of n bytes that came in a Produce, with what became of it.
func (t *Traffic) appended(n int, records int64, err error) {
	t.produceRequests.Inc()
	if err == nil {
		t.bytesIn.Add(int64(n))
		t.messagesIn.Add(records)
		return
	}
	switch kafka.CodeOf(err) {
	case kafka.MessageTooLarge:
		t.bytesRejected.Add(int64(n))
	case kafka.UnknownTopicOrPartition, kafka.NotLeaderOrFollower, kafka.RecordListTooLarge, kafka.CorruptMessage, kafka.KafkaStorageError:
	default:
		t.failedProduceRequests.Inc()
	}
}

// CountFetch counts one partition of an answer to Fetch: bytes that are sent to a consumer, or why nothing is.
func (p *Partition) CountFetch(bytes int, err error) {
	t := p.traffic
	t.fetchRequests.Inc()
	if bytes > 0 {
		t.bytesOut.Add(int64(bytes))
	}
	if err == nil {
		return
	}
	switch kafka.CodeOf(err) {
	case kafka.UnknownTopicOrPartition, kafka.NotLeaderOrFollower, kafka.UnknownLeaderEpoch, kafka.FencedLeaderEpoch,
		kafka.ReplicaNotAvailable, kafka.KafkaStorageError, kafka.InconsistentTopicID, kafka.OffsetOutOfRange:
	default:
		t.failedFetchRequests.Inc()
	}
}

func (t *Traffic) counts() TrafficCounts {
	return TrafficCounts{
		MessagesIn: t.messagesIn.Value(), BytesIn: t.bytesIn.Value(), BytesOut: t.bytesOut.Value(), BytesRejected: t.bytesRejected.Value(),
		ProduceRequests: t.produceRequests.Value(), FetchRequests: t.fetchRequests.Value(),
		FailedProduceRequests: t.failedProduceRequests.Value(), FailedFetchRequests: t.failedFetchRequests.Value(),
		CopiedIn: t.copiedIn.Value(), CopiedOut: t.copiedOut.Value(),
	}
}

func (c *TrafficCounts) add(d TrafficCounts) {
	c.MessagesIn += d.MessagesIn
	c.BytesIn += d.BytesIn
	c.BytesOut += d.BytesOut
	c.BytesRejected += d.BytesRejected
	c.ProduceRequests += d.ProduceRequests
	c.FetchRequests += d.FetchRequests
	c.FailedProduceRequests += d.FailedProduceRequests
	c.FailedFetchRequests += d.FailedFetchRequests
	c.CopiedIn += d.CopiedIn
	c.CopiedOut += d.CopiedOut
}

// traffics are the counts of all topics that have a partition on this broker, and the sum of those that had one. The zero
// value is ready.
type traffics struct {
	mu struct {
		sync.Mutex
		topics map[string]*topicTraffic
		past   TrafficCounts
	}
}

type topicTraffic struct {
	Traffic
	partitions int // that share it
}

// join returns the counts of a topic for one more partition.
func (t *traffics) join(topic string) *Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.mu.topics[topic]
	if of == nil {
		of = new(topicTraffic)
		if t.mu.topics == nil {
			t.mu.topics = make(map[string]*topicTraffic)
		}
		t.mu.topics[topic] = of
	}
	of.partitions++
	return &of.Traffic
}

// leave takes a partition away. With its last one a topic has no counts of its own any more, as in Kafka; the sum over all
// topics keeps them, so that it never falls.
func (t *traffics) leave(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.mu.topics[topic]
	if of.partitions--; of.partitions == 0 {
		t.mu.past.add(of.counts())
		delete(t.mu.topics, topic)
	}
}

// Traffic returns what clients did since the broker started: by topic, for those that have a partition here, and in sum.
func (m *Manager) Traffic() (byTopic map[string]TrafficCounts, all TrafficCounts) {
	t := &m.traffics
	t.mu.Lock()
	defer t.mu.Unlock()
	all = t.mu.past
	byTopic = make(map[string]TrafficCounts, len(t.mu.topics))
	for topic, of := range t.mu.topics {
		c := of.counts()
		byTopic[topic] = c
		all.add(c)
	}
	return byTopic, all
}
