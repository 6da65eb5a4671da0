package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
)

// limit is how long anything may take on a machine that is busy.
const limit = 30 * time.Second

var clusterKey = bytes.Repeat([]byte{7}, 32)

// node is one process that gossips, and what it has heard.
type node struct {
	*Gossip
	t      *testing.T
	port   uint16
	news   chan News
	known  map[kafka.BrokerID]News // what was heard last
	logged *logged
}

// logged is a log that tests look into.
type logged struct {
	sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(b)
}

func (l *logged) text() string {
	l.Lock()
	defer l.Unlock()
	return l.String()
}

// network is a node's, which may be cut off, so that neither it nor any other reaches anybody across the cut.
type network struct {
	memberlist.NodeAwareTransport
	address string
}

var cutOff sync.Map // addresses

func (n *network) isCut(to memberlist.Address) bool {
	_, here := cutOff.Load(n.address)
	_, there := cutOff.Load(to.Addr)
	return here || there
}

func (n *network) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	if n.isCut(to) {
		return time.Now(), nil // a lost packet is no error
	}
	return n.NodeAwareTransport.WriteToAddress(b, to)
}

func (n *network) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if n.isCut(to) {
		return nil, errors.New("the network is cut")
	}
	return n.NodeAwareTransport.DialAddressTimeout(to, timeout)
}

func (n *node) cut()  { cutOff.Store(n.address(), true) }
func (n *node) heal() { cutOff.Delete(n.address()) }

// quick is the same as in production, but in a tenth of the time.
func quick(c *memberlist.Config) {
	c.GossipInterval, c.ProbeInterval, c.ProbeTimeout = 20*time.Millisecond, 50*time.Millisecond, 25*time.Millisecond
	c.GossipToTheDeadTime, c.TCPTimeout = time.Second, time.Second
}

func newNode(t *testing.T) *node {
	n := &node{t: t, news: make(chan News, 1024), known: make(map[kafka.BrokerID]News), logged: new(logged)}
	n.Gossip = New(Options{Clock: clock.System(), Logger: slog.New(slog.NewTextHandler(n.logged, &slog.HandlerOptions{Level: slog.LevelDebug})), Metrics: metrics.NewRegistry(),
		seekInterval: 100 * time.Millisecond,
		configure: func(c *memberlist.Config) {
			quick(c)
			_, port, _ := c.Transport.FinalAdvertiseAddr("", 0)
			c.Transport = &network{c.Transport.(memberlist.NodeAwareTransport), net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
		}})
	t.Cleanup(func() {
		n.heal() // the port is somebody else's after that
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// selfOf is node id's incarnation of a cluster.
func selfOf(id kafka.BrokerID, incarnation byte) Self {
	m := metaOf(id, incarnation)
	return Self{ClusterID: m.ClusterID, Member: m.Member, Incarnation: m.Incarnation, BindHost: "127.0.0.1"}
}

func (n *node) start(self Self, key []byte) *node {
	n.t.Helper()
	port, err := n.Start(self, key, func(h News) { n.news <- h })
	if err != nil {
		n.t.Fatal(err)
	}
	n.port = port
	return n
}

func startNode(t *testing.T, id kafka.BrokerID, incarnation byte) *node {
	t.Helper()
	return newNode(t).start(selfOf(id, incarnation), clusterKey)
}

func (n *node) meet(others ...*node) {
	var addresses []string
	for _, o := range others {
		addresses = append(addresses, o.address())
	}
	n.Meet(addresses)
}

func (n *node) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(n.port))) }

// await waits until what was heard last of a node is as it should be.
func (n *node) await(id kafka.BrokerID, what string, is func(News) bool) News {
	n.t.Helper()
	for timeout := time.After(limit); ; {
		if h, ok := n.known[id]; ok && is(h) {
			return h
		}
		select {
		case h := <-n.news:
			n.known[h.Member.Node] = h
		case <-timeout:
			n.t.Fatalf("node %d is not %s but %+v; the log:\n%s", id, what, n.known[id], n.logged.text())
		}
	}
}

func (n *node) awaitAlive(id kafka.BrokerID, incarnation byte) News {
	n.t.Helper()
	return n.await(id, "alive", func(h News) bool { return h.Incarnation[0] == incarnation && !h.Gone })
}

func (n *node) awaitGone(id kafka.BrokerID, incarnation byte) {
	n.t.Helper()
	n.await(id, "gone", func(h News) bool { return h.Incarnation[0] == incarnation && h.Gone })
}

// awaitThat waits for what is not told.
func (n *node) awaitThat(what string, is func() bool) {
	n.t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("not so: %s; the log:\n%s", what, n.logged.text())
		}
	}
}

func TestNodesHearOfEachOtherAndOfWhoLeaves(t *testing.T) {
	t.Parallel()
	a, b, c := startNode(t, 1, 1), startNode(t, 2, 2), startNode(t, 3, 3)
	a.Hint(103, 9)
	b.meet(a)
	c.meet(a)
	for _, n := range []*node{a, b} {
		h := n.awaitAlive(3, 3)
		want := metaOf(3, 3).Member
		want.GossipPort = c.port
		if h.Member != want {
			t.Errorf("heard %+v, want %+v", h.Member, want)
		}
	}
	b.await(1, "telling who leads", func(h News) bool { return h.Leader == 103 && h.Term == 9 })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	a.awaitGone(3, 3)
	b.awaitGone(3, 3)
	a.awaitThat("two members are counted", func() bool { return a.members.Value() == 2 })
}

func TestANodeThatSaysNothingAnyMoreIsGoneUntilItIsHeardAgain(t *testing.T) {
	t.Parallel()
	a, b, c := startNode(t, 1, 1), startNode(t, 2, 2), startNode(t, 3, 3)
	for _, n := range []*node{a, b, c} {
		n.meet(a, b, c)
	}
	a.awaitAlive(3, 3)
	b.awaitAlive(3, 3)
	c.awaitAlive(1, 1)
	c.awaitAlive(2, 2)
	c.cut()
	a.awaitGone(3, 3)
	b.awaitGone(3, 3)
	c.awaitGone(1, 1)
	c.awaitGone(2, 2)
	// The halves know nobody of the other by now, or soon; those that they were told to meet are enough.
	c.heal()
	a.awaitAlive(3, 3)
	b.awaitAlive(3, 3)
	c.awaitAlive(1, 1)
	c.awaitAlive(2, 2)
}

func TestANodeThatIsStartedAgainElsewhereIsHeardAtOnce(t *testing.T) {
	t.Parallel()
	a, b := startNode(t, 1, 1), startNode(t, 2, 2)
	b.meet(a)
	a.awaitAlive(2, 2)
	b.cut() // it is killed, and nobody knows yet
	again := startNode(t, 2, 3)
	again.meet(a)
	if h := a.awaitAlive(2, 3); h.Member.GossipPort != again.port {
		t.Errorf("it is at %d, heard %d", again.port, h.Member.GossipPort)
	}
	again.awaitAlive(1, 1)
	a.awaitThat("the process before is gone", func() bool { return a.members.Value() == 2 })
	a.awaitAlive(2, 3)
	if a.conflicts.Value() != 0 {
		t.Error("it is a conflict")
	}
}

func TestOutsidersAreRefused(t *testing.T) {
	t.Parallel()
	a, b := startNode(t, 1, 1), startNode(t, 2, 2)
	for what, outsider := range map[string]*node{
		"another key": newNode(t).start(selfOf(3, 3), bytes.Repeat([]byte{8}, 32)),
		"another cluster": func() *node {
			self := selfOf(4, 4)
			self.ClusterID = "another"
			return newNode(t).start(self, clusterKey)
		}(),
	} {
		before := a.refused.Value()
		outsider.meet(a)
		a.awaitThat(what+" is refused", func() bool { return a.refused.Value() > before })
	}
	b.meet(a)
	a.awaitAlive(2, 2)
	if len(a.known) != 1 {
		t.Errorf("heard %+v", a.known)
	}
	if log := a.logged.text(); strings.Count(log, "level=WARN msg=\"gossip from without the cluster is refused") != 1 || !strings.Contains(log, "127.0.0.1:") {
		t.Errorf("one warning with a source is enough; the log:\n%s", log)
	}
}

// Who has the key can tell of nodes that there are not; that costs a bounded room.
func TestNodesThatDoNotExistAreBounded(t *testing.T) {
	t.Parallel()
	a := startNode(t, 1, 1)
	config := a.config("9.09000000", "cluster", clusterKey)
	d := delegate{a.Gossip}
	for i := range 4 * maxProcesses {
		m := metaOf(kafka.BrokerID(2+i), 5)
		n := &memberlist.Node{Name: m.name(), Meta: encoded(t, m), Addr: net.IPv4(127, 0, 0, 1), Port: 1}
		if config.Alive.NotifyAlive(n) == nil {
			d.NotifyJoin(n)
		}
	}
	a.mu.Lock()
	known, waiting := len(a.mu.roster.processes), len(a.mu.news)
	a.mu.Unlock()
	if known != maxProcesses || waiting > maxProcesses {
		t.Errorf("%d nodes are known, %d news wait", known, waiting)
	}
	var many []*memberlist.Node
	for range 2*maxProcesses + 1 {
		many = append(many, new(memberlist.Node))
	}
	stranger := metaOf(2, 1)
	stranger.ClusterID = "another"
	for _, view := range [][]*memberlist.Node{many, {{Meta: encoded(t, stranger)}}} {
		if config.Merge.NotifyMerge(view) == nil {
			t.Errorf("a view of %d nodes is taken", len(view))
		}
	}
	if err := config.Merge.NotifyMerge([]*memberlist.Node{{Meta: []byte("strange")}}); err != nil {
		t.Errorf("one strange node keeps others away: %v", err)
	}
}

func TestConnectionsOfOthersAreBounded(t *testing.T) {
	t.Parallel()
	a, b := startNode(t, 1, 1), startNode(t, 2, 2)
	for range maxStreams + 8 {
		c, err := net.Dial("tcp", a.address())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	a.awaitThat("a connection too many is refused", func() bool { return a.refused.Value() > 0 })
	b.meet(a)
	a.awaitAlive(2, 2) // when those that say nothing were closed
}

func TestGarbageHurtsNobody(t *testing.T) {
	t.Parallel()
	a, b := startNode(t, 1, 1), startNode(t, 2, 2)
	random := rand.NewChaCha8([32]byte{1})
	label := append([]byte{244, byte(len("cluster"))}, "cluster"...)
	for _, network := range []string{"udp", "tcp"} {
		for i := range 200 {
			garbage := make([]byte, i*i/8)
			_, _ = random.Read(garbage)
			switch i % 4 {
			case 1:
				garbage = append(bytes.Clone(label), garbage...)
			case 2:
				garbage = append(bytes.Clone(label), append([]byte{10, 0, 0, byte(i), byte(i)}, garbage...)...) // said to be encrypted
			case 3:
				garbage = append(label[:2:2], garbage...)
			}
			c, err := net.Dial(network, a.address())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Write(garbage)
			_ = c.Close()
		}
	}
	b.meet(a)
	a.awaitAlive(2, 2)
	if a.refused.Value() == 0 || len(a.known) != 1 {
		t.Errorf("%d are refused, heard %+v", a.refused.Value(), a.known)
	}
}

func TestAPortThatIsTakenIsAnError(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"tcp", "udp"} {
		var port int
		var taken io.Closer
		if protocol == "tcp" {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			taken, port = l, l.Addr().(*net.TCPAddr).Port
		} else {
			l, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			taken, port = l, l.LocalAddr().(*net.UDPAddr).Port
		}
		n := newNode(t)
		self := selfOf(1, 1)
		self.BindPort = uint16(port)
		if _, err := n.Start(self, clusterKey, nil); err == nil || !strings.Contains(err.Error(), protocol) {
			t.Errorf("%s: %v", protocol, err)
		}
		_ = taken.Close()
		self.BindPort = 0
		if _, err := n.Start(self, clusterKey, func(News) {}); err != nil {
			t.Errorf("nothing runs, and it is not started elsewhere: %v", err)
		}
	}
	if _, err := newNode(t).Start(selfOf(1, 1), []byte("short"), nil); err == nil {
		t.Error("a short key is taken")
	}
}

// Close ends what waits for somebody who does not answer.
func TestCloseDoesNotWaitForOthers(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = deaf.Close() }()
	n := newNode(t)
	n.o.configure = func(c *memberlist.Config) { c.TCPTimeout = limit }
	n.start(selfOf(1, 1), clusterKey)
	n.Meet([]string{deaf.Addr().String(), "127.0.0.1", "no such host:1"})
	c, err := deaf.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	began := time.Now()
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > limit/2 {
		t.Errorf("it took %v", took)
	}
	n.Hint(1, 1)
	n.Meet(nil)
	if _, err := n.Start(selfOf(1, 1), clusterKey, nil); err == nil {
		t.Error("it starts again")
	}
}

// TestMain sees to it that nothing is left running by any test.
func TestMain(m *testing.M) {
	code := m.Run()
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		left := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(left, "memberlist.") && !strings.Contains(left, "gossip.(*") {
			break
		}
		if time.Now().After(end) {
			fmt.Println("left running:\n" + left)
			code = 1
			break
		}
	}
	os.Exit(code)
}
