package wire

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// A group does not notice that its broker ended: the members have their ids, their generation and their assignments, and go
// on without a rebalance. What was committed is there, what was deleted is not.
func TestGroupsOutliveTheBroker(t *testing.T) {
	t.Parallel()
	for _, how := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := start(t, ownGroups...)
			topic := newTopic(t, s.Address, 1).name
			stable, empty, simple, deleted := newGroup(t, s.Address), newGroup(t, s.Address), newGroup(t, s.Address), newGroup(t, s.Address)
			members := []*member{newMember(t, s.Address, stable), newMember(t, s.Address, stable).static("rack-1"), newMember(t, s.Address, stable)}
			members[2].entry.Protocols[0].Metadata = []byte{0, 1, 0xff}
			leader := settle(t, members...)
			c := dial(t, s.Address)
			wantCode(t, "a commit", commit(t, c, leader.commitRequest(topic, 0, 7)), nil)
			settleAndLeave := func(group string) {
				m := newMember(t, s.Address, group)
				settle(t, m)
				wantCode(t, "a commit", commit(t, c, m.commitRequest(topic, 0, 8)), nil)
				m.leave(t)
			}
			settleAndLeave(empty)
			settleAndLeave(deleted)
			mustCommit(t, c, simple, topic, 0, 9)
			wantCode(t, "deleting a group", deleteGroup(t, c, deleted), nil)
			groups := []string{stable, empty, simple, deleted}
			before := make(map[string]kmsg.DescribeGroupsResponseGroup)
			for _, group := range groups {
				before[group] = described(t, c, group)
			}

			for range 2 {
				s.end(t, how)
				s.restart(t)
				c = dial(t, s.Address)
				for _, group := range groups {
					coordinate(t, s.Address, group)
					if after := described(t, c, group); !reflect.DeepEqual(after, before[group]) {
						t.Errorf("%+v became %+v", before[group], after)
					}
				}
				for _, m := range members {
					m.move(t, s.Address)
					wantCode(t, "a heartbeat", m.heartbeat(t, m.conn), nil)
					m.sendSync(t)
					m.wantAssigned(t, assignmentOf(m))
					if m == leader {
						continue
					}
					generation := m.joined.Generation
					if m.join(t); m.joined.Generation != generation || m.joined.LeaderID != leader.id() {
						t.Errorf("a follower that joins again is told generation %d with leader %s, want %d with %s", m.joined.Generation, m.joined.LeaderID, generation, leader.id())
					}
				}
				for group, want := range map[string]int64{stable: 7, empty: 8, simple: 9, deleted: -1} {
					wantCommitted(t, c, "after the end of the broker", group, topic, want)
				}
				early := leader.commitRequest(topic, 0, 1)
				early.Generation++
				wantCode(t, "a commit of a generation to come", commit(t, c, early), kerr.IllegalGeneration)
				wantCode(t, "a commit of a member", commit(t, c, leader.commitRequest(topic, 0, 7)), nil)
			}
			// The next generation follows on the last one.
			generation := leader.joined.Generation
			leader.sendJoin(t)
			for _, m := range members {
				if m != leader {
					m.awaitRebalance(t)
					m.sendJoin(t)
				}
			}
			for _, m := range members {
				if m.enter(t); m.joined.Generation != generation+1 {
					t.Errorf("generation %d, want %d", m.joined.Generation, generation+1)
				}
			}
			distribute(t, members...)
			again := newMember(t, s.Address, empty)
			if again.join(t); again.joined.Generation != 3 { // one with a member, and one without
				t.Errorf("the empty group is in generation %d, want 3", again.joined.Generation)
			}
		})
	}
}

// described describes a group with its members in the order of their ids.
func described(t *testing.T, c *conn, group string) kmsg.DescribeGroupsResponseGroup {
	t.Helper()
	g := describeGroup(t, c, group)
	slices.SortFunc(g.Members, func(a, b kmsg.DescribeGroupsResponseGroupMember) int { return strings.Compare(a.MemberID, b.MemberID) })
	return g
}

// A member that went away with the broker is missed when its session is over, counted from the start.
func TestMembersThatDoNotComeBackAreGivenUp(t *testing.T) {
	t.Parallel()
	s := start(t, append([]string{"--override", "group.min.session.timeout.ms=1000"}, ownGroups...)...)
	group := newGroup(t, s.Address)
	gone, stays := newMember(t, s.Address, group), newMember(t, s.Address, group)
	gone.entry.SessionTimeoutMillis, stays.entry.SessionTimeoutMillis = 2000, sessionMillis
	settle(t, gone, stays)
	s.Kill()
	time.Sleep(3 * time.Second) // longer than its session, which does not run while there is nobody to hear it
	s.restart(t)
	coordinate(t, s.Address, group)
	stays.move(t, s.Address)
	wantCode(t, "a heartbeat", stays.heartbeat(t, stays.conn), nil)
	stays.awaitRebalance(t)
	stays.join(t)
	if len(stays.joined.Members) != 1 {
		t.Errorf("there are %d members", len(stays.joined.Members))
	}
	distribute(t, stays)
}

// A rebalance that is under way when the broker ends has not been: the last generation is in force, and who was about to join
// is not known yet.
func TestARebalanceEndsWithTheBroker(t *testing.T) {
	t.Parallel()
	for _, how := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := start(t, ownGroups...)
			group := newGroup(t, s.Address)
			old, joining := newMember(t, s.Address, group), newMember(t, s.Address, group)
			settle(t, old)
			joining.sendJoin(t)
			awaitMembers(t, old.conn, group, 2)
			old.awaitRebalance(t)
			s.end(t, how)
			if how == "stop" { // who waits is answered, and told to look for the coordinator
				wantCode(t, "JoinGroup", joining.awaitJoin(t).ErrorCode, kerr.NotCoordinator)
			}
			s.restart(t)
			coordinate(t, s.Address, group)
			old.move(t, s.Address)
			joining.move(t, s.Address)
			wantCode(t, "a heartbeat", old.heartbeat(t, old.conn), nil)
			wantCode(t, "JoinGroup under an id of before", ask(t, joining.conn, joining.entry).ErrorCode, kerr.UnknownMemberID)
			joining.entry.MemberID = ""
			joining.sendJoin(t)
			old.awaitRebalance(t)
			old.sendJoin(t)
			old.enter(t)
			joining.enter(t)
			if old.joined.Generation != 2 {
				t.Errorf("generation %d, want 2", old.joined.Generation)
			}
			distribute(t, old, joining)
		})
	}
}

// commitUntilGone commits higher and higher offsets for a group until the broker is gone, and returns the last one that was
// acknowledged and the last one that was sent.
func commitUntilGone(t *testing.T, address, group, topic string, from int64, count *atomic.Int64) (acked, sent int64) {
	acked, sent = from, from
	c, err := connect(address)
	if err != nil {
		t.Error(err)
		return acked, sent
	}
	defer c.Close()
	for {
		sent++
		resp, err := commitRequest(group, topic, 0, sent).RequestWith(t.Context(), c)
		if err != nil {
			return acked, sent
		}
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			t.Errorf("a commit: %s", codeName(code))
			return acked, sent
		}
		acked = sent
		count.Add(1)
	}
}

// What was acknowledged is committed after kill -9, whenever that came: a group never goes back.
func TestAcknowledgedCommitsSurviveKills(t *testing.T) {
	t.Parallel()
	const groups = 4
	kills := 5
	if harness.Soak() {
		kills = 200
	}
	s := start(t, ownGroups...)
	topic := newTopic(t, s.Address, 1).name
	var names [groups]string
	var last [groups]int64
	for i := range groups {
		names[i] = newGroup(t, s.Address)
	}
	for range kills {
		var acked, sent [groups]int64
		var count atomic.Int64
		var wg sync.WaitGroup
		for i := range groups {
			wg.Go(func() { acked[i], sent[i] = commitUntilGone(t, s.Address, names[i], topic, last[i], &count) })
		}
		for deadline := time.Now().Add(replyWithin); count.Load() < 50+rand.Int64N(200) && !time.Now().After(deadline); {
			time.Sleep(time.Millisecond)
		}
		s.Kill()
		wg.Wait()
		s.restart(t)
		c := dial(t, s.Address)
		for i := range groups {
			coordinate(t, s.Address, names[i])
			if last[i] = max(0, committed(t, c, names[i], topic, 0)); last[i] < acked[i] || last[i] > sent[i] {
				t.Errorf("group %d: committed is %d, acknowledged was %d, sent %d", i, last[i], acked[i], sent[i])
			}
		}
	}
	for i, n := range last {
		if n < int64(kills) {
			t.Errorf("group %d made %d commits in %d runs", i, n, kills)
		}
	}
}

// A record of the offsets that cannot be read stands for something that was promised. The groups of its partition are not
// served, aloud, rather than with what is left; nothing is written over it, so that what is there can be saved. All others
// go on.
func TestDamagedOffsetsAreNotServed(t *testing.T) {
	t.Parallel()
	flipped := func(b []byte) []byte { // a bit of the first batch; others come after it
		b[batchOverhead+8] ^= 0x10
		return b
	}
	short := func(r *kmsg.Record) { r.Value = r.Value[:len(r.Value)-3] }
	for name, d := range map[string]struct {
		damage damage
		how    string
		says   string
	}{
		"wrong checksum":                     {flipped, "stop", "is corrupt"},
		"wrong value under a right checksum": {rewritten(t, short), "stop", "record at offset 0"},
		"wrong value found after a kill":     {rewritten(t, short), "kill", "record at offset 0"},
		"wrong key under a right checksum":   {rewritten(t, func(r *kmsg.Record) { r.Key = r.Key[:5] }), "stop", "record at offset 0"},
		"version of the future":              {rewritten(t, func(r *kmsg.Record) { r.Value = append([]byte{0, 99}, r.Value[2:]...) }), "stop", "record at offset 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, ownGroups...)
			topic := newTopic(t, s.Address, 1).name
			c := dial(t, s.Address)
			hurt, sound := "hurt", "sound"
			for _, group := range []string{hurt, sound} {
				coordinate(t, s.Address, group)
				for offset := range int64(10) {
					mustCommit(t, c, group, topic, 0, offset)
				}
			}
			partition := offsetsPartition(hurt, 50)
			if partition == offsetsPartition(sound, 50) {
				t.Fatal("both groups are in one partition")
			}
			s.end(t, d.how)
			path := filepath.Join(s.options.DataDir, fmt.Sprint(offsetsTopic, "-", partition), "00000000000000000000.log")
			spoil(t, path, d.damage)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s.restart(t)
				s.awaitLog(t, `"ERROR"`, fmt.Sprint(offsetsTopic, "-", partition), d.says)
				c := dial(t, s.Address)
				coordinate(t, s.Address, sound)
				wantCommitted(t, c, "of the sound partition", sound, topic, 9)
				wantCode(t, "FindCoordinator", ask(t, c, at(3, findCoordinator(0, hurt))).ErrorCode, nil)
				wantNotServed(t, c, hurt, topic)
				if resp := ask(t, c, at(5, kmsg.NewPtrListGroupsRequest())); resp.ErrorCode != 0 && resp.ErrorCode != kerr.NotCoordinator.Code {
					t.Errorf("ListGroups: %s", codeName(resp.ErrorCode))
				}
				s.end(t, d.how)
				if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
					t.Errorf("a log of %d bytes has %d now, or other ones; %v", len(before), len(after), err)
				}
			}
		})
	}
}

// rewritten changes the first record of a log and makes its batch right again.
func rewritten(t *testing.T, change func(*kmsg.Record)) damage {
	return func(b []byte) []byte {
		size := 12 + int(uint32(b[8])<<24|uint32(b[9])<<16|uint32(b[10])<<8|uint32(b[11]))
		one := new(batch)
		if err := one.ReadFrom(b[:size]); err != nil {
			t.Fatal(err)
		}
		records := one.decoded(t)
		change(&records[0])
		one.Records = nil
		for _, r := range records {
			r.Length = 0
			one.Records = appendRecord(one.Records, r)
		}
		return append(one.bytes(), b[size:]...)
	}
}

// wantNotServed checks that whatever is asked of a group is answered with NOT_COORDINATOR.
func wantNotServed(t *testing.T, c *conn, group, topic string) {
	t.Helper()
	wantCode(t, "OffsetFetch", ask(t, c, at(7, offsetFetchRequest(group))).ErrorCode, kerr.NotCoordinator)
	wantCode(t, "OffsetCommit", commit(t, c, commitRequest(group, topic, 0, 5)), kerr.NotCoordinator)
	wantCode(t, "DescribeGroups", describeGroup(t, c, group).ErrorCode, kerr.NotCoordinator)
	wantCode(t, "DeleteGroups", deleteGroup(t, c, group), kerr.NotCoordinator)
	whole, _ := deleteOffset(t, c, group, topic)
	wantCode(t, "OffsetDelete", whole, kerr.NotCoordinator)
	m := &member{conn: c, entry: at(7, kmsg.NewPtrJoinGroupRequest()), joined: kmsg.NewPtrJoinGroupResponse()}
	m.entry.Group, m.entry.ProtocolType, m.entry.SessionTimeoutMillis = group, "consumer", sessionMillis
	wantCode(t, "JoinGroup", ask(t, c, m.entry).ErrorCode, kerr.NotCoordinator)
	m.entry.MemberID = "x"
	wantCode(t, "Heartbeat", m.heartbeat(t, c), kerr.NotCoordinator)
	sync := at(3, kmsg.NewPtrSyncGroupRequest())
	sync.Group, sync.MemberID = group, "x"
	wantCode(t, "SyncGroup", ask(t, c, sync).ErrorCode, kerr.NotCoordinator)
	leave := at(3, kmsg.NewPtrLeaveGroupRequest())
	leave.Group, leave.Members = group, []kmsg.LeaveGroupRequestMember{{MemberID: "x"}}
	wantCode(t, "LeaveGroup", ask(t, c, leave).ErrorCode, kerr.NotCoordinator)
}
