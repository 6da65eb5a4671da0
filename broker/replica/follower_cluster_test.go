package replica

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol/batch"
)

// cluster is brokers that replicate to each other, all in the test's goroutine: each has a manager and fetchers over a disk
// in memory, and gets the metadata when the test says so. What they ask each other waits in a list until it is delivered.
type cluster struct {
	t      *testing.T
	now    time.Time
	nodes  []*node
	topic  kafka.TopicID
	record metadata.PartitionRecord // as the metadata has it
	config TopicConfig

	sessions bool                                    // leaders keep fetch sessions
	cut      map[[2]kafka.BrokerID]bool              // requests from, to, that fail
	asked    []*question                             // not answered yet, oldest first
	edit     func(FetchedPartition) FetchedPartition // of what is answered, if not nil
	fetches  []FetchRequest                          // all that were asked
}

// node is one broker of a cluster.
type node struct {
	c        *cluster
	id       kafka.BrokerID
	disk     *vfs.Mem
	policy   log.FsyncPolicy
	logs     *commitLogs
	manager  *Manager
	fetchers *Fetchers
	image    *metadata.Image
	sessions map[[2]int]*testSession // by follower and its fetcher
	wake     time.Time
}

// commitLogs does group commits when the test says so.
type commitLogs struct {
	*log.Store
	waiting []func()
}

func (l *commitLogs) Commit(of *log.Log, done func(error)) {
	l.waiting = append(l.waiting, func() { done(of.Sync()) })
}

// question is a request under way.
type question struct {
	from, to kafka.BrokerID
	fetch    *FetchRequest
	answered func(FetchResponse, error) // of fetch
	offsets  FetchPartition
	listed   func(start, end int64, err error) // of offsets
	parked   bool                              // the leader has nothing to say to fetch yet
}

type testSession struct {
	order []FetchPartition
	told  map[TopicIDPartition][2]int64 // high watermark and log start
}

var testTP = kafka.TopicPartition{Topic: "t"}

// newCluster has brokers 1 to n, with one partition t-0 that has a replica on each, and no leader yet.
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{t: t, now: testTime, topic: kafka.TopicID{15: 7}, cut: map[[2]kafka.BrokerID]bool{}}
	c.config = TopicConfig{Log: log.DefaultConfig(), MinInsyncReplicas: 1, Rules: batch.Rules{MaxMessageBytes: 1 << 20, SegmentBytes: 1 << 30,
		TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 3_600_000, Compression: batch.Compression{Producer: true}, MaxDecompressedRecordBytes: 1 << 30}}
	replicas := make([]kafka.BrokerID, n)
	for i := range replicas {
		replicas[i] = kafka.BrokerID(i + 1)
	}
	c.record = metadata.PartitionRecord{TopicID: c.topic, PartitionRegistration: metadata.PartitionRegistration{Replicas: replicas, ISR: replicas,
		Leader: kafka.NoBroker, LeaderEpoch: -1, PartitionEpoch: -1, Directories: make([]kafka.DirectoryID, n)}}
	for _, id := range replicas {
		c.nodes = append(c.nodes, &node{c: c, id: id, policy: log.FsyncBackground})
		c.node(id).start(vfs.NewMem())
	}
	return c
}

func (c *cluster) node(id kafka.BrokerID) *node { return c.nodes[id-1] }

// start opens a disk. The node knows no metadata yet.
func (n *node) start(disk *vfs.Mem) {
	t := n.c.t
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	store, err := log.OpenStore(log.StoreOptions{FS: disk, Clock: clock.NewManual(testTime), Dirs: []string{"/data"}, NodeID: n.id, FsyncPolicy: n.policy, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	n.disk, n.logs, n.image, n.sessions, n.wake = disk, &commitLogs{Store: store}, metadata.Empty(), map[[2]int]*testSession{}, time.Time{}
	n.fetchers = NewFetchers(FetcherOptions{Endpoint: &endpoint{n.c, n.id}, Clock: clock.NewManual(testTime), Logger: logger, PerLeader: 1,
		WaitMax: 500 * time.Millisecond, Backoff: time.Second, MinBytes: 1, MaxBytes: 1 << 20, ResponseMaxBytes: 10 << 20})
	n.manager = NewManager(Options{Self: n.id, Logs: n.logs, FsyncPolicy: n.policy, Followers: n.fetchers, Logger: logger,
		TopicConfig: func(*metadata.Image, string) *TopicConfig { return &n.c.config }})
	t.Cleanup(func() { _ = store.Close() })
}

// restart ends the process without warning and starts it again on a disk, by default its own.
func (n *node) restart(disk *vfs.Mem) {
	n.c.asked = slices.DeleteFunc(n.c.asked, func(q *question) bool { return q.from == n.id })
	for _, other := range n.c.nodes {
		other.sessions = map[[2]int]*testSession{} // connections are gone
	}
	n.start(disk)
}

// apply has the node take the metadata as it is now.
func (n *node) apply() {
	n.c.t.Helper()
	records := []metadata.Record{n.c.record}
	if n.image.Topics.Len() == 0 {
		records = []metadata.Record{metadata.TopicRecord{ID: n.c.topic, Name: testTP.Topic}, n.c.record}
	}
	next, delta, err := n.image.With(records)
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.image = next
	n.manager.Apply(delta, next)
}

// elect changes the leader in the metadata, with the in-sync replicas given (all that are alive have to be told by apply).
func (c *cluster) elect(leader kafka.BrokerID, isr ...kafka.BrokerID) kafka.LeaderEpoch {
	if len(isr) == 0 {
		isr = []kafka.BrokerID{leader}
	}
	c.record.Leader, c.record.ISR = leader, isr
	c.record.LeaderEpoch++
	c.record.PartitionEpoch++
	return c.record.LeaderEpoch
}

func (c *cluster) applyAll() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.apply()
	}
}

func (n *node) partition() *Partition { return n.manager.Partition(testTP) }

// produce appends batches of the given numbers of records.
func (n *node) produce(batches ...int) {
	n.c.t.Helper()
	for _, records := range batches {
		b := batch.NewBuilder(batch.None, 0)
		for range records {
			b.Append(testTime.UnixMilli(), nil, fmt.Appendf(nil, "%d in epoch %d", n.id, n.partition().LeaderEpoch()))
		}
		built, err := b.Build()
		if err != nil {
			n.c.t.Fatal(err)
		}
		if _, err := n.partition().Append(&AppendRequest{Records: built, Version: 9, Acks: AcksLeader, Now: testTime}); err != nil {
			n.c.t.Fatal(err)
		}
	}
}

// endpoint is a broker's LeaderEndpoint.
type endpoint struct {
	c    *cluster
	from kafka.BrokerID
}

func (e *endpoint) Fetch(leader kafka.BrokerID, r *FetchRequest, done func(FetchResponse, error)) {
	for _, q := range e.c.asked {
		if q.from == e.from && q.to == leader && q.fetch != nil && q.fetch.Fetcher == r.Fetcher {
			e.c.t.Errorf("broker %d has two requests under way to %d", e.from, leader)
		}
	}
	if r.Full && len(r.Partitions) == 0 {
		e.c.t.Error("a full request without partitions")
	}
	e.c.fetches = append(e.c.fetches, *r)
	e.c.asked = append(e.c.asked, &question{from: e.from, to: leader, fetch: r, answered: done})
}

func (e *endpoint) Offsets(leader kafka.BrokerID, p FetchPartition, done func(start, end int64, err error)) {
	e.c.asked = append(e.c.asked, &question{from: e.from, to: leader, offsets: p, listed: done})
}

var errCut = kafka.Errorf(kafka.NetworkException, "the connection is cut")

// answer delivers one question; it reports false where the leader waits for something to answer with.
func (c *cluster) answer(q *question) bool {
	leader := c.node(q.to)
	cut := c.cut[[2]kafka.BrokerID{q.from, q.to}]
	switch {
	case q.fetch == nil && cut:
		q.listed(-1, -1, errCut)
	case q.fetch == nil:
		q.listed(leader.listOffsets(&q.offsets))
	case cut:
		q.answered(FetchResponse{}, errCut)
	default:
		r, err := leader.fetch(q)
		if err == nil && len(r.Partitions) == 0 && q.fetch.MaxWaitMs > 0 {
			q.parked = true
			return false
		}
		q.answered(r, err)
	}
	c.asked = slices.DeleteFunc(c.asked, func(other *question) bool { return other == q })
	return true
}

func (n *node) listOffsets(p *FetchPartition) (start, end int64, err error) {
	partition := n.partition()
	if partition == nil || partition.TopicID() != p.TopicID {
		return -1, -1, kafka.Errorf(kafka.UnknownTopicID, "")
	}
	if _, err := partition.requireLeader(p.LeaderEpoch); err != nil {
		return -1, -1, err
	}
	return partition.Log().StartOffset(), partition.Log().EndOffset(), nil
}

// fetch answers as a leader; an answer without partitions is none yet.
func (n *node) fetch(q *question) (r FetchResponse, err error) {
	key := [2]int{int(q.from), q.fetch.Fetcher}
	s := n.sessions[key]
	switch {
	case q.fetch.Full:
		s = &testSession{order: slices.Clone(q.fetch.Partitions), told: map[TopicIDPartition][2]int64{}}
	case s == nil:
		return r, kafka.Errorf(kafka.FetchSessionIDNotFound, "")
	case !q.parked:
		s.update(q.fetch)
	}
	if n.c.sessions {
		n.sessions[key], r.Session = s, true
	}
	for i := range s.order {
		row := n.read(q, &s.order[i])
		id, told := row.TopicIDPartition, [2]int64{row.HighWatermark, row.LogStartOffset}
		if before, ok := s.told[id]; !ok && q.fetch.MaxWaitMs > 0 && !n.c.sessions {
			ok, before = true, told // without a session only records, errors and divergence are news
			if row.Code == kafka.None && row.Diverging == nil && len(row.Records) == 0 && row.HighWatermark <= n.c.node(q.from).partition().Log().HighWatermark() {
				continue
			}
		} else if ok && before == told && row.Code == kafka.None && row.Diverging == nil && len(row.Records) == 0 {
			continue
		}
		s.told[id] = told
		r.Partitions = append(r.Partitions, row)
	}
	return r, nil
}

func (s *testSession) update(r *FetchRequest) {
	for _, p := range r.Partitions {
		id := TopicIDPartition{p.TopicID, p.Partition}
		i := slices.IndexFunc(s.order, func(o FetchPartition) bool { return o.TopicID == id.TopicID && o.Partition == id.Partition })
		if i < 0 {
			s.order = append(s.order, p)
			continue
		}
		s.order[i] = p
	}
	for _, id := range r.Forgotten {
		s.order = slices.DeleteFunc(s.order, func(o FetchPartition) bool { return o.TopicID == id.TopicID && o.Partition == id.Partition })
		delete(s.told, id)
	}
}

func (n *node) read(q *question, asked *FetchPartition) FetchedPartition {
	row := FetchedPartition{TopicIDPartition: TopicIDPartition{asked.TopicID, asked.Partition}, HighWatermark: -1, LogStartOffset: -1}
	p := n.manager.Partition(asked.TopicPartition)
	if p == nil || p.TopicID() != asked.TopicID {
		row.Code = kafka.UnknownTopicID
		return row
	}
	result, err := p.Read(&ReadRequest{Offset: asked.Offset, MaxBytes: int(asked.MaxBytes), AtLeastOne: true, CurrentLeaderEpoch: asked.LeaderEpoch,
		LastFetchedEpoch: asked.LastFetchedEpoch, Replica: q.from})
	if err != nil {
		row.Code = kafka.CodeOf(err)
		return row
	}
	defer result.Records.Release()
	row.HighWatermark, row.LogStartOffset, row.Diverging = result.HighWatermark, result.LogStartOffset, result.Diverging
	if result.Records.Len() > 0 {
		row.Records = make([]byte, result.Records.Len())
		if _, err := result.Records.ReadAt(row.Records, 0); err != nil {
			n.c.t.Fatal(err)
		}
	}
	if n.c.edit != nil {
		row = n.c.edit(row)
	}
	return row
}

// step lets a node do what it can do by itself.
func (n *node) step() {
	n.wake = n.fetchers.Step(n.c.now)
}

func (n *node) commit() (any bool) {
	waiting := n.logs.waiting
	n.logs.waiting = nil
	for _, done := range waiting {
		done()
	}
	return len(waiting) > 0
}

// settle lets everything happen that can without time passing.
func (c *cluster) settle() {
	c.t.Helper()
	for range 10_000 {
		moved := false
		for _, n := range c.nodes {
			n.step()
			moved = n.commit() || moved
		}
		for _, q := range slices.Clone(c.asked) {
			moved = c.answer(q) || moved
		}
		if !moved {
			return
		}
	}
	c.t.Fatal("it does not come to rest")
}

// wait lets time pass, stopping where a node wants to be woken.
func (c *cluster) wait(d time.Duration) {
	c.t.Helper()
	end := c.now.Add(d)
	for c.settle(); ; c.settle() {
		next := end
		for _, n := range c.nodes {
			if !n.wake.IsZero() && n.wake.Before(next) {
				next = n.wake
			}
		}
		if next == end {
			break
		}
		c.now = next
	}
	c.now = end
	c.settle()
}

// content is all batches of a log, and what it knows of each offset's epoch.
func (n *node) content() (records []byte, epochs []kafka.LeaderEpoch) {
	n.c.t.Helper()
	l := n.partition().Log()
	for offset := l.StartOffset(); offset < l.EndOffset(); {
		got, err := l.Read(log.ReadRequest{Offset: offset, MaxBytes: 1 << 30, EndOffset: l.EndOffset(), AtLeastOne: true})
		if err != nil {
			n.c.t.Fatal(err)
		}
		b := make([]byte, got.Len())
		_, err = got.ReadAt(b, 0)
		got.Release()
		if err != nil {
			n.c.t.Fatal(err)
		}
		for one, err := range batch.Batches(b) {
			h, parseErr := batch.ParseHeader(one)
			if err := cmp.Or(err, parseErr); err != nil {
				n.c.t.Fatal(err)
			}
			offset = h.NextOffset()
		}
		records = append(records, b...)
	}
	for offset := l.StartOffset(); offset < l.EndOffset(); offset++ {
		epochs = append(epochs, l.EpochForOffset(offset))
	}
	return records, epochs
}

// requireEqual checks that all nodes have the same log, byte for byte.
func (c *cluster) requireEqual() {
	c.t.Helper()
	want, wantEpochs := c.nodes[0].content()
	for _, n := range c.nodes[1:] {
		got, epochs := n.content()
		if !bytes.Equal(got, want) || !slices.Equal(epochs, wantEpochs) {
			c.t.Fatalf("broker %d has %s, broker 1 has %s", n.id, describe(got), describe(want))
		}
	}
}

// describe shows batches as base offset, last offset and epoch.
func describe(records []byte) string {
	var s []string
	for b, err := range batch.Batches(records) {
		if err != nil {
			return err.Error()
		}
		h, _ := batch.ParseHeader(b)
		s = append(s, fmt.Sprintf("[%d-%d e%d]", h.BaseOffset, h.LastOffset(), h.LeaderEpoch))
	}
	return fmt.Sprint(s)
}

func (n *node) requireLog(want string) {
	n.c.t.Helper()
	records, _ := n.content()
	if got := describe(records); got != want {
		n.c.t.Fatalf("broker %d has %s, want %s", n.id, got, want)
	}
}
