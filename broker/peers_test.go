package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"weir/broker/handler"
	"weir/broker/peer"
	"weir/cluster"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/protocol"
)

// fakeNode is a node that remembers what it is told.
type fakeNode struct {
	received    chan []*raftpb.Message
	unreachable chan uint64
	snapshots   chan string // "raftID ok"
	decide      func(cmd controller.Command, done func(cluster.Answer, error))
}

func (n *fakeNode) Receive(messages []*raftpb.Message)  { n.received <- messages }
func (n *fakeNode) Unreachable(raftID uint64)           { n.unreachable <- raftID }
func (n *fakeNode) SnapshotSent(raftID uint64, ok bool) { n.snapshots <- fmt.Sprint(raftID, " ", ok) }
func (n *fakeNode) Decide(cmd controller.Command, done func(cluster.Answer, error)) {
	n.decide(cmd, done)
}

// testPeer is peers with a server, and a node behind it.
type testPeer struct {
	*peers
	t       testing.TB
	node    *fakeNode
	edge    *Server
	raftID  uint64
	port    uint16 // for peers
	clients string // address for clients
	log     *lockedBuffer
}

// startPeer starts one whose options may be changed by change.
func startPeer(t testing.TB, raftID uint64, clusterID string, change func(*peersOptions)) *testPeer {
	t.Helper()
	p := &testPeer{t: t, raftID: raftID, log: &lockedBuffer{}, node: &fakeNode{
		received: make(chan []*raftpb.Message, 10_000), unreachable: make(chan uint64, 10_000), snapshots: make(chan string, 100),
		decide: func(_ controller.Command, done func(cluster.Answer, error)) {
			done(cluster.Answer{}, kafka.Errorf(kafka.NotController, "This is not the correct controller for this cluster."))
		},
	}}
	logger := slog.New(slog.NewTextHandler(p.log, nil))
	o := peersOptions{
		Node: p.node, RaftID: func() uint64 { return raftID }, ClusterID: func() string { return clusterID }, Logger: logger,
		Discover: func(done func(Discovery, error)) {
			done(Discovery{ClusterID: clusterID, Node: kafka.BrokerID(raftID), Host: "127.0.0.1", Port: p.port}, nil)
		},
	}
	if change != nil {
		change(&o)
	}
	p.peers = newPeers(o)
	p.connect("test")
	p.edge = NewServer(ServerOptions{Handle: func(r *handler.Request) handler.Reply { return p.Handle(r) }, Logger: logger})
	l, c := listenLoopback(t), listenLoopback(t)
	p.port, p.clients = uint16(l.Addr().(*net.TCPAddr).Port), c.Addr().String()
	go func() { _ = p.edge.ServePeers(l, "PEER") }()
	go func() { _ = p.edge.Serve(c, "PLAINTEXT") }()
	t.Cleanup(func() {
		p.peers.Close()
		p.stopServing()
	})
	return p
}

func listenLoopback(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (p *testPeer) stopServing() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.edge.Shutdown(ctx)
}

func (p *testPeer) member() metadata.QuorumMember {
	return metadata.QuorumMember{RaftID: p.raftID, Node: kafka.BrokerID(p.raftID), Host: "127.0.0.1", Port: p.port}
}

func introduce(all ...*testPeer) {
	var members []metadata.QuorumMember
	for _, p := range all {
		members = append(members, p.member())
	}
	for _, p := range all {
		p.SetMembers(members)
	}
}

func soon[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("it does not come")
		panic("unreachable")
	}
}

func raftMessage(from, to, index uint64, data string) *raftpb.Message {
	m := &raftpb.Message{Type: new(raftpb.MsgApp), From: new(from), To: new(to), Index: new(index)}
	if data != "" {
		m.Entries = []*raftpb.Entry{{Index: new(index), Data: []byte(data)}}
	}
	return m
}

// requestsTo is how many requests of PeerKey a server has answered.
func (p *testPeer) requests() (n int64) {
	for _, f := range p.edge.metrics.registry.Families() {
		for _, m := range f.Metrics {
			if f.Name == "weir_requests_total" {
				n += m.Counter.Value()
			}
		}
	}
	return n
}

func TestRaftMessagesArriveInOrder(t *testing.T) {
	a, b, c := startPeer(t, 1, "x", nil), startPeer(t, 2, "x", nil), startPeer(t, 3, "x", nil)
	introduce(a, b, c)
	const batches, each = 50, 4
	for i := range uint64(batches) {
		var messages []*raftpb.Message
		for j := range uint64(each) {
			messages = append(messages, raftMessage(1, 2, i*each+j, "to b"), raftMessage(1, 3, i*each+j, strings.Repeat("to c", 1000)))
		}
		a.Send(messages)
	}
	for _, to := range []*testPeer{b, c} {
		next := uint64(0)
		for next < batches*each {
			for _, m := range soon(t, to.node.received) {
				if m.GetTo() != to.raftID || m.GetIndex() != next || !strings.HasPrefix(string(m.GetEntries()[0].GetData()), "to ") {
					t.Fatalf("%v came, and index %d is next", m, next)
				}
				next++
			}
		}
		if n := to.requests(); n != batches {
			t.Errorf("%d requests for %d sends", n, batches)
		}
	}
	if len(a.node.unreachable) > 0 {
		t.Error("a member is called unreachable")
	}
}

func TestLargeRaftMessagesAreSplitBetweenRequests(t *testing.T) {
	a, b := startPeer(t, 1, "x", nil), startPeer(t, 2, "x", nil)
	introduce(a, b)
	large := strings.Repeat("x", softFrameBytes/2)
	a.Send([]*raftpb.Message{raftMessage(1, 2, 0, large), raftMessage(1, 2, 1, large), raftMessage(1, 2, 2, strings.Repeat("y", 2*softFrameBytes)), raftMessage(1, 2, 3, "z")})
	var got []int
	for next := uint64(0); next < 4; {
		messages := soon(t, b.node.received)
		got = append(got, len(messages))
		for _, m := range messages {
			if m.GetIndex() != next {
				t.Fatalf("index %d, want %d", m.GetIndex(), next)
			}
			next++
		}
	}
	if fmt.Sprint(got) != "[1 1 1 1]" {
		t.Errorf("messages by request: %v", got)
	}
	a.Send([]*raftpb.Message{raftMessage(1, 2, 4, strings.Repeat("x", maxMessageBytes))})
	if to := soon(t, a.node.unreachable); to != 2 || !strings.Contains(a.log.String(), "too large to be sent") {
		t.Errorf("a message that fits no request: unreachable %d\n%s", to, a.log)
	}
}

// A node that has another's address, such as one with a new disk, must not take its messages.
func TestRaftMessagesToOthersAreNotTaken(t *testing.T) {
	a, b := startPeer(t, 1, "x", nil), startPeer(t, 2, "x", nil)
	old := b.member()
	old.RaftID = 77
	a.SetMembers([]metadata.QuorumMember{b.member(), old})
	snapshot := raftMessage(1, 77, 1, "")
	snapshot.Type = new(raftpb.MsgSnap)
	a.Send([]*raftpb.Message{raftMessage(1, 77, 1, "old"), snapshot})
	if s := soon(t, a.node.snapshots); s != "77 true" {
		t.Fatal(s)
	}
	a.Send([]*raftpb.Message{raftMessage(1, 2, 2, "new")})
	for _, m := range soon(t, b.node.received) {
		if m.GetIndex() != 2 {
			t.Errorf("%v is taken", m)
		}
	}
}

func TestUnreachableMembersAreReported(t *testing.T) {
	a, b := startPeer(t, 1, "x", nil), startPeer(t, 2, "x", nil)
	a.Send([]*raftpb.Message{raftMessage(1, 2, 1, "")})
	if to := soon(t, a.node.unreachable); to != 2 {
		t.Fatalf("without an address: %d", to)
	}
	introduce(a, b)
	a.Send([]*raftpb.Message{raftMessage(1, 2, 2, "")})
	soon(t, b.node.received)
	eventually(t, "the answer comes", func() bool { return strings.Contains(a.log.String(), "is reached again") })
	b.stopServing()
	for range 3 {
		a.Send([]*raftpb.Message{raftMessage(1, 2, 3, "")})
		if to := soon(t, a.node.unreachable); to != 2 {
			t.Fatal(to)
		}
	}
	if n := strings.Count(a.log.String(), "cannot be reached"); n != 2 {
		t.Errorf("%d lines about two times that it could not be reached:\n%s", n, a.log)
	}
	a.SetMembers([]metadata.QuorumMember{a.member()})
	a.Send([]*raftpb.Message{raftMessage(1, 2, 4, ""), raftMessage(1, 1, 4, "")})
	for range 2 { // one that is no member any more, and itself
		soon(t, a.node.unreachable)
	}
}

func TestNodesOfOtherClustersAreRefused(t *testing.T) {
	a, b, none := startPeer(t, 1, "one", nil), startPeer(t, 2, "two", nil), startPeer(t, 3, "", nil)
	introduce(a, b, none)
	for _, c := range []struct {
		from, to *testPeer
		want     string
	}{
		{a, b, "This node belongs to cluster two, and the request comes from a node of cluster one."},
		{a, none, "This node belongs to no cluster yet, and the request comes from a node of cluster one."},
		{none, a, "This node belongs to cluster one, and the request comes from a node of no cluster."},
	} {
		c.from.Send([]*raftpb.Message{raftMessage(c.from.raftID, c.to.raftID, 1, "x")})
		soon(t, c.from.node.unreachable)
		if !strings.Contains(c.from.log.String(), c.want) {
			t.Errorf("%q is not in\n%s", c.want, c.from.log)
		}
		snapshot := raftMessage(c.from.raftID, c.to.raftID, 1, "x")
		snapshot.Type = new(raftpb.MsgSnap)
		c.from.Send([]*raftpb.Message{snapshot})
		if s := soon(t, c.from.node.snapshots); s != fmt.Sprint(c.to.raftID, " false") {
			t.Error(s)
		}
		answered := make(chan error, 1)
		c.from.Submit(c.to.member(), controller.FenceBrokers{}, func(_ cluster.Answer, err error) { answered <- err })
		code := kafka.InconsistentClusterID
		if c.to == none {
			code = kafka.NotController // it may be of that cluster in a moment
		}
		if err := soon(t, answered); kafka.CodeOf(err) != code || err.Error() != c.want {
			t.Error(err)
		}
		if len(c.to.node.received) > 0 {
			t.Error("a message of another cluster is taken")
		}
	}
}

func TestSnapshotsArriveWhole(t *testing.T) {
	a, b := startPeer(t, 1, "x", nil), startPeer(t, 2, "x", nil)
	introduce(a, b)
	data := bytes.Repeat([]byte("0123456789"), 350_000)
	snapshot := raftMessage(1, 2, 9, "")
	snapshot.Type, snapshot.Snapshot = new(raftpb.MsgSnap), &raftpb.Snapshot{Data: data}
	for range 2 {
		a.Send([]*raftpb.Message{raftMessage(1, 2, 8, "before"), snapshot})
		if s := soon(t, a.node.snapshots); s != "2 true" {
			t.Fatal(s)
		}
		for _, want := range []raftpb.MessageType{raftpb.MsgApp, raftpb.MsgSnap} {
			if got := soon(t, b.node.received); len(got) != 1 || got[0].GetType() != want || want == raftpb.MsgSnap && !bytes.Equal(got[0].GetSnapshot().GetData(), data) {
				t.Fatalf("%d messages, %v", len(got), got[0].GetType())
			}
		}
	}
}

func TestSnapshotsThatDoNotArriveAreReported(t *testing.T) {
	a, b := startPeer(t, 1, "x", nil), startPeer(t, 2, "x", nil)
	snapshot := raftMessage(1, 2, 9, "")
	snapshot.Type, snapshot.Snapshot = new(raftpb.MsgSnap), &raftpb.Snapshot{Data: make([]byte, 3*peer.ChunkBytes)}
	a.Send([]*raftpb.Message{snapshot})
	if s := soon(t, a.node.snapshots); s != "2 false" {
		t.Fatalf("without an address: %s", s)
	}
	introduce(a, b)
	b.stopServing()
	a.Send([]*raftpb.Message{snapshot})
	if s := soon(t, a.node.snapshots); s != "2 false" {
		t.Fatal(s)
	}
}

func TestCommandsAreDecidedElsewhere(t *testing.T) {
	decide := func(cmd controller.Command, done func(cluster.Answer, error)) {
		switch c := cmd.(type) {
		case controller.AllocateProducerIDs:
			go done(cluster.Answer{Reply: controller.AllocateProducerIDsReply{Start: int64(c.Epoch), Count: 1000}, Index: 7}, nil)
		case controller.BrokerHeartbeat:
			done(cluster.Answer{Reply: controller.BrokerHeartbeatReply{CaughtUp: c.WantFence}, Index: c.MetadataOffset}, nil)
		case controller.CreateTopics:
			reply := controller.CreateTopicsReply{}
			for _, topic := range c.Topics {
				reply.Topics = append(reply.Topics, controller.CreatedTopic{Name: topic.Name})
			}
			done(cluster.Answer{Reply: reply}, nil)
		default:
			done(cluster.Answer{}, kafka.Errorf(kafka.StaleBrokerEpoch, "It is %T.", cmd))
		}
	}
	a, b := startPeer(t, 1, "x", nil), startPeer(t, 2, "x", func(o *peersOptions) { o.Node.(*fakeNode).decide = decide })
	introduce(a, b)
	submit := func(cmd controller.Command) (cluster.Answer, error) {
		type answered struct {
			answer cluster.Answer
			err    error
		}
		c := make(chan answered, 1)
		a.Submit(b.member(), cmd, func(answer cluster.Answer, err error) { c <- answered{answer, err} })
		got := soon(t, c)
		return got.answer, got.err
	}
	var submitters sync.WaitGroup
	for i := range 8 {
		submitters.Go(func() {
			for j := range 50 {
				answer, err := submit(controller.AllocateProducerIDs{Epoch: kafka.BrokerEpoch(100*i + j)})
				if reply, ok := answer.Reply.(controller.AllocateProducerIDsReply); err != nil || !ok || reply.Start != int64(100*i+j) || answer.Index != 7 {
					t.Errorf("%+v, %v", answer, err)
				}
			}
		})
	}
	submitters.Wait()
	if answer, err := submit(controller.BrokerHeartbeat{WantFence: true, MetadataOffset: 99}); err != nil || answer.Index != 99 || !answer.Reply.(controller.BrokerHeartbeatReply).CaughtUp {
		t.Errorf("%+v, %v", answer, err)
	}
	if _, err := submit(controller.FenceBrokers{}); kafka.CodeOf(err) != kafka.StaleBrokerEpoch || err.Error() != "It is controller.FenceBrokers." {
		t.Error(err)
	}
	many := controller.CreateTopics{Topics: make([]controller.NewTopic, 5_000)}
	for i := range many.Topics {
		many.Topics[i].Name = fmt.Sprint("topic-", i)
	}
	if answer, err := submit(many); err != nil || len(answer.Reply.(controller.CreateTopicsReply).Topics) != len(many.Topics) {
		t.Errorf("%d topics: %v", len(many.Topics), err)
	}
	b.stopServing()
	var lost *peer.ConnectionError
	if _, err := submit(controller.FenceBrokers{}); !errors.As(err, &lost) {
		t.Error(err)
	}
	stranger := b.member()
	stranger.RaftID, stranger.Port = 5, 0
	if _, err := submitTo(a, stranger); !errors.Is(err, peer.ErrNoAddress) {
		t.Error(err)
	}
}

func submitTo(a *testPeer, to metadata.QuorumMember) (answer cluster.Answer, err error) {
	a.Submit(to, controller.FenceBrokers{}, func(got cluster.Answer, failed error) { answer, err = got, failed })
	return answer, err
}

func TestAnybodyMayDiscoverTheCluster(t *testing.T) {
	a := startPeer(t, 1, "x", nil)
	peers := net.JoinHostPort("127.0.0.1", fmt.Sprint(a.port))
	for _, address := range []string{a.clients, peers} {
		d, err := Discover(t.Context(), nil, address)
		if err != nil || d.ClusterID != "x" || d.Node != 1 || d.PeerAddress() != peers {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

func TestFoundingAndJoining(t *testing.T) {
	quiet := startPeer(t, 1, "x", nil)
	a := startPeer(t, 1, "x", func(o *peersOptions) {
		o.Founding = func(body []byte) ([]byte, error) { return append([]byte("hello "), body...), nil }
		o.Join = func(body []byte, done func([]byte, error)) {
			body = bytes.Clone(body) // it is the request's
			go func() {
				if string(body) == "me" {
					done([]byte("welcome"), nil)
				} else {
					done(nil, kafka.Errorf(kafka.DuplicateBrokerRegistration, "There is one already."))
				}
			}()
		}
	})
	other := "y"
	for _, c := range []struct {
		at   *testPeer
		ask  protocol.PeerRequest
		want string
		code kafka.Code
	}{
		{a, protocol.PeerRequest{Kind: protocol.PeerFounding, Body: []byte("b")}, "hello b", 0},
		{a, protocol.PeerRequest{Kind: protocol.PeerFounding, ClusterID: &other, Body: []byte("c")}, "hello c", 0},
		{a, protocol.PeerRequest{Kind: protocol.PeerJoin, Body: []byte("me")}, "welcome", 0},
		{a, protocol.PeerRequest{Kind: protocol.PeerJoin, Body: []byte("you")}, "", kafka.DuplicateBrokerRegistration},
		{a, protocol.PeerRequest{Kind: protocol.PeerJoin, ClusterID: &other, Body: []byte("me")}, "", kafka.InconsistentClusterID},
		{quiet, protocol.PeerRequest{Kind: protocol.PeerFounding}, "", kafka.InvalidRequest},
		{quiet, protocol.PeerRequest{Kind: protocol.PeerJoin}, "", kafka.InvalidRequest},
		{a, protocol.PeerRequest{Kind: 99, ClusterID: new("x")}, "", kafka.InvalidRequest},
	} {
		body, err := peer.Ask(t.Context(), nil, net.JoinHostPort("127.0.0.1", fmt.Sprint(c.at.port)), &c.ask)
		if string(body) != c.want || kafka.CodeOf(err) != c.code {
			t.Errorf("%+v: %q, %v", c.ask, body, err)
		}
	}
}

// What only peers may send ends a client's connection, and so does what no peer would send a peer's.
func TestHostilePeerRequests(t *testing.T) {
	a := startPeer(t, 1, "x", nil)
	id := "x"
	garbage, _ := proto.Marshal(raftMessage(2, 1, 1, "x"))
	for name, c := range map[string]struct {
		address string
		r       protocol.PeerRequest
		version int16
	}{
		"raft from a client":      {a.clients, protocol.PeerRequest{Kind: protocol.PeerRaft, ClusterID: &id}, 0},
		"a command from a client": {a.clients, protocol.PeerRequest{Kind: protocol.PeerCommand, ClusterID: &id, Body: []byte(`{"command":"FenceBrokers","arguments":{}}`)}, 0},
		"join from a client":      {a.clients, protocol.PeerRequest{Kind: protocol.PeerJoin}, 0},
		"a large discover":        {a.clients, protocol.PeerRequest{Kind: protocol.PeerDiscover, Body: make([]byte, 5000)}, 0},
		"another version":         {a.clients, protocol.PeerRequest{Kind: protocol.PeerDiscover}, 1},
		"no list of messages":     {"", protocol.PeerRequest{Kind: protocol.PeerRaft, ClusterID: &id, Body: []byte("\x20abc")}, 0},
		"no message":              {"", protocol.PeerRequest{Kind: protocol.PeerRaft, ClusterID: &id, Body: []byte("\x03\xff\xff\xff")}, 0},
		"half a message":          {"", protocol.PeerRequest{Kind: protocol.PeerRaft, ClusterID: &id, Body: append(peer.AppendMessageSize(nil, len(garbage)-1), garbage[:len(garbage)-1]...)}, 0},
		"half a piece":            {"", protocol.PeerRequest{Kind: protocol.PeerSnapshot, ClusterID: &id, Body: []byte("abc")}, 0},
		"no snapshot":             {"", protocol.PeerRequest{Kind: protocol.PeerSnapshot, ClusterID: &id, Body: (&peer.Chunk{Sender: 2, Size: 3, Data: []byte("\xff\xff\xff")}).AppendTo(nil)}, 0},
	} {
		if c.address == "" {
			c.address = net.JoinHostPort("127.0.0.1", fmt.Sprint(a.port))
		}
		nc, err := net.Dial("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		client := &client{nc, t}
		c.r.SetVersion(c.version)
		client.send(encodeRequest(&c.r, 1))
		client.expectClosed()
		_ = nc.Close()
		if t.Failed() {
			t.Fatal(name)
		}
	}
	if len(a.node.received) > 0 {
		t.Errorf("%v is taken", <-a.node.received)
	}
	// What is only unknown is answered.
	for _, r := range []protocol.PeerRequest{
		{Kind: protocol.PeerCommand, ClusterID: &id, Body: []byte(`{"command":"Nonsense"}`)},
		{Kind: protocol.PeerSnapshot, ClusterID: &id, Body: (&peer.Chunk{Sender: 2, Size: 9, Offset: 5, Data: []byte("x")}).AppendTo(nil)},
	} {
		if _, err := peer.Ask(t.Context(), nil, net.JoinHostPort("127.0.0.1", fmt.Sprint(a.port)), &r); kafka.CodeOf(err) != kafka.InvalidRequest {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// BenchmarkRaftRoundTrip sends a message to another node, which sends one back.
func BenchmarkRaftRoundTrip(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		b.Run(fmt.Sprint(size, "bytes"), func(b *testing.B) {
			one, other := startPeer(b, 1, "x", nil), startPeer(b, 2, "x", nil)
			introduce(one, other)
			there := []*raftpb.Message{raftMessage(1, 2, 1, strings.Repeat("x", size))}
			back := []*raftpb.Message{raftMessage(2, 1, 1, "")}
			go func() {
				for range other.node.received {
					other.Send(back)
				}
			}()
			defer close(other.node.received)
			b.ReportAllocs()
			for b.Loop() {
				one.Send(there)
				<-one.node.received
			}
		})
	}
}

func TestLogsNameNodes(t *testing.T) {
	p := newPeers(peersOptions{RaftID: func() uint64 { return 1 }})
	p.connect("test")
	defer p.Close()
	p.SetMembers([]metadata.QuorumMember{{RaftID: 0xABC, Node: 7}})
	for id, want := range map[uint64]string{0xABC: "node 7 raft_id 0x0000000000000abc", 1 << 63: "raft_id 0x8000000000000000"} {
		if got := strings.TrimSpace(fmt.Sprintln(p.named(id)...)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
