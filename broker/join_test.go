package broker

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/config"
	"weir/broker/peer"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol"
)

// loadJoin reads the settings of a node that joins.
func loadJoin(t *testing.T, addresses string, overrides ...string) *config.Server {
	t.Helper()
	return loadInputs(t, config.Inputs{Join: addresses, Overrides: overrides})
}

func loadInputs(t *testing.T, in config.Inputs) *config.Server {
	t.Helper()
	in.Listen, in.DataDir, in.Host = anyPort, "/data", config.Host{Name: "localhost"}
	settings, _, err := config.Load(in)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

func (r *running) clients() string { return r.Bound()["PLAINTEXT"] }

// mustKnow waits until the node has published brokers with those ids.
func (r *running) mustKnow(ids ...kafka.BrokerID) {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		img, missing := r.node.Image(), 0
		for _, id := range ids {
			if b, ok := img.Brokers.ByID(id); !ok || b.Fenced {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("node %d does not know %d of the brokers %v", r.NodeID(), missing, ids)
		}
	}
}

// A node that is alone has no second port until somebody wants to join it. From then on it has that port at every start.
func TestTheFirstToAskOpensTheListenerForPeers(t *testing.T) {
	disk := vfs.NewMem()
	first := start(t, disk, load(t, anyPort, "/data"))
	if _, open := first.Bound()[config.PeerListenerName]; open {
		t.Fatal("a node that is alone listens for others")
	}
	var asked sync.WaitGroup
	for range 4 {
		asked.Go(func() {
			d, err := Discover(t.Context(), nil, first.clients())
			member, _ := first.node.Image().Quorum.ByRaftID(first.raftID())
			if err != nil || d.ClusterID != first.ClusterID() || d.Node != 1 || d.Host != member.Host || d.Port != member.Port || d.Port == 0 {
				t.Errorf("answered %+v, %v while the cluster knows %+v", d, err, member)
			}
		})
	}
	asked.Wait()
	bound := first.Bound()[config.PeerListenerName]
	first.mustStop()
	again := start(t, disk, load(t, anyPort, "/data"))
	if got := again.Bound()[config.PeerListenerName]; got != bound {
		t.Errorf("after a restart it is at %s, not %s", got, bound)
	}
	again.mustStop()
	taken, err := net.Listen("tcp", bound)
	if err != nil {
		t.Skip("another process was faster:", err)
	}
	defer taken.Close()
	if got := start(t, disk, load(t, anyPort, "/data")).Bound()[config.PeerListenerName]; got == bound || got == "" {
		t.Errorf("where that port is taken it is at %q", got)
	}
}

func TestNodesJoin(t *testing.T) {
	first := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	disks := []*vfs.Mem{vfs.NewMem(), vfs.NewMem()}
	joined := make([]*running, 2)
	var both sync.WaitGroup
	for i, disk := range disks { // at once
		settings := loadJoin(t, "127.0.0.1:1,"+first.clients())
		both.Go(func() {
			b, err := open(t.Context(), disk, settings)
			if err != nil {
				t.Error(err)
				return
			}
			joined[i] = run(t, b)
		})
	}
	both.Wait()
	if t.Failed() {
		return
	}
	second, third := joined[0], joined[1]
	if a, b := second.NodeID(), third.NodeID(); a+b != 5 || a*b != 6 {
		t.Fatalf("they are nodes %d and %d", a, b)
	}
	for _, r := range []*running{first, second, third} {
		r.mustKnow(1, 2, 3)
		if r.ClusterID() != first.ClusterID() {
			t.Errorf("node %d belongs to cluster %s", r.NodeID(), r.ClusterID())
		}
	}
	if key := first.node.Image().GossipKey; len(key) != metadata.GossipKeySize {
		t.Errorf("the gossip key is %v", key)
	}
	id := second.NodeID()
	for _, c := range []struct {
		name     string
		settings *config.Server
	}{
		{"the same command", loadJoin(t, first.clients())},
		{"without --join", load(t, anyPort, "/data")},
		{"with its id", load(t, anyPort, "/data", fmt.Sprint("node.id=", id))},
		{"seeds that are gone", loadJoin(t, "127.0.0.1:1")},
	} {
		second.mustStop()
		if second = start(t, disks[0], c.settings); second.NodeID() != id || second.ClusterID() != first.ClusterID() {
			t.Errorf("%s: it is node %d of cluster %s", c.name, second.NodeID(), second.ClusterID())
		}
	}
	second.mustStop()
	other := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	for _, c := range []struct {
		settings *config.Server
		want     string
	}{
		{loadJoin(t, first.clients(), "node.id=9"), fmt.Sprintf("belongs to node %d, not 9", id)},
		{loadJoin(t, other.clients()), "belongs to cluster " + first.ClusterID() + ", and the node at " + other.clients() + " to cluster " + other.ClusterID()},
	} {
		if b, err := open(t.Context(), disks[0], c.settings); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, err)
			if err == nil {
				_ = b.Close()
			}
		}
	}
}

func TestWhoCannotJoin(t *testing.T) {
	first := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	web := answering(t, func(nc net.Conn) { _, _ = io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	other := answering(t, func(nc net.Conn) { // a broker that knows ApiVersions and closes the connection at anything else
		var size [4]byte
		for {
			if _, err := io.ReadFull(nc, size[:]); err != nil {
				return
			}
			request := make([]byte, int(size[3])|int(size[2])<<8)
			if _, err := io.ReadFull(nc, request); err != nil || request[1] != 18 {
				return
			}
			_, _ = nc.Write(append([]byte{0, 0, 0, 10}, append(request[4:8], 0, 0, 0, 0, 0, 0)...))
		}
	})
	for _, c := range []struct {
		name     string
		settings *config.Server
		want     string
		code     kafka.Code
	}{
		{"a web server", loadJoin(t, web), web + " is no Weir: what it answers is not Kafka's protocol", kafka.InvalidConfig},
		{"another broker", loadJoin(t, other), other + " is no Weir: it speaks Kafka's protocol", kafka.InvalidConfig},
		{"another cluster", loadInputs(t, config.Inputs{Join: first.clients(), Env: []string{"CLUSTER_ID=other"}}),
			"the node at " + first.clients() + " belongs to cluster " + first.ClusterID() + ", and this one is to belong to cluster other", kafka.InconsistentClusterID},
		{"a node id that is in use", loadJoin(t, first.clients(), "node.id=1"), "Node 1 of this cluster is " + first.clients(), kafka.DuplicateBrokerRegistration},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := vfs.NewMem()
			b, err := open(t.Context(), disk, c.settings)
			if err == nil {
				_ = b.Close()
			}
			if kafka.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v", kafka.CodeOf(err), err)
			}
			if m, err := log.ReadMetaProperties(disk, "/data"); err == nil && m.ClusterID != "" {
				t.Errorf("the directory belongs to %+v now", m)
			}
		})
	}
}

// answering is a server with another protocol.
func answering(t *testing.T, answer func(net.Conn)) string {
	l := listenLoopback(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				answer(nc)
			}()
		}
	}()
	return l.Addr().String()
}

func TestAWebServerIsKnown(t *testing.T) {
	patient := answering(t, func(nc net.Conn) {
		if _, err := bufio.NewReader(nc).ReadString('\n'); err == nil {
			_, _ = io.WriteString(nc, "HTTP/1.0 200 OK\r\n\r\n")
		}
	})
	if !speaksHTTP(t.Context(), nil, patient) {
		t.Error("a web server is none")
	}
	first := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	if speaksHTTP(t.Context(), nil, first.clients()) || speaksHTTP(t.Context(), nil, "127.0.0.1:1") {
		t.Error("a Weir is a web server, or nobody is")
	}
}

// Who waits says for whom and why, and whoever ends it is not kept waiting.
func TestWhoJoinsWaitsForTheCluster(t *testing.T) {
	free := listenLoopback(t)
	address := free.Addr().String()
	_ = free.Close()
	manual := clock.NewManual(time.Now())
	var text lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Open(ctx, Options{Config: loadJoin(t, address), FS: vfs.NewMem(), Clock: manual, Logger: slog.New(slog.NewTextHandler(&text, nil)), Metrics: metrics.NewRegistry()})
		ended <- err
	}()
	for strings.Count(text.String(), "waiting to join") < 2 {
		manual.Advance(waitingLog / 4)
		time.Sleep(time.Millisecond)
	}
	if !strings.Contains(text.String(), address+": dial tcp "+address) {
		t.Errorf("it says\n%s", text.String())
	}
	cancel()
	if err := soon(t, ended); err == nil || !strings.Contains(err.Error(), "waiting to join a cluster: "+address) {
		t.Error(err)
	}
}

// A node that is killed on its way into the cluster has the same id when it comes again, and gets in without the seeds once it
// knows that id.
func TestAJoinThatWasCutShortGoesOn(t *testing.T) {
	first := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	d, err := Discover(t.Context(), nil, first.clients())
	if err != nil {
		t.Fatal(err)
	}
	dir := kafka.NewUUID()
	body, err := json.Marshal(joinRequest{Directory: dir, Node: kafka.NoBroker})
	if err != nil {
		t.Fatal(err)
	}
	body, err = peer.Ask(t.Context(), nil, d.PeerAddress(), &protocol.PeerRequest{Kind: protocol.PeerJoin, ClusterID: &d.ClusterID, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	var answer joinAnswer
	if err := json.Unmarshal(body, &answer); err != nil || answer.Node != 2 {
		t.Fatalf("%s: %v", body, err)
	}
	disk := vfs.NewMem()
	prepare := func(m log.MetaProperties) {
		if err := disk.MkdirAll("/data", 0o755); err != nil {
			t.Fatal(err)
		}
		m.DirectoryID = dir
		if err := log.WriteMetaProperties(disk, "/data", m, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	prepare(log.MetaProperties{NodeID: kafka.NoBroker})
	again, err := open(t.Context(), disk, loadJoin(t, first.clients()))
	if err != nil || again.NodeID() != 2 {
		t.Fatalf("after the answer was lost: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}

	disk, dir = vfs.NewMem(), kafka.NewUUID()
	prepare(log.MetaProperties{ClusterID: answer.ClusterID, NodeID: 5, Joined: true})
	if _, err := open(t.Context(), disk, load(t, anyPort, "/data")); kafka.CodeOf(err) != kafka.InvalidConfig || !strings.Contains(err.Error(), "--join") {
		t.Fatalf("without anybody to ask: %v", err)
	}
	if err := (peerNote{Contacts: answer.Members}).write(disk, "/data"); err != nil {
		t.Fatal(err)
	}
	if r := start(t, disk, load(t, anyPort, "/data")); r.NodeID() != 5 || r.ClusterID() != first.ClusterID() {
		t.Errorf("node %d of cluster %s", r.NodeID(), r.ClusterID())
	}
}

// A directory that was removed from the cluster does not come back, neither as it is nor by joining.
func TestARemovedDirectoryStaysOut(t *testing.T) {
	first := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	disk := vfs.NewMem()
	second := start(t, disk, loadJoin(t, first.clients()))
	dir := second.metadataDirectory()
	second.mustStop()
	if _, err := first.node.Submit(t.Context(), controller.RemoveMember{ClusterID: first.ClusterID(), Node: 2, Directory: dir}); err != nil {
		t.Fatal(err)
	}
	b, err := open(t.Context(), disk, loadJoin(t, first.clients()))
	if err == nil {
		_ = b.Close()
	}
	if kafka.CodeOf(err) != kafka.InvalidRegistration || !strings.Contains(err.Error(), "empty data directory") {
		t.Errorf("%v: %v", kafka.CodeOf(err), err)
	}
	if third := start(t, vfs.NewMem(), loadJoin(t, first.clients())); third.NodeID() != 3 {
		t.Errorf("the next one is node %d", third.NodeID())
	}
}

// What is behind clients' listeners hears which cluster that is, and no more.
func TestClientsCannotJoin(t *testing.T) {
	first := start(t, vfs.NewMem(), load(t, anyPort, "/data"))
	body, err := json.Marshal(joinRequest{Directory: kafka.NewUUID(), Node: kafka.NoBroker})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []protocol.PeerKind{protocol.PeerJoin, protocol.PeerFounding, protocol.PeerCommand} {
		answer, err := peer.Ask(t.Context(), nil, first.clients(), &protocol.PeerRequest{Kind: kind, Body: body})
		if err == nil {
			t.Errorf("kind %d is answered with %q", kind, answer)
		}
	}
	if n := first.node.Image().Nodes; n.Used(2) {
		t.Error("a client was given a node id")
	}
	versions := first.dial().request(0, kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse)
	for _, k := range versions.ApiKeys {
		if k.ApiKey == protocol.PeerKey {
			t.Error("clients are told of the nodes' own key")
		}
	}
}

func TestVotersOfALonelyNodeHaveNoEffect(t *testing.T) {
	disk := vfs.NewMem()
	start(t, disk, load(t, anyPort, "/data")).mustStop()
	var text lockedBuffer
	settings := load(t, anyPort, "/data", "controller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2")
	b, err := Open(t.Context(), Options{Config: settings, FS: disk, Clock: clock.System(), Logger: slog.New(slog.NewTextHandler(&text, nil)), Metrics: metrics.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if got := text.String(); !strings.Contains(got, "controller.quorum.voters has no effect") || !strings.Contains(got, "--join") || !strings.Contains(got, "voters=127.0.0.1:2") {
		t.Errorf("it says\n%s", got)
	}
}
