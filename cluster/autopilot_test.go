package cluster

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// voters are the nodes that vote, as the active controller knows; nil while there is none.
func (w *world) voters() (nodes []kafka.BrokerID) {
	active := w.active()
	if active == nil {
		return nil
	}
	for _, r := range active.node.QuorumStatus().Voters {
		m, _ := active.node.Image().Quorum.ByRaftID(r.RaftID)
		nodes = append(nodes, m.Node)
	}
	slices.Sort(nodes)
	return nodes
}

// vote reports whether just these nodes vote, and all of them know it.
func (w *world) vote(ids ...kafka.BrokerID) func() bool {
	return func() bool {
		if !slices.Equal(w.voters(), ids) {
			return false
		}
		for _, id := range ids {
			m := w.hosts[id].node
			if m == nil || m.quorum.Members().Changing || len(m.QuorumStatus().Voters) != len(ids) {
				return false
			}
		}
		return true
	}
}

// join adds machines that join the cluster of those that there are, and starts them.
func (w *world) join(ids ...kafka.BrokerID) {
	w.t.Helper()
	members := slices.Collect(w.active().node.Image().Quorum.All())
	for _, id := range ids {
		w.add(id, func(o *Options) { o.Join, o.Settings.OffsetsTopicReplicationFactor = members, 3 })
	}
	w.up(ids...)
}

func (w *world) remove(m, gone *machine) error {
	w.t.Helper()
	return w.submit(m, controller.RemoveMember{ClusterID: "c1", Node: gone.id, Directory: gone.o.DirectoryID}).err
}

// A node that was alone becomes a cluster: with two others it is three voters, and never two; with five nodes, five. Internal
// topics get the replicas that there were no brokers for.
func TestGrowth(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.hosts[1].o.Settings.OffsetsTopicReplicationFactor = 3
	w.up(1)
	w.create(w.hosts[1], controller.CreateTopics{Topics: []controller.NewTopic{{Name: kafka.ConsumerOffsetsTopic, ID: kafka.UUID{1, 15: 201}, NumPartitions: 4, ReplicationFactor: 3}}})
	replicas := func() int { return len(w.hosts[1].partition(kafka.ConsumerOffsetsTopic, 3).Replicas) }
	if replicas() != 1 {
		t.Fatalf("%d replicas on one broker", replicas())
	}
	oddly := func(until func() bool) func() bool {
		return func() bool {
			if n := len(w.voters()); n > 0 && n%2 == 0 {
				t.Fatalf("%d voters", n)
			}
			return until()
		}
	}
	w.join(2)
	w.pass(20 * time.Second)
	if !w.vote(1)() {
		t.Fatalf("two nodes, and %v vote", w.voters())
	}
	w.join(3)
	took := w.run(20*time.Second, "three vote", oddly(w.vote(1, 2, 3)))
	if took < w.hosts[1].node.o.StabilizationTime {
		t.Errorf("three voters after %v", took)
	}
	w.run(time.Second, "three replicas", func() bool { return replicas() == 3 })
	w.join(4)
	w.pass(20 * time.Second)
	if !w.vote(1, 2, 3)() {
		t.Fatalf("four nodes, and %v vote", w.voters())
	}
	w.join(5, 6)
	w.run(20*time.Second, "five vote", oddly(w.vote(1, 2, 3, 4, 5)))
	w.pass(20 * time.Second)
	if !w.vote(1, 2, 3, 4, 5)() || replicas() != 3 {
		t.Fatalf("six nodes, %v vote, and %d replicas", w.voters(), replicas())
	}
}

// Brokers alone never vote, nor more nodes than there are to be.
func TestWhoDoesNotVote(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.hosts[1].o.MaxVoters = 3
	w.up(1)
	for id := kafka.BrokerID(2); id <= 6; id++ {
		w.add(id, func(o *Options) { o.Join, o.Roles.NoController, o.MaxVoters = w.members, id < 4, 3 })
	}
	w.up(2, 3, 4)
	w.pass(20 * time.Second)
	if !w.vote(1)() {
		t.Fatalf("one other has the role, and %v vote", w.voters())
	}
	w.up(5, 6)
	w.run(20*time.Second, "three vote", w.vote(1, 4, 5))
	w.pass(20 * time.Second)
	if !w.vote(1, 4, 5)() {
		t.Fatalf("three may vote, and %v do", w.voters())
	}
}

// At whatever moment processes end while voters change, the change comes true or not, and in the end as many vote as are to.
func TestCrashesWhileVotersChange(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	crashes := 0
	for seed := range seeds {
		w := newWorld(t, seed, 1)
		w.up(1)
		w.join(2, 3)
		crashes += w.crashWhileChanging(w.vote(1, 2, 3))
		w.join(4, 5)
		crashes += w.crashWhileChanging(w.vote(1, 2, 3, 4, 5))
		(&days{world: w}).run(30*time.Second, "one truth", func() bool {
			return w.running(1, 2, 3, 4, 5)() && (&days{world: w}).agree()
		})
		if err := w.submit(w.hosts[1], newTopicCommand(seed)).err; err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if crashes < int(seeds) {
		t.Errorf("only %d crashes in %d seeds", crashes, seeds)
	}
}

func newTopicCommand(seed uint64) controller.Command { return create("t"+string('a'+rune(seed)), 1) }

// crashWhileChanging ends processes while a change is under way, the leader's most of all, and counts them.
func (w *world) crashWhileChanging(until func() bool) (crashes int) {
	changing := func() bool {
		return slices.ContainsFunc(w.all(), func(m *machine) bool { return m.node != nil && m.node.quorum.Members().Changing })
	}
	for range 3 {
		w.run(time.Minute, "changing or done", func() bool { return until() || changing() })
		if until() {
			break
		}
		w.pass(time.Duration(w.rng.Int64N(int64(6 * time.Millisecond))))
		for _, m := range w.all() {
			if m.node == nil || w.rng.IntN(3) > 0 && m != w.active() || w.rng.IntN(5) == 0 {
				continue
			}
			m.vanish()
			m.powerCut(vfs.LoseSome(w.rng))
			w.after(time.Duration(w.rng.Int64N(int64(3*time.Second))), m.start)
			crashes++
		}
		w.pass(4 * time.Second)
	}
	w.run(2*time.Minute, "as many vote as are to", until)
	return crashes
}

// A learner takes the place of a voter that was away for long. That one comes back as a learner, with the log that it has.
func TestVoterThatIsAwayForLong(t *testing.T) {
	w := newWorld(t, 1, 3)
	for _, m := range w.all() {
		m.o.DeadVoterAfter = time.Minute
	}
	w.up(1, 2, 3)
	w.join(4)
	gone := w.follower()
	gone.vanish()
	stays := slices.DeleteFunc([]kafka.BrokerID{1, 2, 3}, func(id kafka.BrokerID) bool { return id == gone.id })
	w.pass(55 * time.Second)
	if !slices.Equal(w.voters(), []kafka.BrokerID{1, 2, 3}) {
		t.Fatalf("before a minute is over %v vote", w.voters())
	}
	w.run(10*time.Second, "another votes", w.vote(append(stays, 4)...))
	gone.start()
	w.run(15*time.Second, "back", w.running(1, 2, 3, 4))
	w.pass(30 * time.Second)
	if !w.vote(append(stays, 4)...)() || gone.node.quorum.IsVoter() {
		t.Fatalf("%v vote", w.voters())
	}
}

// A node that comes back with an empty disk takes the place that it had, as another member, and nothing is left of the old one.
func TestVoterThatLostItsDisk(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	gone := w.follower()
	gone.vanish()
	w.run(20*time.Second, "fenced", w.fenced(gone.id))
	old := gone.o.DirectoryID
	again := w.add(gone.id, func(o *Options) {
		o.DirectoryID = kafka.UUID{byte(gone.id), 77, 15: 200}
		o.Join, o.Registration.Directories = w.members, []kafka.DirectoryID{o.DirectoryID}
	})
	again.life = gone.life
	w.up(again.id)
	w.run(30*time.Second, "the old one is forgotten", func() bool { return w.active().node.Image().Quorum.Len() == 3 })
	w.run(time.Second, "three vote", w.vote(1, 2, 3))
	w.pass(10 * time.Second)
	for _, m := range w.all() {
		status := m.node.QuorumStatus()
		if _, known := m.node.Image().Quorum.ByRaftID(quorum.RaftID(old)); known || len(status.Voters) != 3 || len(status.Learners) != 0 {
			t.Errorf("node %d: %+v", m.id, status)
		}
	}
}

// Who is removed leaves Raft, whoever it is, another one takes its place, and its process is told why it cannot go on. What the
// quorum would not survive is refused.
func TestRemovedMembers(t *testing.T) {
	w := newWorld(t, 3, 3)
	w.up(1, 2, 3)
	w.join(4)
	w.pass(15 * time.Second)
	leader := w.active()
	if err := w.remove(w.follower(), leader); err != nil {
		t.Fatal(err)
	}
	w.run(30*time.Second, "it stopped", func() bool { return leader.node == nil })
	if leader.failed == nil || !strings.Contains(leader.failed.Error(), "was removed from the cluster") {
		t.Errorf("it says %v", leader.failed)
	}
	left := slices.DeleteFunc([]kafka.BrokerID{1, 2, 3, 4}, func(id kafka.BrokerID) bool { return id == leader.id })
	w.run(30*time.Second, "others vote", w.vote(left...))

	down := w.follower()
	down.vanish()
	w.pass(5 * time.Second)
	left = slices.DeleteFunc(left, func(id kafka.BrokerID) bool { return id == down.id })
	for _, id := range left {
		if err := w.remove(w.active(), w.hosts[id]); kafka.CodeOf(err) != kafka.InvalidRequest {
			t.Errorf("one of three is down, and node %d is removed: %v", id, err)
		}
	}
	if err := w.remove(w.active(), down); err != nil {
		t.Fatal(err)
	}
	w.run(10*time.Second, "two vote", w.vote(left...))
	gone := w.active()
	if err := w.remove(gone, gone); err != nil {
		t.Fatal(err)
	}
	w.run(90*time.Second, "it stopped", func() bool { return gone.node == nil })
	left = slices.DeleteFunc(left, func(id kafka.BrokerID) bool { return id == gone.id })
	w.run(10*time.Second, "one votes", w.vote(left...))
	last := w.hosts[left[0]]
	w.run(10*time.Second, "it is alone", func() bool { return last.node.NextWake().IsZero() })
	if err := w.remove(last, last); kafka.CodeOf(err) != kafka.InvalidRequest {
		t.Errorf("the last is removed: %v", err)
	}
}

// All nodes have one key for their gossip: a new cluster has it from the beginning, an old one gets it when others join.
func TestGossipKey(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	key := w.hosts[1].node.Image().GossipKey
	for _, m := range w.all() {
		if got := m.node.Image().GossipKey; len(got) != metadata.GossipKeySize || !slices.Equal(got, key) {
			t.Errorf("node %d has a key of %d bytes", m.id, len(got))
		}
	}

	w = newWorld(t, 1, 1)
	old, err := quorum.Open(quorum.Options{
		FS: w.hosts[1].disk, Dir: "/data/__cluster_metadata-0", ClusterID: "c1", Self: member(1), Logger: w.hosts[1].o.Logger,
	}, start)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []quorum.Event{quorum.Tick{}, quorum.Propose{Data: metadata.AppendEntry(nil, 0, []metadata.Record{metadata.ProducerIDsRecord{Next: 1}})}} {
		if out, err := old.Step(start, e); err != nil || out.Dropped {
			t.Fatal(out, err)
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	w.up(1)
	if w.hosts[1].node.Image().GossipKey != nil {
		t.Fatal("who is alone has no use for a key")
	}
	w.join(2)
	w.run(5*time.Second, "a key", func() bool { return w.hosts[2].node.Image().GossipKey != nil })
	if drawn := (&Options{}).newGossipKey(); slices.Equal(drawn, (&Options{}).newGossipKey()) {
		t.Error("one key for two clusters")
	}
}

// Whoever does not keep up is named when that has lasted, and not again and again.
func TestLagIsToldRarely(t *testing.T) {
	var lines strings.Builder
	c := &control{logger: slog.New(slog.NewTextHandler(&lines, nil)), now: start}
	look := func(nodes string, minutes int) int {
		lines.Reset()
		for range minutes * 60 {
			c.now = c.now.Add(time.Second)
			c.tellLag(nodes)
		}
		return strings.Count(lines.String(), "do not keep up")
	}
	for i, told := range []int{look("2", 1), look("", 1), look("2", 1), look("2", 1), look("2, 3", 20)} {
		if want := []int{0, 0, 0, 1, 2}[i]; told != want {
			t.Errorf("%d: told %d times, want %d", i, told, want)
		}
	}
}

// Who was cut off while it was removed is told so when it is back, though nobody sends it the log any more.
func TestRemovedWhileCutOff(t *testing.T) {
	for _, voter := range []bool{true, false} {
		w := newWorld(t, 4, 3)
		w.up(1, 2, 3)
		w.join(4)
		w.pass(15 * time.Second)
		gone := w.hosts[4]
		if voter {
			gone = w.follower()
		}
		w.cut[gone.id] = true
		w.pass(15 * time.Second)
		if err := w.remove(w.active(), gone); err != nil {
			t.Fatal(err)
		}
		w.pass(15 * time.Second)
		w.cut[gone.id] = false
		w.run(time.Minute, "it stopped", func() bool { return gone.node == nil })
		if gone.failed == nil || !strings.Contains(gone.failed.Error(), "was removed from the cluster") {
			t.Errorf("it says %v", gone.failed)
		}
	}
}

// A broker that is unregistered while it runs registers again; also where it is alone and sends no heartbeats.
func TestUnregisteredWhileAlone(t *testing.T) {
	d := drive(t, options(newDisk(), 1))
	d.submit(create("t", 1))
	if r := d.submit(controller.UnregisterBroker{Broker: 1})[0]; r.err != nil {
		t.Fatal(r.err)
	}
	for range 20 {
		d.clock.Advance(100 * time.Millisecond)
		d.run()
	}
	topic, _ := d.node.Image().Topics.ByName("t")
	if b, known := d.node.Image().Brokers.ByID(1); !known || b.Fenced || topic.Partition(0).Leader != 1 {
		t.Errorf("registered %t, %+v", known, topic.Partition(0))
	}
}

// Whoever was removed goes on as long as its vote counts, though it is told that it was, and nobody leads for long: the quorum can do
// without it only when Raft can.
func TestRemovedVoterStaysWhileItIsNeeded(t *testing.T) {
	for _, c := range []struct {
		name  string
		after func(w *world, leader, down, gone *machine)
	}{
		{"the leader stays", func(*world, *machine, *machine, *machine) {}},
		{"the leader starts anew, and has no way to it", func(_ *world, leader, _, _ *machine) { leader.kill(); leader.start() }},
		{"both start anew", func(_ *world, leader, _, gone *machine) { leader.kill(); gone.kill(); leader.start(); gone.start() }},
		{"the other one comes back, and not the leader", func(w *world, leader, down, _ *machine) { leader.vanish(); w.pass(20 * time.Second); down.start() }},
	} {
		w := newWorld(t, 1, 3)
		w.up(1, 2, 3)
		leader, down := w.active(), w.follower()
		gone := w.hosts[6-leader.id-down.id]
		down.vanish()
		w.pass(leader.node.o.ElectionTimeout) // it counts as healthy, but its vote is not relied on
		if err := w.remove(leader, gone); err != nil {
			t.Fatal(err)
		}
		c.after(w, leader, down, gone)
		w.pass(20 * time.Second)
		if gone.node == nil {
			t.Fatalf("%s: it stopped: %v", c.name, gone.failed)
		}
		w.run(30*time.Second, c.name+": there is a controller", func() bool { return w.active() != nil })
		if err := w.submit(w.active(), create("t", 1)).err; err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, m := range []*machine{leader, down} {
			if m.node == nil {
				m.start()
			}
		}
		w.run(30*time.Second, c.name+": it stopped", func() bool { return gone.node == nil })
		if gone.failed == nil || !strings.Contains(gone.failed.Error(), "was removed from the cluster") {
			t.Errorf("%s: it says %v", c.name, gone.failed)
		}
		w.run(30*time.Second, c.name+": two vote", w.vote(min(leader.id, down.id), max(leader.id, down.id)))
	}
}

// A leader that ends with a removal half done leaves it to another one, which may be elected only by the vote of who was removed.
func TestRemovedVoterElects(t *testing.T) {
	for seed := range uint64(8) {
		w := newWorld(t, seed, 3)
		w.up(1, 2, 3)
		leader, other := w.active(), w.follower()
		gone := w.hosts[6-leader.id-other.id]
		leader.node.SubmitAsync(controller.RemoveMember{ClusterID: "c1", Node: gone.id, Directory: gone.o.DirectoryID}, func(controller.Reply, error) {})
		leader.step()
		w.run(time.Second, "both know", func() bool {
			return other.node.Image().Quorum.Len() == 2 && gone.node.Image().Quorum.Len() == 2
		})
		leader.vanish()
		w.loss = 0.3
		w.run(5*time.Minute, "it stopped", func() bool { return gone.node == nil })
		if slices.Contains(other.node.quorum.Members().Voters, quorum.RaftID(gone.o.DirectoryID)) {
			t.Errorf("seed %d: its vote counts, and it stopped: %v", seed, gone.failed)
		}
		w.loss = 0
		leader.start()
		w.run(time.Minute, "two vote", w.vote(min(leader.id, other.id), max(leader.id, other.id)))
	}
}
