package sim

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// published is the metadata that a client is told.
func (n *node) published() *metadata.Image { return n.proc.image() }

// requestTimeout is how long a broker has a producer wait for an acknowledgement.
const requestTimeout = time.Second

// partition finds what a client asks for.
func (p *process) partition(id partitionID, tp kafka.TopicPartition) (*replica.Partition, kafka.Code) {
	partition := p.replicas.Partition(tp)
	switch {
	case partition == nil && p.replicas.Offline(tp):
		return nil, kafka.KafkaStorageError
	case partition == nil:
		return nil, kafka.UnknownTopicOrPartition
	case partition.TopicID() != id.TopicID:
		return nil, kafka.UnknownTopicID
	}
	return partition, kafka.None
}

// produce appends a batch as leader, and answers when it is acknowledged.
func (n *node) produce(id partitionID, tp kafka.TopicPartition, records []byte, acks int16, reply func(produceResult)) {
	p := n.proc
	partition, code := p.partition(id, tp)
	if partition == nil {
		reply(produceResult{code: code})
		return
	}
	answered := false
	answer := func(r produceResult, err error) {
		if !answered {
			answered = true
			r.err, r.code = err, kafka.CodeOf(err)
			reply(r)
		}
	}
	var early *error // of an acknowledgement that comes before Append returns
	var result replica.AppendResult
	parked := false
	ack := &produceAck{done: func(err error) {
		if !parked {
			early = &err
			return
		}
		answer(produceResult{offset: result.BaseOffset}, err)
	}}
	result, err := partition.Append(&replica.AppendRequest{Records: records, Version: 11, Acks: acks, Now: p.clock.Now(), Acker: ack})
	if result.Duplicate {
		n.s.rare.count(rareDuplicateSequence)
	}
	switch {
	case err != nil || !result.Parked:
		answer(produceResult{offset: result.BaseOffset, duplicate: result.Duplicate}, err)
	case early != nil:
		answer(produceResult{offset: result.BaseOffset}, *early)
	default:
		parked = true
		p.host.after(requestTimeout, func() {
			if !answered {
				partition.Forget(ack)
				answer(produceResult{}, kafka.Errorf(kafka.RequestTimedOut, ""))
			}
		})
	}
}

// fetch serves a consumer.
func (n *node) fetch(id partitionID, tp kafka.TopicPartition, epoch kafka.LeaderEpoch, offset int64, reply func(fetchResult)) {
	partition, code := n.proc.partition(id, tp)
	if partition == nil {
		reply(fetchResult{code: code})
		return
	}
	r, err := partition.Read(&replica.ReadRequest{Offset: offset, MaxBytes: 20_000, AtLeastOne: true, CurrentLeaderEpoch: epoch,
		LastFetchedEpoch: kafka.NoLeaderEpoch, Replica: -1})
	if err != nil {
		reply(fetchResult{code: kafka.CodeOf(err), err: err})
		return
	}
	b, err := take(r.Records)
	reply(fetchResult{code: kafka.CodeOf(err), err: err, epoch: r.LeaderEpoch, records: b})
}

// listOffset tells a consumer where a partition ends or begins.
func (n *node) listOffset(timestamp int64, id partitionID, tp kafka.TopicPartition, epoch kafka.LeaderEpoch, reply func(listResult)) {
	partition, code := n.proc.partition(id, tp)
	if partition == nil {
		reply(listResult{code: code})
		return
	}
	served := partition.LeaderEpoch()
	found, err := partition.ListOffset(timestamp, replica.ReadUncommitted, epoch)
	reply(listResult{code: kafka.CodeOf(err), err: err, epoch: served, offset: found.Offset})
}

// allocateProducerID takes a block of producer ids from the controller and gives the first of them away.
func (n *node) allocateProducerID(reply func(int64)) {
	p := n.proc
	p.submit(controller.AllocateProducerIDs{Broker: n.id, Epoch: p.brokerEpoch()}, func(r controller.Reply, err error) {
		if err != nil {
			reply(-1)
			return
		}
		reply(r.(controller.AllocateProducerIDsReply).Start)
	})
}

// logHandler puts what a broker logs into the trace.
type logHandler struct{ n *node }

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool {
	return h.n.s.w.tracing() && level >= slog.LevelInfo
}

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(" " + a.String())
		return true
	})
	h.n.s.w.tracef("n%d %v %s%s", h.n.id, r.Level, r.Message, b.String())
	return nil
}

func (h logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h logHandler) WithGroup(string) slog.Handler { return h }
