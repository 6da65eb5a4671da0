package handler

import (
	"testing"
	"time"

	"weir/internal/kafka"
)

var sessionStart = time.Unix(1_700_000_000, 0)

func ask(partition int32, offset int64) fetchPartition {
	return fetchPartition{key: partitionKey{topic: "t", partition: partition}, offset: offset}
}

func row(partition int32, hw int64, records bool) told {
	return told{key: partitionKey{topic: "t", partition: partition}, highWatermark: hw, hasRecords: records}
}

// newSession makes a session of partitions 0 and 1 and returns its id.
func newSession(t *testing.T, c *sessions) int32 {
	t.Helper()
	ctx := c.begin(0, 0, false, []fetchPartition{ask(0, 0), ask(1, 0)}, nil, sessionStart)
	rows := []told{row(0, 1, true), row(1, 0, false)}
	id, code := c.finish(&ctx, rows, sessionStart)
	if id == 0 || code != kafka.None || rows[0].omit || rows[1].omit {
		t.Fatalf("full fetch: session %d, code %v, %+v; want a new session that tells everything", id, code, rows)
	}
	return id
}

func step(t *testing.T, c *sessions, id, epoch int32, asked []fetchPartition, forgotten []partitionKey, rows ...told) (session int32, code kafka.Code, omit []bool) {
	t.Helper()
	ctx := c.begin(id, epoch, false, asked, forgotten, sessionStart)
	if ctx.err == kafka.None && len(ctx.partitions) != len(rows) {
		t.Fatalf("epoch %d reads %d partitions, want %d", epoch, len(ctx.partitions), len(rows))
	}
	session, code = c.finish(&ctx, rows, sessionStart)
	for _, r := range rows {
		omit = append(omit, r.omit)
	}
	return session, code, omit
}

func TestSessionTellsOnlyWhatChanged(t *testing.T) {
	c := newSessions(10)
	id := newSession(t, c)
	if _, _, omit := step(t, c, id, 1, nil, nil, row(0, 1, true), row(1, 0, false)); omit[0] || !omit[1] {
		t.Fatalf("partition 0 still has records, 1 has nothing new: omit %v", omit)
	}
	// Partition 0 got records, so 1 is served first now.
	if _, _, omit := step(t, c, id, 2, []fetchPartition{ask(0, 1)}, nil, row(1, 0, false), row(0, 1, false)); !omit[0] || !omit[1] {
		t.Fatalf("nothing is new: omit %v", omit)
	}
	if _, _, omit := step(t, c, id, 3, nil, nil, row(1, 1, true), row(0, 1, false)); omit[0] || !omit[1] {
		t.Fatalf("partition 1 has records: omit %v", omit)
	}
	if got, code, omit := step(t, c, id, 4, nil, []partitionKey{{topic: "t", partition: 1}}, row(0, 2, false)); got != id || code != kafka.None || omit[0] {
		t.Fatalf("a moved high watermark is told: session %d, code %v, omit %v", got, code, omit)
	}
}

func TestSessionErrorIsToldAgainWhenItEnds(t *testing.T) {
	c := newSessions(10)
	id := newSession(t, c)
	failed := row(0, -1, false)
	failed.mustTell, failed.failed = true, true
	if _, _, omit := step(t, c, id, 1, nil, nil, failed, row(1, 0, false)); omit[0] {
		t.Fatal("an error was left out")
	}
	if _, _, omit := step(t, c, id, 2, nil, nil, row(0, 1, false), row(1, 0, false)); omit[0] {
		t.Fatal("the partition whose error ended was left out")
	}
}

func TestSessionEpochs(t *testing.T) {
	c := newSessions(10)
	id := newSession(t, c)
	if got, code, _ := step(t, c, id, 99, nil, nil); got != 0 || code != kafka.InvalidFetchSessionEpoch {
		t.Fatalf("wrong epoch: session %d, code %v", got, code)
	}
	if got, code, _ := step(t, c, id, 1, nil, nil, row(0, 1, false), row(1, 0, false)); got != id || code != kafka.None {
		t.Fatalf("the session did not go on at its right epoch: session %d, code %v", got, code)
	}
	if _, code, _ := step(t, c, 12345, 1, nil, nil); code != kafka.FetchSessionIDNotFound {
		t.Fatalf("unknown session: code %v", code)
	}
	if ctx := c.begin(id, 2, true, nil, nil, sessionStart); ctx.err != kafka.FetchSessionTopicIDError {
		t.Fatalf("a session of names asked by topic id: code %v", ctx.err)
	}
	if e := nextEpoch(1<<31 - 1); e != 1 {
		t.Fatalf("the epoch after the largest is %d, want 1", e)
	}
}

func TestSessionEnds(t *testing.T) {
	c := newSessions(10)
	id := newSession(t, c)
	both := []partitionKey{{topic: "t", partition: 0}, {topic: "t", partition: 1}}
	if got, code, _ := step(t, c, id, 1, nil, both); got != 0 || code != kafka.None {
		t.Fatalf("forgetting the last partition: session %d, code %v; want 0 and no error", got, code)
	}
	if _, code, _ := step(t, c, id, 2, nil, nil); code != kafka.FetchSessionIDNotFound {
		t.Fatalf("the session lives on: code %v", code)
	}
	id = newSession(t, c)
	if got, _, _ := step(t, c, id, finalEpoch, nil, nil); got != 0 {
		t.Fatalf("the final epoch is answered with session %d", got)
	}
	if _, code, _ := step(t, c, id, 1, nil, nil); code != kafka.FetchSessionIDNotFound {
		t.Fatalf("the session lives on after its final epoch: code %v", code)
	}
}

func TestSessionCacheIsBounded(t *testing.T) {
	c := newSessions(2)
	first, second := newSession(t, c), newSession(t, c)
	full := c.begin(0, 0, false, []fetchPartition{ask(0, 0)}, nil, sessionStart)
	if id, code := c.finish(&full, []told{row(0, 0, false)}, sessionStart); id != 0 || code != kafka.None {
		t.Fatalf("a full cache made session %d, code %v; want none and no error", id, code)
	}
	later := sessionStart.Add(sessionEviction + time.Second)
	c.begin(second, 1, false, nil, nil, later) // in use
	full = c.begin(0, 0, false, []fetchPartition{ask(0, 0)}, nil, later)
	if id, _ := c.finish(&full, []told{row(0, 0, false)}, later); id == 0 {
		t.Fatal("a stale session was not evicted")
	}
	if ctx := c.begin(first, 1, false, nil, nil, later); ctx.err != kafka.FetchSessionIDNotFound {
		t.Fatalf("the stale session is still there: code %v", ctx.err)
	}
	if ctx := c.begin(second, 2, false, nil, nil, later); ctx.err != kafka.None {
		t.Fatalf("the session in use was evicted: code %v", ctx.err)
	}
}

func TestSameSessionRequestTwiceIsRefusedOnce(t *testing.T) {
	c := newSessions(10)
	id := newSession(t, c)
	first := c.begin(id, 1, false, nil, nil, sessionStart)
	second := c.begin(id, 2, false, nil, nil, sessionStart)
	if got, code := c.finish(&first, []told{row(0, 1, false), row(1, 0, false)}, sessionStart); got != id || code != kafka.InvalidFetchSessionEpoch {
		t.Fatalf("the overtaken request: session %d, code %v", got, code)
	}
	if _, code := c.finish(&second, []told{row(0, 1, false), row(1, 0, false)}, sessionStart); code != kafka.None {
		t.Fatalf("the request in force: code %v", code)
	}
}

// one makes a session of that many partitions, if the cache lets it.
func (c *sessions) one(size int, now time.Time) int32 {
	var asked []fetchPartition
	for i := range size {
		asked = append(asked, ask(int32(i), 0))
	}
	ctx := c.begin(0, initialEpoch, false, asked, nil, now)
	id, _ := c.finish(&ctx, nil, now)
	return id
}

func TestSessionGivesWayToALargerOneOnly(t *testing.T) {
	c := newSessions(1)
	old := c.one(2, sessionStart)
	now := sessionStart.Add(sessionEviction + time.Second)
	c.begin(old, 1, false, nil, nil, now) // in use
	if id := c.one(2, now); id != noSession {
		t.Fatal("a session in use gave way to one of the same size")
	}
	if id := c.one(3, now); id == noSession {
		t.Fatal("a session that is no longer new did not give way to a larger one")
	}
	if ctx := c.begin(old, 2, false, nil, nil, now); ctx.err != kafka.FetchSessionIDNotFound {
		t.Fatalf("the smaller session is still there: code %v", ctx.err)
	}
}

func TestSessionPartitionsAreBounded(t *testing.T) {
	c := newSessions(10)
	c.partitionLimit = 5
	first := c.one(3, sessionStart)
	if id := c.one(3, sessionStart); id != noSession {
		t.Fatal("six partitions are kept, five are allowed")
	}
	if ctx := c.begin(first, 1, false, []fetchPartition{ask(10, 0), ask(11, 0)}, nil, sessionStart); ctx.err != kafka.None || len(ctx.partitions) != 5 {
		t.Fatalf("growing to the limit: code %v, %d partitions", ctx.err, len(ctx.partitions))
	}
	if ctx := c.begin(first, 2, false, []fetchPartition{ask(12, 0)}, nil, sessionStart); ctx.err != kafka.FetchSessionIDNotFound {
		t.Fatalf("growing beyond the limit: code %v, want that of a session that was evicted", ctx.err)
	}
	second := c.one(5, sessionStart)
	if second == noSession {
		t.Fatal("what the dropped session held is still counted")
	}
	c.begin(second, finalEpoch, false, nil, nil, sessionStart)
	if c.mu.partitions != 0 {
		t.Fatalf("%d partitions are counted and no session is left", c.mu.partitions)
	}
}

func TestConsumersMakeRoomForFollowers(t *testing.T) {
	c := newSessions(2)
	now := time.UnixMilli(1_700_000_000_000)
	create := func(privileged bool, size int) int32 {
		ctx := c.begin(noSession, initialEpoch, false, make([]fetchPartition, size), nil, now)
		ctx.privileged = privileged
		id, _ := c.finish(&ctx, nil, now)
		return id
	}
	large, small := create(false, 5), create(false, 2)
	first := create(true, 1) // though the consumers' sessions are new and larger
	if first == noSession || c.mu.byID[small] != nil || c.mu.byID[large] == nil {
		t.Fatalf("sessions left: %v", c.mu.byID)
	}
	second := create(true, 1)
	if second == noSession || c.mu.byID[large] != nil {
		t.Fatalf("sessions left: %v", c.mu.byID)
	}
	if third := create(true, 9); third != noSession {
		t.Fatal("a new follower's session made room for another")
	}
	now = now.Add(sessionEviction + 1)
	for _, id := range []int32{first, second} {
		c.mu.byID[id].lastUsed = now // they are used
	}
	if id := create(false, 9); id != noSession {
		t.Fatal("a follower made room for a consumer")
	}
	if id := create(true, 9); id == noSession {
		t.Fatal("an older follower's session makes no room for a larger one")
	}
}
