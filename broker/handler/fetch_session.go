package handler

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"weir/internal/kafka"
)

// Fetch sessions (KIP-227): the broker remembers a fetcher's partitions, so that requests name what changed and answers
// leave out what did not. Sessions live in a bounded cache: a session that does not fit is simply not made (id 0), and
// one that was evicted is answered FETCH_SESSION_ID_NOT_FOUND, after which clients begin anew. Followers are privileged:
// consumers make room for them.

const (
	noSession       int32 = 0
	initialEpoch    int32 = 0  // makes a session
	finalEpoch      int32 = -1 // ends one, or wants none
	sessionEviction       = 2 * time.Minute

	// maxSessionPartitions bounds the partitions of all sessions together, at about 250 bytes each. Kafka bounds the
	// number of sessions only; one of them can be made to grow for ever by a client that names other partitions in every
	// request.
	maxSessionPartitions = 500_000
)

// nextEpoch goes from the largest epoch to 1: 0 would make a new session.
func nextEpoch(e int32) int32 {
	if e < 0 {
		return finalEpoch
	}
	if e == math.MaxInt32 {
		return 1
	}
	return e + 1
}

// partitionKey identifies a partition within a session: by id from Fetch v13 on, else by name.
type partitionKey struct {
	topic     string // empty where the id is used
	id        kafka.TopicID
	partition int32
}

// fetchPartition is one partition of a fetch, as asked for.
type fetchPartition struct {
	key                partitionKey
	offset             int64
	logStart           int64 // of a follower's log
	maxBytes           int32
	currentLeaderEpoch kafka.LeaderEpoch
	lastFetchedEpoch   kafka.LeaderEpoch
}

// cachedPartition is a partition of a session, with what its consumer was last told.
type cachedPartition struct {
	fetchPartition
	highWatermark  int64
	logStartOffset int64
	served         bool // it got records in the last answer
}

// session is guarded by its mutex, but for what the cache keeps under its own.
type session struct {
	id         int32
	byTopicID  bool
	privileged bool
	created    time.Time
	lastUsed   time.Time // guarded by the cache
	cachedSize int       // guarded by the cache

	mu struct {
		sync.Mutex
		epoch      int32 // the next request's
		partitions map[partitionKey]*cachedPartition
		order      []*cachedPartition // order of service: what got records goes to the end
	}
}

// sessions is the cache. Its mutex is taken before a session's, never after.
type sessions struct {
	limit          int // of sessions
	partitionLimit int // of their partitions
	mu             struct {
		sync.Mutex
		byID       map[int32]*session
		partitions int // of all sessions
	}
}

func newSessions(limit int) *sessions {
	s := &sessions{limit: limit, partitionLimit: maxSessionPartitions}
	s.mu.byID = make(map[int32]*session)
	return s
}

// fetchContext is one request's view of its session.
type fetchContext struct {
	partitions []fetchPartition
	err        kafka.Code // the session's error: nothing is read
	session    *session   // incremental; nil else
	epoch      int32      // that the session must still have when the answer is made
	makeNew    bool       // a full fetch that wants a session
	byTopicID  bool
	privileged bool // the fetcher is a broker
}

// begin finds the partitions that a request asks for; it may use the memory of asked for them. now is the time of the
// request.
func (c *sessions) begin(id, epoch int32, byTopicID bool, asked []fetchPartition, forgotten []partitionKey, now time.Time) fetchContext {
	full := fetchContext{partitions: asked, byTopicID: byTopicID}
	if epoch == initialEpoch || epoch == finalEpoch {
		c.remove(id) // a full fetch ends whatever session it names
		full.makeNew = epoch == initialEpoch
		return full
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.byID[id]
	if s == nil {
		return fetchContext{err: kafka.FetchSessionIDNotFound}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.epoch != epoch:
		return fetchContext{err: kafka.InvalidFetchSessionEpoch}
	case s.byTopicID != byTopicID:
		return fetchContext{err: kafka.FetchSessionTopicIDError}
	}
	s.updateLocked(asked, forgotten)
	size := len(s.mu.order)
	if size == 0 { // the last partition was forgotten: the session is over
		c.dropLocked(s)
		return full
	}
	if c.mu.partitions-s.cachedSize+size > c.partitionLimit {
		c.dropLocked(s) // as if it had been evicted: the client begins anew
		return fetchContext{err: kafka.FetchSessionIDNotFound}
	}
	c.mu.partitions += size - s.cachedSize
	s.lastUsed, s.cachedSize = now, size
	s.mu.epoch = nextEpoch(epoch)
	ctx := fetchContext{session: s, epoch: s.mu.epoch, byTopicID: byTopicID, partitions: asked[:0]}
	for _, p := range s.mu.order {
		ctx.partitions = append(ctx.partitions, p.fetchPartition)
	}
	return ctx
}

func (s *session) updateLocked(asked []fetchPartition, forgotten []partitionKey) {
	for _, a := range asked {
		if p := s.mu.partitions[a.key]; p != nil {
			p.fetchPartition = a
			continue
		}
		p := &cachedPartition{fetchPartition: a, highWatermark: -1, logStartOffset: -1}
		s.mu.partitions[a.key] = p
		s.mu.order = append(s.mu.order, p)
	}
	if len(forgotten) == 0 {
		return
	}
	for _, key := range forgotten {
		delete(s.mu.partitions, key)
	}
	kept := s.mu.order[:0]
	for _, p := range s.mu.order {
		if s.mu.partitions[p.key] == p {
			kept = append(kept, p)
		}
	}
	clear(s.mu.order[len(kept):])
	s.mu.order = kept
}

// told is what an answer says of a partition.
type told struct {
	key            partitionKey
	highWatermark  int64
	logStartOffset int64
	hasRecords     bool
	mustTell       bool // an error, a divergence, another replica to read from
	failed         bool

	omit bool // set by finish: the consumer knows it already
}

// finish makes the session's part of an answer: the session id, its error, and which rows are left out.
func (c *sessions) finish(ctx *fetchContext, rows []told, now time.Time) (id int32, code kafka.Code) {
	switch {
	case ctx.err != kafka.None:
		return noSession, ctx.err
	case ctx.session != nil:
		if !ctx.session.tell(ctx.epoch, rows) { // the same request came twice, on two connections
			return ctx.session.id, kafka.InvalidFetchSessionEpoch
		}
		return ctx.session.id, kafka.None
	case ctx.makeNew:
		return c.create(ctx, rows, now), kafka.None
	}
	return noSession, kafka.None
}

// tell decides which rows a consumer need not be told, and remembers what it is told.
func (s *session) tell(epoch int32, rows []told) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.epoch != epoch {
		return false
	}
	served := 0
	for i := range rows {
		r := &rows[i]
		p := s.mu.partitions[r.key]
		if p == nil {
			continue
		}
		r.omit = !r.hasRecords && !r.mustTell && p.highWatermark == r.highWatermark && p.logStartOffset == r.logStartOffset
		p.highWatermark, p.logStartOffset = r.highWatermark, r.logStartOffset
		if r.failed {
			p.highWatermark = -1 // when the error goes away the partition is told again
		}
		if p.served = r.hasRecords; p.served {
			served++
		}
	}
	if served > 0 && served < len(s.mu.order) {
		s.serveOthersFirstLocked()
	}
	return true
}

// serveOthersFirstLocked moves what got records to the end, so that no partition starves the others.
func (s *session) serveOthersFirstLocked() {
	order := make([]*cachedPartition, 0, len(s.mu.order))
	for _, served := range [...]bool{false, true} {
		for _, p := range s.mu.order {
			if p.served == served {
				order = append(order, p)
			}
		}
	}
	s.mu.order = order
}

// create makes a session if there is room for it, or if it may take the place of another.
func (c *sessions) create(ctx *fetchContext, rows []told, now time.Time) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := len(ctx.partitions)
	if c.mu.partitions+size > c.partitionLimit || len(c.mu.byID) >= c.limit && !c.evictLocked(ctx.privileged, size, now) {
		return noSession
	}
	s := &session{byTopicID: ctx.byTopicID, privileged: ctx.privileged, created: now, lastUsed: now, cachedSize: size}
	for s.id == noSession || c.mu.byID[s.id] != nil {
		s.id = rand.Int32N(math.MaxInt32)
	}
	s.mu.epoch = nextEpoch(initialEpoch)
	s.mu.partitions = make(map[partitionKey]*cachedPartition, len(ctx.partitions))
	s.updateLocked(ctx.partitions, nil)
	for _, r := range rows {
		if p := s.mu.partitions[r.key]; p != nil {
			p.highWatermark, p.logStartOffset = r.highWatermark, r.logStartOffset
		}
	}
	c.mu.byID[s.id] = s
	c.mu.partitions += size
	return s.id
}

// evictLocked makes room: for any session a stale one goes; else the least of those that are no longer new, if it is less
// than what comes. Less is who is not privileged, and then who has fewer partitions. One of the same size stays, as in Kafka:
// else equal consumers, one more than there is room for, would throw each other out for ever. For who is privileged those
// go that are not, new or not.
func (c *sessions) evictLocked(privileged bool, size int, now time.Time) bool {
	var stale, least *session
	for _, s := range c.mu.byID {
		if now.Sub(s.lastUsed) > sessionEviction && (stale == nil || s.lastUsed.Before(stale.lastUsed)) {
			stale = s
		}
		evictable := now.Sub(s.created) > sessionEviction || privileged && !s.privileged
		if evictable && (least == nil || s.less(least.privileged, least.cachedSize)) {
			least = s
		}
	}
	switch {
	case stale != nil:
		c.dropLocked(stale)
	case least != nil && least.less(privileged, size):
		c.dropLocked(least)
	default:
		return false
	}
	return true
}

func (s *session) less(privileged bool, size int) bool {
	if s.privileged != privileged {
		return privileged
	}
	return s.cachedSize < size
}

func (c *sessions) remove(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.mu.byID[id]; s != nil {
		c.dropLocked(s)
	}
}

func (c *sessions) dropLocked(s *session) {
	delete(c.mu.byID, s.id)
	c.mu.partitions -= s.cachedSize
}
