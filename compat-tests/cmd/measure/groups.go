package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/golden"
	"weir/compat-tests/harness"
)

// measureGroups prints what groups take: on Weir and, where WEIR_COMPAT_BOOTSTRAP names another broker, on that.
func measureGroups(binary string) error {
	dir, err := os.MkdirTemp("", "weir-measure-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	options := func(delay string) harness.Options {
		return harness.Options{
			Binary: binary, DataDir: filepath.Join(dir, "data-"+delay), LogFile: filepath.Join(dir, "log"),
			Args: []string{"--override", "group.initial.rebalance.delay.ms=" + delay},
		}
	}
	fmt.Println()
	head("groups")
	for _, delay := range []string{"3000", "0"} { // the first is the default
		if err := withBroker(options(delay), func(_ time.Time, p *harness.Process, _ *kgo.Client) error {
			return measureMembers(p.Address, ", initial delay "+delay)
		}); err != nil {
			return err
		}
	}
	if address := harness.External(); address != "" {
		if err := measureMembers(address, ", WEIR_COMPAT_BOOTSTRAP"); err != nil {
			return err
		}
	}
	return measureOffsets(options("0"))
}

const (
	firstPolls   = 3
	groupMembers = 1000
)

func measureMembers(address, where string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DisableClientMetrics(), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer client.Close()
	topic := fmt.Sprint("measure-", time.Now().UnixNano())
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
		return err
	}
	defer kadm.NewClient(client).DeleteTopic(context.Background(), topic)
	var polls []time.Duration
	for i := range firstPolls {
		took, err := firstPoll(ctx, address, topic, fmt.Sprint(topic, "-", i))
		if err != nil {
			return err
		}
		polls = append(polls, took)
	}
	row("first record of a new group, ms"+where, column(polls, ms))
	took, err := joinAll(ctx, address, topic+"-members")
	if err != nil {
		return err
	}
	row(fmt.Sprintf("%d members of one group join and are stable, ms%s", groupMembers, where), []float64{ms(took)})
	return nil
}

// firstPoll is what an application waits for when it starts: from nothing to its first record.
func firstPoll(ctx context.Context, address, topic, group string) (time.Duration, error) {
	start := time.Now()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DisableClientMetrics(), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		if fetches.NumRecords() > 0 {
			return time.Since(start), nil
		}
	}
}

// joinAll has members join one group, each on a connection of its own, and returns when the group is stable with all.
func joinAll(ctx context.Context, address, group string) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	admin, err := kadm.NewOptClient(kgo.SeedBrokers(address), kgo.DisableClientMetrics())
	if err != nil {
		return 0, err
	}
	defer admin.Close()
	start := time.Now()
	var members sync.WaitGroup
	for range groupMembers {
		members.Go(func() {
			if err := beMember(ctx, address, group); err != nil {
				cancel(err)
			}
		})
	}
	defer members.Wait()
	defer cancel(nil)
	for {
		described, err := admin.DescribeGroups(ctx, group)
		if err != nil {
			return 0, errors.Join(err, context.Cause(ctx))
		}
		if g := described[group]; g.State == "Stable" && len(g.Members) == groupMembers {
			return time.Since(start), nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// beMember joins, again after each rebalance, until it is told to stop.
func beMember(ctx context.Context, address, group string) error {
	conn, err := golden.Dial(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group, "consumer", 60_000, 60_000
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
			if err := follow(ctx, conn, joined, group); err != nil {
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
func follow(ctx context.Context, conn *golden.Conn, joined *kmsg.JoinGroupResponse, group string) error {
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID, sync.ProtocolType, sync.Protocol = group, joined.Generation, joined.MemberID, joined.ProtocolType, joined.Protocol
	for _, m := range joined.Members { // for the leader only
		sync.GroupAssignment = append(sync.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: make([]byte, 100)})
	}
	response, err := conn.Request(sync, 5)
	if err != nil {
		return err
	}
	code := response.(*kmsg.SyncGroupResponse).ErrorCode
	for ; code == 0 && ctx.Err() == nil; time.Sleep(300 * time.Millisecond) {
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Group, beat.Generation, beat.MemberID = group, joined.Generation, joined.MemberID
		response, err := conn.Request(beat, 4)
		if err != nil {
			return err
		}
		code = response.(*kmsg.HeartbeatResponse).ErrorCode
	}
	if err := kerr.ErrorForCode(code); err != nil && !errors.Is(err, kerr.RebalanceInProgress) {
		return err
	}
	return nil
}

const (
	offsetGroups     = 100
	offsetPartitions = 1000
)

// measureOffsets commits many offsets and starts the broker again: how long after the start of the process it knows them.
func measureOffsets(options harness.Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	const topic = "measure-offsets"
	group := func(i int) string { return fmt.Sprint("group-", i) }
	if err := withBroker(options, func(_ time.Time, _ *harness.Process, client *kgo.Client) error {
		admin := kadm.NewClient(client)
		if _, err := admin.CreateTopic(ctx, offsetPartitions, 1, nil, topic); err != nil {
			return err
		}
		var offsets kadm.Offsets
		for partition := range int32(offsetPartitions) {
			offsets.AddOffset(topic, partition, 1, -1)
		}
		for i := range offsetGroups {
			if err := admin.CommitAllOffsets(ctx, group(i), offsets); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return withBroker(options, func(start time.Time, p *harness.Process, client *kgo.Client) error {
		admin := kadm.NewClient(client)
		known, first := 0, time.Duration(0)
		for i := range offsetGroups {
			fetched, err := admin.FetchOffsets(ctx, group(i)) // the client tries again while they are being loaded
			if err != nil {
				return err
			}
			known += len(fetched[topic])
			if i == 0 {
				first = time.Since(start)
			}
		}
		if known != offsetGroups*offsetPartitions {
			return fmt.Errorf("%d offsets are known after the start, want %d", known, offsetGroups*offsetPartitions)
		}
		row(fmt.Sprintf("start to the first %d of %d committed offsets, ms", offsetPartitions, known), []float64{ms(first)})
		row(fmt.Sprintf("start to %d committed offsets fetched, ms", known), []float64{ms(time.Since(start))})
		return nil
	})
}
