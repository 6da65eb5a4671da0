package handler

import (
	"cmp"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/protocol/batch"
)

// Produce: v3–13 (v0–2 are advertised, and refused, so that old librdkafka keeps its compression: KAFKA-18659)
//   - v5: log start offset. v7: zstd. v8: errors by record (KIP-467). v10: current leader (KIP-951). v12: KIP-890.
//   - v13: topics by id (KIP-516).
//
// Pipelined: the append is done when this returns, so the connection's next request may start while an acknowledgement
// is waited for. Produce never creates topics.

const adminClientID = "__admin_client" // Kafka lets this client id write to internal topics

func (h *Handlers) produce(r *Request, req *kmsg.ProduceRequest) Reply {
	whole, later := refuseProduce(req) // looks at everything that came, also at what a later part of the request replaces
	req, malformed := nameOnce(req)
	s := newProduceState(h, req, r.Conn.Listener, h.Clock.Now())
	img := h.Image()
	c := produceContext{refusal: later, internalAllowed: r.Header.ClientID != nil && *r.Header.ClientID == adminClientID}

	failed := false
	for i := range req.Topics {
		t := &req.Topics[i]
		topic, topicErr := h.produceTopic(img, req.Version, t)
		first := len(s.rows)
		for j := range t.Partitions {
			row := s.addRow(t.Partitions[j].Partition)
			err := cmp.Or(whole, topicErr)
			if err == nil {
				err = h.produceTo(s, row, topic, t.Partitions[j].Records, c)
			}
			if other := malformed[[2]int{i, j}]; other != nil && whole == nil && kafka.CodeOf(err) != kafka.UnknownTopicOrPartition && kafka.CodeOf(err) != kafka.UnknownTopicID {
				err, s.rows[row].LogStartOffset = other, -1
			}
			if err != nil {
				failed = true
				h.produceError(r, s, img, topic, row, err)
			}
		}
		s.addTopic(t, first)
	}
	if req.Acks == replica.AcksNone {
		if failed {
			return Close(errProduceUnanswerable)
		}
		return Silent()
	}
	return s.reply(req.TimeoutMillis)
}

var errProduceUnanswerable = errors.New("a produce request with acks=0 failed, and closing is the only answer that it can have")

var errTransactional = kafka.Errorf(kafka.InvalidTxnState, "")

// refuseProduce finds what is wrong with the request as a whole: what counts before any topic is looked up, and what
// only counts for a partition that exists and has one batch.
func refuseProduce(req *kmsg.ProduceRequest) (whole, later error) {
	transactional, err := firstTransactional(req)
	if err != nil { // Kafka fails at decoding such a request, so that every partition has the error
		return err, nil
	}
	switch {
	case transactional && req.TransactionID == nil: // authorization comes first, and fails without an id
		return kafka.Errorf(kafka.TransactionalIDAuthorizationFailed, ""), nil
	case req.Acks != replica.AcksAll && req.Acks != replica.AcksLeader && req.Acks != replica.AcksNone:
		return nil, kafka.Errorf(kafka.InvalidRequiredAcks, "")
	case transactional: // no transaction can have been begun
		return nil, errTransactional
	}
	return nil, nil
}

// firstTransactional looks for a transactional batch, and no further than that: what is malformed behind it is not found.
func firstTransactional(req *kmsg.ProduceRequest) (bool, error) {
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			attributes, _, err := batch.FirstAttributes(req.Topics[i].Partitions[j].Records)
			if err != nil || attributes.Transactional() {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// produceTopic finds the topic that a part of the request is for.
func (h *Handlers) produceTopic(img *metadata.Image, version int16, t *kmsg.ProduceRequestTopic) (*metadata.Topic, error) {
	if version >= 13 {
		if topic := byID(img, t.TopicID); topic != nil {
			return topic, nil
		}
		return nil, kafka.Errorf(kafka.UnknownTopicID, "")
	}
	if topic := byName(img, t.Topic); topic != nil {
		return topic, nil
	}
	return nil, errUnknownTopicOrPartition
}

// produceContext is what the partitions of a request have in common.
type produceContext struct {
	refusal         error // nil: go on
	internalAllowed bool
}

// produceTo appends to one partition and fills its row.
func (h *Handlers) produceTo(s *produceState, row int, topic *metadata.Topic, records []byte, c produceContext) error {
	out := &s.rows[row]
	p, err := h.topicPartition(topic, out.Partition)
	if err != nil {
		return err
	}
	if c.refusal == errTransactional {
		out.LogStartOffset = p.Log().StartOffset()
	}
	if c.refusal != nil {
		if _, err := batch.OnlyBatch(records, s.resp.Version); err != nil {
			return err
		}
		return c.refusal
	}
	if kafka.IsInternalTopic(topic.Name) && !c.internalAllowed {
		return kafka.Errorf(kafka.InvalidTopic, "Cannot append to internal topic %s", topic.Name)
	}
	if err := s.append(row, p, records); err != nil {
		out.LogStartOffset = logStartOnError(err, p)
		return err
	}
	return nil
}

// logStartOnError: with most errors of an append Kafka reports where the log starts, and with some it says nothing.
func logStartOnError(err error, p *replica.Partition) int64 {
	var invalid *batch.InvalidError
	if errors.As(err, &invalid) && invalid.Early {
		return -1
	}
	switch kafka.CodeOf(err) {
	case kafka.NotLeaderOrFollower, kafka.MessageTooLarge, kafka.RecordListTooLarge, kafka.CorruptMessage, kafka.KafkaStorageError:
		return -1
	}
	return p.Log().StartOffset()
}

// produceError fills a row that failed, with the leader where the client should turn to it (KIP-951). The row may be
// parked: its records were appended, and others for the same partition were malformed.
func (h *Handlers) produceError(r *Request, s *produceState, img *metadata.Image, topic *metadata.Topic, i int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row := &s.rows[i]
	row.ErrorCode = h.code(r, err)
	row.BaseOffset, row.LogAppendTime = -1, -1
	var invalid *batch.InvalidError
	if errors.As(err, &invalid) {
		for _, e := range invalid.RecordErrors {
			row.ErrorRecords = append(row.ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{RelativeOffset: e.BatchIndex, ErrorMessage: nullable(e.Message)})
		}
		row.ErrorMessage = nullable(invalid.Message)
	}
	if row.ErrorCode == int16(kafka.NotLeaderOrFollower) {
		leader, epoch := currentLeader(err, &topic.Partitions[row.Partition])
		s.nameLeader(img, row, leader, epoch)
	}
}

// nameLeader tells, in versions that have a place for it, who leads a row's partition and where that one is reached, if it is
// alive.
func (s *produceState) nameLeader(img *metadata.Image, row *kmsg.ProduceResponseTopicPartition, leader kafka.BrokerID, epoch kafka.LeaderEpoch) {
	if s.resp.Version < 10 {
		return
	}
	row.CurrentLeader.LeaderID, row.CurrentLeader.LeaderEpoch = int32(leader), int32(epoch)
	named := func(b kmsg.ProduceResponseBroker) bool { return b.NodeID == int32(leader) }
	if e, ok := liveEndpoint(img, leader, s.listener); ok && !slices.ContainsFunc(s.resp.Brokers, named) {
		s.resp.Brokers = append(s.resp.Brokers, kmsg.ProduceResponseBroker{NodeID: int32(leader), Host: e.Host, Port: int32(e.Port), Rack: nullable(e.rack)})
	}
}
