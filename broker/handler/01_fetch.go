package handler

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/protocol"
)

// Fetch: v4–18
//   - v7: sessions (KIP-227). v9: current leader epoch (KIP-320). v11: rack. v12: last fetched epoch (KIP-595).
//   - v13: topics by id alone (KIP-516). v15: replica state (KIP-903). v16: current leader (KIP-951).
//
// A long poll: look, and if there is not enough, register at every partition, look once more, and wait. The first
// partition with records gives at least one whole batch, whatever the limits say (KIP-74).

// fetchRow is one partition of the answer in the making.
type fetchRow struct {
	asked     fetchPartition
	topic     *metadata.Topic // nil where it is unknown
	partition *replica.Partition
	result    replica.ReadResult
	err       error
}

func (h *Handlers) fetch(r *Request, req *kmsg.FetchRequest) Reply {
	byTopicID := req.Version >= 13
	asked, forgotten := askedPartitions(req, byTopicID)
	ctx := h.sessions.begin(req.SessionID, req.SessionEpoch, byTopicID, asked, forgotten, r.Received)
	if ctx.err != kafka.None {
		return Now(&protocol.FetchResponse{Version: req.Version, ErrorCode: int16(ctx.err)})
	}
	img := h.Image()
	readable, unknown := h.resolve(img, ctx.partitions, byTopicID)
	if len(readable) > 0 {
		if !replica.Isolation(req.IsolationLevel).Valid() {
			return Now(fetchFailed(req, kafka.UnknownServerError))
		}
		f := fetch{h: h, req: req, rows: readable, replica: fetcher(req), maxBytes: int(min(req.MaxBytes, h.Config.Fetch.MaxBytes))}
		if !f.run(r) {
			f.release()
			return Silent() // the client is gone
		}
	}
	// Kafka answers what it could not even look up after the rest.
	return Now(h.fetchResponse(r, req, &ctx, append(readable, unknown...)))
}

// askedPartitions lists the request's partitions in the order of service; of a partition that stands twice the last
// values count, in the first place.
func askedPartitions(req *kmsg.FetchRequest, byTopicID bool) (asked []fetchPartition, forgotten []partitionKey) {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	asked = make([]fetchPartition, 0, n)
	var at map[partitionKey]int
	if n > 1 {
		at = make(map[partitionKey]int, n)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			a := fetchPartition{key: fetchKey(byTopicID, t.Topic, t.TopicID, p.Partition), offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes,
				currentLeaderEpoch: kafka.LeaderEpoch(p.CurrentLeaderEpoch), lastFetchedEpoch: kafka.LeaderEpoch(p.LastFetchedEpoch)}
			if k, ok := at[a.key]; ok {
				asked[k] = a
				continue
			}
			if at != nil {
				at[a.key] = len(asked)
			}
			asked = append(asked, a)
		}
	}
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, p := range t.Partitions {
			forgotten = append(forgotten, fetchKey(byTopicID, t.Topic, t.TopicID, p))
		}
	}
	return asked, forgotten
}

func fetchKey(byTopicID bool, topic string, id kafka.TopicID, partition int32) partitionKey {
	if byTopicID {
		return partitionKey{id: id, partition: partition}
	}
	return partitionKey{topic: topic, partition: partition}
}

// resolve looks every partition up: readable ones, and those that the image does not hold.
func (h *Handlers) resolve(img *metadata.Image, asked []fetchPartition, byTopicID bool) (readable, unknown []fetchRow) {
	readable = make([]fetchRow, 0, len(asked))
	for _, a := range asked {
		row := fetchRow{asked: a}
		if byTopicID {
			row.topic = byID(img, a.key.id)
		} else {
			row.topic = byName(img, a.key.topic)
		}
		switch {
		case row.topic == nil && byTopicID:
			row.err = kafka.Errorf(kafka.UnknownTopicID, "")
		case row.topic == nil || a.key.partition < 0 || int(a.key.partition) >= len(row.topic.Partitions):
			row.err = errUnknownTopicOrPartition
		default:
			row.partition, row.err = h.topicPartition(row.topic, a.key.partition)
			readable = append(readable, row)
			continue
		}
		unknown = append(unknown, row)
	}
	return readable, unknown
}

// fetchFailed answers a request that is wrong as a whole, which versions before 13 are told at every partition too.
func fetchFailed(req *kmsg.FetchRequest, code kafka.Code) *protocol.FetchResponse {
	resp := &protocol.FetchResponse{Version: req.Version, ErrorCode: int16(code), SessionID: req.SessionID}
	if req.Version >= 13 {
		return resp
	}
	for i := range req.Topics {
		out := protocol.FetchTopic{Name: req.Topics[i].Topic}
		for j := range req.Topics[i].Partitions {
			p := protocol.NewFetchPartition(req.Topics[i].Partitions[j].Partition)
			p.ErrorCode, p.AbortedTransactions = int16(code), noTransactions
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// noTransactions is an empty list, where nil would be null.
var noTransactions = []protocol.AbortedTransaction{}

// addFetchPartition adds a row to the topic that the row before belongs to, or begins another.
func addFetchPartition(resp *protocol.FetchResponse, key partitionKey, p protocol.FetchPartition) {
	last := len(resp.Topics) - 1
	if last < 0 || resp.Topics[last].Name != key.topic || resp.Topics[last].ID != key.id {
		resp.Topics = append(resp.Topics, protocol.FetchTopic{Name: key.topic, ID: key.id})
		last++
	}
	resp.Topics[last].Partitions = append(resp.Topics[last].Partitions, p)
}

// fetch is the reading part of one request.
type fetch struct {
	h        *Handlers
	req      *kmsg.FetchRequest
	rows     []fetchRow
	replica  kafka.BrokerID // who fetches; negative for a consumer
	maxBytes int
}

// fetcher is the broker that a request says it comes from.
func fetcher(req *kmsg.FetchRequest) kafka.BrokerID {
	if req.Version >= 15 {
		return kafka.BrokerID(req.ReplicaState.ID)
	}
	return kafka.BrokerID(req.ReplicaID)
}

// run reads, and waits for records where the request wants to; it reports false when the client has gone meanwhile.
func (f *fetch) run(r *Request) bool {
	maxWait := time.Duration(f.req.MaxWaitMillis) * time.Millisecond
	if f.look() == 0 || maxWait <= 0 {
		return true
	}
	timer := f.h.Clock.NewTimer(maxWait)
	defer timer.Stop()
	w := replica.NewWaiter()
	defer f.unregister(w)
	for {
		w.Look()
		f.register(w) // before looking, so that nothing comes unseen between the look and the wait
		f.release()
		missing := f.look()
		if missing == 0 {
			return true
		}
		w.Arm(missing)
		select {
		case <-w.C():
		case <-timer.C():
			f.release()
			f.read()
			return true
		case <-f.h.Stopping:
			return true
		case <-r.Conn.Closed():
			return false
		}
	}
}

// look reads, and returns how many bytes are missing until it is worth answering; none where it must be now.
func (f *fetch) look() (missing int) {
	minBytes := min(int(f.req.MinBytes), f.maxBytes)
	got, now := f.read()
	if !now && 0 < got && got < minBytes { // whole batches may be less than what there is
		got, now = f.readable()
	}
	if now {
		return 0
	}
	return max(minBytes-got, 0)
}

// read fills the rows and returns the bytes read, and whether something must be answered at once: an error, or a log
// that diverges from the leader's.
func (f *fetch) read() (bytes int, answerNow bool) {
	left, atLeastOne := f.maxBytes, true
	for i := range f.rows {
		row := &f.rows[i]
		if row.partition == nil {
			answerNow = true
			continue
		}
		row.result, row.err = row.partition.Read(f.readRequest(row, left, atLeastOne))
		if row.err != nil || row.result.Diverging != nil {
			answerNow = true
		}
		n := row.result.Records.Len()
		if n > 0 {
			atLeastOne = false
		}
		left = max(left-n, 0)
		bytes += n
	}
	return bytes, answerNow
}

func (f *fetch) readRequest(row *fetchRow, left int, atLeastOne bool) *replica.ReadRequest {
	return &replica.ReadRequest{Offset: row.asked.offset, MaxBytes: min(int(row.asked.maxBytes), left), AtLeastOne: atLeastOne,
		Isolation: replica.Isolation(f.req.IsolationLevel), Replica: f.replica, CurrentLeaderEpoch: row.asked.currentLeaderEpoch, LastFetchedEpoch: row.asked.lastFetchedEpoch}
}

// readable adds up what min_bytes is compared with, and reports whether there is more than a read can reach.
func (f *fetch) readable() (bytes int, more bool) {
	for i := range f.rows {
		n, beyond := f.rows[i].partition.Readable(f.readRequest(&f.rows[i], math.MaxInt, false))
		bytes += n
		more = more || beyond
	}
	return bytes, more
}

func (f *fetch) release() {
	for i := range f.rows {
		f.rows[i].result.Records.Release()
		f.rows[i].result = replica.ReadResult{}
	}
}

func (f *fetch) register(w *replica.Waiter) {
	for i := range f.rows {
		if p := f.rows[i].partition; p != nil {
			p.Register(w)
		}
	}
}

func (f *fetch) unregister(w *replica.Waiter) {
	for i := range f.rows {
		if p := f.rows[i].partition; p != nil {
			p.Unregister(w)
		}
	}
}

// fetchResponse encodes the rows, leaving out what the session's consumer knows already.
func (h *Handlers) fetchResponse(r *Request, req *kmsg.FetchRequest, ctx *fetchContext, rows []fetchRow) *protocol.FetchResponse {
	resp := &protocol.FetchResponse{Version: req.Version}
	partitions := make([]protocol.FetchPartition, len(rows))
	said := make([]told, len(rows))
	for i := range rows {
		h.fetchPartition(r, req, resp, &rows[i], &partitions[i])
		p := &partitions[i]
		said[i] = told{key: rows[i].asked.key, highWatermark: p.HighWatermark, logStartOffset: p.LogStartOffset,
			hasRecords: rows[i].result.Records.Len() > 0, mustTell: p.ErrorCode != 0 || p.DivergingEpoch != nil, failed: p.ErrorCode != 0}
	}
	id, code, omit := h.sessions.finish(ctx, said, r.Received)
	resp.SessionID, resp.ErrorCode = id, int16(code)
	if code != kafka.None {
		for i := range rows {
			rows[i].result.Records.Release()
		}
		return resp
	}
	for i := range rows {
		if omit != nil && omit[i] {
			rows[i].result.Records.Release()
			continue
		}
		addFetchPartition(resp, rows[i].asked.key, partitions[i])
	}
	return resp
}

// fetchPartition fills one partition of the answer.
func (h *Handlers) fetchPartition(r *Request, req *kmsg.FetchRequest, resp *protocol.FetchResponse, row *fetchRow, p *protocol.FetchPartition) {
	*p = protocol.NewFetchPartition(row.asked.key.partition)
	if row.err != nil {
		h.fetchError(r, req, resp, row, p)
		return
	}
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = row.result.HighWatermark, row.result.LastStableOffset, row.result.LogStartOffset
	if d := row.result.Diverging; d != nil {
		p.DivergingEpoch = &protocol.EpochEndOffset{Epoch: int32(d.Epoch), EndOffset: d.End}
	}
	if replica.Isolation(req.IsolationLevel) == replica.ReadCommitted {
		p.AbortedTransactions = make([]protocol.AbortedTransaction, 0, len(row.result.Aborted)) // an array, never null
		for _, a := range row.result.Aborted {
			p.AbortedTransactions = append(p.AbortedTransactions, protocol.AbortedTransaction{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
		}
	}
	if row.result.Records.Len() > 0 {
		p.Records = row.result.Records
	}
}

func (h *Handlers) fetchError(r *Request, req *kmsg.FetchRequest, resp *protocol.FetchResponse, row *fetchRow, p *protocol.FetchPartition) {
	p.ErrorCode = h.code(r, row.err)
	if row.partition == nil && (row.topic == nil || kafka.Code(p.ErrorCode) == kafka.UnknownTopicOrPartition) {
		p.AbortedTransactions = noTransactions // what Kafka could not look up has an empty list, and other errors null
	}
	code := kafka.Code(p.ErrorCode)
	if code == kafka.KafkaStorageError && req.Version <= 5 { // old clients would take it for fatal
		p.ErrorCode = int16(kafka.NotLeaderOrFollower)
	}
	if req.Version < 16 || row.topic == nil || code != kafka.NotLeaderOrFollower && code != kafka.FencedLeaderEpoch {
		return
	}
	leader, epoch := currentLeader(row.err, &row.topic.Partitions[row.asked.key.partition])
	p.CurrentLeader = &protocol.LeaderAndEpoch{LeaderID: int32(leader), LeaderEpoch: int32(epoch)}
	if fetcher(req) < 0 { // brokers know where the others are
		e, ok := liveEndpoint(h.Image(), leader, r.Conn.Listener)
		resp.AddEndpoint(protocol.NodeEndpoint{NodeID: int32(leader), Host: e.Host, Port: int32(e.Port), Rack: nullable(e.rack)}, ok)
	}
}
