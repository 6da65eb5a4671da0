package handler

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"weir/internal/kafka"
)

// Fetch sessions (KIP-227): the broker remembers a consumer's partitions, so that requests name what changed and answers
// leave out what did not. Sessions live in a bounded cache: a session that does not fit is simply not made (id 0), and
// one that was evicted is answered FETCH_SESSION_ID_NOT_FOUND, after which clients begin anew.

const (
	noSession       int32 = 0
	initialEpoch    int32 = 0  // makes a session
	finalEpoch      int32 = -1 // ends one, or wants none
	sessionEviction       = 2 * time.Minute
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
	maxBytes           int32
	currentLeaderEpoch kafka.LeaderEpoch
	lastFetchedEpoch   kafka.LeaderEpoch
}

// cachedPartition is a partition of a session, with what its consumer was last told.
type cachedPartition struct {
	fetchPartition
	highWatermark  int64
	logStartOffset int64
}

// session is guarded by its mutex, but for what the cache keeps under its own.
type session struct {
	id         int32
	byTopicID  bool
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
	limit int
	mu    struct {
		sync.Mutex
		byID map[int32]*session
	}
}

func newSessions(limit int) *sessions {
	s := &sessions{limit: limit}
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
}

// begin finds the partitions that a request asks for. now is the time of the request.
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
	if len(s.mu.order) == 0 { // the last partition was forgotten: the session is over
		delete(c.mu.byID, id)
		return full
	}
	s.lastUsed, s.cachedSize = now, len(s.mu.order)
	s.mu.epoch = nextEpoch(epoch)
	ctx := fetchContext{session: s, epoch: s.mu.epoch, byTopicID: byTopicID, partitions: make([]fetchPartition, len(s.mu.order))}
	for i, p := range s.mu.order {
		ctx.partitions[i] = p.fetchPartition
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
}

// finish makes the session's part of an answer: the session id, its error, and which rows may be left out.
func (c *sessions) finish(ctx *fetchContext, rows []told, now time.Time) (id int32, code kafka.Code, omit []bool) {
	switch {
	case ctx.err != kafka.None:
		return noSession, ctx.err, nil
	case ctx.session != nil:
		omit, ok := ctx.session.tell(ctx.epoch, rows)
		if !ok { // the same request came twice, on two connections
			return ctx.session.id, kafka.InvalidFetchSessionEpoch, nil
		}
		return ctx.session.id, kafka.None, omit
	case ctx.makeNew:
		return c.create(ctx, rows, now), kafka.None, nil
	}
	return noSession, kafka.None, nil
}

// tell decides which rows a consumer need not be told, and remembers what it is told.
func (s *session) tell(epoch int32, rows []told) (omit []bool, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.epoch != epoch {
		return nil, false
	}
	omit = make([]bool, len(rows))
	served := make(map[partitionKey]bool)
	for i, r := range rows {
		p := s.mu.partitions[r.key]
		if p == nil {
			continue
		}
		omit[i] = !r.hasRecords && !r.mustTell && p.highWatermark == r.highWatermark && p.logStartOffset == r.logStartOffset
		p.highWatermark, p.logStartOffset = r.highWatermark, r.logStartOffset
		if r.failed {
			p.highWatermark = -1 // when the error goes away the partition is told again
		}
		if r.hasRecords {
			served[r.key] = true
		}
	}
	if len(served) > 0 && len(served) < len(s.mu.order) {
		s.serveOthersFirstLocked(served)
	}
	return omit, true
}

// serveOthersFirstLocked moves what got records to the end, so that no partition starves the others.
func (s *session) serveOthersFirstLocked(served map[partitionKey]bool) {
	order := make([]*cachedPartition, 0, len(s.mu.order))
	for _, p := range s.mu.order {
		if !served[p.key] {
			order = append(order, p)
		}
	}
	for _, p := range s.mu.order {
		if served[p.key] {
			order = append(order, p)
		}
	}
	s.mu.order = order
}

// create makes a session if there is room for it, or if it may take the place of another.
func (c *sessions) create(ctx *fetchContext, rows []told, now time.Time) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.byID) >= c.limit && !c.evictLocked(len(ctx.partitions), now) {
		return noSession
	}
	s := &session{byTopicID: ctx.byTopicID, created: now, lastUsed: now, cachedSize: len(ctx.partitions)}
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
	return s.id
}

// evictLocked makes room: for any session a stale one goes; else the smallest of those that are no longer new, if it is
// not larger than what comes.
func (c *sessions) evictLocked(size int, now time.Time) bool {
	var stale, smallest *session
	for _, s := range c.mu.byID {
		if now.Sub(s.lastUsed) > sessionEviction && (stale == nil || s.lastUsed.Before(stale.lastUsed)) {
			stale = s
		}
		if now.Sub(s.created) > sessionEviction && (smallest == nil || s.cachedSize < smallest.cachedSize) {
			smallest = s
		}
	}
	switch {
	case stale != nil:
		delete(c.mu.byID, stale.id)
	case smallest != nil && smallest.cachedSize <= size:
		delete(c.mu.byID, smallest.id)
	default:
		return false
	}
	return true
}

func (c *sessions) remove(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.byID, id)
}
