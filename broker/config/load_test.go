package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	in := Inputs{
		File:      writeFile(t, "node.id=2\nnum.partitions=2\nlog.dirs=/file\nlisteners=PLAINTEXT://127.0.0.1:2\nfetch.max.bytes=2000\nnode.id=3\n"),
		Env:       []string{"KAFKA_NUM_PARTITIONS=3", "KAFKA_LOG_DIRS=/env", "KAFKA_LISTENERS=PLAINTEXT://127.0.0.1:3", "WEIR_FSYNC_POLICY=ack"},
		Overrides: []string{"log.dirs=/override", "listeners=PLAINTEXT://127.0.0.1:4"},
		Listen:    "127.0.0.1:5, EXTRA://127.0.0.1:6",
		Host:      testHost,
	}
	in.Overrides = append(in.Overrides, "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTRA:PLAINTEXT")
	s, _, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	if s.NodeID != 3 || s.Topics.NumPartitions != 3 || s.Fetch.MaxBytes != 2000 || s.FsyncPolicy != FsyncAck {
		t.Errorf("%+v", s)
	}
	equal(t, s.DataDirs, []string{"/override"})
	if len(s.Listeners) != 2 || s.Listeners[0].String() != "PLAINTEXT://127.0.0.1:5" || s.Listeners[1].String() != "EXTRA://127.0.0.1:6" {
		t.Errorf("listeners %v", s.Listeners)
	}
	in.DataDir = "/flag"
	s, _, err = Load(in)
	if err != nil || s.DataDirs[0] != "/flag" || s.MetadataDir != "/flag" {
		t.Error(s.DataDirs, s.MetadataDir, err)
	}
	origins := make(map[string]string)
	for _, setting := range s.Settings() {
		origins[setting.Name] = setting.Origin.String()
	}
	equal(t, origins, map[string]string{
		"node.id": in.File + ":6", "broker.id": in.File + ":6", "num.partitions": "KAFKA_NUM_PARTITIONS", "log.dirs": "--data-dir",
		"listeners": "--listen", "fetch.max.bytes": in.File + ":5", "weir.fsync.policy": "WEIR_FSYNC_POLICY",
		"listener.security.protocol.map": "--override",
	})
}

func TestDefaults(t *testing.T) {
	s, w, err := Load(Inputs{Env: []string{"HOME=/me"}, Host: testHost})
	if err != nil {
		t.Fatal(err)
	}
	if lines := w.Lines(); lines != nil {
		t.Errorf("a start without settings warns: %q", lines)
	}
	equal(t, s.DataDirs, []string{"/me/.local/share/weir"})
	equal(t, s.Roles, Roles{Broker: true, Controller: true})
	equal(t, s.Topics, TopicAdmin{1, 1, true, true, 2000})
	equal(t, s.Limits, Limits{30 * time.Second, 1024, time.Minute, 200, 0})
	equal(t, s.Network, Network{100 << 20, 10 * time.Minute, 30 * time.Second})
	equal(t, s.Fetch, Fetch{57671680, 1000})
	equal(t, s.Cluster, Cluster{2 * time.Second, 9 * time.Second, time.Minute, 30 * time.Second, true, false, 30})
	equal(t, s.Offsets, Offsets{50, 3, 100 << 20, 0, 5 * time.Second, 7 * 24 * time.Hour, 10 * time.Minute, 4096})
	equal(t, s.Groups.Protocols, []string{"classic", "consumer", "streams"})
	equal(t, s.Transactions, Transactions{50, 3, 2, 15 * time.Minute, 7 * 24 * time.Hour, 10 * time.Second})
	if s.NodeID != 1 || s.InterBrokerListener != PeerListenerName || s.FsyncPolicy != FsyncBackground || s.RecordValidation != ValidateFull ||
		s.RetentionCheckInterval != 5*time.Minute || s.ClusterID != "" || s.Groups.ConsumerMigrationPolicy != "bidirectional" {
		t.Errorf("%+v", s)
	}
	if got := s.Limits.InFlightBytes(4000); got != 1000 {
		t.Errorf("%d bytes in flight of 4000", got)
	}
	d := s.Dynamic(nil, nil)
	if d.MaxConnections != 10_000 || d.MaxConnectionsPerIP != 1000 || d.ProducerIDExpiration != 24*time.Hour || d.NumReplicaFetchers != 1 {
		t.Errorf("%+v", d)
	}
}

func TestDynamicTakesTheLowerLimit(t *testing.T) {
	s := load(t, "max.connections=5", "weir.limit.connections.per.ip=7", "weir.limit.inflight.bytes=9")
	d := s.Dynamic(nil, map[string]string{"max.connections.per.ip": "8"})
	if d.MaxConnections != 5 || d.MaxConnectionsPerIP != 7 || s.Limits.InFlightBytes(1<<40) != 9 {
		t.Errorf("%+v", d)
	}
	if d = s.Dynamic(map[string]string{"max.connections": "3"}, map[string]string{"max.connections": "4"}); d.MaxConnections != 4 {
		t.Errorf("%+v", d)
	}
}

func TestDataDirs(t *testing.T) {
	for _, c := range []struct {
		env       []string
		overrides []string
		dirs      string
		metadata  string
	}{
		{[]string{"HOME=/h", "XDG_DATA_HOME=/x"}, nil, "/x/weir", "/x/weir"},
		{[]string{"HOME=/h", "XDG_DATA_HOME=relative"}, nil, "/h/.local/share/weir", "/h/.local/share/weir"},
		{nil, []string{"log.dir=/old"}, "/old", "/old"},
		{nil, []string{"log.dir=/old", "log.dirs=/a, /b,/a,"}, "/a,/b", "/a"},
		{nil, []string{"log.dirs=/a", "metadata.log.dir=/m"}, "/a", "/m"},
	} {
		s, _, err := Load(Inputs{Env: c.env, Overrides: c.overrides})
		if err != nil || strings.Join(s.DataDirs, ",") != c.dirs || s.MetadataDir != c.metadata {
			t.Errorf("%v %v: %+v %v", c.env, c.overrides, s, err)
		}
	}
	if _, _, err := Load(Inputs{}); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("a user without a home: %v", err)
	}
}

func TestWrongSettings(t *testing.T) {
	file := writeFile(t, "# a comment\nnum.partitions=2\n\nlog.segment.bytes=5\nlog.retention.ms=soon\n")
	for _, c := range []struct {
		in   Inputs
		want string
	}{
		{Inputs{File: file}, file + ":4: log.segment.bytes=5: Value must be at least 1048576 (allowed: INT [1048576,...])"},
		{Inputs{File: file, Overrides: []string{"log.segment.bytes=2000000"}},
			file + ":5: log.retention.ms=soon: Not a number of type LONG (allowed: LONG)"},
		{Inputs{Env: []string{"KAFKA_COMPRESSION_TYPE=none"}},
			"KAFKA_COMPRESSION_TYPE: compression.type=none: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer " +
				"(allowed: STRING [uncompressed, zstd, lz4, snappy, gzip, producer])"},
		{Inputs{Overrides: []string{"num.partitions"}}, `--override: "num.partitions" names no setting with its value (allowed: name=value)`},
		{Inputs{Overrides: []string{"=5"}}, `--override: "=5" names no setting with its value (allowed: name=value)`},
		{Inputs{Env: []string{"WEIR_FSYNC_POLICY=always"}},
			"WEIR_FSYNC_POLICY: weir.fsync.policy=always: String must be one of: background, ack, never (allowed: STRING [background, ack, never])"},
		{Inputs{Overrides: []string{"listeners="}}, "--override: listeners=: Configuration 'listeners' must not be empty. Valid values include: any non-empty value (allowed: LIST)"},
		{Inputs{Env: []string{"CLUSTER_ID=a/b"}}, "CLUSTER_ID: cluster id=a/b: not a cluster id (allowed: 1 to 128 of A-Z a-z 0-9 . _ -)"},
		{Inputs{Overrides: []string{"node.id=1", "broker.id=2"}}, "--override: broker.id=2: `node.id` and `broker.id` must be set to the same value (allowed: node.id alone)"},
		{Inputs{Overrides: []string{"broker.id=-1"}}, "--override: broker.id=-1: Value must be at least 0 (allowed: INT [0,...])"},
		{Inputs{Overrides: []string{"process.roles=controller"}}, "listeners: The listeners config must only contain KRaft controller listeners from controller.listener.names when process.roles=controller"},
		{Inputs{Overrides: []string{"process.roles=broker"}}, "--override: process.roles=broker: a node that is a broker alone must be told where the controllers are (allowed: controller.quorum.bootstrap.servers)"},
		{Inputs{Overrides: []string{"controller.quorum.voters=2@a:1"}}, "--override: controller.quorum.voters=2@a:1: If process.roles contains the 'controller' role, the node id 1 must be included in the set of voters"},
		{Inputs{Overrides: []string{"process.roles=broker", "controller.quorum.voters=1@a:1"}}, "--override: controller.quorum.voters=1@a:1: If process.roles contains just the 'broker' role, the node id 1 must not be included in the set of voters"},
		{Inputs{Overrides: []string{"authorizer.class.name=x.y"}}, "--override: authorizer.class.name=x.y: this version has no authorizer, so everybody could do everything all the same (allowed: empty)"},
		{Inputs{Overrides: []string{"log.roll.ms=0"}}, "--override: log.roll.ms=0: log.roll.ms must be greater than or equal to 1"},
		{Inputs{Overrides: []string{"log.retention.hours=0"}}, "--override: log.retention.hours=0: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"},
		{Inputs{Overrides: []string{"log.cleaner.max.compaction.lag.ms=5", "log.cleaner.min.compaction.lag.ms=6"}},
			"--override: log.cleaner.min.compaction.lag.ms=6: log.cleaner.min.compaction.lag.ms (6) > log.cleaner.max.compaction.lag.ms (5)"},
		{Inputs{Overrides: []string{"replica.lag.time.max.ms=100"}},
			"--override: replica.lag.time.max.ms=100: replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR"},
		{Inputs{Overrides: []string{"replica.fetch.wait.max.ms=30001"}},
			"--override: replica.fetch.wait.max.ms=30001: replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts"},
		{Inputs{Overrides: []string{"controller.quorum.voters=1@a:1,1@b:1"}}, "--override: controller.quorum.voters=1@a:1,1@b:1: node 1 stands twice"},
		{Inputs{Overrides: []string{"controller.quorum.voters=1@a"}},
			"--override: controller.quorum.voters=1@a: Failed to parse host name from entry 1@a for the configuration controller.quorum.voters. " +
				"Each entry should be in the form `{id}@{host}:{port}`. (allowed: LIST {id}@{host}:{port},...)"},
		{Inputs{Join: "a"}, "--join: weir.join=a: not an address of a node (allowed: LIST {host}:{port},...)"},
		{Inputs{Join: "a:0"}, "--join: weir.join=a:0: not an address of a node (allowed: LIST {host}:{port},...)"},
		{Inputs{Join: "a:1", Overrides: []string{"controller.quorum.voters=1@a:1"}},
			"--join: weir.join=a:1: a node joins the cluster of these, or founds one with the nodes of controller.quorum.voters or controller.quorum.bootstrap.servers; it is told both (allowed: one of the two)"},
		{Inputs{Overrides: []string{"weir.quorum.max.voters=2"}}, "--override: weir.quorum.max.voters=2: Value must be one of: 1, 3, 5 (allowed: INT [1, 3, 5])"},
		{Inputs{Overrides: []string{"weir.gossip.port=65536"}}, "--override: weir.gossip.port=65536: Value must be no more than 65535 (allowed: INT [0,...,65535])"},
		{Inputs{Overrides: []string{"delegation.token.max.lifetime.ms=x"}}, "--override: delegation.token.max.lifetime.ms=x: Not a number of type LONG (allowed: LONG [1,...])"},
	} {
		c.in.DataDir = "/data"
		_, _, err := Load(c.in)
		var setting *SettingError
		if !errors.As(err, &setting) || err.Error() != c.want || kafka.CodeOf(err) != kafka.InvalidConfig {
			t.Errorf("\n got %v\nwant %s", err, c.want)
		}
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.properties")
	_, _, err := Load(Inputs{File: missing, DataDir: "/data"})
	var file *FileError
	if !errors.As(err, &file) || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Error(err)
	}
	broken := writeFile(t, "a=1\nb=\\u12\n")
	_, _, err = Load(Inputs{File: broken, DataDir: "/data"})
	if want := broken + `:2: \u is not followed by four hexadecimal digits`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// What testcontainers and compose files send has to start, with one line for each kind of oddity.
func TestWarnings(t *testing.T) {
	s, w, err := Load(Inputs{
		Env: []string{"KAFKA_ZOOKEEPER_CONNECT=localhost:2181", "KAFKA_BROKER_ID=1", "KAFKA_NODE_ID=1", "KAFKA_NUM_IO_THREADS=4",
			"KAFKA_LISTENER_NAME_A_SSL_KEY_PASSWORD=secret", "CLUSTER_ID=4L6g3nShT-eMCtK--X86sw", "KAFKA_REST_BOOTSTRAP_SERVERS=x"},
		DataDir: "/data",
		Host:    testHost,
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, w.Lines(), []string{
		"unknown settings are ignored: rest.bootstrap.servers (KAFKA_REST_BOOTSTRAP_SERVERS), zookeeper.connect (KAFKA_ZOOKEEPER_CONNECT)",
		"settings without effect in Weir: listener.name.a.ssl.key.password (KAFKA_LISTENER_NAME_A_SSL_KEY_PASSWORD), num.io.threads (KAFKA_NUM_IO_THREADS)",
	})
	if s.ClusterID != "4L6g3nShT-eMCtK--X86sw" {
		t.Errorf("cluster id %q", s.ClusterID)
	}
	for _, setting := range s.Settings() {
		if strings.Contains(setting.Shown(), "secret") {
			t.Errorf("%s shows its value", setting.Name)
		}
	}
}

// Kafka's file is taken as it is, and what of it counts for nothing is told in one line that can be read.
func TestWarningsOfAFile(t *testing.T) {
	path := writeFile(t, `process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.name.plaintext.max.connections=5
listener.name.nosuch.max.connections=5
listener.name.plaintext.num.partitions=5
num.io.threads=8
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.retention.hours=168
log.cleaner.threads=1
`)
	_, w, err := Load(Inputs{File: path, Overrides: []string{"quota.window.num=2"}, DataDir: "/data", Host: testHost})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, w.Lines(), []string{"settings without effect in Weir: listener.name.nosuch.max.connections (" + path + ":8), " +
		"listener.name.plaintext.num.partitions (line 9), num.io.threads (line 10), share.coordinator.state.topic.min.isr (line 14), " +
		"log.cleaner.threads (line 16), quota.window.num (--override)"})
}

func TestIdentity(t *testing.T) {
	if s := load(t, "broker.id=7"); s.NodeID != 7 {
		t.Errorf("broker.id=7 gives node %d", s.NodeID)
	}
	if s := load(t, "node.id=0"); s.NodeID != 0 {
		t.Errorf("node.id=0 gives node %d", s.NodeID)
	}
	s := load(t, "process.roles=broker", "node.id=3", "broker.rack= r1 ", "controller.quorum.voters=1@a:9093,2@[::1]:9094,", "controller.quorum.bootstrap.servers=c:1,a:9093,d:2")
	equal(t, s.Roles, Roles{Broker: true})
	equal(t, s.Quorum.Voters, []Voter{{2, "::1", 9094}, {1, "a", 9093}, {-1, "c", 1}, {-1, "d", 2}})
	if s.Rack != "r1" {
		t.Errorf("rack %q", s.Rack)
	}
}

func TestJoin(t *testing.T) {
	s := load(t)
	equal(t, s.Join, []string(nil))
	equal(t, s.NodeIDSet, false)
	equal(t, s.Quorum.MaxVoters, 5)
	s = load(t, "weir.join=a:1, ::1:2,[::2]:3", "process.roles=broker", "weir.quorum.max.voters=3", "weir.gossip.port=7946")
	equal(t, s.Join, []string{"a:1", "[::1]:2", "[::2]:3"})
	equal(t, s.Quorum.MaxVoters, 3)
	equal(t, s.Gossip.Port, uint16(7946))
	equal(t, load(t, "node.id=1").NodeIDSet, true)
	equal(t, load(t, "broker.id=1").NodeIDSet, true)
	given := s.WithNodeID(7)
	equal(t, []any{s.NodeID, given.NodeID, given.value("node.id").text(), given.value("broker.id").text()}, []any{kafka.BrokerID(1), kafka.BrokerID(7), "7", "7"})
	fromFlag, _, err := Load(Inputs{Join: "b:1", Overrides: []string{"weir.join=a:1"}, DataDir: "/data", Host: testHost})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, fromFlag.Join, []string{"b:1"})
}

func TestLongTimesDoNotOverflow(t *testing.T) {
	s := load(t, "connections.max.idle.ms=9223372036854775807", "replica.lag.time.max.ms=9223372036854775807", "offsets.retention.minutes=2147483647")
	if s.Network.MaxIdle != 1<<63-1 || s.Replication.LagTimeMax != 1<<63-1 || s.Offsets.Retention <= 0 {
		t.Errorf("%v %v %v", s.Network.MaxIdle, s.Replication.LagTimeMax, s.Offsets.Retention)
	}
	if s := load(t, "connections.max.idle.ms=-9223372036854775808"); s.Network.MaxIdle >= 0 {
		t.Errorf("%v", s.Network.MaxIdle)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\nadvertised.listeners=PLAINTEXT://h:1,")
	f.Add("listener.security.protocol.map=A:SSL,:,B\nlisteners=A://[::1]:0,B://x:1")
	f.Add("log.dirs=,\ncontroller.quorum.voters=@,1@:1\nbroker.id=9999999999")
	f.Add("weir.peer.port=70000\nlog.roll.hours=2147483647")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, _, err := Load(Inputs{File: path, Env: []string{"HOME=/h"}, Host: testHost})
		if err != nil {
			return
		}
		if len(s.Listeners) == 0 || len(s.DataDirs) == 0 || s.MetadataDir == "" || s.NodeID < 0 {
			t.Fatalf("%+v", s)
		}
		for _, l := range s.Listeners {
			if l.Protocol != Plaintext || !l.Controller && isWildcard(l.AdvertisedHost) {
				t.Fatalf("%+v", l)
			}
		}
		s.DescribeBroker(nil, nil)
		s.TopicConfig(nil, nil, nil)
	})
}
