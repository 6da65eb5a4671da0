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
	now    time.Time // moved by pass alone
	clock  *clock.Manual
	nodes  []*node
	topic  kafka.TopicID
	parts  []metadata.PartitionRecord // as the metadata has them
	config TopicConfig

	sessions bool                       // leaders keep fetch sessions
	cut      map[[2]kafka.BrokerID]bool // requests from, to, that fail
	asked    []*question                // not answered yet, oldest first
	edit     func(*FetchedPartition)    // what is answered, if not nil
	fetches  []FetchRequest             // all that were asked
}

// node is one broker of a cluster.
type node struct {
	c        *cluster
	id       kafka.BrokerID
	disk     *vfs.Mem
	faulty   *vfs.Faulty // over disk
	policy   log.FsyncPolicy
	logs     *commitLogs
	manager  *Manager
	fetchers *Fetchers
	image    *metadata.Image
	sessions map[[2]int][]FetchPartition // by follower and its fetcher
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
	deadline time.Time                         // when it says so
}

func testTP(partition int) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: "t", Partition: int32(partition)}
}

// newCluster has brokers 1 to n, with a topic t whose partitions have a replica on each, and no leader yet.
func newCluster(t *testing.T, n, partitions int) *cluster {
	t.Helper()
	c := &cluster{t: t, now: testTime, clock: clock.NewManual(testTime), topic: kafka.TopicID{15: 7}, cut: map[[2]kafka.BrokerID]bool{}}
	c.config = TopicConfig{Log: log.DefaultConfig(), MinInsyncReplicas: 1, Rules: batch.Rules{MaxMessageBytes: 1 << 20, SegmentBytes: 1 << 30,
		TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 3_600_000, Compression: batch.Compression{Producer: true}, MaxDecompressedRecordBytes: 1 << 30}}
	replicas := make([]kafka.BrokerID, n)
	for i := range replicas {
		replicas[i] = kafka.BrokerID(i + 1)
	}
	for i := range partitions {
		c.parts = append(c.parts, metadata.PartitionRecord{TopicID: c.topic, Partition: int32(i), PartitionRegistration: metadata.PartitionRegistration{
			Replicas: replicas, ISR: replicas, Leader: kafka.NoBroker, LeaderEpoch: -1, PartitionEpoch: -1, Directories: make([]kafka.DirectoryID, n)}})
	}
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
	n.faulty = vfs.NewFaulty(disk)
	store, err := log.OpenStore(log.StoreOptions{FS: n.faulty, Clock: n.c.clock, Dirs: []string{"/a", "/b"}, NodeID: n.id, FsyncPolicy: n.policy, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	n.disk, n.logs, n.image, n.sessions, n.wake = disk, &commitLogs{Store: store}, metadata.Empty(), map[[2]int][]FetchPartition{}, time.Time{}
	n.fetchers = NewFetchers(FetcherOptions{Endpoint: &endpoint{n.c, n.id}, Clock: n.c.clock, Logger: logger, PerLeader: 1,
		WaitMax: 500 * time.Millisecond, Backoff: time.Second, MinBytes: 1, MaxBytes: 1 << 20, ResponseMaxBytes: 10 << 20})
	n.manager = NewManager(Options{Self: n.id, Logs: n.logs, FsyncPolicy: n.policy, Followers: n.fetchers, Clock: n.c.clock, Logger: logger,
		TopicConfig: func(*metadata.Image, string) *TopicConfig { return &n.c.config }})
	t.Cleanup(func() { _ = store.Close() })
}

// restart ends the process without warning and starts it again on a disk, by default its own.
func (n *node) restart(disk *vfs.Mem) {
	n.c.asked = slices.DeleteFunc(n.c.asked, func(q *question) bool { return q.from == n.id })
	for _, q := range slices.Clone(n.c.asked) {
		if q.to == n.id { // its connection is closed
			n.c.fail(q)
		}
	}
	n.start(disk)
}

// apply has the node take the metadata as it is now.
func (n *node) apply() {
	n.c.t.Helper()
	var records []metadata.Record
	for t := range n.image.Topics.All() {
		if t.ID != n.c.topic {
			records = append(records, metadata.RemoveTopicRecord{ID: t.ID})
		}
	}
	if _, ok := n.image.Topics.ByID(n.c.topic); !ok {
		records = append(records, metadata.TopicRecord{ID: n.c.topic, Name: testTP(0).Topic})
	}
	for _, p := range n.c.parts {
		records = append(records, p)
	}
	for _, b := range n.c.nodes {
		if _, ok := n.image.Brokers.ByID(b.id); !ok {
			records = append(records, metadata.RegisterBrokerRecord{BrokerRegistration: metadata.BrokerRegistration{ID: b.id, Epoch: kafka.BrokerEpoch(b.id)}})
		}
	}
	next, delta, err := n.image.With(records)
	if err != nil {
		n.c.t.Fatal(err)
	}
	n.image = next
	n.manager.Apply(delta, next)
}

// elect makes a broker the leader of all partitions, alone in sync, in the metadata; apply tells who shall know.
func (c *cluster) elect(leader kafka.BrokerID) kafka.LeaderEpoch {
	for i := range c.parts {
		p := &c.parts[i]
		p.Leader, p.ISR = leader, []kafka.BrokerID{leader}
		p.LeaderEpoch++
		p.PartitionEpoch++
	}
	return c.parts[0].LeaderEpoch
}

// recreate deletes the topic and makes it anew, with a leader.
func (c *cluster) recreate(leader kafka.BrokerID) {
	c.topic[0]++
	for i := range c.parts {
		c.parts[i].TopicID, c.parts[i].LeaderEpoch, c.parts[i].PartitionEpoch = c.topic, -1, -1
	}
	c.elect(leader)
}

func (c *cluster) applyAll() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.apply()
	}
}

func (n *node) partition(i int) *Partition { return n.manager.Partition(testTP(i)) }

func (n *node) log() *log.Log { return n.partition(0).Log() }

// produce appends batches of the given numbers of records to partition 0.
func (n *node) produce(batches ...int) {
	n.c.t.Helper()
	n.produceTo(0, batches...)
}

func (n *node) produceTo(partition int, batches ...int) {
	n.c.t.Helper()
	p := n.partition(partition)
	for _, records := range batches {
		b := batch.NewBuilder(batch.None, 0)
		for range records {
			b.Append(testTime.UnixMilli(), nil, fmt.Appendf(nil, "%d in epoch %d", n.id, p.LeaderEpoch()))
		}
		built, err := b.Build()
		if err != nil {
			n.c.t.Fatal(err)
		}
		if _, err := p.Append(&AppendRequest{Records: built, Version: 9, Acks: AcksLeader, Now: testTime, Acker: nobody{}}); err != nil {
			n.c.t.Fatal(err)
		}
	}
}

// nobody waits for acknowledgements.
type nobody struct{}

func (nobody) Acked(int, error) {}

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
		for _, p := range r.Partitions {
			if q.from == e.from && q.to == leader && q.fetch != nil && slices.ContainsFunc(q.fetch.Partitions, func(o FetchPartition) bool { return o == p }) {
				e.c.t.Errorf("broker %d asks %d for %+v twice at a time", e.from, leader, p)
			}
		}
	}
	if r.Full && len(r.Partitions) == 0 {
		e.c.t.Error("a full request without partitions")
	}
	e.c.fetches = append(e.c.fetches, *r)
	deadline := e.c.now.Add(time.Duration(r.MaxWaitMs) * time.Millisecond)
	e.c.asked = append(e.c.asked, &question{from: e.from, to: leader, fetch: r, answered: done, deadline: deadline})
}

func (e *endpoint) Offsets(leader kafka.BrokerID, p FetchPartition, done func(start, end int64, err error)) {
	e.c.asked = append(e.c.asked, &question{from: e.from, to: leader, offsets: p, listed: done})
}

var errCut = kafka.Errorf(kafka.NetworkException, "the connection is cut")

// answer delivers one question; it reports false where the leader waits for something to answer with.
func (c *cluster) answer(q *question) bool {
	leader := c.node(q.to)
	switch {
	case c.cut[[2]kafka.BrokerID{q.from, q.to}]:
		c.fail(q)
		return true
	case q.fetch == nil:
		q.listed(leader.listOffsets(&q.offsets))
	default:
		r, err := leader.fetch(q)
		if err == nil && len(r.Partitions) == 0 && c.now.Before(q.deadline) {
			q.parked = true
			return false
		}
		q.answered(r, err)
	}
	c.over(q)
	return true
}

func (c *cluster) fail(q *question) {
	if q.fetch == nil {
		q.listed(-1, -1, errCut)
	} else {
		q.answered(FetchResponse{}, errCut)
	}
	c.over(q)
}

func (c *cluster) over(q *question) {
	c.asked = slices.DeleteFunc(c.asked, func(other *question) bool { return other == q })
}

func (n *node) listOffsets(asked *FetchPartition) (start, end int64, err error) {
	p := n.manager.Partition(asked.TopicPartition)
	if p == nil || p.TopicID() != asked.TopicID {
		return -1, -1, kafka.Errorf(kafka.UnknownTopicID, "")
	}
	if _, err := p.requireLeader(asked.LeaderEpoch); err != nil {
		return -1, -1, err
	}
	return p.Log().StartOffset(), p.Log().EndOffset(), nil
}

// fetch answers as a leader; an answer without partitions is none yet.
func (n *node) fetch(q *question) (r FetchResponse, err error) {
	key := [2]int{int(q.from), q.fetch.Fetcher}
	asked, ok := n.sessions[key]
	switch {
	case q.fetch.Full:
		asked = slices.Clone(q.fetch.Partitions)
	case !ok:
		return r, kafka.Errorf(kafka.FetchSessionIDNotFound, "")
	case !q.parked:
		asked = updateSession(asked, q.fetch)
	}
	if r.Session = n.c.sessions; r.Session {
		n.sessions[key] = asked
	}
	for i := range asked {
		row := n.read(q, &asked[i])
		follower := n.c.node(q.from).manager.Partition(asked[i].TopicPartition)
		if row.Code != kafka.None || row.Diverging != nil || len(row.Records) > 0 || q.fetch.MaxWaitMs == 0 ||
			row.HighWatermark > follower.Log().HighWatermark() || row.LogStartOffset > follower.Log().StartOffset() {
			r.Partitions = append(r.Partitions, row)
		}
	}
	return r, nil
}

func updateSession(partitions []FetchPartition, r *FetchRequest) []FetchPartition {
	for _, p := range r.Partitions {
		i := slices.IndexFunc(partitions, func(o FetchPartition) bool { return o.TopicID == p.TopicID && o.Partition == p.Partition })
		if i < 0 {
			partitions = append(partitions, p)
			continue
		}
		partitions[i] = p
	}
	for _, id := range r.Forgotten {
		partitions = slices.DeleteFunc(partitions, func(o FetchPartition) bool { return o.TopicID == id.TopicID && o.Partition == id.Partition })
	}
	return partitions
}

func (n *node) read(q *question, asked *FetchPartition) FetchedPartition {
	row := FetchedPartition{TopicIDPartition: TopicIDPartition{asked.TopicID, asked.Partition}, HighWatermark: -1, LogStartOffset: -1}
	p := n.manager.Partition(asked.TopicPartition)
	if p == nil || p.TopicID() != asked.TopicID {
		row.Code = kafka.UnknownTopicID
		return row
	}
	r := ReadRequest{Offset: asked.Offset, MaxBytes: int(asked.MaxBytes), AtLeastOne: true, CurrentLeaderEpoch: asked.LeaderEpoch,
		LastFetchedEpoch: asked.LastFetchedEpoch, Replica: q.from, ReplicaEpoch: kafka.BrokerEpoch(q.from), LogStart: asked.LogStartOffset}
	if !q.parked {
		r.Fetched = n.c.now
	}
	result, err := p.Read(&r)
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
		n.c.edit(&row)
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

// answerAll steps every node once and delivers what is asked then; logs are not committed.
func (c *cluster) answerAll() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.step()
	}
	for _, q := range slices.Clone(c.asked) {
		c.answer(q)
	}
	for _, n := range c.nodes {
		n.step()
	}
}

// late has a leader answer what a follower asked last, as edited, and returns what delivers that.
func (c *cluster) late(from, to kafka.BrokerID, edit func(*FetchedPartition)) (deliver func()) {
	c.t.Helper()
	c.node(from).step()
	i := len(c.asked) - 1
	for i >= 0 && (c.asked[i].from != from || c.asked[i].to != to || c.asked[i].fetch == nil) {
		i--
	}
	if i < 0 {
		c.t.Fatalf("broker %d asks nothing of %d", from, to)
	}
	q := c.asked[i]
	c.asked = slices.Delete(c.asked, i, i+1)
	c.edit = edit
	r, err := c.node(to).fetch(q)
	c.edit = nil
	if err != nil || len(r.Partitions) == 0 {
		c.t.Fatalf("there is nothing to deliver: %+v, %v", r, err)
	}
	return func() { q.answered(r, nil) }
}

// cutOff lets no request of or to a broker through; heal lets all.
func (c *cluster) cutOff(id kafka.BrokerID) {
	for _, n := range c.nodes {
		c.cut[[2]kafka.BrokerID{id, n.id}], c.cut[[2]kafka.BrokerID{n.id, id}] = true, true
	}
}

func (c *cluster) heal() { clear(c.cut) }

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

// pass moves the time on; what is due happens when something settles.
func (c *cluster) pass(to time.Time) {
	c.clock.Advance(to.Sub(c.now))
	c.now = to
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
		for _, q := range c.asked {
			if q.parked && q.deadline.Before(next) {
				next = q.deadline
			}
		}
		if next == end {
			break
		}
		c.pass(next)
	}
	c.pass(end)
	c.settle()
}

// content is all batches of a partition's log, and what it knows of each offset's epoch.
func (n *node) content(partition int) (records []byte, epochs []kafka.LeaderEpoch) {
	n.c.t.Helper()
	return n.contentFrom(partition, n.partition(partition).Log().StartOffset())
}

func (n *node) contentFrom(partition int, start int64) (records []byte, epochs []kafka.LeaderEpoch) {
	n.c.t.Helper()
	l := n.partition(partition).Log()
	for offset := start; offset < l.EndOffset(); {
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
	for offset := start; offset < l.EndOffset(); offset++ {
		epochs = append(epochs, l.EpochForOffset(offset))
	}
	return records, epochs
}

// requireEqual checks that all nodes have the same log, byte for byte, from where the one begins that begins last.
func (c *cluster) requireEqual() {
	c.t.Helper()
	for i := range c.parts {
		start := int64(0)
		for _, n := range c.nodes {
			start = max(start, n.partition(i).Log().StartOffset())
		}
		want, wantEpochs := c.nodes[0].contentFrom(i, start)
		for _, n := range c.nodes[1:] {
			got, epochs := n.contentFrom(i, start)
			if !bytes.Equal(got, want) || !slices.Equal(epochs, wantEpochs) {
				c.t.Fatalf("partition %d: broker %d has %s with epochs %v, broker 1 has %s with %v", i, n.id, describe(got), epochs, describe(want), wantEpochs)
			}
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
	records, _ := n.content(0)
	if got := describe(records); got != want {
		n.c.t.Fatalf("broker %d has %s, want %s", n.id, got, want)
	}
}
