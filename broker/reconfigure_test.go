package broker

import (
	"io"
	"net"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/config"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol/batch"
)

// set gives configs of a topic, of broker 1 or of all brokers ("") values, each as name, value.
func (c *kafkaClient) set(t kmsg.ConfigResourceType, name string, pairs ...string) {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = t, name
	for pair := range slices.Chunk(pairs, 2) {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = pair[0], &pair[1]
		resource.Configs = append(resource.Configs, config)
	}
	req.Resources = append(req.Resources, resource)
	if row := c.request(1, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]; row.ErrorCode != 0 {
		c.t.Fatalf("set %q of %v %q: %v %s", pairs, t, name, kafka.Code(row.ErrorCode), *row.ErrorMessage)
	}
}

// produceAt appends one record with a timestamp of its own.
func (c *kafkaClient) produceAt(topic string, timestamp time.Time, size int) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	b := batch.NewBuilder(batch.None, 0)
	b.Append(timestamp.UnixMilli(), nil, make([]byte, size))
	return c.produceBatch(topic, b)
}

func (c *kafkaClient) produceBatch(topic string, b *batch.Builder) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	records, err := b.Build()
	if err != nil {
		c.t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 60_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	return c.request(9, req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

func (r *running) log(topic string) *log.Log {
	r.t.Helper()
	p := r.replicas.Partition(kafka.TopicPartition{Topic: topic})
	if p == nil {
		r.t.Fatalf("no partition 0 of %s", topic)
	}
	return p.Log()
}

// The next request after a change goes by it, whether the topic has a value of its own or inherits the broker's.
func TestChangedSettingsActAtOnce(t *testing.T) {
	b := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	c := b.dial()
	for _, layer := range []struct {
		name     string
		typ      kmsg.ConfigResourceType
		resource string
		names    func(topicName, brokerName string) string
	}{
		{"topic", kmsg.ConfigResourceTypeTopic, "topic", func(topicName, _ string) string { return topicName }},
		{"all-brokers", kmsg.ConfigResourceTypeBroker, "", func(_, brokerName string) string { return brokerName }},
		{"broker", kmsg.ConfigResourceTypeBroker, "1", func(_, brokerName string) string { return brokerName }},
	} {
		t.Run(layer.name, func(t *testing.T) {
			topic := layer.name
			c.createTopic(topic)
			set := func(topicName, brokerName, value string) {
				t.Helper()
				c.set(layer.typ, layer.resource, layer.names(topicName, brokerName), value)
			}
			now := time.Now()
			code := func(row kmsg.ProduceResponseTopicPartition) kafka.Code { return kafka.Code(row.ErrorCode) }
			if got := code(c.produceAt(topic, now, 5000)); got != kafka.None {
				t.Fatalf("before any change: %v", got)
			}
			set("max.message.bytes", "message.max.bytes", "4000")
			if got := code(c.produceAt(topic, now, 5000)); got != kafka.MessageTooLarge {
				t.Errorf("max.message.bytes: a batch of 5000 bytes is answered with %v", got)
			}
			set("max.message.bytes", "message.max.bytes", "1000000")
			if got := code(c.produceAt(topic, now, 5000)); got != kafka.None {
				t.Errorf("max.message.bytes: once it is higher again: %v", got)
			}

			set("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", "86400000")
			if got := code(c.produceAt(topic, now.Add(12*time.Hour), 10)); got != kafka.None {
				t.Errorf("message.timestamp.after.max.ms: %v", got)
			}
			set("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", "60000")
			if got := code(c.produceAt(topic, now.Add(-time.Hour), 10)); got != kafka.InvalidTimestamp {
				t.Errorf("message.timestamp.before.max.ms: %v", got)
			}
			set("message.timestamp.type", "log.message.timestamp.type", "LogAppendTime")
			if row := c.produceAt(topic, now.Add(-time.Hour), 10); row.ErrorCode != 0 || row.LogAppendTime < now.UnixMilli() {
				t.Errorf("message.timestamp.type: %v, append time %d", code(row), row.LogAppendTime)
			}

			set("compression.type", "compression.type", "gzip")
			offset := c.produceAt(topic, now, 1000).BaseOffset
			stored := c.request(11, fetchRequest(topic, offset, 0)).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
			if h, err := batch.ParseHeader(stored); err != nil || h.Attributes.Codec() != batch.Gzip {
				t.Errorf("compression.type: stored with codec %v, %v", h.Attributes.Codec(), err)
			}

			set("segment.bytes", "log.segment.bytes", "1048576")
			files := func() int { return segmentFiles(t, b.FS, b.log(topic).Dir()) }
			was := files()
			for range 2 {
				b := batch.NewBuilder(batch.Gzip, 0) // as it is stored, so that it is stored as it is
				b.Append(now.UnixMilli(), nil, noise(600_000))
				if row := c.produceBatch(topic, b); row.ErrorCode != 0 {
					t.Fatal(code(row))
				}
			}
			if files() != was+1 {
				t.Errorf("segment.bytes: %d segments after another 1.2 MB, %d before", files(), was)
			}

			set("cleanup.policy", "log.cleanup.policy", "compact")
			if got := code(c.produceAt(topic, now, 10)); got != kafka.InvalidRecord {
				t.Errorf("cleanup.policy: a record without a key is answered with %v", got)
			}
			set("cleanup.policy", "log.cleanup.policy", "delete")
			set("retention.ms", "log.retention.ms", "1")
			l := b.log(topic)
			if _, err := l.DeleteOldSegments(now.Add(48 * time.Hour)); err != nil || l.StartOffset() != l.EndOffset() {
				t.Errorf("retention.ms: the log begins at %d and ends at %d, %v", l.StartOffset(), l.EndOffset(), err)
			}
			if layer.typ == kmsg.ConfigResourceTypeBroker { // the next layer begins without
				req := kmsg.NewPtrAlterConfigsRequest()
				resource := kmsg.NewAlterConfigsRequestResource()
				resource.ResourceType, resource.ResourceName = layer.typ, layer.resource
				if layer.resource == "" {
					resource.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: "min.insync.replicas", Value: kmsg.StringPtr("1")}}
				}
				req.Resources = append(req.Resources, resource)
				if row := c.request(2, req).(*kmsg.AlterConfigsResponse).Resources[0]; row.ErrorCode != 0 {
					t.Fatal(*row.ErrorMessage)
				}
			}
		})
	}
}

// noise does not compress.
func noise(n int) []byte {
	out, x := make([]byte, n), uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

func segmentFiles(t *testing.T, fs vfs.FS, dir string) (n int) {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if len(e.Name()) == len("00000000000000000000.log") && e.Name()[20:] == ".log" {
			n++
		}
	}
	return n
}

// What a topic's config means has to arrive where it is acted on.
func TestEveryTopicConfigArrives(t *testing.T) {
	byController := []string{"unclean.leader.election.enable"}
	values := map[string]string{"cleanup.policy": "compact", "compression.type": "gzip", "message.timestamp.type": "LogAppendTime",
		"leader.replication.throttled.replicas": "0:1", "follower.replication.throttled.replicas": "*"}
	settings := load(t, anyPort, "/data")
	resolve := func(configs map[string]string) any {
		resource := metadata.ConfigResource{Type: metadata.TopicResource, Name: "t"}
		var records []metadata.Record
		for name, value := range configs {
			records = append(records, metadata.ConfigRecord{Resource: resource, Key: name, Value: &value})
		}
		img, _, err := metadata.Empty().With(records)
		if err != nil {
			t.Fatal(err)
		}
		return topicConfig(settings, 1, img, "t")
	}
	for _, d := range config.TopicDefs() {
		if d.Stance != config.Implement || slices.Contains(byController, d.Name) {
			continue
		}
		before := map[string]string{}
		value, ok := values[d.Name]
		switch {
		case ok:
		case d.Type == config.Boolean:
			value = "true"
		default:
			value = "5000000" // valid wherever a number has no upper bound
		}
		switch d.Name {
		case "compression.gzip.level", "compression.lz4.level", "compression.zstd.level":
			before["compression.type"], value = d.Name[len("compression."):len(d.Name)-len(".level")], "7"
		}
		after := map[string]string{d.Name: value}
		for name, value := range before {
			after[name] = value
		}
		if err := config.ValidateTopic(after); err != nil {
			t.Errorf("the test is wrong: %v", err)
		}
		if reflect.DeepEqual(resolve(before), resolve(after)) {
			t.Errorf("%s=%s changes nothing", d.Name, value)
		}
	}
}

// closedAtOnce reports whether the broker lets nobody in by a listener.
func (r *running) closedAtOnce(listener string) bool {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.Bound()[listener])
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	c := &kafkaClient{client: &client{nc, r.t}}
	req := kmsg.NewPtrApiVersionsRequest()
	c.ask(0, req)
	_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err = io.ReadFull(nc, make([]byte, 4))
	return err != nil
}

func TestConnectionLimitsChangeWhileTheBrokerRuns(t *testing.T) {
	b := start(t, vfs.NewMem(), load(t, "", "/data", "listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"))
	c, other := b.dial(), b.dial() // an admin client needs two
	other.request(0, kmsg.NewPtrApiVersionsRequest())
	admitted := func(plaintext, other bool) {
		t.Helper()
		for listener, want := range map[string]bool{"PLAINTEXT": plaintext, "OTHER": other} {
			eventually(t, listener+" lets in what it should", func() bool { return b.closedAtOnce(listener) == !want })
		}
	}
	admitted(true, true)
	c.set(kmsg.ConfigResourceTypeBroker, "", "listener.name.plaintext.max.connections", "1")
	admitted(false, true)
	c.set(kmsg.ConfigResourceTypeBroker, "", "listener.name.plaintext.max.connections", "5", "max.connections", "1")
	admitted(false, false)
	c.set(kmsg.ConfigResourceTypeBroker, "1", "max.connections", "9") // over what is set for all
	admitted(true, true)
	c.set(kmsg.ConfigResourceTypeBroker, "1", "max.connections", "0")
	admitted(false, false)
	c.set(kmsg.ConfigResourceTypeBroker, "1", "max.connections", "9") // by the connection that is there
	admitted(true, true)
}

func TestConnectionLimitsAreThoseInForce(t *testing.T) {
	settings := load(t, "", "/data", "listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT", "listener.name.other.max.connections=3", "max.connections.per.ip=5")
	for _, c := range []struct {
		all, own map[string]string
		want     ConnectionLimits
	}{
		{nil, nil, ConnectionLimits{10_000, 5, map[string]int{"OTHER": 3}}},
		{map[string]string{"max.connections.per.ip": "7", "max.connections": "8"}, nil, ConnectionLimits{8, 7, map[string]int{"OTHER": 3}}},
		{map[string]string{"max.connections.per.ip": "7", "listener.name.plaintext.max.connections": "2"}, map[string]string{"max.connections.per.ip": "6"},
			ConnectionLimits{10_000, 6, map[string]int{"OTHER": 3, "PLAINTEXT": 2}}},
		// With fewer an admin client could not undo the setting.
		{map[string]string{"max.connections.per.ip": "0", "max.connections": "0", "listener.name.other.max.connections": "1"}, nil, ConnectionLimits{2, 2, map[string]int{"OTHER": 2}}},
	} {
		if got := connectionLimits(settings.Dynamic(c.all, c.own), 0); !reflect.DeepEqual(got, c.want) {
			t.Errorf("with %v and %v: %+v, want %+v", c.all, c.own, got, c.want)
		}
	}
}

// No setting lets clients take the descriptors that segments need.
func TestConnectionsLeaveDescriptorsToSegments(t *testing.T) {
	settings := load(t, anyPort, "/data")
	if got := limitsOf(settings, 0, 300).Connections; got != 300 {
		t.Errorf("%d connections at the start, want 300", got)
	}
	for _, c := range []struct{ set, want int }{{1_000_000, 300}, {200, 200}, {0, 2}} {
		d := settings.Dynamic(map[string]string{"max.connections": strconv.Itoa(c.set)}, nil)
		if got := connectionLimits(d, 300).Total; got != c.want {
			t.Errorf("max.connections=%d: %d connections, want %d", c.set, got, c.want)
		}
	}
}

// A broker that starts goes by the dynamic settings from its first connection on.
func TestDynamicSettingsSurviveARestart(t *testing.T) {
	disk, settings := vfs.NewMem(), load(t, anyPort, "/data")
	first := start(t, disk, settings)
	first.dial().set(kmsg.ConfigResourceTypeBroker, "", "max.connections", "1")
	first.mustStop()
	second := start(t, disk, settings)
	for range 2 {
		second.dial().request(0, kmsg.NewPtrApiVersionsRequest())
	}
	if !second.closedAtOnce("PLAINTEXT") {
		t.Error("a third connection is let in")
	}
}

func TestProducersExpireAsIsSet(t *testing.T) {
	b := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	c := b.dial()
	c.createTopic("t")
	c.set(kmsg.ConfigResourceTypeBroker, "", "producer.id.expiration.ms", "3600000")
	records := batch.NewBuilder(batch.None, 0)
	records.SetProducer(1, 0, 0)
	records.Append(time.Now().UnixMilli(), nil, []byte("value"))
	if row := c.produceBatch("t", records); row.ErrorCode != 0 {
		t.Fatal(kafka.Code(row.ErrorCode))
	}
	b.stopTasks() // the test does their work from here on
	b.tasks.Wait()
	b.store.Tasks().Step(time.Now().Add(50*time.Minute), log.Event{})
	if n := len(b.log("t").ActiveProducers()); n != 1 {
		t.Errorf("after 50 minutes %d producers are known", n)
	}
	b.store.Tasks().Step(time.Now().Add(70*time.Minute), log.Event{})
	if n := len(b.log("t").ActiveProducers()); n != 0 {
		t.Errorf("after 70 minutes %d producers are known", n)
	}
}
