package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol/batch"
)

const atOnce = "group.initial.rebalance.delay.ms=0"

// member is a client's place in a group of one.
type member struct {
	group, id  string
	generation int32
}

// join makes the only member of a group, with an assignment.
func (c *kafkaClient) join(group string) member {
	c.t.Helper()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = group
	if found := c.request(1, find).(*kmsg.FindCoordinatorResponse); found.ErrorCode != 0 {
		c.t.Fatalf("find the coordinator: %v", kafka.Code(found.ErrorCode))
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = group, 30_000, 30_000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("metadata")}}
	resp := c.request(3, join).(*kmsg.JoinGroupResponse) // before v4 without a second round
	if resp.ErrorCode != 0 || resp.LeaderID != resp.MemberID {
		c.t.Fatalf("join: %+v", resp)
	}
	m := member{group, resp.MemberID, resp.Generation}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, m.id, m.generation
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: m.id, MemberAssignment: []byte("assignment")}}
	if resp := c.request(3, sync).(*kmsg.SyncGroupResponse); resp.ErrorCode != 0 || string(resp.MemberAssignment) != "assignment" {
		c.t.Fatalf("sync: %+v", resp)
	}
	return m
}

func (m member) commit(topic string, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: offset, LeaderEpoch: -1}}}}
	return req
}

// committed asks for everything that a group has committed, as topic/partition=offset.
func (c *kafkaClient) committed(group string) string {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	resp := c.request(7, req).(*kmsg.OffsetFetchResponse)
	out := kafka.Code(resp.ErrorCode).String()
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out += fmt.Sprintf(" %s/%d=%d", t.Topic, p.Partition, p.Offset)
		}
	}
	return out
}

func (c *kafkaClient) heartbeat(m member) kafka.Code {
	c.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = m.group, m.id, m.generation
	return kafka.Code(c.request(4, req).(*kmsg.HeartbeatResponse).ErrorCode)
}

func TestAGroupOutlivesAKill(t *testing.T) {
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			disk := vfs.NewMem()
			settings := load(t, anyPort, "/data", atOnce, fmt.Sprintf("offsets.topic.compression.codec=%d", codec))
			first := start(t, disk, settings)
			c := first.dial()
			c.createTopic("t")
			m := c.join("g/ü")
			if resp := c.request(8, m.commit("t", 41)).(*kmsg.OffsetCommitResponse); resp.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Fatalf("commit: %+v", resp)
			}
			partition := coordinator.PartitionFor(m.group, 50)
			if got := codecIn(t, first, partition); got != codec {
				t.Errorf("written as %v", got)
			}
			killed := disk.Kill()
			first.mustStop()

			c = start(t, killed, settings).dial()
			for c.committed(m.group) == kafka.CoordinatorLoadInProgress.String() {
			}
			if got := c.committed(m.group); got != "NONE t/0=41" {
				t.Errorf("committed: %s", got)
			}
			if code := c.heartbeat(m); code != kafka.None {
				t.Errorf("the member goes on and is told %v", code)
			}
		})
	}
}

// codecIn says how the first batch of a partition of __consumer_offsets is compressed.
func codecIn(t *testing.T, r *running, partition int32) batch.Codec {
	t.Helper()
	l := r.replicas.Partition(kafka.TopicPartition{Topic: kafka.ConsumerOffsetsTopic, Partition: partition}).Log()
	records, err := l.Read(log.ReadRequest{MaxBytes: 1, EndOffset: l.EndOffset(), AtLeastOne: true})
	if err != nil {
		t.Fatal(err)
	}
	defer records.Release()
	b := make([]byte, records.Len())
	if _, err := records.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	h, err := batch.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	return h.Attributes.Codec()
}

func TestOffsetsGoWithTheirTopic(t *testing.T) {
	c := start(t, vfs.NewMem(), load(t, anyPort, "/data", atOnce)).dial()
	c.createTopic("kept")
	c.createTopic("deleted")
	m := c.join("g")
	c.request(8, m.commit("kept", 1))
	c.request(8, m.commit("deleted", 2))
	if got := c.committed("g"); got != "NONE deleted/0=2 kept/0=1" && got != "NONE kept/0=1 deleted/0=2" {
		t.Fatalf("before: %s", got)
	}
	drop := kmsg.NewPtrDeleteTopicsRequest()
	drop.TopicNames, drop.TimeoutMillis = []string{"deleted"}, 60_000
	if resp := c.request(3, drop).(*kmsg.DeleteTopicsResponse); resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("%+v", resp)
	}
	if got := c.committed("g"); got != "NONE kept/0=1" {
		t.Errorf("after: %s", got)
	}
}

// A commit lets the connection's next request start; the answers come in their order all the same.
func TestCommitsArePipelined(t *testing.T) {
	c := start(t, vfs.NewMem(), load(t, anyPort, "/data", atOnce, "weir.fsync.policy=ack")).dial()
	c.createTopic("t")
	m := c.join("g")
	const n = 50
	for i := range n {
		c.ask(8, m.commit("t", int64(i)))
	}
	for i := range n {
		req := m.commit("t", int64(i))
		if i == n/2 {
			c.ask(8, m.commit("t", n))
		}
		if resp := c.answer(8, req).(*kmsg.OffsetCommitResponse); resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("commit %d: %+v", i, resp)
		}
	}
	c.answer(8, m.commit("t", n))
	if got := c.committed("g"); got != fmt.Sprintf("NONE t/0=%d", n) {
		t.Error(got)
	}
}

// A member waits for others for as long as they may take; a stop answers it, so that it looks elsewhere.
func TestAStopAnswersMembersThatWait(t *testing.T) {
	b := start(t, vfs.NewMem(), load(t, anyPort, "/data", "group.initial.rebalance.delay.ms=600000"))
	c := b.dial()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	c.request(1, find)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "g", 1_800_000, 600_000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	c.ask(3, join)
	other := b.dial()
	list := kmsg.NewPtrListGroupsRequest()
	for len(other.request(4, list).(*kmsg.ListGroupsResponse).Groups) == 0 { // until the join is there
	}
	stopped := make(chan error)
	go func() { stopped <- b.mayFail() }()
	if resp := c.answer(3, join).(*kmsg.JoinGroupResponse); kafka.Code(resp.ErrorCode) != kafka.NotCoordinator {
		t.Errorf("the waiting member is told %v", kafka.Code(resp.ErrorCode))
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// What applications do: consumers share a topic, take over from each other, and begin where the group had got to.
func TestConsumersShareATopic(t *testing.T) {
	b := start(t, vfs.NewMem(), load(t, anyPort, "/data", atOnce, "num.partitions=4"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Bound()["PLAINTEXT"]), kgo.AllowAutoTopicCreation())...)
		if err != nil {
			t.Fatal(err)
		}
		return cl
	}
	producer := client(kgo.DefaultProduceTopic("t"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	defer producer.Close()
	produced := 0
	produce := func(n int) {
		for range n {
			if err := producer.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(produced))).FirstErr(); err != nil {
				t.Fatal(err)
			}
			produced++
		}
	}

	var seen struct {
		sync.Mutex
		values map[string]int
		by     map[int]bool // consumers since the last check
		all    chan struct{}
	}
	seen.values, seen.by, seen.all = make(map[string]int), make(map[int]bool), make(chan struct{}, 1)
	consume := func(id int) (stop func()) {
		cl := client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.HeartbeatInterval(50*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.DisableAutoCommit(), kgo.FetchMaxWait(50*time.Millisecond))
		polling, end := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for polling.Err() == nil {
				fetches := cl.PollFetches(polling)
				seen.Lock()
				fetches.EachRecord(func(r *kgo.Record) {
					seen.values[string(r.Value)]++
					seen.by[id] = true
				})
				complete := len(seen.values) == produced
				seen.Unlock()
				if err := cl.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
					t.Logf("consumer %d could not commit: %v", id, err)
				}
				if complete {
					select {
					case seen.all <- struct{}{}:
					default:
					}
				}
			}
		}()
		return func() {
			end()
			<-ended
			cl.Close()
		}
	}
	wait := func() {
		for {
			seen.Lock()
			n := len(seen.values)
			seen.Unlock()
			if n == produced {
				return
			}
			select {
			case <-seen.all:
			case <-ctx.Done():
				t.Fatalf("%d of %d records", n, produced)
			}
		}
	}
	produce(20)
	stopFirst := consume(1)
	wait()
	stopSecond := consume(2)
	for both := false; !both; { // the second takes its share as soon as it has joined
		seen.Lock()
		seen.by = make(map[int]bool)
		produce(8)
		seen.Unlock()
		wait()
		seen.Lock()
		both = seen.by[1] && seen.by[2]
		seen.Unlock()
	}
	stopFirst()
	seen.Lock()
	produce(8)
	seen.Unlock()
	wait()
	stopSecond()
	seen.Lock()
	defer seen.Unlock()
	if got := b.dial().committed("g"); len(seen.values) != produced || got == "NONE" {
		t.Fatalf("%d of %d records, committed %s", len(seen.values), produced, got)
	}
}
