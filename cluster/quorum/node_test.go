package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/cryptotest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

func contents(img *metadata.Image) []any {
	out := []any{img.Index, img.Term}
	for r := range img.Records() {
		out = append(out, r)
	}
	return out
}

func TestAloneLeadsAtOnceAndRemembers(t *testing.T) {
	fsys := newDisk()
	n := alone(t, options(fsys))
	if n.Ticking() {
		t.Error("a node that is alone asks for ticks")
	}
	if img := n.Image(); img.Index != 0 || img.ClusterID != "c1" || img.Quorum.Len() != 1 {
		t.Fatalf("first image: %v", contents(img))
	}
	for i := range 10 {
		a := propose(t, n, newTopic(i)...)
		if a.Index != int64(i)+2 || a.Image != n.Image() || len(a.Delta.TopicsCreated) != 1 { // 0 is the format, 1 the term's first entry
			t.Fatalf("%+v", a)
		}
	}
	want := contents(n.Image())
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for restart := range 3 {
		n = alone(t, options(fsys))
		if got := contents(n.Image()); !reflect.DeepEqual(got, want) {
			t.Fatalf("restart %d: %v, want %v", restart, got, want)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStaleProposalIsSkipped(t *testing.T) {
	n := alone(t, options(newDisk()))
	stale := metadata.AppendEntry(nil, n.Image().Index, []metadata.Record{producerIDs(5)})
	propose(t, n, producerIDs(1000))
	out := step(t, n, Propose{stale})
	if len(out.Applied) != 1 || out.Applied[0].Delta != nil || n.Image().NextProducerID != 1000 {
		t.Fatalf("%+v", out)
	}
}

func TestSnapshotTakesThePlaceOfTheLog(t *testing.T) {
	fsys := newDisk()
	o := options(fsys)
	o.SnapshotBytes, o.SegmentBytes, o.KeepEntries = 2000, 1000, 5
	n := alone(t, o)
	for i := range 200 {
		propose(t, n, newTopic(i)...)
	}
	start, end := n.storage.log.StartOffset(), n.storage.log.EndOffset()
	if n.storage.snap.index == 0 || start != int64(n.storage.snap.index)-5 || end != 202 {
		t.Fatalf("log [%d, %d), snapshot at %d", start, end, n.storage.snap.index)
	}
	var segments, snapshots []string
	for name := range files(t, fsys, logDir) {
		if _, _, ok := parseSnapshotName(name); ok {
			snapshots = append(snapshots, name)
		} else if name[len(name)-4:] == ".log" {
			segments = append(segments, name)
		}
	}
	if len(snapshots) != 1 || len(segments) > 6 {
		t.Fatalf("%v %v", snapshots, segments)
	}
	want := contents(n.Image())
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = alone(t, o)
	if got := contents(n.Image()); !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// cluster opens members 1 to voters as founders.
func cluster(t testing.TB, voters int, change func(*Options)) (*net, func(id uint64) Options) {
	w := &net{t: t, nodes: map[uint64]*Node{}, cut: map[uint64]bool{}}
	var founders []metadata.QuorumMember
	for id := range voters {
		founders = append(founders, member(uint64(id+1)))
	}
	disks := map[uint64]*vfs.Mem{}
	opts := func(id uint64) Options {
		if disks[id] == nil {
			disks[id] = newDisk()
		}
		o := options(disks[id])
		o.Self, o.Founders, o.Transport, o.Rand = member(id), founders, w, rand.New(rand.NewPCG(id, 1))
		if change != nil {
			change(&o)
		}
		return o
	}
	for _, m := range founders {
		n, err := Open(opts(m.RaftID), epoch)
		if err != nil {
			t.Fatal(err)
		}
		w.nodes[m.RaftID] = n
	}
	return w, opts
}

func member(id uint64) metadata.QuorumMember {
	return metadata.QuorumMember{RaftID: id, Node: kafka.BrokerID(id), Directory: kafka.UUID{0: byte(id)}}
}

func (w *net) propose(records ...metadata.Record) bool {
	w.t.Helper()
	n := w.leader()
	if n == nil {
		return false
	}
	out := step(w.t, n, Propose{metadata.AppendEntry(nil, n.Image().Index, records)})
	w.run()
	return !out.Dropped
}

// agree checks that every node that is not cut off has the same image, with these producer ids.
func (w *net) agree(next int64) {
	w.t.Helper()
	w.tick(5)
	want := contents(w.leader().Image())
	for id, n := range w.nodes {
		if w.cut[id] {
			continue
		}
		if got := contents(n.Image()); !reflect.DeepEqual(got, want) || n.Image().NextProducerID != next {
			w.t.Fatalf("node %d: %v, want %v with producer ids from %d", id, got, want, next)
		}
	}
}

func TestThreeVoters(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1) // Raft draws its election timeouts from crypto/rand
	w, opts := cluster(t, 3, nil)
	w.tick(30)
	first := w.leader()
	if first == nil || !first.Ticking() {
		t.Fatal("nobody leads")
	}
	w.propose(producerIDs(1000))
	w.agree(1000)
	end := int64(first.storage.last()) + 1
	want := &Status{Leadership: Leadership{Term: first.lead.Term, Leader: first.RaftID(), Ready: true}, HighWatermark: end}
	for id := range uint64(3) {
		want.Voters = append(want.Voters, Replica{id + 1, end, epoch, epoch, epoch})
	}
	want.Voters[first.RaftID()-1] = Replica{RaftID: first.RaftID(), LogEndOffset: end}
	if got := first.Status(); !reflect.DeepEqual(got, want) {
		t.Fatalf("the leader's status is %+v, want %+v", got, want)
	}
	follower := w.nodes[first.RaftID()%3+1]
	want.Ready = false
	for i, r := range want.Voters {
		want.Voters[i] = Replica{RaftID: r.RaftID, LogEndOffset: -1}
		if r.RaftID == follower.RaftID() {
			want.Voters[i].LogEndOffset = end
		}
	}
	if got := follower.Status(); !reflect.DeepEqual(got, want) {
		t.Fatalf("a follower's status is %+v, want %+v", got, want)
	}

	// The leader is cut off with a proposal that nobody else gets: it steps down, the others go on without it.
	w.cut[first.RaftID()] = true
	out := step(t, first, Propose{metadata.AppendEntry(nil, first.Image().Index, []metadata.Record{producerIDs(9999)})})
	if out.Dropped || len(out.Applied) > 0 {
		t.Fatalf("%+v", out)
	}
	w.run()
	w.tick(40)
	if first.Leadership().Ready {
		t.Fatal("a leader that hears from nobody goes on leading")
	}
	w.propose(producerIDs(2000))
	w.agree(2000)

	// It comes back, and its own proposal gives way to what was decided.
	w.cut[first.RaftID()] = false
	w.agree(2000)
	if first.Image().NextProducerID != 2000 {
		t.Fatal(first.Image().NextProducerID)
	}

	// It restarts and has it still.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(opts(first.RaftID()), epoch)
	if err != nil {
		t.Fatal(err)
	}
	w.nodes[first.RaftID()] = again
	w.propose(producerIDs(3000))
	w.agree(3000)
}

// A voter that was away for longer than the log reaches back is given a snapshot.
func TestSnapshotForAFollower(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 2)
	w, opts := cluster(t, 3, func(o *Options) { o.SnapshotBytes, o.SegmentBytes, o.KeepEntries = 500, 500, 2 })
	w.tick(30)
	away := uint64(1)
	if w.leader().RaftID() == 1 {
		away = 2
	}
	w.cut[away] = true
	for i := range 50 {
		if !w.propose(newTopic(i)...) {
			t.Fatal("dropped")
		}
	}
	w.propose(producerIDs(1000))
	w.cut[away] = false
	w.agree(1000)
	n := w.nodes[away]
	if n.storage.snap.index < 10 {
		t.Fatalf("snapshot at %d: it got the log", n.storage.snap.index)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := Open(opts(away), epoch)
	if err != nil {
		t.Fatal(err)
	}
	w.nodes[away] = n
	w.propose(producerIDs(2000))
	w.agree(2000)
}

// A leader that does not know yet what was decided before it must not decide, and proposes nothing.
func TestLeaderIsReadyWithItsFirstEntry(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	w, _ := cluster(t, 3, nil)
	w.lose = func(m *raftpb.Message) bool { return m.GetType() == raftpb.MsgAppResp }
	var leader *Node
	for range 30 {
		w.tick(1)
		for _, n := range w.sorted() {
			if n.Leadership().Leader == n.RaftID() {
				leader = n
			}
		}
	}
	if leader == nil || leader.Leadership().Ready {
		t.Fatalf("%+v", leader)
	}
	for _, e := range []Event{Propose{metadata.AppendEntry(nil, 0, []metadata.Record{producerIDs(1)})}, ChangeMembers{Learn: []uint64{4}}} {
		if out := step(t, leader, e); !out.Dropped {
			t.Errorf("%T is taken", e)
		}
	}
	w.lose = nil
	w.tick(2)
	if !leader.Leadership().Ready {
		t.Fatalf("%+v", leader.Leadership())
	}
	w.proposeAll(1000)
}

// The same events give the same run, messages and all.
func TestSameSeedSameRun(t *testing.T) {
	run := func() string {
		cryptotest.SetGlobalRandom(t, 4)
		w, _ := cluster(t, 3, nil)
		var trace []string
		for i := range 60 {
			w.tick(1)
			if i%7 == 3 {
				w.propose(producerIDs(int64(i)))
			}
			if i == 30 && w.leader() != nil {
				w.cut[w.leader().RaftID()] = true
			}
			for id := uint64(1); id <= 3; id++ {
				n := w.nodes[id]
				trace = append(trace, fmt.Sprintf("%d:%d/%d/%d", id, n.lead.Term, n.lead.Leader, n.applied))
			}
		}
		return fmt.Sprint(trace)
	}
	if a, b := run(), run(); a != b {
		t.Fatalf("two runs:\n%s\n%s", a, b)
	}
}

// A longer election timeout makes longer ticks, and with them rarer heartbeats.
func TestElectionTimeoutIsTenTicks(t *testing.T) {
	o := options(newDisk())
	if n := alone(t, o); n.TickInterval() != TickInterval {
		t.Errorf("by default a tick takes %s", n.TickInterval())
	}
	o.FS, o.ElectionTimeout = newDisk(), 5*time.Second
	if n := alone(t, o); n.TickInterval() != 500*time.Millisecond {
		t.Errorf("a tick takes %s", n.TickInterval())
	}
}

func TestFailedDiskIsFinal(t *testing.T) {
	n := alone(t, options(newDisk()))
	if err := n.storage.log.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := n.Step(epoch, Propose{metadata.AppendEntry(nil, n.Image().Index, []metadata.Record{producerIDs(1)})})
	if err == nil {
		t.Fatal("a proposal went through without a log")
	}
	if _, again := n.Step(epoch, Tick{}); !errors.Is(again, err) {
		t.Fatalf("%v, then %v", err, again)
	}
}

// Raft panics when the log under it cannot be read; the node says what happened instead.
func TestUnreadableLogIsAnError(t *testing.T) {
	fsys := vfs.NewFaulty(newDisk())
	n := alone(t, options(fsys))
	propose(t, n, producerIDs(1))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := Open(options(fsys), epoch)
	if err != nil {
		t.Fatal(err)
	}
	fsys.Inject(vfs.Fault{Op: vfs.OpRead, Path: ".log", Err: errDisk})
	if _, err := n.Step(epoch, Tick{}); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	fsys.Heal()
	if _, err := n.Step(epoch, Tick{}); !errors.Is(err, errDisk) {
		t.Fatalf("it goes on: %v", err)
	}
}
