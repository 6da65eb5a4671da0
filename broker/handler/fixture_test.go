package handler

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/config"
	"weir/broker/replica"
	"weir/cluster"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol"
	"weir/protocol/batch"
)

const (
	self     kafka.BrokerID = 1
	listener                = "PLAINTEXT"
	dataDir                 = "/data"
)

// clientListener is where the fixture's broker says that clients find it.
var clientListener = metadata.Endpoint{Name: listener, Host: "localhost", Port: 9092}

// fixture is a broker without a network: handlers over logs in memory and a real node of a cluster. The handlers' clock
// stands still unless a test moves it; the rest goes by the system's.
type fixture struct {
	t        testing.TB
	disk     *disk
	store    *log.Store
	node     *cluster.Node
	clock    *clock.Manual
	handlers *Handlers
	quorum   controller.DescribeQuorumReply // what the handlers are told
	groups   testGroups
	stopping chan struct{}
}

// newFixture starts a broker with configs as name=value.
func newFixture(t testing.TB, overrides ...string) *fixture {
	t.Helper()
	settings, _, err := config.Load(config.Inputs{Overrides: overrides, Listen: "127.0.0.1:9092", DataDir: dataDir, Host: config.Host{Name: "localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	mem := vfs.NewMem()
	f := &fixture{t: t, disk: &disk{FS: mem, mem: mem}, clock: clock.NewManual(time.UnixMilli(1_700_000_000_000)), stopping: make(chan struct{})}
	f.openStore(settings)
	replicas := replica.NewManager(replica.Options{Self: self, Logs: f.store, FsyncPolicy: log.FsyncPolicy(settings.FsyncPolicy), Logger: slog.New(slog.DiscardHandler),
		TopicConfig: func(img *metadata.Image, topic string) *replica.TopicConfig {
			return testTopicConfig(settings, img, topic)
		}})
	f.startNode(settings, replicas)
	f.handlers = New(Options{Self: self, Image: f.node.Image, Controller: describing{f}, Replicas: replicas, Directories: testDirectories{f.store},
		Groups: &f.groups, Config: settings, Clock: f.clock, Stopping: f.stopping, Logger: slog.New(slog.DiscardHandler)})
	return f
}

// describing is the fixture's node, but for what the fixture says of the quorum.
type describing struct{ f *fixture }

func (d describing) Submit(ctx context.Context, cmd controller.Command) (controller.Reply, error) {
	if _, asks := cmd.(controller.DescribeQuorum); asks {
		return d.f.quorum, nil
	}
	return d.f.node.Submit(ctx, cmd)
}

func (f *fixture) openStore(settings *config.Server) {
	f.t.Helper()
	store, err := log.OpenStore(log.StoreOptions{FS: f.disk, Dirs: settings.DataDirs, NodeID: self, FsyncPolicy: log.FsyncPolicy(settings.FsyncPolicy),
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.t.Fatal(err)
	}
	f.store = store
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = store.Run(ctx)
	}()
	f.t.Cleanup(func() {
		f.disk.open()
		cancel()
		<-ended
		_ = store.Close()
		if n := f.disk.opened(0); n != 0 {
			f.t.Errorf("%d segment files are still open: records were not released", n)
		}
	})
}

func (f *fixture) startNode(settings *config.Server, replicas *replica.Manager) {
	f.t.Helper()
	f.node = cluster.New(cluster.Options{FS: f.disk.mem, Clock: clock.System(), Logger: slog.New(slog.DiscardHandler), MetadataDir: dataDir,
		DirectoryID: f.store.DirectoryIDs()[dataDir], ClusterID: f.store.ClusterID(), Self: self,
		Registration: cluster.Registration{Incarnation: kafka.NewUUID(), Listeners: []metadata.Endpoint{clientListener}, Rack: settings.Rack, PreviousEpoch: -1,
			Directories: []kafka.DirectoryID{f.store.DirectoryIDs()[dataDir]}},
		Settings:       controller.Settings{NumPartitions: settings.Topics.NumPartitions, DefaultReplicationFactor: 1, MinInSyncReplicas: 1, DeleteTopicEnable: true, Config: settings},
		SessionTimeout: time.Minute,
		Failed:         func(err error) { f.t.Errorf("the node failed: %v", err) },
	})
	f.node.Subscribe(replicas.Apply)
	if err := f.node.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = f.node.Close() })
}

func testTopicConfig(settings *config.Server, img *metadata.Image, topic string) *replica.TopicConfig {
	c := settings.TopicConfig(img.Configs.Topic(topic), img.Configs.BrokerDefault(), img.Configs.Broker(self))
	l := log.DefaultConfig()
	l.SegmentBytes, l.FlushMessages, l.CompactPolicy, l.DeletePolicy = c.SegmentBytes, c.FlushMessages, c.Compact, c.Delete
	return &replica.TopicConfig{Log: l, MinInsyncReplicas: int(c.MinInsyncReplicas), Rules: batch.Rules{MaxMessageBytes: c.MaxMessageBytes, SegmentBytes: c.SegmentBytes,
		Compacted: c.Compact, TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: math.MaxInt64, Compression: batch.Compression{Producer: true},
		MaxDecompressedRecordBytes: c.MaxDecompressedMessageBytes}}
}

type testDirectories struct{ store *log.Store }

func (d testDirectories) Describe() (out []Directory) {
	for _, info := range d.store.Dirs() {
		out = append(out, Directory{Path: info.Path, Err: info.Offline, Total: 100, Usable: 50})
	}
	return out
}

// disk is the file system of the logs, whose syncs wait while it is shut.
type disk struct {
	vfs.FS
	mem  *vfs.Mem
	gate sync.RWMutex
	mu   struct {
		sync.Mutex
		isShut   bool
		failure  error // of syncs
		segments int   // open segment files
	}
}

// fail lets syncs fail from here on.
func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.failure = err
}

// opened counts segment files: n more are open.
func (d *disk) opened(n int) (open int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.segments += n
	return d.mu.segments
}

// shut holds syncs back until open.
func (d *disk) shut() {
	d.gate.Lock()
	d.mu.Lock()
	d.mu.isShut = true
	d.mu.Unlock()
}

func (d *disk) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.isShut {
		d.mu.isShut = false
		d.gate.Unlock()
	}
}

func (d *disk) pass() error {
	d.gate.RLock()
	defer d.gate.RUnlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.failure
}

func (d *disk) SyncFS(name string) error {
	return cmp.Or(d.pass(), d.FS.SyncFS(name))
}

func (d *disk) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	file, err := d.FS.OpenFile(name, flag, perm)
	if err != nil || filepath.Ext(name) != ".log" {
		return file, err
	}
	d.opened(1)
	return &diskFile{file, d}, nil
}

type diskFile struct {
	vfs.File
	disk *disk
}

func (f *diskFile) Close() error {
	f.disk.opened(-1)
	return f.File.Close()
}

func (f *diskFile) Datasync() error {
	return cmp.Or(f.disk.pass(), f.File.Datasync())
}

// client is one connection.
type client struct {
	f *fixture
	Conn
	gone  chan struct{}
	waits chan struct{} // receives whenever a handler is about to wait
}

func (f *fixture) client() *client {
	c := &client{f: f, gone: make(chan struct{}), waits: make(chan struct{}, 1000)}
	c.Listener, c.Principal = listener, "User:ANONYMOUS"
	c.Closed = func() <-chan struct{} {
		c.waits <- struct{}{}
		return c.gone
	}
	return c
}

// start has a request handled, with its reply as it is.
func (c *client) start(version int16, body kmsg.Request) Reply {
	body.SetVersion(version)
	return c.f.handlers.Handle(&Request{Header: protocol.RequestHeader{Key: body.Key(), Version: version}, Body: body, Conn: &c.Conn, Received: c.f.clock.Now()})
}

// call has a request handled and returns the answer as a client would decode it.
func (c *client) call(version int16, body kmsg.Request) kmsg.Response {
	c.f.t.Helper()
	return answer(c.f.t, version, body, c.start(version, body))
}

// later has a request handled in a goroutine of its own.
func (c *client) later(version int16, body kmsg.Request) <-chan Reply {
	replies := make(chan Reply, 1)
	go func() { replies <- c.start(version, body) }()
	return replies
}

func answer(t testing.TB, version int16, request kmsg.Request, reply Reply) kmsg.Response {
	t.Helper()
	body := reply.Body()
	if p := reply.Pending(); p != nil {
		<-p.Done()
		body = p.Body()
	}
	if body == nil || reply.Err() != nil {
		t.Fatalf("%T is answered with %T, error %v", request, body, reply.Err())
	}
	encoded, err := protocol.AppendBody(nil, body)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	release(body)
	resp := request.ResponseKind()
	resp.SetVersion(version)
	if err := resp.ReadFrom(encoded); err != nil {
		t.Fatalf("the answer to %T is no message: %v", request, err)
	}
	return resp
}

// createTopic makes a topic of n partitions on the fixture's broker, with configs as name, value, and returns its id.
func (f *fixture) createTopic(name string, n int32, configs ...string) kafka.TopicID {
	f.t.Helper()
	return f.createTopicOn(name, slices.Repeat([][]kafka.BrokerID{{self}}, int(n)), configs...)
}

// createTopicOn makes a topic whose partitions have those replicas.
func (f *fixture) createTopicOn(name string, replicas [][]kafka.BrokerID, configs ...string) kafka.TopicID {
	f.t.Helper()
	topic := controller.NewTopic{Name: name, ID: kafka.NewUUID(), NumPartitions: -1, ReplicationFactor: -1, Configs: topicConfigs(configs...)}
	for i, r := range replicas {
		topic.Assignments = append(topic.Assignments, controller.Assignment{Partition: int32(i), Replicas: r})
	}
	reply, err := f.node.Submit(f.t.Context(), controller.CreateTopics{Topics: []controller.NewTopic{topic}})
	if err != nil {
		f.t.Fatal(err)
	}
	if created := reply.(controller.CreateTopicsReply).Topics[0]; !created.OK() {
		f.t.Fatalf("topic %s: %v %s", name, created.Code, *cmp.Or(created.Message, new(string)))
	}
	return topic.ID
}

// addBroker registers another broker, which has these listeners and does nothing.
func (f *fixture) addBroker(id kafka.BrokerID, listeners ...metadata.Endpoint) {
	f.t.Helper()
	f.addBrokerIn("", id, listeners...)
}

// addBrokerIn registers another broker in a rack.
func (f *fixture) addBrokerIn(rack string, id kafka.BrokerID, listeners ...metadata.Endpoint) {
	f.t.Helper()
	reply, err := f.node.Submit(f.t.Context(), controller.RegisterBroker{ClusterID: f.store.ClusterID(), Broker: id, Incarnation: kafka.NewUUID(), Listeners: listeners, Rack: rack,
		Directories: []kafka.DirectoryID{kafka.NewUUID()}, PreviousEpoch: -1})
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = f.node.Submit(f.t.Context(), controller.BrokerHeartbeat{Broker: id, Epoch: reply.(controller.RegisterBrokerReply).Epoch, MetadataOffset: f.node.Image().Index})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) partition(topic string, partition int32) *replica.Partition {
	f.t.Helper()
	p := f.handlers.Replicas.Partition(kafka.TopicPartition{Topic: topic, Partition: partition})
	if p == nil {
		f.t.Fatalf("no partition %d of %s", partition, topic)
	}
	return p
}

// records is a batch of n records of size bytes each.
func records(t testing.TB, n, size int) []byte {
	t.Helper()
	b := batch.NewBuilder(batch.None, 0)
	for range n {
		b.Append(1_700_000_000_000, nil, make([]byte, size))
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// produceRequest asks to append one batch to partition 0 of a topic.
func produceRequest(topic string, acks int16, batch []byte) *kmsg.ProduceRequest {
	return produceRequestTo(acks, topicRecords{topic, 0, batch})
}

type topicRecords struct {
	topic     string
	partition int32
	records   []byte
}

// produceRequestTo asks to append to several partitions, with an element of its own for each.
func produceRequestTo(acks int16, to ...topicRecords) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 1000
	for _, r := range to {
		t := kmsg.NewProduceRequestTopic()
		t.Topic = r.topic
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = r.partition, r.records
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// produce appends a batch to partition 0 and returns its row.
func (c *client) produce(topic string, acks int16, batch []byte) kmsg.ProduceResponseTopicPartition {
	c.f.t.Helper()
	return c.call(9, produceRequest(topic, acks, batch)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// mustProduce appends a batch, which succeeds.
func (c *client) mustProduce(topic string, batch []byte) {
	c.f.t.Helper()
	if row := c.produce(topic, replica.AcksLeader, batch); row.ErrorCode != 0 {
		c.f.t.Fatalf("produce to %s: %v", topic, kafka.Code(row.ErrorCode))
	}
}

// fetchPartitionOf is one partition that a fetch asks for.
type fetchPartitionOf struct {
	topic     string
	partition int32
	offset    int64
	maxBytes  int32
}

// fetchRequest asks without a session, as a consumer does.
func fetchRequest(minBytes, maxWaitMs int32, of ...fetchPartitionOf) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MinBytes, req.MaxWaitMillis, req.MaxBytes, req.SessionEpoch = -1, minBytes, maxWaitMs, 50<<20, -1
	for _, a := range of {
		t := kmsg.NewFetchRequestTopic()
		t.Topic = a.topic
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = a.partition, a.offset, cmp.Or(a.maxBytes, 1<<20), -1, -1
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// fetchVersion is the last that names topics.
const fetchVersion = 12

func (c *client) fetch(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	c.f.t.Helper()
	return c.call(fetchVersion, req).(*kmsg.FetchResponse)
}

// fetchRows are the partitions of an answer, all topics after each other.
func fetchRows(resp *kmsg.FetchResponse) (rows []kmsg.FetchResponseTopicPartition) {
	for _, t := range resp.Topics {
		rows = append(rows, t.Partitions...)
	}
	return rows
}
