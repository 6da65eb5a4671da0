package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/golden"
)

// crowd is many members of one group that do nothing but send heartbeats.
type crowd struct {
	group string
	tick  time.Duration // from one time that a member may send a heartbeat to the next
	often atomic.Int64  // it does so at this many of a hundred ticks
	beats atomic.Int64  // how many were answered
}

// sparse is soon enough to notice each rebalance.
const sparse = 300 * time.Millisecond

func newCrowd(group string, tick time.Duration) *crowd {
	c := &crowd{group: group, tick: tick}
	c.often.Store(100)
	return c
}

// dial opens a connection for each member; the broker has answered on each when it returns.
func dial(address string, members int) ([]*golden.Conn, error) {
	var conns []*golden.Conn
	for range members {
		conn, err := golden.Dial(address)
		if err != nil {
			return nil, err
		}
		conns = append(conns, conn)
		if _, err := conn.Request(kmsg.NewPtrApiVersionsRequest(), 0); err != nil {
			return nil, err
		}
	}
	return conns, nil
}

// join has a member join on each connection, calls stable when the group is that with all, and lets the members go.
func (c *crowd) join(ctx context.Context, address string, conns []*golden.Conn, stable func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	admin, err := kadm.NewOptClient(kgo.SeedBrokers(address), kgo.DisableClientMetrics())
	if err != nil {
		return err
	}
	defer admin.Close()
	var members sync.WaitGroup
	for _, conn := range conns {
		members.Go(func() {
			defer conn.Close()
			if err := c.member(ctx, conn); err != nil {
				cancel(err)
			}
		})
	}
	defer members.Wait()
	defer cancel(nil)
	for {
		described, err := admin.DescribeGroups(ctx, c.group)
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if g := described[c.group]; g.State == "Stable" && len(g.Members) == len(conns) {
			return errors.Join(stable(), context.Cause(ctx))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// member joins, again after each rebalance, until it is told to stop.
func (c *crowd) member(ctx context.Context, conn *golden.Conn) error {
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = c.group, "consumer", 60_000, 60_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "measure", Metadata: make([]byte, 100)}}
	for ctx.Err() == nil {
		response, err := conn.Request(join, 9)
		if err != nil {
			return err
		}
		joined := response.(*kmsg.JoinGroupResponse)
		join.MemberID = joined.MemberID
		switch err := kerr.ErrorForCode(joined.ErrorCode); {
		case err == nil:
			if err := c.follow(ctx, conn, joined); err != nil {
				return err
			}
		case errors.Is(err, kerr.MemberIDRequired):
		case kerr.IsRetriable(err), errors.Is(err, kerr.RebalanceInProgress):
			time.Sleep(10 * time.Millisecond) // the coordinator may be new
		default:
			return err
		}
	}
	return nil
}

// follow synchronizes and sends heartbeats until the group rebalances.
func (c *crowd) follow(ctx context.Context, conn *golden.Conn, joined *kmsg.JoinGroupResponse) error {
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID, sync.ProtocolType, sync.Protocol = c.group, joined.Generation, joined.MemberID, joined.ProtocolType, joined.Protocol
	for _, m := range joined.Members { // for the leader only
		sync.GroupAssignment = append(sync.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: make([]byte, 100)})
	}
	response, err := conn.Request(sync, 5)
	if err != nil {
		return err
	}
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group, beat.Generation, beat.MemberID = c.group, joined.Generation, joined.MemberID
	code := response.(*kmsg.SyncGroupResponse).ErrorCode
	for ; code == 0 && ctx.Err() == nil; time.Sleep(c.tick) {
		if rand.Int64N(100) >= c.often.Load() {
			continue
		}
		response, err := conn.Request(beat, 4)
		if err != nil {
			return err
		}
		c.beats.Add(1)
		code = response.(*kmsg.HeartbeatResponse).ErrorCode
	}
	if err := kerr.ErrorForCode(code); err != nil && !errors.Is(err, kerr.RebalanceInProgress) {
		return err
	}
	return nil
}
