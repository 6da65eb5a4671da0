package kgo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"weir/compat-tests/harness"
)

// memberCommand makes this program a member of a group.
const memberCommand = "member"

func groupOptions(topic, group string) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(300 * time.Millisecond),
	}
}

// runMember prints what it reads, then commits it, until it is killed.
func runMember(bootstrap, topic, group string) {
	ctx := context.Background()
	client, err := kgo.NewClient(append(groupOptions(topic, group), kgo.SeedBrokers(bootstrap), kgo.DisableClientMetrics())...)
	for err == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) { fmt.Println(topic, partition, err) })
		fetches.EachRecord(func(r *kgo.Record) { fmt.Printf("%d %d %s\n", r.Partition, r.Offset, r.Value) })
		if commitErr := client.CommitUncommittedOffsets(ctx); commitErr != nil {
			fmt.Println("commit:", commitErr) // a rebalance; what was not committed is read again
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

func TestGroupTakesOver(t *testing.T) {
	broker := harness.Shared(t)
	harness.TakeOver(t, broker, func(topic, group string) *harness.Member {
		return harness.StartMember(t, os.Args[0], memberCommand, broker.Bootstrap, topic, group)
	})
}

func TestGroupResumes(t *testing.T) {
	harness.Resume(t, func(broker *harness.Broker, topic, group string, want int) (values []string) {
		client := broker.Client(t, groupOptions(topic, group)...)
		defer client.Close()
		ctx := harness.Context(t)
		for len(values) < want {
			fetches := client.PollRecords(ctx, want-len(values))
			if err := fetches.Err(); err != nil {
				t.Fatalf("after %d records: %v", len(values), err)
			}
			fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			t.Fatal(err)
		}
		return values
	})
}

// What an administrator sees of a group while a member reads, after it has left, and when it is gone.
func TestGroupsListDescribeAndDelete(t *testing.T) {
	broker := harness.Shared(t)
	broker.RequireGroups(t)
	topic := broker.Topic(t, 2)
	group := "group-" + topic
	admin, ctx := broker.Admin(t), harness.Context(t)
	produceAt(t, broker, topic, time.Now(), 0)
	consumer := broker.Client(t, append(groupOptions(topic, group), kgo.ClientID("reader"), kgo.Balancers(kgo.RangeBalancer()))...)
	if err := consumer.PollFetches(ctx).Err(); err != nil {
		t.Fatal(err)
	}

	stable := broker.AwaitGroup(t, group, "stable", func(g kadm.DescribedGroup) bool { return g.State == "Stable" })
	if stable.ProtocolType != "consumer" || stable.Protocol != "range" || len(stable.Members) != 1 {
		t.Fatalf("%+v", stable)
	}
	member := stable.Members[0]
	if member.ClientID != "reader" || !strings.HasPrefix(member.MemberID, "reader-") || member.ClientHost != "/127.0.0.1" {
		t.Errorf("member %q of client %q at %q", member.MemberID, member.ClientID, member.ClientHost)
	}
	assigned := stable.AssignedPartitions()
	if !assigned.Lookup(topic, 0) || !assigned.Lookup(topic, 1) {
		t.Errorf("assigned: %v", assigned)
	}
	listed, err := admin.ListGroups(ctx)
	if g := listed[group]; err != nil || g.State != "Stable" || g.ProtocolType != "consumer" || g.GroupType != "classic" {
		t.Errorf("listed as %+v, %v", g, err)
	}
	if listed, err = admin.ListGroups(ctx, "Empty"); err != nil || listed[group].Group != "" {
		t.Errorf("listed among the empty ones: %+v, %v", listed[group], err)
	}
	if _, err := admin.DeleteGroup(ctx, group); !errors.Is(err, kerr.NonEmptyGroup) {
		t.Errorf("deleting it while it has a member: %v, want NON_EMPTY_GROUP", err)
	}

	consumer.Close() // which leaves
	broker.AwaitGroup(t, group, "empty", func(g kadm.DescribedGroup) bool { return g.State == "Empty" && len(g.Members) == 0 })
	if listed, err = admin.ListGroups(ctx, "Empty"); err != nil || listed[group].State != "Empty" {
		t.Errorf("listed among the empty ones: %+v, %v", listed[group], err)
	}
	if _, err := admin.DeleteGroup(ctx, group); err != nil {
		t.Errorf("deleting it: %v", err)
	}
	if _, err := admin.DeleteGroup(ctx, group); !errors.Is(err, kerr.GroupIDNotFound) {
		t.Errorf("deleting it again: %v, want GROUP_ID_NOT_FOUND", err)
	}
	described, err := admin.DescribeGroups(ctx, group)
	if g := described[group]; err != nil || g.State != "Dead" || !errors.Is(g.Err, kerr.GroupIDNotFound) {
		t.Errorf("described after it was deleted: %q, %v, %v", g.State, g.Err, err)
	}
}

func TestGroupOffsetsCommitFetchAndDelete(t *testing.T) {
	broker := harness.Shared(t)
	broker.RequireGroups(t)
	topic := broker.Topic(t, 3)
	group := "group-" + topic
	admin, ctx := broker.Admin(t), harness.Context(t)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 7, LeaderEpoch: -1, Metadata: "a note"})
	offsets.Add(kadm.Offset{Topic: topic, Partition: 1, At: 0, LeaderEpoch: 0})
	if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
		t.Fatal(err)
	}
	fetched, err := admin.FetchOffsets(ctx, group)
	if err != nil || fetched.Error() != nil {
		t.Fatal(err, fetched.Error())
	}
	if o, _ := fetched.Lookup(topic, 0); o.At != 7 || o.Metadata != "a note" || o.LeaderEpoch != -1 {
		t.Errorf("partition 0: %+v", o)
	}
	if o, _ := fetched.Lookup(topic, 1); o.At != 0 || o.LeaderEpoch != 0 {
		t.Errorf("partition 1: %+v", o)
	}
	if o, ok := fetched.Lookup(topic, 2); ok {
		t.Errorf("partition 2, of which nothing was committed: %+v", o)
	}
	if lags, err := admin.Lag(ctx, group); err != nil || lags[group].State != "Empty" {
		t.Errorf("the group that only committed is %q, %v", lags[group].State, err)
	}

	gone := make(kadm.TopicsSet)
	gone.Add(topic, 0)
	deleted, err := admin.DeleteOffsets(ctx, group, gone)
	if err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	fetched, err = admin.FetchOffsetsForTopics(ctx, group, topic)
	if err != nil {
		t.Fatal(err)
	}
	for partition, want := range map[int32]int64{0: -1, 1: 0, 2: -1} {
		if o, _ := fetched.Lookup(topic, partition); o.At != want || o.Err != nil {
			t.Errorf("partition %d after its deletion: %+v, want %d", partition, o, want)
		}
	}
}

// Offsets of a topic go with the topic.
func TestGroupOffsetsGoWithTheTopic(t *testing.T) {
	broker := harness.Shared(t)
	broker.RequireGroups(t)
	topic := broker.Topic(t, 1)
	kept, group := broker.Topic(t, 1), "group-"+topic
	admin, ctx := broker.Admin(t), harness.Context(t)
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, 5, -1)
	offsets.AddOffset(kept, 0, 6, -1)
	if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.DeleteTopic(ctx, topic); err != nil {
		t.Fatal(err)
	}
	for {
		fetched, err := admin.FetchOffsets(ctx, group)
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := fetched.Lookup(kept, 0); o.At != 6 {
			t.Fatalf("the other topic's offset is %d, want 6", o.At)
		}
		if _, ok := fetched.Lookup(topic, 0); !ok {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	// A topic of that name made anew has no offsets of the old one.
	if _, err := admin.CreateTopic(ctx, 1, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
	if fetched, err := admin.FetchOffsetsForTopics(ctx, group, topic); err != nil {
		t.Error(err)
	} else if o, _ := fetched.Lookup(topic, 0); o.At != -1 {
		t.Errorf("the new topic's offset is %d", o.At)
	}
}

// A static member that comes back within its session gets its partitions back without a rebalance; an administrator can
// remove it.
func TestGroupStaticMember(t *testing.T) {
	broker := harness.Shared(t)
	broker.RequireGroups(t)
	topic := broker.Topic(t, 2)
	group := "group-" + topic
	admin, ctx := broker.Admin(t), harness.Context(t)
	produceAt(t, broker, topic, time.Now(), 0)
	join := func() {
		client := broker.Client(t, append(groupOptions(topic, group), kgo.InstanceID("rack-1"), kgo.SessionTimeout(30*time.Second))...)
		if err := client.PollFetches(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		client.Close() // a static member does not leave
	}
	join()
	first := broker.AwaitGroup(t, group, "stable", func(g kadm.DescribedGroup) bool { return g.State == "Stable" })
	join()
	second := broker.AwaitGroup(t, group, "stable", func(g kadm.DescribedGroup) bool { return g.State == "Stable" })
	if len(first.Members) != 1 || len(second.Members) != 1 || first.Members[0].MemberID == second.Members[0].MemberID ||
		*second.Members[0].InstanceID != "rack-1" {
		t.Errorf("members %+v, then %+v", first.Members, second.Members)
	}
	left, err := admin.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs("rack-1"))
	if err != nil || !left.Ok() {
		t.Errorf("removing the member: %+v, %v", left, err)
	}
	broker.AwaitGroup(t, group, "empty", func(g kadm.DescribedGroup) bool { return g.State == "Empty" })
}

// Every way of sharing that the client knows, with members that come and go.
func TestGroupBalancers(t *testing.T) {
	broker := harness.Shared(t)
	broker.RequireGroups(t)
	for name, balancer := range map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			topic := broker.Topic(t, 4)
			group := "group-" + topic
			join := func() *kgo.Client {
				client := broker.Client(t, append(groupOptions(topic, group), kgo.Balancers(balancer))...)
				go func() {
					for ctx := t.Context(); ctx.Err() == nil && !client.PollFetches(ctx).IsClientClosed(); {
					}
				}()
				return client
			}
			shares := func(want ...int) {
				t.Helper()
				broker.AwaitGroup(t, group, fmt.Sprint("shared as ", want), func(g kadm.DescribedGroup) bool {
					var got []int
					for _, m := range g.Members {
						if a, ok := m.Assigned.AsConsumer(); ok {
							n := 0
							for _, topic := range a.Topics {
								n += len(topic.Partitions)
							}
							got = append(got, n)
						}
					}
					slices.Sort(got)
					return g.State == "Stable" && g.Protocol == name && slices.Equal(got, want)
				})
			}
			first := join()
			shares(4)
			second := join()
			shares(2, 2)
			join()
			shares(1, 1, 2)
			first.Close()
			second.Close()
			shares(4)
		})
	}
}

// A member of a generation that is over may not commit.
func TestGroupCommitOfAnotherGeneration(t *testing.T) {
	broker := harness.Shared(t)
	broker.RequireGroups(t)
	topic := broker.Topic(t, 1)
	group := "group-" + topic
	ctx := harness.Context(t)
	produceAt(t, broker, topic, time.Now(), 0)
	consumer := broker.Client(t, groupOptions(topic, group)...)
	if err := consumer.PollFetches(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	member, generation := consumer.GroupMetadata()
	commit := func(member string, generation int32) error {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Group, r.MemberID, r.Generation = group, member, generation
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Offset = 1
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, partition)
		r.Topics = append(r.Topics, rt)
		response, err := r.RequestWith(ctx, broker.Client(t, kgo.MaxVersions(kversion.V4_0_0())))
		if err != nil {
			t.Fatal(err)
		}
		return kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
	}
	for _, c := range []struct {
		member     string
		generation int32
		want       error
	}{
		{member, generation, nil},
		{member, generation + 1, kerr.IllegalGeneration},
		{"nobody", generation, kerr.UnknownMemberID},
		{"", -1, kerr.UnknownMemberID}, // who is no member may commit to an empty group only
	} {
		if err := commit(c.member, c.generation); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("member %q of generation %d: %v, want %v", c.member, c.generation, err, c.want)
		}
	}
}
