package handler

import (
	"errors"
	"time"

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
// is waited for. Produce never creates topics. Of a partition that stands twice in a request the last one counts, as
// in Kafka.

const adminClientID = "__admin_client" // Kafka lets this client id write to internal topics

func (h *Handlers) produce(r *Request, req *kmsg.ProduceRequest) Reply {
	s := newProduceState(h, req)
	refusal := refuseProduce(req)
	img := h.Image()
	now := h.Clock.Now()
	internalAllowed := r.Header.ClientID != nil && *r.Header.ClientID == adminClientID
	superseded := supersededPartitions(req)

	row, failed := 0, false
	for i := range req.Topics {
		t := &req.Topics[i]
		topic, topicErr := h.produceTopic(img, req.Version, t)
		first := row
		for j := range t.Partitions {
			if superseded != nil && superseded[[2]int{i, j}] {
				continue
			}
			out := s.row(row, t.Partitions[j].Partition)
			err := topicErr
			if err == nil {
				err = refusal
			}
			if err == nil && kafka.IsInternalTopic(topic.Name) && !internalAllowed {
				err = kafka.Errorf(kafka.InvalidTopic, "Cannot append to internal topic %s", topic.Name)
			}
			if err == nil {
				err = h.produceTo(s, row, topic, t.Partitions[j].Records, now)
			}
			if err != nil {
				failed = true
				h.produceError(r, s.resp, img, topic, out, err)
			}
			row++
		}
		s.addTopic(t, first, row)
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

// refuseProduce finds what is wrong with the request as a whole.
func refuseProduce(req *kmsg.ProduceRequest) error {
	transactional := false
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			attributes, _, err := batch.FirstAttributes(req.Topics[i].Partitions[j].Records)
			if err != nil { // Kafka fails at decoding such a request, so that every partition has the error
				return err
			}
			transactional = transactional || attributes.Transactional()
		}
	}
	switch {
	case transactional && req.TransactionID == nil: // authorization comes first, and fails without an id
		return kafka.Errorf(kafka.TransactionalIDAuthorizationFailed, "")
	case req.Acks != replica.AcksAll && req.Acks != replica.AcksLeader && req.Acks != replica.AcksNone:
		return kafka.Errorf(kafka.InvalidRequiredAcks, "")
	case transactional: // no transaction can have been begun
		return kafka.Errorf(kafka.InvalidTxnState, "")
	}
	return nil
}

// supersededPartitions finds the parts of the request that a later part for the same partition replaces; nil for none.
func supersededPartitions(req *kmsg.ProduceRequest) map[[2]int]bool {
	if len(req.Topics) == 1 && len(req.Topics[0].Partitions) == 1 {
		return nil
	}
	type key struct {
		topic     string
		id        kafka.TopicID
		partition int32
	}
	var superseded map[[2]int]bool
	seen := make(map[key][2]int)
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			k := key{req.Topics[i].Topic, req.Topics[i].TopicID, req.Topics[i].Partitions[j].Partition}
			if before, ok := seen[k]; ok {
				if superseded == nil {
					superseded = make(map[[2]int]bool)
				}
				superseded[before] = true
			}
			seen[k] = [2]int{i, j}
		}
	}
	return superseded
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

// produceTo appends to one partition and fills its row.
func (h *Handlers) produceTo(s *produceState, row int, topic *metadata.Topic, records []byte, now time.Time) error {
	out := &s.rows[row]
	p, err := h.topicPartition(topic, out.Partition)
	if err != nil {
		return err
	}
	result, err := p.Append(&replica.AppendRequest{Records: records, Version: s.resp.Version, Acks: s.acks, Now: now, Acker: s, Index: row})
	if err != nil {
		out.LogStartOffset = logStartOnError(err, p)
		return err
	}
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = result.BaseOffset, result.LogAppendTime, result.LogStartOffset
	if result.Parked {
		s.parked(row, p)
	}
	return nil
}

// logStartOnError: Kafka reports the log's start with the errors that come from looking into the records, and -1 with
// those that come before.
func logStartOnError(err error, p *replica.Partition) int64 {
	var invalid *batch.InvalidError
	if errors.As(err, &invalid) && invalid.Code() == kafka.InvalidRecord && len(invalid.RecordErrors) > 0 {
		return p.Log().StartOffset()
	}
	return -1
}

// produceError fills a row that failed, with the leader where the client should turn to it (KIP-951).
func (h *Handlers) produceError(r *Request, resp *kmsg.ProduceResponse, img *metadata.Image, topic *metadata.Topic, row *kmsg.ProduceResponseTopicPartition, err error) {
	row.ErrorCode = h.code(r, err)
	row.BaseOffset, row.LogAppendTime = -1, -1
	var invalid *batch.InvalidError
	if errors.As(err, &invalid) {
		for _, e := range invalid.RecordErrors {
			row.ErrorRecords = append(row.ErrorRecords, kmsg.ProduceResponseTopicPartitionErrorRecord{RelativeOffset: e.BatchIndex, ErrorMessage: nullable(e.Message)})
		}
		if len(invalid.RecordErrors) > 0 {
			row.ErrorMessage = nullable(invalid.Error())
		}
	}
	if row.ErrorCode == int16(kafka.NotLeaderOrFollower) && resp.Version >= 10 && topic != nil && int(row.Partition) < len(topic.Partitions) {
		registration := &topic.Partitions[row.Partition]
		row.CurrentLeader.LeaderID, row.CurrentLeader.LeaderEpoch = int32(registration.Leader), int32(registration.LeaderEpoch)
		if e, ok := endpoint(img, registration.Leader, r.Conn.Listener); ok {
			resp.Brokers = append(resp.Brokers, kmsg.ProduceResponseBroker{NodeID: int32(registration.Leader), Host: e.Host, Port: int32(e.Port), Rack: nullable(e.rack)})
		}
	}
}
