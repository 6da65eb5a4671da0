package handler

import (
	"math"
	"slices"
	"sync"
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
//
// A broker that names itself fetches as a follower: it reads up to the log's end, and what it asks for tells what it has.
//
// Consumers may read from followers (fetch_preferred.go).

// fetchRow is one partition of the answer in the making.
type fetchRow struct {
	asked     fetchPartition
	topic     *metadata.Topic // nil where it is unknown
	partition *replica.Partition
	result    replica.ReadResult
	err       error
}

// fetch is one request at work, without its answer. It is used again for others.
type fetch struct {
	h        *Handlers
	req      *kmsg.FetchRequest
	maxBytes int
	// received is zero once the partitions were told of a follower's progress: it counts from when the request came, not from
	// later looks.
	received time.Time
	near     func(kafka.BrokerID) bool // brokers that a consumer would rather read from (KIP-392); nil: none

	asked   []fetchPartition
	rows    []fetchRow                // what can be read
	unknown []fetchRow                // what cannot even be looked up
	filled  []protocol.FetchPartition // of the answer, in the order of the rows
	told    []told
}

var fetches = sync.Pool{New: func() any { return new(fetch) }}

// maxKeptRows is how many partitions' memory a fetch keeps for its next use; more is for the garbage collector.
const maxKeptRows = 1024

func (f *fetch) free() {
	if cap(f.asked) > maxKeptRows || cap(f.rows) > maxKeptRows || cap(f.unknown) > maxKeptRows {
		return
	}
	clear(f.asked)
	clear(f.rows)
	clear(f.unknown)
	clear(f.filled)
	clear(f.told)
	*f = fetch{asked: f.asked[:0], rows: f.rows[:0], unknown: f.unknown[:0], filled: f.filled[:0], told: f.told[:0]}
	fetches.Put(f)
}

func (h *Handlers) fetch(r *Request, req *kmsg.FetchRequest) Reply {
	f := fetches.Get().(*fetch)
	defer f.free()
	f.h, f.req, f.maxBytes, f.received = h, req, int(min(req.MaxBytes, h.Config.Fetch.MaxBytes)), r.Received
	byTopicID := req.Version >= 13
	f.asked = askedPartitions(f.asked, req, byTopicID)
	img := h.Image()
	ctx := h.sessions.begin(req.SessionID, req.SessionEpoch, byTopicID, f.asked, forgottenPartitions(req, byTopicID), r.Received)
	_, ctx.privileged = img.Brokers.ByID(fetcher(req))
	if ctx.err != kafka.None {
		return Now(&protocol.FetchResponse{Version: req.Version, ErrorCode: int16(ctx.err)})
	}
	f.asked, f.near = ctx.partitions, h.nearConsumer(r, req)
	f.resolve(img, byTopicID)
	if len(f.rows) > 0 {
		if !replica.Isolation(req.IsolationLevel).Valid() {
			return Now(fetchFailed(req, kafka.UnknownServerError))
		}
		if !f.run(r) {
			f.release()
			return Silent() // the client is gone
		}
	}
	f.rows = append(f.rows, f.unknown...) // Kafka answers what it could not even look up after the rest
	return Now(f.response(r, &ctx))
}

// askedPartitions lists the request's partitions in the order of service; of a partition that stands twice the last
// values count, in the first place.
func askedPartitions(asked []fetchPartition, req *kmsg.FetchRequest, byTopicID bool) []fetchPartition {
	var at map[partitionKey]int
	if repeatsFetched(req) {
		at = make(map[partitionKey]int)
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			a := fetchPartition{key: fetchKey(byTopicID, t.Topic, t.TopicID, p.Partition), offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes, logStart: p.LogStartOffset,
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
	return asked
}

// repeatsFetched reports whether a partition may stand twice: clients that rotate their partitions name a topic more than
// once, and then it has to be looked up.
func repeatsFetched(req *kmsg.FetchRequest) bool {
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

func forgottenPartitions(req *kmsg.FetchRequest, byTopicID bool) (forgotten []partitionKey) {
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, p := range t.Partitions {
			forgotten = append(forgotten, fetchKey(byTopicID, t.Topic, t.TopicID, p))
		}
	}
	return forgotten
}

func fetchKey(byTopicID bool, topic string, id kafka.TopicID, partition int32) partitionKey {
	if byTopicID {
		return partitionKey{id: id, partition: partition}
	}
	return partitionKey{topic: topic, partition: partition}
}

// resolve looks every partition up.
func (f *fetch) resolve(img *metadata.Image, byTopicID bool) {
	for i := range f.asked {
		row := fetchRow{asked: f.asked[i]}
		key := &row.asked.key
		if byTopicID {
			row.topic = byID(img, key.id)
		} else {
			row.topic = byName(img, key.topic)
		}
		switch {
		case row.topic == nil && byTopicID:
			row.err = kafka.Errorf(kafka.UnknownTopicID, "")
		case row.topic == nil || row.topic.Partition(key.partition) == nil:
			row.err = errUnknownTopicOrPartition
		default:
			row.partition, row.err = f.h.topicPartition(row.topic, key.partition)
			f.rows = append(f.rows, row)
			continue
		}
		f.unknown = append(f.unknown, row)
	}
	// For consumers Kafka finds unknown ids first, then what the topics do not have.
	if byTopicID && len(f.unknown) > 1 && fetcher(f.req) < 0 {
		slices.SortStableFunc(f.unknown, func(a, b fetchRow) int {
			switch {
			case (a.topic == nil) == (b.topic == nil):
				return 0
			case a.topic == nil:
				return -1
			}
			return 1
		})
	}
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

// fetcher is the broker that a request says it comes from; negative for a consumer.
func fetcher(req *kmsg.FetchRequest) kafka.BrokerID {
	if req.Version >= 15 {
		return kafka.BrokerID(req.ReplicaState.ID)
	}
	return kafka.BrokerID(req.ReplicaID)
}

// fetcherEpoch is the incarnation of that broker; -1 where the request does not say.
func fetcherEpoch(req *kmsg.FetchRequest) kafka.BrokerEpoch {
	if req.Version >= 15 {
		return kafka.BrokerEpoch(req.ReplicaState.Epoch)
	}
	return -1
}

// run reads, and waits for records where the request wants to; it reports false when the client has gone meanwhile.
func (f *fetch) run(r *Request) bool {
	maxWait := time.Duration(f.req.MaxWaitMillis) * time.Millisecond
	if f.look() == 0 || maxWait <= 0 {
		return true
	}
	timer := f.h.Clock.NewTimer(maxWait)
	defer timer.Stop()
	w := f.newWaiter()
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

func (f *fetch) newWaiter() *replica.Waiter {
	if fetcher(f.req) >= 0 {
		return replica.NewFollowerWaiter()
	}
	return replica.NewWaiter()
}

// look reads, and returns how many bytes are missing until it is worth answering; none where it must be now.
func (f *fetch) look() (missing int) {
	minBytes := min(int(f.req.MinBytes), f.maxBytes)
	got, now := f.read()
	switch {
	case now || got >= minBytes:
		return 0
	case got == 0:
		return minBytes
	}
	there, now := f.readable() // whole batches may be less than what there is
	if now || there >= minBytes {
		f.release()
		f.read() // some of it may have come since
		return 0
	}
	return minBytes - there
}

// read fills the rows and returns the bytes read, and whether something must be answered at once: an error, a log that
// diverges from the leader's, or another replica to read from.
func (f *fetch) read() (bytes int, answerNow bool) {
	left, atLeastOne := f.maxBytes, true
	for i := range f.rows {
		row := &f.rows[i]
		if row.partition == nil {
			answerNow = true
			continue
		}
		row.result, row.err = row.partition.Read(f.readRequest(row, left, atLeastOne))
		if row.err != nil || row.result.Diverging != nil || row.result.PreferredReplica != kafka.NoBroker {
			answerNow = true
		}
		n := row.result.Records.Len()
		if n > 0 {
			atLeastOne = false
		}
		left = max(left-n, 0)
		bytes += n
	}
	f.received = time.Time{}
	return bytes, answerNow
}

func (f *fetch) readRequest(row *fetchRow, left int, atLeastOne bool) *replica.ReadRequest {
	return &replica.ReadRequest{Offset: row.asked.offset, MaxBytes: min(int(row.asked.maxBytes), left), AtLeastOne: atLeastOne,
		Isolation: replica.Isolation(f.req.IsolationLevel), CurrentLeaderEpoch: row.asked.currentLeaderEpoch, LastFetchedEpoch: row.asked.lastFetchedEpoch,
		Replica: fetcher(f.req), ReplicaEpoch: fetcherEpoch(f.req), LogStart: row.asked.logStart, Fetched: f.received,
		AnyReplica: f.req.Version >= anyReplicaSince, Near: f.near}
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

// register has the partitions wake w; but not those that give the follower nothing now, whatever is appended to them.
func (f *fetch) register(w *replica.Waiter) {
	follower := fetcher(f.req)
	for i := range f.rows {
		if p := f.rows[i].partition; p != nil && (follower < 0 || !p.Throttles(follower)) {
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
