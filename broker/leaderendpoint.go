package broker

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/peer"
	"weir/broker/replica"
	"weir/internal/invariant"
	"weir/internal/kafka"
)

// leaderEndpoint is replica.LeaderEndpoint over the network: Kafka's own Fetch and ListOffsets, as a follower sends them.
// Each fetcher has a connection of its own, so that a long poll stands in nobody's way. Safe for concurrent use.
//
// Lock order: its own, then the pool's.
type leaderEndpoint struct {
	pool  *peer.Pool[kafka.BrokerID]
	self  kafka.BrokerID
	epoch func() kafka.BrokerEpoch
	mu    struct {
		sync.Mutex
		sessions map[fetcherKey]*fetchSession
	}
}

var _ replica.LeaderEndpoint = (*leaderEndpoint)(nil)

type fetcherKey struct {
	leader kafka.BrokerID
	number int
}

// newLeaderEndpoint fetches over the pool's connections for the broker self, whose epoch is the one of its registration.
func newLeaderEndpoint(pool *peer.Pool[kafka.BrokerID], self kafka.BrokerID, epoch func() kafka.BrokerEpoch) *leaderEndpoint {
	e := &leaderEndpoint{pool: pool, self: self, epoch: epoch}
	e.mu.sessions = make(map[fetcherKey]*fetchSession)
	return e
}

// Epochs of fetch sessions (KIP-227).
const (
	initialFetchEpoch int32 = 0 // makes a session, and ends the one that is named
	noFetchSession    int32 = 0
)

// fetchSession is one fetcher's side of its session with a leader, with the memory that its fetches use in turn. It belongs
// to whoever has the fetcher's one fetch under way.
type fetchSession struct {
	inFlight bool // guarded by leaderEndpoint.mu

	id    int32 // that the leader gave; also of one that is over, so that the leader can let go of it
	epoch int32 // of the next request; initialFetchEpoch where a session is to be made

	request  kmsg.FetchRequest
	response peer.FetchResponse
	rows     []replica.FetchedPartition
	memory   fetchMemory
}

// maxBatchBytes is how large one batch may be that a leader gives whatever the limits say: that of a produce request.
const maxBatchBytes = 100 << 20

// Fetch implements replica.LeaderEndpoint.
func (e *leaderEndpoint) Fetch(leader kafka.BrokerID, r *replica.FetchRequest, done func(replica.FetchResponse, error)) {
	s := e.begin(fetcherKey{leader, r.Fetcher})
	if !r.Full && s.epoch == initialFetchEpoch {
		e.end(s)
		done(replica.FetchResponse{}, kafka.Errorf(kafka.InvalidFetchSessionEpoch, "there is no fetch session with broker %d", leader))
		return
	}
	if r.Full {
		s.epoch = initialFetchEpoch
	}
	e.fill(s, r)
	err := e.pool.Send(leader, peer.Purpose{Traffic: peer.Fetches, Shard: r.Fetcher}, peer.Call{
		Request: &s.request, Memory: s.memory.lend(), Wait: time.Duration(r.MaxWaitMs) * time.Millisecond,
		MaxResponseBytes: int(min(int64(max(r.MaxBytes, maxBatchBytes))+peerFrameBytes, math.MaxInt32)),
		Done: func(body []byte, err error) {
			response, err := s.answer(leader, body, err)
			e.end(s)
			done(response, err)
		},
	})
	if err != nil {
		s.epoch = initialFetchEpoch
		e.end(s)
		done(replica.FetchResponse{}, fmt.Errorf("broker %d: %w", leader, err))
	}
}

func (e *leaderEndpoint) begin(key fetcherKey) *fetchSession {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.mu.sessions[key]
	if s == nil {
		s = new(fetchSession)
		e.mu.sessions[key] = s
	}
	invariant.Assert(!s.inFlight, "fetcher %d of broker %d fetches twice at a time", key.number, key.leader)
	s.inFlight = true
	return s
}

func (e *leaderEndpoint) end(s *fetchSession) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.inFlight = false
}

// fill makes the request of r.
func (e *leaderEndpoint) fill(s *fetchSession, r *replica.FetchRequest) {
	topics, forgotten := s.request.Topics[:0], s.request.ForgottenTopics[:0]
	s.request = kmsg.NewFetchRequest()
	q := &s.request
	q.Version = peer.FetchVersion
	q.ReplicaState.ID, q.ReplicaState.Epoch = int32(e.self), int64(e.epoch())
	q.MaxWaitMillis, q.MinBytes, q.MaxBytes = r.MaxWaitMs, r.MinBytes, r.MaxBytes
	q.SessionID, q.SessionEpoch = s.id, s.epoch
	for i := range r.Partitions {
		p := &r.Partitions[i]
		if n := len(topics); n == 0 || topics[n-1].TopicID != p.TopicID {
			topics = extend(topics)
			t := &topics[n]
			t.TopicID, t.Partitions = p.TopicID, t.Partitions[:0]
		}
		t := &topics[len(topics)-1]
		row := kmsg.NewFetchRequestTopicPartition()
		row.Partition, row.CurrentLeaderEpoch, row.FetchOffset = p.Partition, int32(p.LeaderEpoch), p.Offset
		row.LastFetchedEpoch, row.LogStartOffset, row.PartitionMaxBytes = int32(p.LastFetchedEpoch), p.LogStartOffset, p.MaxBytes
		t.Partitions = append(t.Partitions, row)
	}
	if s.epoch != initialFetchEpoch { // a session that begins has nothing to forget
		for _, p := range r.Forgotten {
			if n := len(forgotten); n == 0 || forgotten[n-1].TopicID != p.TopicID {
				forgotten = extend(forgotten)
				t := &forgotten[n]
				t.TopicID, t.Partitions = p.TopicID, t.Partitions[:0]
			}
			t := &forgotten[len(forgotten)-1]
			t.Partitions = append(t.Partitions, p.Partition)
		}
	}
	q.Topics, q.ForgottenTopics = topics, forgotten
}

// extend makes s longer by one, which has the memory of what was there before.
func extend[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	var zero T
	return append(s, zero)
}

// answer reads the leader's answer, and takes note of what it says of the session.
func (s *fetchSession) answer(leader kafka.BrokerID, body []byte, err error) (replica.FetchResponse, error) {
	asked := s.epoch
	s.epoch = initialFetchEpoch
	if err != nil {
		return replica.FetchResponse{}, err
	}
	s.memory.used(len(body))
	if err := s.response.Decode(body); err != nil {
		return replica.FetchResponse{}, fmt.Errorf("broker %d: %w", leader, err)
	}
	if code := s.response.ErrorCode; code != kafka.None {
		return replica.FetchResponse{}, kafka.Errorf(code, "broker %d: %v", leader, code)
	}
	s.id = s.response.SessionID
	if s.id != noFetchSession {
		s.epoch = nextFetchEpoch(asked)
	}
	return replica.FetchResponse{Session: s.epoch != initialFetchEpoch, Partitions: s.fetched()}, nil
}

func nextFetchEpoch(epoch int32) int32 {
	if epoch == math.MaxInt32 {
		return 1
	}
	return epoch + 1
}

func (s *fetchSession) fetched() []replica.FetchedPartition {
	s.rows = s.rows[:0]
	for i := range s.response.Partitions {
		p := &s.response.Partitions[i]
		s.rows = append(s.rows, replica.FetchedPartition{
			TopicIDPartition: replica.TopicIDPartition{TopicID: p.TopicID, Partition: p.Partition},
			Code:             p.ErrorCode, HighWatermark: p.HighWatermark, LogStartOffset: p.LogStartOffset, Records: p.Records,
		})
		if p.Diverges {
			s.rows[i].Records = nil
			s.rows[i].Diverging = &replica.EpochEnd{Epoch: p.DivergingEpoch, End: p.DivergingEnd}
		}
	}
	return s.rows
}

// fetchMemory is what answers are read to. It is as large as the largest one was, until that was long ago.
type fetchMemory struct {
	bytes []byte
	idle  int // answers in a row that took little of it
}

const (
	keptFetchBytes = 1 << 20
	keptFetches    = 64 // which take half a minute where nothing is produced
)

// lend gives the memory away until the answer is there. What was in it is not needed any more.
func (m *fetchMemory) lend() *[]byte {
	if m.idle >= keptFetches && cap(m.bytes) > keptFetchBytes {
		*m = fetchMemory{}
	}
	return &m.bytes
}

// used says how much of the memory an answer took.
func (m *fetchMemory) used(n int) {
	if m.idle++; n >= cap(m.bytes)/4 {
		m.idle = 0
	}
}

// offsetsVersion is the version of ListOffsets that followers ask with: it has leader epochs (KIP-320).
const offsetsVersion = 7

// Timestamps of ListOffsets that stand for the ends of the log.
const (
	latestTimestamp   int64 = -1 // for a replica the log's end, not the high watermark
	earliestTimestamp int64 = -2
)

// Offsets implements replica.LeaderEndpoint.
func (e *leaderEndpoint) Offsets(leader kafka.BrokerID, p replica.FetchPartition, done func(startOffset, endOffset int64, err error)) {
	e.listOffset(leader, &p, earliestTimestamp, func(start int64, err error) {
		if err != nil {
			done(-1, -1, err)
			return
		}
		e.listOffset(leader, &p, latestTimestamp, func(end int64, err error) { done(start, end, err) })
	})
}

func (e *leaderEndpoint) listOffset(leader kafka.BrokerID, p *replica.FetchPartition, timestamp int64, done func(int64, error)) {
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version, r.ReplicaID = offsetsVersion, int32(e.self)
	row := kmsg.NewListOffsetsRequestTopicPartition()
	row.Partition, row.CurrentLeaderEpoch, row.Timestamp = p.Partition, int32(p.LeaderEpoch), timestamp
	r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: p.Topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{row}}}
	err := e.pool.Send(leader, peer.Purpose{Traffic: peer.Queries}, peer.Call{Request: r, Done: func(body []byte, err error) {
		if err != nil {
			done(-1, err)
			return
		}
		done(listedOffset(leader, p, body))
	}})
	if err != nil {
		done(-1, fmt.Errorf("broker %d: %w", leader, err))
	}
}

// listedOffset reads the answer to listOffset.
func listedOffset(leader kafka.BrokerID, p *replica.FetchPartition, body []byte) (int64, error) {
	resp := kmsg.NewPtrListOffsetsResponse()
	resp.Version = offsetsVersion
	if err := resp.ReadFrom(body); err != nil {
		return -1, fmt.Errorf("broker %d: the answer to ListOffsets is cut short, or a length in it lies", leader)
	}
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != p.Topic || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != p.Partition {
		return -1, fmt.Errorf("broker %d: the answer to ListOffsets is about something else than %v", leader, p.TopicPartition)
	}
	row := &resp.Topics[0].Partitions[0]
	if code := kafka.Code(row.ErrorCode); code != kafka.None {
		return -1, kafka.Errorf(code, "broker %d: %v: %v", leader, p.TopicPartition, code)
	}
	return row.Offset, nil
}
