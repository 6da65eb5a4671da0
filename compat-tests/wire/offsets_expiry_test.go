package wire

import (
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// shortRetention forgets offsets after a minute, the least there is, and looks for them often.
var shortRetention = append([]string{"--override", "offsets.retention.minutes=1", "--override", "offsets.retention.check.interval.ms=200"}, ownGroups...)

// aged makes every time on record in a log of __consumer_offsets that much older, so that no case has to wait for it.
func aged(t *testing.T, by time.Duration) damage {
	return func(b []byte) []byte {
		for rest := b; len(rest) > 0; {
			size := 12 + int(binary.BigEndian.Uint32(rest[8:]))
			one := new(batch)
			if err := one.ReadFrom(rest[:size]); err != nil {
				t.Fatal(err)
			}
			for _, r := range one.decoded(t) { // whose bytes are the batch's
				ageRecord(t, r, by.Milliseconds())
			}
			copy(rest[batchOverhead:size], one.Records)
			binary.BigEndian.PutUint32(rest[17:], crc32.Checksum(rest[21:size], castagnoli))
			rest = rest[size:]
		}
		return b
	}
}

func ageRecord(t *testing.T, r kmsg.Record, by int64) {
	if r.Value == nil {
		return
	}
	var older []byte
	if kind := binary.BigEndian.Uint16(r.Key); kind <= 1 {
		v := kmsg.NewOffsetCommitValue()
		if err := v.ReadFrom(r.Value); err != nil {
			t.Fatal(err)
		}
		v.CommitTimestamp, v.ExpireTimestamp = v.CommitTimestamp-by, v.ExpireTimestamp-by
		older = v.AppendTo(nil)
	} else {
		v := kmsg.NewGroupMetadataValue()
		if err := v.ReadFrom(r.Value); err != nil {
			t.Fatal(err)
		}
		v.CurrentStateTimestamp -= by
		older = v.AppendTo(nil)
	}
	if copy(r.Value, older) != len(older) || len(older) != len(r.Value) {
		t.Fatalf("a record of %d bytes became one of %d", len(r.Value), len(older))
	}
}

// age ends the broker and starts it again on offsets and groups that are that much older.
func (s *server) age(t *testing.T, by time.Duration) {
	t.Helper()
	s.Kill()
	logs, err := filepath.Glob(filepath.Join(s.options.DataDir, "__consumer_offsets-*", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	for _, log := range logs {
		spoil(t, log, aged(t, by))
	}
	s.restart(t)
}

// Offsets are kept while somebody may come back to them: as long as a group has members, and for the retention time after
// the last one has left, or after the commit where nobody ever was a member. Neither is counted from the commit of a group that
// has members: it would lose its place over a quiet weekend.
func TestOffsetsExpire(t *testing.T) {
	t.Parallel()
	s := start(t, shortRetention...)
	subscribed, other := newTopic(t, s.Address, 1).name, newTopic(t, s.Address, 1).name
	simple, left, idle, connect, fresh := newGroup(t, s.Address), newGroup(t, s.Address), newGroup(t, s.Address), newGroup(t, s.Address), newGroup(t, s.Address)
	c := dial(t, s.Address)
	mustCommit(t, c, simple, other, 0, 1)
	members := make(map[string]*member)
	for _, group := range []string{left, idle, connect} {
		m := newMember(t, s.Address, group).consumerOf(subscribed)
		if group == connect {
			m.entry.ProtocolType = "connect"
		}
		settle(t, m)
		for _, topic := range []string{subscribed, other} {
			wantCode(t, "a commit", commit(t, c, m.commitRequest(topic, 0, 2)), nil)
		}
		members[group] = m
	}
	members[left].leave(t)

	s.age(t, 2*time.Minute)
	c = dial(t, s.Address)
	for _, group := range []string{simple, left, idle, connect, fresh} {
		coordinate(t, s.Address, group)
	}
	mustCommit(t, c, fresh, other, 0, 3)
	awaitNoOffset(t, c, "a commit of nobody's, two minutes old", simple, other)
	awaitNoOffset(t, c, "a group that was left two minutes ago", left, subscribed)
	awaitNoOffset(t, c, "a topic that no member is subscribed to", idle, other)
	for _, group := range []string{simple, left} {
		if g := describeGroup(t, c, group); g.State != "Dead" {
			t.Errorf("a group without offsets and members is %s", g.State)
		}
	}
	wantCommitted(t, c, "of an idle member", idle, subscribed, 2)
	wantCommitted(t, c, "of a member that is no consumer", connect, subscribed, 2)
	wantCommitted(t, c, "of a member that is no consumer", connect, other, 2)
	wantCommitted(t, c, "that are new", fresh, other, 3)

	// From now on the group is empty, and its offsets have their time.
	for _, group := range []string{idle, connect} {
		m := members[group]
		m.move(t, s.Address)
		wantCode(t, "a heartbeat", m.heartbeat(t, m.conn), nil)
		m.leave(t)
	}
	s.age(t, 30*time.Second)
	c = dial(t, s.Address)
	coordinate(t, s.Address, simple)
	mustCommit(t, c, simple, other, 0, 4)
	deleteOffset(t, c, simple, other)
	awaitGone(t, c, simple) // so several looks have been made
	wantCommitted(t, c, "of a group that was left half a minute ago", idle, subscribed, 2)
	wantCommitted(t, c, "of a group that was left half a minute ago", connect, other, 2)
	s.age(t, time.Minute)
	c = dial(t, s.Address)
	coordinate(t, s.Address, idle)
	awaitNoOffset(t, c, "a group that was left a while ago", idle, subscribed)
	awaitNoOffset(t, c, "a group that was left a while ago", connect, other)
}

// awaitGone waits until a group that is empty and has no offsets is removed.
func awaitGone(t *testing.T, c *conn, group string) {
	t.Helper()
	awaitGroup(t, c, group, "removed", func(g kmsg.DescribeGroupsResponseGroup) bool { return g.State == "Dead" })
}

// Old clients say with a commit how long it is to be kept, and most of them -1, which leaves that to the broker: it does not
// mean that the time is over.
func TestRetentionOfOneCommit(t *testing.T) {
	t.Parallel()
	s := start(t, shortRetention...)
	topic := newTopic(t, s.Address, 1).name
	c := dial(t, s.Address)
	commitFor := func(retention time.Duration) string {
		group := newGroup(t, s.Address)
		req := at(2, commitRequest(group, topic, 0, 1))
		if req.RetentionTimeMillis = -1; retention >= 0 {
			req.RetentionTimeMillis = retention.Milliseconds()
		}
		wantCode(t, "a commit", commit(t, c, req), nil)
		return group
	}
	long, byDefault := commitFor(time.Hour), commitFor(-1)
	m := newMember(t, s.Address, newGroup(t, s.Address)).consumerOf(topic)
	settle(t, m)
	req := at(2, m.commitRequest(topic, 0, 1))
	req.RetentionTimeMillis = 100
	wantCode(t, "a commit", commit(t, c, req), nil)
	brief := commitFor(100 * time.Millisecond)
	wantCommitted(t, c, "for 100 ms", brief, topic, 1)
	awaitNoOffset(t, c, "a commit for 100 ms", brief, topic)
	awaitGone(t, c, brief)
	wantCommitted(t, c, "by a member for 100 ms", m.entry.Group, topic, 1)
	wantCommitted(t, c, "for an hour", long, topic, 1)
	wantCommitted(t, c, "for as long as the broker keeps them", byDefault, topic, 1)
	m.leave(t)
	awaitNoOffset(t, c, "a commit by a member that has left", m.entry.Group, topic)

	s.age(t, 2*time.Minute)
	c = dial(t, s.Address)
	coordinate(t, s.Address, byDefault)
	awaitNoOffset(t, c, "a commit for as long as the broker keeps them", byDefault, topic)
	wantCommitted(t, c, "for an hour", long, topic, 1)
}

// The same by the clock of the wall.
func TestOffsetsExpireInTime(t *testing.T) {
	t.Parallel()
	if !harness.Soak() {
		t.Skip("takes three minutes")
	}
	s := start(t, append([]string{"--override", "offsets.retention.minutes=1", "--override", "offsets.retention.check.interval.ms=5000"}, ownGroups...)...)
	topic := newTopic(t, s.Address, 1).name
	idle := newMember(t, s.Address, newGroup(t, s.Address)).consumerOf(topic)
	leaves := newMember(t, s.Address, newGroup(t, s.Address)).consumerOf(topic)
	byDefault := newGroup(t, s.Address)
	c := dial(t, s.Address)
	for _, m := range []*member{idle, leaves} {
		settle(t, m)
		wantCode(t, "a commit", commit(t, c, m.commitRequest(topic, 0, 1)), nil)
	}
	req := at(2, commitRequest(byDefault, topic, 0, 1))
	req.RetentionTimeMillis = -1
	wantCode(t, "a commit", commit(t, c, req), nil)
	leaves.leave(t)
	for second := range 180 {
		time.Sleep(time.Second)
		wantCode(t, "a heartbeat", idle.heartbeat(t, idle.conn), nil)
		if second == 40 {
			wantCommitted(t, c, "for as long as the broker keeps them", byDefault, topic, 1)
			wantCommitted(t, c, "of a group that was left", leaves.entry.Group, topic, 1)
		}
		if second == 120 {
			wantCommitted(t, c, "for as long as the broker keeps them", byDefault, topic, -1)
			wantCommitted(t, c, "of a group that was left two minutes ago", leaves.entry.Group, topic, -1)
		}
	}
	wantCommitted(t, c, "of an idle member", idle.entry.Group, topic, 1)
}
