package handler

import (
	"weir/broker/replica"
	"weir/internal/kafka"
	"weir/protocol"
)

// fetchReply is an answer to Fetch: one allocation for that of one partition.
type fetchReply struct {
	protocol.FetchResponse
	oneTopic     [1]protocol.FetchTopic
	onePartition [1]protocol.FetchPartition
	oneRecords   [1]replica.Records
}

// response makes the answer of the rows, leaving out what the session's consumer knows already. It takes the records
// over.
func (f *fetch) response(r *Request, ctx *fetchContext) *protocol.FetchResponse {
	reply := &fetchReply{FetchResponse: protocol.FetchResponse{Version: f.req.Version}}
	resp := &reply.FetchResponse
	for i := range f.rows {
		row := &f.rows[i]
		f.filled = append(f.filled, protocol.NewFetchPartition(row.asked.key.partition))
		p := &f.filled[i]
		f.fill(r, resp, row, p)
		f.told = append(f.told, told{key: row.asked.key, highWatermark: p.HighWatermark, logStartOffset: p.LogStartOffset,
			hasRecords: row.result.Records.Len() > 0, mustTell: p.ErrorCode != 0 || p.DivergingEpoch != nil || p.PreferredReadReplica >= 0, failed: p.ErrorCode != 0})
	}
	id, code := f.h.sessions.finish(ctx, f.told, r.Received)
	resp.SessionID, resp.ErrorCode = id, int16(code)
	if code != kafka.None {
		f.release()
		return resp
	}
	f.addTopics(reply)
	f.count()
	return resp
}

// count tells the partitions what they are answered with.
func (f *fetch) count() {
	consumer := fetcher(f.req) < 0
	for i := range f.rows {
		row := &f.rows[i]
		if row.partition == nil {
			continue
		}
		bytes := row.result.Records.Len()
		if !consumer {
			row.partition.CountSent(bytes)
			bytes = 0
		}
		row.partition.CountFetch(bytes, row.err)
	}
}

// addTopics adds the partitions that are told. Those that are not have no records to be released.
func (f *fetch) addTopics(reply *fetchReply) {
	n, withRecords := 0, 0
	for i := range f.told {
		if !f.told[i].omit {
			n++
		}
		if f.told[i].hasRecords {
			withRecords++
		}
	}
	partitions, records := reply.onePartition[:0], reply.oneRecords[:0]
	if n > 1 {
		partitions = make([]protocol.FetchPartition, 0, n)
	}
	if withRecords > 1 {
		records = make([]replica.Records, 0, withRecords)
	}
	reply.Topics = reply.oneTopic[:0]
	for i := range f.rows {
		if f.told[i].omit {
			continue
		}
		partitions = append(partitions, f.filled[i])
		if f.told[i].hasRecords {
			records = append(records, f.rows[i].result.Records)
			partitions[len(partitions)-1].Records = &records[len(records)-1]
		}
		addToTopic(&reply.FetchResponse, f.rows[i].asked.key, partitions)
	}
}

// addToTopic gives the last of the partitions to the topic that the one before it belongs to, or to another.
func addToTopic(resp *protocol.FetchResponse, key partitionKey, partitions []protocol.FetchPartition) {
	end := len(partitions)
	last := len(resp.Topics) - 1
	if last < 0 || resp.Topics[last].Name != key.topic || resp.Topics[last].ID != key.id {
		resp.Topics = append(resp.Topics, protocol.FetchTopic{Name: key.topic, ID: key.id, Partitions: partitions[end-1 : end : end]})
		return
	}
	first := end - 1 - len(resp.Topics[last].Partitions)
	resp.Topics[last].Partitions = partitions[first:end:end]
}

// fill fills one partition of the answer, but for its records.
func (f *fetch) fill(r *Request, resp *protocol.FetchResponse, row *fetchRow, p *protocol.FetchPartition) {
	if row.err != nil {
		f.fillError(r, resp, row, p)
		return
	}
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = row.result.HighWatermark, row.result.LastStableOffset, row.result.LogStartOffset
	p.PreferredReadReplica = int32(row.result.PreferredReplica)
	if d := row.result.Diverging; d != nil {
		p.DivergingEpoch = &protocol.EpochEndOffset{Epoch: int32(d.Epoch), EndOffset: d.End}
	}
	if replica.Isolation(f.req.IsolationLevel) == replica.ReadCommitted {
		p.AbortedTransactions = noTransactions // an array, never null
		for _, a := range row.result.Aborted {
			p.AbortedTransactions = append(p.AbortedTransactions, protocol.AbortedTransaction{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
		}
	}
}

func (f *fetch) fillError(r *Request, resp *protocol.FetchResponse, row *fetchRow, p *protocol.FetchPartition) {
	p.ErrorCode = f.h.code(r, row.err)
	if row.partition == nil && (row.topic == nil || kafka.Code(p.ErrorCode) == kafka.UnknownTopicOrPartition) {
		p.AbortedTransactions = noTransactions // what Kafka could not look up has an empty list, and other errors null
	}
	code := kafka.Code(p.ErrorCode)
	if code == kafka.KafkaStorageError && f.req.Version <= 5 { // old clients would take it for fatal
		p.ErrorCode = int16(kafka.NotLeaderOrFollower)
	}
	if f.req.Version < 16 || row.topic == nil || code != kafka.NotLeaderOrFollower && code != kafka.FencedLeaderEpoch {
		return
	}
	leader, epoch := currentLeader(row.err, &row.topic.Partitions[row.asked.key.partition])
	p.CurrentLeader = &protocol.LeaderAndEpoch{LeaderID: int32(leader), LeaderEpoch: int32(epoch)}
	if fetcher(f.req) < 0 { // brokers know where the others are
		e, ok := liveEndpoint(f.h.Image(), leader, r.Conn.Listener)
		resp.AddEndpoint(protocol.NodeEndpoint{NodeID: int32(leader), Host: e.Host, Port: int32(e.Port), Rack: nullable(e.rack)}, ok)
	}
}
