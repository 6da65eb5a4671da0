package wire

import (
	"encoding/base64"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// identity is what a broker says of its cluster and itself.
type identity struct {
	cluster    string
	controller int32
	node       int32
	host       string
	port       int32
}

func (i identity) address() string { return net.JoinHostPort(i.host, strconv.Itoa(int(i.port))) }

// identify asks Metadata and DescribeCluster, which must agree.
func identify(t *testing.T, address string) identity {
	t.Helper()
	c := dial(t, address)
	metadata := ask(t, c, at(9, kmsg.NewPtrMetadataRequest()))
	if metadata.ClusterID == nil || len(metadata.Brokers) != 1 {
		t.Fatalf("Metadata: cluster id %s, %d brokers", text(metadata.ClusterID), len(metadata.Brokers))
	}
	b := metadata.Brokers[0]
	got := identity{*metadata.ClusterID, metadata.ControllerID, b.NodeID, b.Host, b.Port}
	described := ask(t, c, at(2, kmsg.NewPtrDescribeClusterRequest()))
	wantCode(t, "DescribeCluster", described.ErrorCode, nil)
	if len(described.Brokers) != 1 {
		t.Fatalf("DescribeCluster: %d brokers", len(described.Brokers))
	}
	d := described.Brokers[0]
	if other := (identity{described.ClusterID, described.ControllerID, d.NodeID, d.Host, d.Port}); other != got {
		t.Errorf("Metadata says %+v, DescribeCluster %+v", got, other)
	}
	return got
}

// Tools and Connect fail without a cluster id, and admin clients send everything to the controller: it must be a broker
// that is there.
func TestTheClusterHasAnIDAndAController(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	got := identify(t, address)
	if id, err := base64.RawURLEncoding.DecodeString(got.cluster); err != nil || len(id) != 16 {
		t.Errorf("the cluster id %q is not 16 bytes in 22 characters: %v", got.cluster, err)
	}
	if got.controller != got.node {
		t.Errorf("the controller is %d, the only broker %d", got.controller, got.node)
	}
	dial(t, got.address()).wantAlive(t)
}

// The cluster id is what tools tell clusters apart by: it stays over restarts and crashes, and is not the same for two.
func TestTheClusterIDStays(t *testing.T) {
	s := start(t)
	first := identify(t, s.Address)
	for range 2 {
		s.Kill()
		s.restart(t)
		s.stop(t)
		s.restart(t)
		if got := identify(t, s.Address); got.cluster != first.cluster || got.node != first.node {
			t.Errorf("%+v became %+v", first, got)
		}
	}
	if other := identify(t, start(t).Address); other.cluster == first.cluster {
		t.Errorf("two clusters have the id %s", other.cluster)
	}
}

// Interfaces for people show sizes from here: a log that has records has a size, and directories have a path and space.
func TestLogDirsAreDescribed(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 2).name
	b := newBatch(record{1, nil, make([]byte, 10_000)})
	mustProduce(t, c, topic, 1, b)
	describe := func(topics ...kmsg.DescribeLogDirsRequestTopic) map[int32]kmsg.DescribeLogDirsResponseDirTopicPartition {
		req := at(4, kmsg.NewPtrDescribeLogDirsRequest())
		req.Topics = topics
		resp := ask(t, c, req)
		wantCode(t, "DescribeLogDirs", resp.ErrorCode, nil)
		found := make(map[int32]kmsg.DescribeLogDirsResponseDirTopicPartition)
		for _, d := range resp.Dirs {
			wantCode(t, d.Dir, d.ErrorCode, nil)
			if !filepath.IsAbs(d.Dir) || d.TotalBytes <= 0 || d.UsableBytes <= 0 || d.UsableBytes > d.TotalBytes {
				t.Errorf("directory %q: %d bytes, %d usable", d.Dir, d.TotalBytes, d.UsableBytes)
			}
			for _, row := range d.Topics {
				if row.Topic != topic {
					continue
				}
				for _, p := range row.Partitions {
					found[p.Partition] = p
				}
			}
		}
		return found
	}
	for what, found := range map[string]map[int32]kmsg.DescribeLogDirsResponseDirTopicPartition{
		"all": describe(), "by name": describe(kmsg.DescribeLogDirsRequestTopic{Topic: topic, Partitions: []int32{0, 1}}),
	} {
		if len(found) != 2 {
			t.Errorf("%s: %d partitions", what, len(found))
		}
		if p := found[0]; p.Size != 0 || p.OffsetLag != 0 || p.IsFuture {
			t.Errorf("%s: the empty partition: %+v", what, p)
		}
		if p := found[1]; p.Size != int64(len(b.bytes())) || p.OffsetLag != 0 || p.IsFuture {
			t.Errorf("%s: the partition with a batch of %d bytes: %+v", what, len(b.bytes()), p)
		}
	}
	if found := describe(kmsg.DescribeLogDirsRequestTopic{Topic: topic, Partitions: []int32{1}}); len(found) != 1 {
		t.Errorf("one partition by name: %d", len(found))
	}
}

// Without settings for it a broker tells its clients the address that it listens on, with the port that the system chose
// for 0: tests start brokers so, many at a time.
func TestPortZeroIsAdvertisedAsBound(t *testing.T) {
	a, b := start(t), start(t)
	for _, s := range []*server{a, b} {
		if got := identify(t, s.Address); got.address() != s.Address {
			t.Errorf("clients are told %s, bound is %s", got.address(), s.Address)
		}
	}
	if a.Address == b.Address {
		t.Errorf("two brokers have %s", a.Address)
	}
}

// needIPv6 skips a case where the machine has no IPv6 loopback.
func needIPv6(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("there is no IPv6 loopback: %v", err)
	}
	l.Close()
}

// An IPv6 address is written in brackets where a port follows, and told to clients without: they would look the brackets
// up as a name.
func TestIPv6IsAdvertisedWithoutBrackets(t *testing.T) {
	needIPv6(t)
	s := prepare(t, filepath.Join(t.TempDir(), "data"))
	s.options.Listen = "[::1]:0"
	s.restart(t)
	got := identify(t, s.Address)
	if got.host != "::1" || got.address() != s.Address {
		t.Errorf("clients are told host %q port %d, bound is %s", got.host, got.port, s.Address)
	}
}

// "localhost" is ::1 for some clients and 127.0.0.1 for others. A broker can listen on both under one name and one port,
// as it does when it is told nothing, so that none of them is refused first.
func TestLocalhostIsBothFamilies(t *testing.T) {
	needIPv6(t)
	s := prepare(t, filepath.Join(t.TempDir(), "data"), "--override", "advertised.listeners=PLAINTEXT://localhost:0")
	s.options.Listen = "127.0.0.1:0,[::1]:0"
	s.restart(t)
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "::1", "localhost"} {
		got := identify(t, net.JoinHostPort(host, port))
		if got.address() != net.JoinHostPort("localhost", port) {
			t.Errorf("who dials %s is told %s", host, got.address())
		}
	}
}

// User interfaces draw the state of the metadata log, and kafka-metadata-quorum prints it.
func TestDescribeQuorumTellsOfTheMetadataLog(t *testing.T) {
	s := start(t)
	c := dial(t, s.Address)
	describe := func() (*kmsg.DescribeQuorumResponse, kmsg.DescribeQuorumResponseTopicPartition) {
		t.Helper()
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
		resp := ask(t, c, at(2, req))
		if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("%+v", resp)
		}
		return resp, resp.Topics[0].Partitions[0]
	}
	resp, p := describe()
	me := identify(t, s.Address)
	if p.LeaderID != me.node || p.LeaderEpoch < 1 || len(p.CurrentVoters) != 1 || len(p.Observers) != 0 || len(resp.Nodes) != 1 {
		t.Fatalf("%+v", resp)
	}
	v := p.CurrentVoters[0]
	if v.ReplicaID != me.node || v.ReplicaDirectoryID == [16]byte{} || v.LogEndOffset != p.HighWatermark || v.LastFetchTimestamp <= 0 || v.LastCaughtUpTimestamp <= 0 {
		t.Errorf("the voter is %+v, the high watermark %d", v, p.HighWatermark)
	}
	if l := resp.Nodes[0].Listeners; resp.Nodes[0].NodeID != me.node || len(l) != 1 || l[0].Name != "PLAINTEXT" || l[0].Port != uint16(me.port) {
		t.Errorf("%+v", resp.Nodes)
	}
	newTopic(t, s.Address, 1)
	if _, next := describe(); next.HighWatermark <= p.HighWatermark || next.LeaderEpoch != p.LeaderEpoch {
		t.Errorf("after a topic was made: %+v, before: %+v", next, p)
	}
	s.Kill()
	s.restart(t)
	c = dial(t, s.Address)
	if _, next := describe(); next.LeaderEpoch <= p.LeaderEpoch || next.CurrentVoters[0].ReplicaDirectoryID != v.ReplicaDirectoryID {
		t.Errorf("after a restart: %+v, before: %+v", next, p)
	}
}

// A broker that listens on every interface must not tell its clients to dial that: they would dial themselves. It tells
// the machine's name or an address of it, and says in its log which.
func TestAWildcardIsNotAdvertised(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", "[::]:0"} {
		t.Run(listen, func(t *testing.T) {
			if listen == "[::]:0" {
				needIPv6(t)
			}
			s := prepare(t, filepath.Join(t.TempDir(), "data"))
			s.options.Listen = listen
			s.restart(t)
			_, port, err := net.SplitHostPort(s.Address)
			if err != nil {
				t.Fatal(err)
			}
			got := identify(t, net.JoinHostPort("localhost", port))
			if ip := net.ParseIP(got.host); got.host == "" || ip != nil && ip.IsUnspecified() || strconv.Itoa(int(got.port)) != port {
				t.Errorf("who comes by port %s is told %s", port, got.address())
			}
			dial(t, got.address()).wantAlive(t)
			s.awaitLog(t, "PLAINTEXT://"+got.address())
		})
	}
}
