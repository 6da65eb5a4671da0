package broker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/config"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol/batch"
)

// load reads settings as the command does; listen and dataDir are those of its flags.
func load(t *testing.T, listen, dataDir string, overrides ...string) *config.Server {
	t.Helper()
	settings, _, err := config.Load(config.Inputs{Overrides: overrides, Listen: listen, DataDir: dataDir, Host: config.Host{Name: "localhost"}})
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

func open(ctx context.Context, fs vfs.FS, settings *config.Server) (*Broker, error) {
	return Open(ctx, Options{Config: settings, FS: fs, Clock: clock.System(), Logger: slog.New(slog.DiscardHandler), Metrics: metrics.NewRegistry()})
}

// running is a whole broker in this process.
type running struct {
	*Broker
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, fs vfs.FS, settings *config.Server) *running {
	t.Helper()
	b, err := open(t.Context(), fs, settings)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, b)
}

func run(t *testing.T, b *Broker) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Broker: b, t: t, stop: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- b.Run(ctx) }()
	t.Cleanup(func() { _ = r.mayFail() })
	return r
}

// mayFail stops the broker and returns what Run says; nil when it was stopped before.
func (r *running) mayFail() error {
	r.stop()
	err, ok := <-r.ended
	if ok {
		close(r.ended)
	}
	return err
}

func (r *running) mustStop() {
	r.t.Helper()
	if err := r.mayFail(); err != nil {
		r.t.Fatalf("the stop is not clean: %v", err)
	}
}

// kafkaClient is one connection of a client.
type kafkaClient struct {
	*client
	next int32
}

func (r *running) dial() *kafkaClient {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.Bound()["PLAINTEXT"])
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = nc.Close() })
	return &kafkaClient{client: &client{nc, r.t}}
}

func (c *kafkaClient) ask(version int16, req kmsg.Request) {
	c.t.Helper()
	req.SetVersion(version)
	c.next++
	c.send(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, c.next))
}

func (c *kafkaClient) answer(version int16, req kmsg.Request) kmsg.Response {
	c.t.Helper()
	resp := req.ResponseKind()
	resp.SetVersion(version)
	body := c.reply()[4:]
	if resp.IsFlexible() {
		body = body[1:] // no tags of the header
	}
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("%T: %v", resp, err)
	}
	return resp
}

func (c *kafkaClient) request(version int16, req kmsg.Request) kmsg.Response {
	c.t.Helper()
	c.ask(version, req)
	return c.answer(version, req)
}

func (c *kafkaClient) createTopic(name string) (id kafka.TopicID) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 60_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	row := c.request(7, req).(*kmsg.CreateTopicsResponse).Topics[0]
	if row.ErrorCode != 0 {
		c.t.Fatalf("create %s: %v", name, kafka.Code(row.ErrorCode))
	}
	return row.TopicID
}

func (c *kafkaClient) produce(topic, value string) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	b := batch.NewBuilder(batch.None, 0)
	b.Append(1, nil, []byte(value))
	records, err := b.Build()
	if err != nil {
		c.t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 60_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	return c.request(9, req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

func fetchRequest(topic string, offset int64, minBytes int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.SessionEpoch, req.MinBytes, req.MaxBytes, req.MaxWaitMillis = -1, -1, minBytes, 1<<20, 1<<31-1
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = offset, 1<<20, -1, -1
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return req
}

// fetch returns what is in the topic from the beginning.
func (c *kafkaClient) fetch(topic string) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	return c.request(11, fetchRequest(topic, 0, 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
}

const anyPort = "127.0.0.1:0"

// What clients made is there after a stop, after a kill, and after a start that came to nothing.
func TestARestartKeepsTopicsAndRecords(t *testing.T) {
	disk := vfs.NewMem()
	settings := load(t, anyPort, "/data")
	first := start(t, disk, settings)
	clusterID := first.ClusterID()
	c := first.dial()
	topicID := c.createTopic("t")
	c.produce("t", "one")
	first.mustStop()

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if b, err := open(cancelled, disk, settings); err == nil {
		_ = b.Close() // it was quicker than its cancellation
	}

	second := start(t, disk, settings)
	c = second.dial()
	c.produce("t", "two")
	killed := disk.Kill()
	second.mustStop()

	third := start(t, killed, settings)
	c = third.dial()
	resp := c.request(12, kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse)
	if len(resp.Topics) != 1 || resp.Topics[0].TopicID != topicID || *resp.ClusterID != clusterID || resp.Topics[0].Partitions[0].Leader != 1 {
		t.Fatalf("after two restarts: %+v", resp)
	}
	topic, _ := third.node.Image().Topics.ByName("t")
	if state := topic.Partitions[0].RecoveryState; state != metadata.Recovered {
		t.Errorf("the partition counts as not whole: recovery state %d", state)
	}
	row := c.fetch("t")
	for _, value := range []string{"one", "two"} {
		if !bytes.Contains(row.RecordBatches, []byte(value)) {
			t.Errorf("record %q is not there", value)
		}
	}
	if row.HighWatermark != 2 {
		t.Errorf("high watermark %d, want 2", row.HighWatermark)
	}
}

func TestASecondBrokerOnTheSameDirectoryIsRefused(t *testing.T) {
	disk := vfs.NewMem()
	first := start(t, disk, load(t, anyPort, "/data"))
	socket, err := net.Listen("tcp", anyPort) // finds a free port
	if err != nil {
		t.Fatal(err)
	}
	address := socket.Addr().String()
	_ = socket.Close()
	if _, err := open(t.Context(), disk, load(t, address, "/data")); err == nil || !strings.Contains(err.Error(), "/data") {
		t.Fatalf("the second broker: %v; want an error that names the directory", err)
	}
	if socket, err = net.Listen("tcp", address); err != nil {
		t.Fatalf("the refused broker keeps its port: %v", err)
	}
	_ = socket.Close()
	c := first.dial()
	c.createTopic("t")
	if row := c.produce("t", "value"); row.ErrorCode != 0 {
		t.Fatalf("the first broker: %v", kafka.Code(row.ErrorCode))
	}
}

func TestAPortInUseIsNamedBeforeAnythingIsTouched(t *testing.T) {
	socket, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	disk := vfs.NewMem()
	_, err = open(t.Context(), disk, load(t, socket.Addr().String(), "/data"))
	var bindErr *BindError
	if !errors.As(err, &bindErr) || !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("error %v, want a BindError", err)
	}
	for _, part := range []string{socket.Addr().String(), "--listen", "--data-dir"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	if entries, err := disk.ReadDir("/"); err != nil || len(entries) != 0 {
		t.Errorf("the disk has %v, %v", entries, err)
	}
}

func TestListenersHaveTheirPorts(t *testing.T) {
	settings := load(t, "", "/data", "listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT")
	b := start(t, vfs.NewMem(), settings)
	bound := b.Bound()
	if len(bound) != 3 || bound["PLAINTEXT"] == bound["OTHER"] || bound["CONTROLLER"] == "" {
		t.Fatalf("bound %v; want all three listeners", bound)
	}
	advertised := b.Advertised()
	for name, address := range bound {
		if name == "CONTROLLER" {
			if slices.ContainsFunc(advertised, func(a string) bool { return strings.HasPrefix(a, name) }) {
				t.Errorf("clients are told of the controllers' listener: %v", advertised)
			}
			continue
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil || !slices.ContainsFunc(advertised, func(a string) bool { return strings.HasPrefix(a, name+"://") && strings.HasSuffix(a, ":"+port) }) {
			t.Errorf("listener %s is bound to %s and advertised %v", name, address, advertised)
		}
	}
	resp := b.dial().request(12, kmsg.NewPtrMetadataRequest()).(*kmsg.MetadataResponse)
	if _, port, _ := net.SplitHostPort(bound["PLAINTEXT"]); len(resp.Brokers) != 1 || net.JoinHostPort("127.0.0.1", port) != bound["PLAINTEXT"] {
		t.Errorf("brokers %+v", resp.Brokers)
	}
}

func TestAControllerAloneTellsOfItsOwnListeners(t *testing.T) {
	settings := load(t, "", "/data", "process.roles=controller", "node.id=1", "listeners=CONTROLLER://127.0.0.1:0", "controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT", "controller.quorum.voters=1@127.0.0.1:9093")
	b := start(t, vfs.NewMem(), settings)
	if got := b.Advertised(); len(got) != 1 || got[0] != "CONTROLLER://"+b.Bound()["CONTROLLER"] {
		t.Errorf("advertised %v, bound %v", got, b.Bound())
	}
}

// A port that the system chose for one family may be taken for the other: then another is chosen.
func TestBothFamiliesGetOnePort(t *testing.T) {
	both := []config.Listener{{Name: "PLAINTEXT", Host: "127.0.0.1"}, {Name: "PLAINTEXT", Host: "::1"}}
	open, asked := 0, []string{}
	listen := func(refuse int) func(_, address string) (net.Listener, error) {
		open, asked = 0, nil
		return func(_, address string) (net.Listener, error) {
			asked = append(asked, address)
			if _, port, _ := net.SplitHostPort(address); port != "0" && refuse > 0 {
				refuse--
				return nil, &net.OpError{Op: "listen", Err: syscall.EADDRINUSE}
			}
			open++
			return &fakeListener{port: 1000 + len(asked), closed: func() { open-- }}, nil
		}
	}
	bound, err := bind(both, listen(2))
	if err != nil || len(bound) != 2 || open != 2 || asked[5] != "[::1]:1005" {
		t.Fatalf("%d bound, %d open, error %v, asked for %v", len(bound), open, err, asked)
	}
	if _, err := bind(both, listen(1<<30)); !errors.Is(err, syscall.EADDRINUSE) || open != 0 {
		t.Fatalf("no port is free for both: %d open, error %v", open, err)
	}
	fixed := []config.Listener{{Name: "A", Host: "127.0.0.1", Port: 5}}
	if _, err := bind(fixed, listen(1<<30)); !errors.Is(err, syscall.EADDRINUSE) || len(asked) != 1 {
		t.Fatalf("a port that the operator chose: error %v after %v", err, asked)
	}
}

type fakeListener struct {
	net.Listener
	port   int
	closed func()
}

func (l *fakeListener) Addr() net.Addr { return &net.TCPAddr{Port: l.port} }
func (l *fakeListener) Close() error {
	l.closed()
	return nil
}

// A consumer may wait for weeks; a stop answers it, and does not wait until its drain time closes it.
func TestAStopAnswersLongPolls(t *testing.T) {
	b := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	b.dial().createTopic("t")
	waiting := b.dial()
	fetch := fetchRequest("t", 0, 1)
	waiting.ask(11, fetch)
	b.dial().request(12, kmsg.NewPtrMetadataRequest()) // so that the fetch has most likely been read
	stopped := make(chan error)
	go func() { stopped <- b.mayFail() }()
	if row := waiting.answer(11, fetch).(*kmsg.FetchResponse).Topics[0].Partitions[0]; row.ErrorCode != 0 {
		t.Errorf("the waiting fetch is answered with %v", kafka.Code(row.ErrorCode))
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

func TestABrokerThatNeverRanIsClosed(t *testing.T) {
	disk := vfs.NewMem()
	b, err := open(t.Context(), disk, load(t, anyPort, "/data"))
	if err != nil {
		t.Fatal(err)
	}
	address := b.Bound()["PLAINTEXT"]
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	start(t, disk, load(t, address, "/data")).mustStop() // it has both port and directory
}

func TestAFailedMetadataDirectoryEndsTheBroker(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	b := start(t, disk, load(t, anyPort, "/data/")) // as operators write it
	c := b.dial()
	c.createTopic("t")
	disk.Inject(vfs.Fault{Op: vfs.OpWrite, Path: "/data/t-0", Err: syscall.EIO})
	if row := c.produce("t", "value"); kafka.Code(row.ErrorCode) != kafka.KafkaStorageError {
		t.Errorf("produce to a failing disk: %v", kafka.Code(row.ErrorCode))
	}
	err := <-b.ended
	close(b.ended)
	if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "/data") {
		t.Fatalf("the broker ended with %v; want the disk's error and the directory", err)
	}
}

func TestABrokerStartsWithoutOneOfItsDirectories(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem(), vfs.Fault{Op: vfs.OpMkdir, Path: "/bad", Err: syscall.EIO})
	b := start(t, disk, load(t, anyPort, "/good,/bad"))
	dirs := b.dial().request(4, kmsg.NewPtrDescribeLogDirsRequest()).(*kmsg.DescribeLogDirsResponse).Dirs
	for _, d := range dirs {
		if want := d.Dir == "/good"; (d.ErrorCode == 0) != want {
			t.Errorf("directory %s: %v", d.Dir, kafka.Code(d.ErrorCode))
		}
	}
	if len(dirs) != 2 {
		t.Errorf("%d directories", len(dirs))
	}
}

// The whole way from a topic's setting to the log, and from a batch to what is stored.
func TestTopicConfigIsPutInOtherWords(t *testing.T) {
	settings := load(t, anyPort, "/data", "weir.record.validation=batch")
	set := map[string]string{"segment.bytes": "2000000", "cleanup.policy": "compact", "max.message.bytes": "77", "message.timestamp.type": "LogAppendTime",
		"compression.type": "zstd", "compression.zstd.level": "7", "min.insync.replicas": "2", "flush.messages": "1", "retention.ms": "-1"}
	img := metadata.Empty()
	records := []metadata.Record{metadata.TopicRecord{ID: kafka.NewUUID(), Name: "t"}}
	for name, value := range set {
		records = append(records, metadata.ConfigRecord{Resource: metadata.ConfigResource{Type: metadata.TopicResource, Name: "t"}, Key: name, Value: &value})
	}
	img, _, err := img.With(records)
	if err != nil {
		t.Fatal(err)
	}
	c := topicConfig(settings, 1, img, "t")
	if l := c.Log; l.SegmentBytes != 2_000_000 || !l.CompactPolicy || l.DeletePolicy || l.FlushMessages != 1 || l.RetentionMs != -1 {
		t.Errorf("log %+v", l)
	}
	if r := c.Rules; r.MaxMessageBytes != 77 || r.SegmentBytes != 2_000_000 || !r.Compacted || !r.LogAppendTime || !r.HeaderOnly ||
		r.Compression != (batch.Compression{Codec: batch.Zstd, Level: 7}) || c.MinInsyncReplicas != 2 {
		t.Errorf("rules %+v, min.insync.replicas %d", r, c.MinInsyncReplicas)
	}
	other := topicConfig(settings, 1, img, "other")
	if defaults := log.DefaultConfig(); other.Log.SegmentBytes != defaults.SegmentBytes || other.Log.RetentionMs != defaults.RetentionMs || other.Log.IndexIntervalBytes != defaults.IndexIntervalBytes ||
		!other.Log.DeletePolicy || !other.Rules.Compression.Producer || other.Rules.LogAppendTime {
		t.Errorf("defaults: %+v", other)
	}
}

func TestLimitsFollowTheSettings(t *testing.T) {
	const memory = 1 << 30
	if got, want := limitsOf(load(t, anyPort, "/data"), memory, 0), DefaultLimits(memory); got != want {
		t.Errorf("without settings %+v, want %+v", got, want)
	}
	got := limitsOf(load(t, anyPort, "/data", "socket.request.max.bytes=5000", "connections.max.idle.ms=-1", "max.connections=7", "max.connections.per.ip=3",
		"weir.limit.inflight.bytes=9000", "weir.limit.frame.read.ms=11", "weir.limit.frame.read.bytes.per.second=12", "weir.limit.write.ms=13",
		"weir.limit.connections.per.second=14"), memory, 0)
	want := DefaultLimits(memory)
	want.MaxRequestBytes, want.InFlightBytes, want.Connections, want.ConnectionsPerAddress, want.ConnectionRate = 5000, 9000, 7, 3, 14
	want.FrameTime, want.MinFrameRate, want.WriteTime, want.IdleTime = 11*time.Millisecond, 12, 13*time.Millisecond, -1*time.Millisecond
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
