package broker

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/broker/config"
	"weir/cluster"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
	"weir/internal/vfs"
)

// fakeGossip notes what it is told. Every call that changes what it was told before is an event.
type fakeGossip struct {
	taken  []uint16 // ports
	events chan string
	mu     struct {
		sync.Mutex
		hear            func(cluster.Gossiped)
		started, closed bool
		key, meet, hint string
	}
}

func newFakeGossip(taken ...uint16) *fakeGossip {
	return &fakeGossip{taken: taken, events: make(chan string, 100)}
}

func (f *fakeGossip) Start(self cluster.GossipSelf, key []byte, hear func(cluster.Gossiped)) (uint16, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events <- fmt.Sprintf("start %d %s:%d key %c", self.Member.Node, self.BindHost, self.BindPort, key[0])
	if slices.Contains(f.taken, self.BindPort) {
		return 0, &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	f.mu.started, f.mu.hear, f.mu.key = true, hear, string(key)
	if self.BindPort == 0 {
		self.BindPort = 7946
	}
	return self.BindPort, nil
}

func (f *fakeGossip) Meet(addresses []string) {
	f.told(&f.mu.meet, "meet "+strings.Join(addresses, " "))
}

func (f *fakeGossip) Hint(leader uint64, term int32) {
	f.told(&f.mu.hint, fmt.Sprint("hint ", leader, " ", term))
}

func (f *fakeGossip) told(last *string, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *last != what {
		*last = what
		f.events <- what
	}
}

func (f *fakeGossip) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed = true
	return nil
}

// gossipTest is a gossiper of node 1, whose Raft id is 101.
type gossipTest struct {
	*gossiper
	t      *testing.T
	fake   *fakeGossip
	clock  *clock.Manual
	disk   *vfs.Mem
	log    *bytes.Buffer
	failed chan error
	leader atomic.Uint64
}

func newGossipTest(t *testing.T, fake *fakeGossip, disk *vfs.Mem, port uint16) *gossipTest {
	g := &gossipTest{t: t, fake: fake, clock: clock.NewManual(time.Unix(0, 0)), disk: disk, log: new(bytes.Buffer), failed: make(chan error, 1)}
	g.leader.Store(102)
	if err := disk.MkdirAll("/data", 0o755); err != nil {
		t.Fatal(err)
	}
	g.gossiper = newGossiper(gossiperOptions{
		Gossip: fake, FS: disk, Dir: "/data", Port: port, Clock: g.clock, Logger: slog.New(slog.NewTextHandler(g.log, nil)),
		Self: func() (cluster.GossipSelf, bool) {
			return cluster.GossipSelf{Member: gossipMember(1, 0), BindHost: "127.0.0.1"}, true
		},
		Leader: func() (uint64, int32) { return g.leader.Load(), 3 },
		Hear:   func(cluster.Gossiped) {},
		Bound:  func() { fake.events <- fmt.Sprint("bound ", g.port.Load()) },
		Fail:   func(err error) { g.failed <- err },
	})
	t.Cleanup(g.close)
	return g
}

func gossipMember(node kafka.BrokerID, port uint16) metadata.QuorumMember {
	return metadata.QuorumMember{Node: node, RaftID: 100 + uint64(node), Host: fmt.Sprint("h", node), Port: 9000, GossipPort: port}
}

func keyOf(letter byte) metadata.GossipKey {
	return bytes.Repeat([]byte{letter}, metadata.GossipKeySize)
}

func (g *gossipTest) expect(events ...string) {
	g.t.Helper()
	for _, want := range events {
		select {
		case got := <-g.fake.events:
			if got != want {
				g.t.Fatalf("it was told %q, want %q", got, want)
			}
		case <-time.After(time.Minute):
			g.t.Fatalf("it is not told %q; the log:\n%s", want, g.log)
		}
	}
}

func TestANodeThatIsAloneDoesNotGossip(t *testing.T) {
	g := newGossipTest(t, newFakeGossip(), vfs.NewMem(), 0)
	g.setMembers([]metadata.QuorumMember{gossipMember(1, 0)})
	g.begin()
	g.setKey(keyOf('k'))
	g.setKey(nil)
	if g.mu.running || len(g.fake.events) > 0 {
		t.Error("it gossips")
	}
	if g.keptKey() != nil {
		t.Error("it keeps a key for nobody")
	}
}

func TestANodeGossipsWhenThereAreOthers(t *testing.T) {
	disk := vfs.NewMem()
	g := newGossipTest(t, newFakeGossip(), disk, 0)
	g.begin()
	g.setKey(keyOf('k'))
	g.setMembers([]metadata.QuorumMember{gossipMember(1, 0), gossipMember(2, 22), gossipMember(3, 0)})
	g.expect("start 1 127.0.0.1:0 key k", "bound 7946", "meet h2:22", "hint 102 3")
	g.setMembers([]metadata.QuorumMember{gossipMember(1, 7946), gossipMember(2, 22), gossipMember(3, 33)})
	g.expect("meet h2:22 h3:33")
	if info, err := disk.Stat("/data/gossip.key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is kept with %v, %v", info, err)
	}
	g.close()
	if !g.fake.mu.closed {
		t.Error("it is not closed")
	}

	// The next process knows the key before its cluster tells it.
	next := newGossipTest(t, newFakeGossip(), disk, 0)
	next.setMembers([]metadata.QuorumMember{gossipMember(1, 7000), gossipMember(2, 22)})
	next.begin()
	next.expect("start 1 127.0.0.1:0 key k", "bound 7946", "meet h2:22", "hint 102 3")
	next.setKey(keyOf('l'))
	next.close()
	if !bytes.Equal(next.keptKey(), keyOf('l')) || !strings.Contains(next.log.String(), "key that is not its cluster's") {
		t.Errorf("another key is kept as %q; the log:\n%s", []byte(next.keptKey()), next.log)
	}
}

func TestAPortThatGossipCannotHave(t *testing.T) {
	members := []metadata.QuorumMember{gossipMember(1, 0), gossipMember(2, 22)}
	t.Run("is that of the settings", func(t *testing.T) {
		g := newGossipTest(t, newFakeGossip(7100), vfs.NewMem(), 7100)
		g.setMembers(members)
		g.setKey(keyOf('k'))
		g.begin()
		if err := <-g.failed; !strings.Contains(err.Error(), "weir.gossip.port=7100") {
			t.Error(err)
		}
	})
	t.Run("is none at all", func(t *testing.T) {
		g := newGossipTest(t, newFakeGossip(0), vfs.NewMem(), 0)
		g.setMembers(members)
		g.setKey(keyOf('k'))
		g.begin()
		g.close()
		if len(g.failed) > 0 || !strings.Contains(g.log.String(), "cannot gossip") {
			t.Errorf("the log: %s", g.log)
		}
	})
}

// As with the port of a listener, that is known before anything is touched, on a node that is alone as well.
func TestAGossipPortInUseEndsTheStart(t *testing.T) {
	for _, network := range []string{"tcp", "udp"} {
		t.Run(network, func(t *testing.T) {
			var taken net.Addr
			if network == "tcp" {
				l, err := net.Listen("tcp", anyPort)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				taken = l.Addr()
			} else {
				l, err := net.ListenPacket("udp", anyPort)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				taken = l.LocalAddr()
			}
			_, port, err := net.SplitHostPort(taken.String())
			if err != nil {
				t.Fatal(err)
			}
			for _, settings := range []*config.Server{
				load(t, anyPort, "/data", "weir.gossip.port="+port), // its listener for others is opened late
				loadJoin(t, "127.0.0.1:1", "weir.gossip.port="+port),
			} {
				disk := vfs.NewMem()
				b, err := Open(t.Context(), Options{Config: settings, FS: disk, Clock: clock.System(), Logger: slog.New(slog.DiscardHandler), Metrics: metrics.NewRegistry(),
					Gossip: newFakeGossip()})
				if err == nil {
					_ = b.Close()
				}
				var bind *BindError
				if !errors.As(err, &bind) || !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "weir.gossip.port="+port) {
					t.Errorf("the start ends with %v", err)
				}
				if entries, err := disk.ReadDir("/"); err != nil || len(entries) != 0 {
					t.Errorf("the disk has %v, %v", entries, err)
				}
			}
		})
	}
}

func TestAKeyThatCannotBeReadIsWrittenAgain(t *testing.T) {
	disk := vfs.NewMem()
	g := newGossipTest(t, newFakeGossip(), disk, 0)
	if err := vfs.WriteFileAtomic(disk, "/data/gossip.key", []byte("c2hvcnQ=\n"), 0o600, true); err != nil {
		t.Fatal(err)
	}
	g.begin()
	g.setMembers([]metadata.QuorumMember{gossipMember(1, 0), gossipMember(2, 22)})
	g.setKey(keyOf('k'))
	g.expect("start 1 127.0.0.1:0 key k", "bound 7946", "meet h2:22")
	g.close()
	if !bytes.Equal(g.keptKey(), keyOf('k')) {
		t.Error("it is not written")
	}
}

func TestANewLeaderIsHinted(t *testing.T) {
	g := newGossipTest(t, newFakeGossip(), vfs.NewMem(), 0)
	g.leader.Store(0)
	g.setMembers([]metadata.QuorumMember{gossipMember(1, 0), gossipMember(2, 0)})
	g.setKey(keyOf('k'))
	g.begin()
	g.expect("start 1 127.0.0.1:0 key k", "bound 7946", "meet ")
	g.leader.Store(101)
	g.setMembers([]metadata.QuorumMember{gossipMember(1, 7946), gossipMember(2, 0)}) // the loop looks
	g.expect("hint 101 3")
}

// All members of a cluster gossip with its key, and know from each other where.
func TestMembersOfAClusterGossip(t *testing.T) {
	fakes := []*fakeGossip{newFakeGossip(), newFakeGossip()}
	startWith := func(settings *config.Server, f *fakeGossip) *running {
		b, err := Open(t.Context(), Options{Config: settings, FS: vfs.NewMem(), Clock: clock.System(), Logger: slog.New(slog.DiscardHandler), Metrics: metrics.NewRegistry(), Gossip: f})
		if err != nil {
			t.Fatal(err)
		}
		return run(t, b)
	}
	first := startWith(load(t, anyPort, "/data"), fakes[0])
	if first.gossip.port.Load() != 0 {
		t.Error("a node that is alone gossips")
	}
	second := startWith(loadJoin(t, first.clients()), fakes[1])
	for _, r := range []*running{second, first} { // the one that votes stops last
		eventually(t, "both are known to gossip", func() bool {
			gossiping := 0
			for m := range r.node.Image().Quorum.All() {
				if m.GossipPort == 7946 && m.Host != "" {
					gossiping++
				}
			}
			return gossiping == 2
		})
		if !bytes.Equal(r.gossip.known().key, r.node.Image().GossipKey) {
			t.Error("the key is not the cluster's")
		}
		r.mustStop()
	}
	for i, f := range fakes {
		f.mu.Lock()
		if f.mu.key != string(first.node.Image().GossipKey) || f.mu.meet == "" || !f.mu.closed {
			t.Errorf("node %d: %+v", 1+i, f.mu.meet)
		}
		f.mu.Unlock()
	}
}
