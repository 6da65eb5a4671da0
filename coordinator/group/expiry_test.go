package group

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

const (
	retention = 7 * 24 * time.Hour
	check     = 10 * time.Minute
)

// TestOffsetsWithoutMembersExpireAfterTheirCommit: nobody else knows of a group that only commits.
func TestOffsetsWithoutMembersExpireAfterTheirCommit(t *testing.T) {
	// Somebody once tried to join here, and did not stay to the end.
	tried := &metadata{StateTimestamp: begin.Add(-30 * 24 * time.Hour).UnixMilli()}
	h := newOffsetHarness(t, groupMetadataRecord(begin, "tool", tried))
	h.commit("tool", "orders", 0, 1)
	h.advance(24 * time.Hour)
	h.commit("tool", "orders", 1, 2)
	h.advance(retention - 24*time.Hour - time.Millisecond)
	h.wantOffset("tool", "orders", 0, 1)
	h.advance(check)
	h.wantOffset("tool", "orders", 0, -1)
	h.wantOffset("tool", "orders", 1, 2)
	h.wantGroups("tool")
	h.advance(24 * time.Hour)
	h.wantOffset("tool", "orders", 1, -1)
	h.wantGroups()
	newOffsetHarness(t, h.log...).wantGroups()
}

// TestOffsetsExpireAfterTheLastMemberLeft, whenever they were committed (KIP-211).
func TestOffsetsExpireAfterTheLastMemberLeft(t *testing.T) {
	left := begin.Add(-3 * 24 * time.Hour)
	h := newOffsetHarness(t,
		offsetRecord(begin, "readers", "orders", 0, committed{offset: 1, timestamp: begin.Add(-30 * 24 * time.Hour).UnixMilli(), expires: -1}),
		groupMetadataRecord(begin, "readers", &metadata{ProtocolType: "consumer", StateTimestamp: left.UnixMilli()}),
		// A record of a time when the state had no timestamp: each offset by its commit.
		offsetRecord(begin, "old", "orders", 0, committed{offset: 2, timestamp: left.UnixMilli(), expires: -1}),
		offsetRecord(begin, "old", "orders", 1, committed{offset: 3, timestamp: begin.UnixMilli(), expires: -1}),
		groupMetadataRecord(begin, "old", &metadata{ProtocolType: "consumer", StateTimestamp: -1}))
	h.commit("readers", "orders", 1, 5)
	h.advance(4*24*time.Hour - time.Millisecond)
	h.wantOffset("readers", "orders", 0, 1)
	h.wantOffset("old", "orders", 0, 2)
	h.advance(check)
	h.wantOffset("readers", "orders", 0, -1)
	h.wantOffset("readers", "orders", 1, -1)
	h.wantOffset("old", "orders", 0, -1)
	h.wantOffset("old", "orders", 1, 3)
	h.wantGroups("old")
	if h.shard.hard.metadata["readers"] != nil {
		t.Error("the group's metadata is left")
	}
}

// TestOffsetsOfMembersAreKept, but those of topics that they do not subscribe to any more.
func TestOffsetsOfMembersAreKept(t *testing.T) {
	old := committed{offset: 1, timestamp: begin.Add(-30 * 24 * time.Hour).UnixMilli(), expires: -1}
	subscribed, err := parseMetadata(kafkaRecords(t)["group-dynamic"].Value)
	if err != nil {
		t.Fatal(err)
	}
	for i := range subscribed.Members {
		subscribed.Members[i].SessionTimeout = math.MaxInt32 // nobody beats here
		subscribed.Members[i].RebalanceTimeout = math.MaxInt32
	}
	connect := *subscribed
	connect.ProtocolType = "connect"
	h := newOffsetHarness(t, groupMetadataRecord(begin, "readers", subscribed), groupMetadataRecord(begin, "workers", &connect),
		groupMetadataRecord(begin, "moving", subscribed), offsetRecord(begin, "moving", "bills", 0, old),
		offsetRecord(begin, "readers", "orders", 0, old), offsetRecord(begin, "readers", "bills", 0, old), offsetRecord(begin, "workers", "bills", 0, old))
	h.joinAnother("moving")
	h.advance(check)
	h.wantOffset("readers", "orders", 0, 1)
	h.wantOffset("readers", "bills", 0, -1)
	h.wantOffset("workers", "bills", 0, 1)
	h.wantOffset("moving", "bills", 0, 1) // who knows what the new member wants
	h.wantGroups("moving", "readers", "workers")
}

// joinAnother has a new member join. The group waits for the others then, whatever becomes of it.
func (h *offsetHarness) joinAnother(group string) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 3, group, "consumer", 600_000, 600_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscriptionBytes(0, "orders")}}
	h.step(&coordinator.Call{Body: req, Done: func(any, error) {}})
}

// TestRetentionOfOneCommit is asked for in OffsetCommit 2–4 alone.
func TestRetentionOfOneCommit(t *testing.T) {
	for _, c := range []struct {
		version     int16
		retentionMs int64
		kept        time.Duration
	}{
		{4, 3600_000, time.Hour},
		{2, 30 * 24 * 3600_000, 30 * 24 * time.Hour},
		{3, -1, retention},
		{5, 3600_000, retention}, // no field of that version
		{4, 0, 0},
		{4, -5, 0},
		{4, math.MaxInt64, 0}, // wraps round
	} {
		h := newOffsetHarness(t)
		req := commitRequest(c.version, "tool", "orders", 0, 42)
		req.RetentionTimeMillis = c.retentionMs
		h.commitAs(kafka.None, req)
		if c.kept > 0 {
			h.advance(c.kept - time.Millisecond) // not before, whatever the broker's retention says
			h.wantOffset("tool", "orders", 0, 42)
			h.advance(time.Millisecond)
		} else {
			h.advance(check)
		}
		h.wantOffset("tool", "orders", 0, -1)
		h.wantGroups()
	}
}

// TestRetentionOfOneCommitInAGroupThatWasLeft, whose other offsets have their time.
func TestRetentionOfOneCommitInAGroupThatWasLeft(t *testing.T) {
	h := newOffsetHarness(t, groupMetadataRecord(begin, "readers", &metadata{ProtocolType: "consumer", StateTimestamp: begin.UnixMilli()}))
	req := commitRequest(4, "readers", "orders", 0, 42)
	req.RetentionTimeMillis = 3600_000
	h.commitAs(kafka.None, req)
	h.commit("readers", "orders", 1, 43)
	h.advance(time.Hour)
	h.wantOffset("readers", "orders", 0, -1)
	h.wantOffset("readers", "orders", 1, 43)
}

// TestACommitReplacesTheExpiryToo.
func TestACommitReplacesTheExpiryToo(t *testing.T) {
	h := newOffsetHarness(t)
	req := commitRequest(4, "tool", "orders", 0, 42)
	req.RetentionTimeMillis = 1000
	h.commitAs(kafka.None, req)
	h.commit("tool", "orders", 0, 43)
	h.advance(check)
	h.wantOffset("tool", "orders", 0, 43)
	if n := h.shard.hard.offsets.byGroup["tool"].expiring; n != 0 {
		t.Errorf("%d offsets expire by themselves", n)
	}
}

// TestEmptyGroupsWithoutOffsetsGo at the next look.
func TestEmptyGroupsWithoutOffsetsGo(t *testing.T) {
	h := newOffsetHarness(t, groupMetadataRecord(begin, "left", &metadata{ProtocolType: "consumer", StateTimestamp: begin.UnixMilli()}))
	h.wantGroups("left")
	h.advance(check)
	h.wantGroups()
	if len(h.shard.hard.metadata) != 0 {
		t.Error("its metadata is left")
	}
}

// TestAGroupThatIsAboutToBeJoinedStays: a member has been given its id and comes back with it.
func TestAGroupThatIsAboutToBeJoinedStays(t *testing.T) {
	h := newOffsetHarness(t)
	h.advance(check - time.Second)
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis = 4, "readers", "consumer", 10_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	if resp := h.call(req).(*kmsg.JoinGroupResponse); kafka.Code(resp.ErrorCode) != kafka.MemberIDRequired {
		t.Fatal(kafka.Code(resp.ErrorCode))
	}
	h.advance(2 * time.Second)
	h.wantGroups("readers")
	h.advance(check) // it did not
	h.wantGroups()
}

// TestALookFollowsALook also where nothing was found, and where an append failed.
func TestALookFollowsALook(t *testing.T) {
	h := newOffsetHarness(t)
	h.commit("tool", "orders", 0, 1)
	h.advance(retention - time.Millisecond)
	h.refuse = errors.New("no disk")
	h.advance(check)
	h.wantGroups("tool")
	h.wantOffset("tool", "orders", 0, 1)
	h.advance(check)
	h.wantGroups()
	if next := h.timers[expireOffsets{}]; next == nil || !next.at.After(h.now) || next.at.After(h.now.Add(check)) {
		t.Errorf("now is %v, the next look at %v", h.now, next)
	}
}
