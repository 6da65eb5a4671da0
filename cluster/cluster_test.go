package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// replicated creates a topic whose partitions have a replica on every broker of 1 to n, and 1 leads them all.
func replicated(name string, n kafka.BrokerID, partitions int32) controller.CreateTopics {
	topic := controller.NewTopic{Name: name, ID: newTopic(name, 1).ID, NumPartitions: -1, ReplicationFactor: -1}
	for p := range partitions {
		a := controller.Assignment{Partition: p}
		for id := range n {
			a.Replicas = append(a.Replicas, id+1)
		}
		topic.Assignments = append(topic.Assignments, a)
	}
	return controller.CreateTopics{Topics: []controller.NewTopic{topic}}
}

func (w *world) create(m *machine, cmd controller.CreateTopics) {
	w.t.Helper()
	r := w.submit(m, cmd)
	if r.err != nil || !r.reply.(controller.CreateTopicsReply).Topics[0].OK() {
		w.t.Fatalf("create: %+v", r)
	}
}

func (m *machine) partition(topic string, p int32) metadata.PartitionRegistration {
	t, ok := m.node.Image().Topics.ByName(topic)
	if !ok {
		m.w.t.Fatalf("node %d does not know topic %s", m.id, topic)
	}
	return *t.Partition(p)
}

// follower returns a machine that is not the active controller.
func (w *world) follower() *machine {
	for _, m := range w.all() {
		if m.node != nil && m != w.active() {
			return m
		}
	}
	return nil
}

// Those who found a cluster know that the others are there, and wait for no election timeout; also where one comes later. Where
// all start again, nobody is first.
func TestAFoundingWaitsForNoElectionTimeout(t *testing.T) {
	for seed := range uint64(8) {
		w := newWorld(t, seed, 3)
		w.hosts[1].start()
		w.pass(150 * time.Millisecond) // what it sends is refused
		w.hosts[2].start()
		if took := w.run(5*time.Second, "led", func() bool { return w.active() != nil }); took > 350*time.Millisecond || w.active().id != 1 {
			t.Errorf("seed %d: node %d leads after %v", seed, w.active().id, took)
		}
		w.hosts[3].start()
		w.run(5*time.Second, "all running", w.running(1, 2, 3))
		for _, m := range w.all() {
			m.vanish()
		}
		for _, m := range w.all() {
			m.start()
		}
		if took := w.run(5*time.Second, "led", func() bool { return w.active() != nil }); took < 900*time.Millisecond {
			t.Errorf("seed %d: after a restart somebody leads after %v", seed, took)
		}
	}
}

// Three nodes found a cluster: one leads, all brokers run, and a topic that is created through any of them is there.
func TestThreeNodes(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	for _, m := range w.all() {
		w.create(m, create(fmt.Sprint("t", m.id), 2))
		if _, there := m.node.Image().Topics.ByName(fmt.Sprint("t", m.id)); !there {
			t.Errorf("node %d was answered before it knew", m.id)
		}
	}
	w.run(time.Second, "three topics everywhere", func() bool {
		for _, m := range w.all() {
			if m.node.Image().Topics.Len() != 3 || len(m.members) != 3 {
				return false
			}
		}
		return true
	})
}

// A broker that is silent is fenced when its session is over, and not before.
func TestSilentBrokerIsFencedWhenItsSessionIsOver(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	w.create(w.hosts[1], replicated("t", 3, 1))
	gone := w.follower()
	gone.vanish()
	took := w.run(10*time.Second, "fenced", w.fenced(gone.id))
	if took < 7*time.Second || took > 9200*time.Millisecond { // its last heartbeat may be two seconds old
		t.Errorf("fenced after %v", took)
	}
	if p := w.active().partition("t", 0); p.InISR(gone.id) || p.Leader == gone.id || len(p.ISR) != 2 {
		t.Errorf("%+v", p)
	}
}

// A process that is gone is fenced as soon as the two others have seen it.
func TestTwoWitnessesFenceAtOnce(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	gone := w.follower()
	gone.kill()
	if took := w.run(time.Second, "fenced", w.fenced(gone.id)); took > 100*time.Millisecond {
		t.Errorf("fenced after %v", took)
	}
}

// One witness may be wrong: the silence of two heartbeats has to come to it.
func TestOneWitnessAloneNeedsSilence(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	w.pass(10 * time.Second)
	healthy := w.follower()
	epoch, _ := healthy.node.Registered()
	w.active().observe(Evidence{Broker: healthy.id, Epoch: epoch, Gone: true})
	w.pass(20 * time.Second)
	if w.fenced(healthy.id)() {
		t.Fatal("a broker that is well was fenced")
	}
	healthy.vanish()
	if took := w.run(10*time.Second, "fenced", w.fenced(healthy.id)); took > 4500*time.Millisecond {
		t.Errorf("fenced after %v", took)
	}
}

// When the active controller itself is gone, another one is there within a blink, and fences it at once: what the others saw
// before there was anybody to tell counts.
func TestKilledController(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, 3)
		w.up(1, 2, 3)
		w.create(w.hosts[1], replicated("t", 3, 3))
		w.pass(3 * time.Second)
		gone := w.active()
		gone.kill()
		elected := w.run(2*time.Second, "led again", func() bool { return w.active() != nil })
		fenced := elected + w.run(2*time.Second, "fenced", w.fenced(gone.id))
		if fenced > 500*time.Millisecond { // a split vote costs two rounds
			t.Errorf("seed %d: a new controller after %v, fenced after %v", seed, elected, fenced)
		}
		if p := w.active().partition("t", 0); p.Leader == gone.id || p.InISR(gone.id) {
			t.Errorf("seed %d: %+v", seed, p)
		}
		w.pass(12 * time.Second)
		for _, m := range w.all() {
			if m != gone && w.fenced(m.id)() {
				t.Errorf("seed %d: broker %d is fenced", seed, m.id)
			}
		}
		gone.start()
		w.run(10*time.Second, "back", w.running(1, 2, 3))
	}
}

// A controller that is cut off is replaced when the election timeout is over. Nobody loses a session by that, and its own broker
// has none but its own: it began when the others last heard of it.
func TestFailoverBeginsSessionsAnew(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	w.pass(20 * time.Second)
	old := w.active()
	w.cut[old.id] = true
	elected := w.run(5*time.Second, "led again", func() bool { return w.active() != nil })
	fenced := w.run(15*time.Second, "fenced", w.fenced(old.id))
	if elected > 3*time.Second || elected+fenced < 8800*time.Millisecond || elected+fenced > 9300*time.Millisecond {
		t.Errorf("another controller after %v, fenced %v later", elected, fenced)
	}
	for _, m := range w.all() {
		if m != old && w.fenced(m.id)() {
			t.Errorf("broker %d is fenced", m.id)
		}
	}
	if old.node.QuorumStatus().Ready {
		t.Error("who is cut off still leads")
	}
	w.cut[old.id] = false
	w.run(5*time.Second, "all running", w.running(1, 2, 3))
	if epoch, _ := old.node.Registered(); old.life != 1 || epoch < 0 {
		t.Error("the same process is back without another registration")
	}
}

// A broker that shuts down gives away what it leads, waits until the others know, and goes; the active controller gives that
// away too. Nobody's session has to end for it.
func TestControlledShutdown(t *testing.T) {
	for _, who := range []string{"follower", "controller"} {
		w := newWorld(t, 3, 3)
		w.up(1, 2, 3)
		m := w.follower()
		if who == "controller" {
			m = w.active()
		}
		w.create(m, replicated("t", 3, 4))
		w.run(5*time.Second, "leads", func() bool { return m.partition("t", 0).Leader != kafka.NoBroker })
		done := false
		m.node.ShutdownAsync(func() { done = true })
		m.step()
		took := w.run(5*time.Second, "out", func() bool { return done })
		if took > 300*time.Millisecond {
			t.Errorf("%s: it took %v", who, took)
		}
		if m.node.State() != ShuttingDown || m.node.QuorumStatus().Leader == m.node.quorum.RaftID() {
			t.Errorf("%s: state %d, leadership %+v", who, m.node.State(), m.node.QuorumStatus().Leadership)
		}
		m.vanish()
		w.run(50*time.Millisecond, "away", func() bool {
			for _, other := range w.all() {
				for p := range int32(4) {
					if other.node == nil {
						continue
					}
					if p := other.partition("t", p); p.Leader == m.id || p.InISR(m.id) || len(p.ISR) != 2 {
						return false
					}
				}
			}
			return true
		})
		if took := w.run(3*time.Second, "led", func() bool { return w.active() != nil }); took > 20*time.Millisecond {
			t.Errorf("%s: nobody led for %v", who, took)
		}
		m.start()
		if took := w.run(10*time.Second, "back", w.running(1, 2, 3)); took > 3*time.Second {
			t.Errorf("%s: back after %v", who, took)
		}
	}
}

// leave begins a shutdown.
func (m *machine) leave() (done func() bool) {
	left := false
	m.node.ShutdownAsync(func() { left = true })
	m.step()
	return func() bool { return left }
}

// A shutdown waits for a controller as long as a few elections take, also where the node does not vote and so never notices
// by itself that nobody leads any more.
func TestShutdownWithoutController(t *testing.T) {
	for _, learner := range []bool{false, true} {
		w := newWorld(t, 1, 3)
		w.up(1, 2, 3)
		m := w.follower()
		if learner {
			m = w.add(4, func(o *Options) { o.Join, o.Roles.NoController = w.members, true })
			w.up(4)
		}
		w.cut[m.id] = true
		w.pass(time.Second)
		done := m.leave()
		if took := w.run(6*time.Second, "given up", done); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("learner %v: given up after %v", learner, took)
		}
		if m.node.State() != ShuttingDown {
			t.Errorf("learner %v: state %d", learner, m.node.State())
		}
	}
}

// Where all nodes are stopped in turn, the last ones know that the others are gone: they refuse what they are sent.
func TestAllNodesAreStopped(t *testing.T) {
	for seed := range uint64(6) {
		w := newWorld(t, seed, 3)
		w.up(1, 2, 3)
		w.create(w.hosts[1], replicated("t", 3, 4))
		for _, id := range w.rng.Perm(3) {
			m := w.hosts[kafka.BrokerID(id+1)]
			if took := w.run(6*time.Second, "out", m.leave()); took > 2*time.Second {
				t.Errorf("seed %d: the stop of node %d took %v", seed, m.id, took)
			}
			m.vanish()
		}
	}
}

// A voter that does not answer is no reason to leave without a word, as long as somebody leads.
func TestShutdownBesideALostVoter(t *testing.T) {
	w := newWorld(t, 2, 3)
	w.up(1, 2, 3)
	w.follower().vanish()
	w.run(20*time.Second, "led", func() bool { return w.active() != nil })
	for _, m := range w.all() {
		if m.node == nil {
			continue
		}
		if took := w.run(6*time.Second, "out", m.leave()); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if b, _ := w.hosts[m.id].node.Image().Brokers.ByID(m.id); !b.InControlledShutdown && !b.Fenced {
			t.Errorf("node %d left without saying so", m.id)
		}
		break
	}
}

// Whoever has an answer finds on its own broker what it says, whatever the network loses or repeats; and a topic that was
// created by an earlier try is no error.
func TestReadYourWritesOnABadNetwork(t *testing.T) {
	lost := 0
	for seed := range uint64(8) {
		w := newWorld(t, seed, 3)
		w.up(1, 2, 3)
		w.loss = 0.15
		for i := range 25 {
			m := w.hosts[kafka.BrokerID(w.rng.IntN(3)+1)]
			name := fmt.Sprintf("t%d", i)
			r := w.submit(m, create(name, 1))
			if kafka.CodeOf(r.err) == kafka.RequestTimedOut {
				lost++
				continue
			}
			if r.err != nil {
				t.Fatalf("seed %d, topic %d: %v", seed, i, r.err)
			}
			row := r.reply.(controller.CreateTopicsReply).Topics[0]
			topic, there := m.node.Image().Topics.ByName(name)
			if !row.OK() || !there || topic.ID != row.ID || row.NumPartitions != 1 {
				t.Fatalf("seed %d, topic %d: %+v, %+v", seed, i, row, topic)
			}
			if i%3 == 0 {
				r := w.submit(m, controller.CreatePartitions{Topics: []controller.MorePartitions{{Name: name, Count: 3}}})
				if r.err == nil && !r.reply.(controller.CreatePartitionsReply).Topics[0].OK() {
					t.Fatalf("seed %d, topic %d: %+v", seed, i, r)
				}
			}
			if i%4 == 0 {
				r := w.submit(m, controller.DeleteTopics{Topics: []controller.TopicRef{{Name: &name}}})
				if r.err != nil {
					continue
				}
				row := r.reply.(controller.DeleteTopicsReply).Topics[0]
				if _, there := m.node.Image().Topics.ByName(name); there || !row.OK() || *row.Name != name {
					t.Fatalf("seed %d, topic %d: %+v, there: %v", seed, i, row, there)
				}
			}
		}
	}
	if lost > 5 {
		t.Errorf("%d commands found no controller", lost)
	}
}

// Controllers alone, and brokers alone that learn from them.
func TestRolesApart(t *testing.T) {
	w := newWorld(t, 2, 3)
	for id := range kafka.BrokerID(3) {
		w.hosts[id+1].o.Roles.NoBroker = true
	}
	for id := kafka.BrokerID(11); id <= 13; id++ {
		w.add(id, func(o *Options) { o.Join = w.members })
	}
	w.up(1, 2, 3, 11, 12, 13)
	for _, m := range w.all() {
		w.create(m, create(fmt.Sprint("t", m.id), 1))
		if got := len(m.members); got != 6 {
			t.Errorf("node %d knows %d members", m.id, got)
		}
	}
	if s := w.active().node.QuorumStatus(); len(s.Voters) != 3 || len(s.Learners) != 3 {
		t.Errorf("%+v", s)
	}
	if _, broker := w.active().node.Image().Brokers.ByID(1); broker {
		t.Error("a controller is a broker")
	}
	w.hosts[12].kill()
	if took := w.run(time.Second, "fenced", w.fenced(12)); took > 100*time.Millisecond {
		t.Errorf("fenced after %v", took)
	}
	w.active().kill()
	w.run(5*time.Second, "led again", func() bool { return w.active() != nil })
	w.create(w.hosts[11], create("late", 1))
	w.hosts[12].start()
	w.run(10*time.Second, "back", w.running(11, 12, 13))
}

// A broker that is alone does nothing while nobody wants anything; when another one comes, both keep their sessions.
func TestAloneUntilAnotherJoins(t *testing.T) {
	w := newWorld(t, 1, 1)
	one := w.hosts[1]
	one.start()
	if one.node.State() != Running || !w.clock.Now().Equal(start) {
		t.Fatalf("not there at once: %s", w)
	}
	if at := one.node.NextWake(); !at.IsZero() {
		t.Fatalf("it wakes at %v for nothing", at.Sub(start))
	}
	w.clock.Advance(time.Hour)
	two := w.add(2, func(o *Options) { o.Join = w.members })
	two.start()
	took := w.run(5*time.Second, "both running", w.running(1, 2))
	if took > time.Second {
		t.Errorf("joined after %v", took)
	}
	w.pass(time.Minute)
	if !w.running(1, 2)() {
		t.Fatal(w)
	}
	two.vanish()
	w.run(10*time.Second, "fenced", w.fenced(2))
	two.start()
	w.run(10*time.Second, "back", w.running(1, 2))
}

// A node that comes back with another address is found again, and keeps its place.
func TestMovedNode(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	m := w.follower()
	m.vanish()
	m.o.Address.Port = 9999
	m.o.Registration.Listeners = []metadata.Endpoint{{Name: "PLAINTEXT", Host: "elsewhere", Port: 1}}
	m.start()
	w.run(15*time.Second, "running", w.running(1, 2, 3))
	knows := func() bool {
		for _, other := range w.all() {
			self, _ := other.node.Image().Quorum.ByRaftID(m.node.quorum.RaftID())
			b, _ := other.node.Image().Brokers.ByID(m.id)
			if self.Port != m.o.Address.Port || !self.Controller || b.Listeners[0] != m.o.Registration.Listeners[0] {
				return false
			}
		}
		return true
	}
	w.run(time.Second, "known", knows)
	epoch, _ := m.node.Registered()
	m.o.Address.Port, m.o.Registration.Listeners = 7777, []metadata.Endpoint{{Name: "PLAINTEXT", Host: "there", Port: 2}}
	m.node.Moved(Address{Host: m.o.Address.Host, Port: 7777, Listeners: m.o.Registration.Listeners})
	m.step()
	w.run(time.Second, "known", knows)
	if now, _ := m.node.Registered(); now != epoch || !w.running(1, 2, 3)() {
		t.Errorf("epoch %d, was %d", now, epoch)
	}

	gossips := func() bool {
		self, _ := w.hosts[1].node.Image().Quorum.ByRaftID(m.node.quorum.RaftID())
		return self.GossipPort == 5555 && self.Port == 7777
	}
	m.node.Moved(Address{Host: m.o.Address.Host, Port: 7777, GossipPort: 5555, Listeners: m.o.Registration.Listeners})
	m.step()
	w.run(time.Second, "known to gossip", gossips)
	m.node.Moved(Address{Host: m.o.Address.Host, Port: 7777, Listeners: m.o.Registration.Listeners}) // says nothing of gossip
	m.step()
	w.pass(time.Second)
	if !gossips() {
		t.Error("it gossips no more")
	}
}

// While its session lives, nobody else becomes the broker. A process that waits for long enough is told why it cannot.
func TestTwoProcessesWithOneID(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	victim := w.follower()
	double := w.add(50, func(o *Options) {
		o.Join, o.Self, o.Settings.Self = w.members, victim.id, victim.id
	})
	double.start()
	w.run(2*time.Minute, "refused", func() bool { return double.node == nil })
	if !strings.Contains(double.failed.Error(), "another process runs as node 2 of this cluster") || kafka.CodeOf(double.failed) == kafka.DuplicateBrokerRegistration {
		t.Fatal(double.failed)
	}
	if !w.running(1, 2, 3)() {
		t.Fatal(w)
	}
}

// After SIGKILL the next process may come before anybody noticed: it waits for the session to end, and no longer.
func TestRestartWithinTheSession(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	m := w.follower()
	m.vanish()
	m.start()
	took := w.run(15*time.Second, "running", w.running(1, 2, 3))
	if took < 6*time.Second || took > 11*time.Second {
		t.Errorf("back after %v", took)
	}
}

func TestAnotherCluster(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	stranger := w.add(9, func(o *Options) { o.Join, o.ClusterID = w.members, "c9" })
	stranger.start()
	w.run(10*time.Second, "refused", func() bool { return stranger.node == nil })
	if kafka.CodeOf(stranger.failed) != kafka.InconsistentClusterID {
		t.Fatal(stranger.failed)
	}
}

// Where no controller is, a broker that starts gives up after a minute.
func TestNoController(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.hosts[1].start()
	took := w.run(2*time.Minute, "given up", func() bool { return w.hosts[1].node == nil })
	if took < time.Minute || took > 62*time.Second || w.hosts[1].failed == nil {
		t.Errorf("after %v: %v", took, w.hosts[1].failed)
	}
}

// A running broker whose registration is another's by now registers again.
func TestRegistersAgain(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	m := w.follower()
	epoch, _ := m.node.Registered()
	w.cut[m.id] = true
	w.run(15*time.Second, "fenced", w.fenced(m.id))
	other := w.submit(w.active(), controller.RegisterBroker{ClusterID: "c1", Broker: m.id, Incarnation: kafka.UUID{77}, Listeners: m.o.Registration.Listeners,
		Directories: m.o.Registration.Directories, PreviousEpoch: -1})
	if other.err != nil {
		t.Fatal(other.err)
	}
	w.cut[m.id] = false
	w.run(15*time.Second, "running", w.running(1, 2, 3))
	if again, _ := m.node.Registered(); again <= epoch || m.life != 1 {
		t.Errorf("epoch %d, was %d", again, epoch)
	}
}

// With self-fencing a broker that nobody hears stops leading when its session must be over elsewhere.
func TestSelfFence(t *testing.T) {
	w := newWorld(t, 1, 3)
	for _, m := range w.all() {
		m.o.SelfFence = true
	}
	w.up(1, 2, 3)
	m := w.follower()
	w.cut[m.id] = true
	if took := w.run(10*time.Second, "told", func() bool { return len(m.leases) > 0 }); took < 6*time.Second || took > 9*time.Second {
		t.Errorf("told after %v", took)
	}
	if w.fenced(m.id)() {
		t.Error("the others were faster")
	}
	w.cut[m.id] = false
	w.run(5*time.Second, "told", func() bool { return len(m.leases) > 1 })
	if m.leases[0] != true || m.leases[1] != false {
		t.Error(m.leases)
	}
}

// A directory that fails is told at once; a broker that can tell nobody does not go on.
func TestFailedDirectory(t *testing.T) {
	w := newWorld(t, 1, 3)
	for _, m := range w.all() {
		m.o.Registration.Directories = append(m.o.Registration.Directories, kafka.UUID{byte(m.id), 15: 250})
	}
	w.up(1, 2, 3)
	m := w.follower()
	m.node.DirFailed(m.o.Registration.Directories[1])
	m.step()
	took := w.run(time.Second, "told", func() bool {
		b, _ := w.active().node.Image().Brokers.ByID(m.id)
		return len(b.Directories) == 1
	})
	if took > 20*time.Millisecond {
		t.Errorf("told after %v", took)
	}
	m = w.active()
	w.cut[m.id] = true
	w.pass(5 * time.Second)
	m.node.DirFailed(m.o.Registration.Directories[1])
	m.step()
	if took := w.run(time.Minute, "failed", func() bool { return m.node == nil }); took > 31*time.Second || m.failed == nil {
		t.Errorf("failed after %v: %v", took, m.failed)
	}
}

// A controller that stood still for longer than everybody's session has only not read their heartbeats yet.
func TestPausedControllerFencesNobody(t *testing.T) {
	w := newWorld(t, 1, 1)
	for id := kafka.BrokerID(11); id <= 12; id++ {
		w.add(id, func(o *Options) { o.Join = w.members })
	}
	w.up(1, 11, 12)
	w.pass(5 * time.Second)
	index := w.hosts[1].node.Image().Index
	w.hosts[1].paused = true
	w.pass(20 * time.Second)
	w.hosts[1].resume()
	w.pass(20 * time.Second)
	if !w.running(1, 11, 12)() || w.hosts[1].node.Image().Index != index {
		t.Fatal(w)
	}
}

// A controller that is no broker is a witness as good as one.
func TestControllerIsWitness(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.hosts[1].o.Roles.NoBroker = true
	for id := kafka.BrokerID(11); id <= 12; id++ {
		w.add(id, func(o *Options) { o.Join = w.members })
	}
	w.up(1, 11, 12)
	w.hosts[12].kill()
	if took := w.run(time.Second, "fenced", w.fenced(12)); took > 100*time.Millisecond {
		t.Errorf("fenced after %v", took)
	}
}

// Nobody has to ask for it: partitions go back to their first replica, and internal topics get the replicas that they lacked.
func TestDutiesOfTheActiveController(t *testing.T) {
	w := newWorld(t, 1, 3)
	for _, m := range w.all() {
		m.o.BalanceInterval = time.Minute
		m.o.Settings.OffsetsTopicReplicationFactor = 3
	}
	w.hosts[1].start()
	w.hosts[2].start()
	w.run(30*time.Second, "running", w.running(1, 2))
	w.create(w.hosts[1], controller.CreateTopics{Topics: []controller.NewTopic{{Name: kafka.ConsumerOffsetsTopic, ID: kafka.UUID{1, 15: 201}, NumPartitions: 4, ReplicationFactor: 3}}})
	if p := w.hosts[1].partition(kafka.ConsumerOffsetsTopic, 0); len(p.Replicas) != 2 {
		t.Fatalf("%+v", p)
	}
	w.hosts[3].start()
	w.run(10*time.Second, "running", w.running(3))
	w.run(time.Second, "more replicas", func() bool { return len(w.hosts[1].partition(kafka.ConsumerOffsetsTopic, 3).Replicas) == 3 })

	w.create(w.hosts[1], replicated("t", 3, 2))
	leads := func() bool { return w.hosts[2].partition("t", 1).Leader == 1 }
	w.hosts[1].vanish()
	w.run(15*time.Second, "fenced", func() bool { return w.fenced(1)() && !leads() })
	w.hosts[1].start()
	w.run(15*time.Second, "back", w.running(1, 2, 3))
	back, _ := w.hosts[1].node.Registered()
	p := w.hosts[2].partition("t", 1)
	r := w.submit(w.hosts[p.Leader], controller.AlterPartition{Broker: p.Leader, Epoch: registered(w.hosts[p.Leader]), Partitions: []controller.ISRChange{{
		TopicID: newTopic("t", 1).ID, Partition: 1, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch,
		ISR: []controller.ISRMember{{Broker: 2, Epoch: -1}, {Broker: 3, Epoch: -1}, {Broker: 1, Epoch: back}},
	}}})
	if r.err != nil || r.reply.(controller.AlterPartitionReply).Partitions[0].Code != kafka.None || leads() {
		t.Fatalf("%+v", r)
	}
	if took := w.run(2*time.Minute, "balanced", leads); took > 70*time.Second {
		t.Errorf("balanced after %v", took)
	}
}

func registered(m *machine) kafka.BrokerEpoch {
	epoch, _ := m.node.Registered()
	return epoch
}

// The same seed gives the same run.
func TestSameSeedTwice(t *testing.T) {
	run := func() (out []string) {
		w := newWorld(t, 5, 3)
		for _, m := range w.all() {
			m.watch = func(line string) { out = append(out, fmt.Sprint(w.clock.Now().Sub(start), " node ", m.id, " ", line)) }
		}
		w.loss = 0.1
		w.up(1, 2, 3)
		w.create(w.hosts[2], replicated("a", 3, 2))
		w.active().kill()
		w.pass(5 * time.Second)
		for _, m := range w.all() {
			if m.node == nil {
				m.start()
			}
		}
		w.create(w.hosts[1], create("b", 1))
		w.pass(15 * time.Second)
		return out
	}
	first, second := run(), run()
	if len(first) < 20 || !slices.Equal(first, second) {
		t.Fatalf("runs of %d and %d lines", len(first), len(second))
	}
}

// Subscribers know by which epoch this broker goes from the first image that they are given, whichever of image and answer
// comes first.
func TestSubscribersKnowTheEpoch(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, seed, 3)
		images := 0
		for _, m := range w.all() {
			m.watch = func(string) {
				images++
				if _, ok := m.node.Registered(); !ok {
					t.Errorf("seed %d: node %d is given an image and does not know its epoch", seed, m.id)
				}
			}
		}
		w.up(1, 2, 3)
		if images == 0 {
			t.Error("nobody was given an image")
		}
	}
}

// While leadership is handed over nothing can be proposed: what comes meanwhile waits, and is not lost.
func TestCommandsDuringAHandover(t *testing.T) {
	w := newWorld(t, 1, 3)
	for _, m := range w.all() {
		m.o.Roles.NoBroker = m.id == 1
	}
	w.up(1, 2, 3)
	old := w.active()
	old.node.ShutdownAsync(func() {})
	answers := 0
	for i := range 20 {
		for _, m := range w.all() {
			m.node.SubmitAsync(create(fmt.Sprint("t", i, ".", m.id), 1), func(reply controller.Reply, err error) {
				if err != nil || !reply.(controller.CreateTopicsReply).Topics[0].OK() {
					t.Errorf("%+v, %v", reply, err)
				}
				answers++
			})
			m.step()
		}
		w.pass(time.Millisecond)
	}
	w.run(10*time.Second, "answered", func() bool { return answers == 60 })
	if w.active() == old {
		t.Error("the node that shuts down leads still")
	}
}

// What a controller had proposed when it lost its office is decided by the next one.
func TestCommandOfADeposedController(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	old := w.active()
	w.cut[old.id] = true
	var got []result
	for _, cmd := range []controller.Command{create("a", 1), create("b", 1)} { // proposed, and waiting behind that
		old.node.SubmitAsync(cmd, func(reply controller.Reply, err error) { got = append(got, result{reply, err}) })
		old.step()
	}
	refused := 0
	old.node.Decide(create("c", 1), func(_ Answer, err error) {
		if kafka.CodeOf(err) == kafka.NotController {
			refused++
		}
	})
	old.step()
	w.run(5*time.Second, "led again", func() bool { return w.active() != nil && refused == 1 })
	if len(got) > 0 {
		t.Fatalf("answered without a majority: %+v", got)
	}
	w.cut[old.id] = false
	w.run(5*time.Second, "answered", func() bool { return len(got) == 2 })
	for _, r := range got {
		if r.err != nil || !r.reply.(controller.CreateTopicsReply).Topics[0].OK() {
			t.Errorf("%+v", r)
		}
	}
	if old.node.Image().Topics.Len() != 2 {
		t.Error("answered before it is there")
	}
}

// Where no controller comes, a command is given up after a minute, and before that when nobody waits for it any more.
func TestCommandThatNobodyDecides(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	m := w.follower()
	for _, other := range w.all() {
		if other != m {
			other.vanish()
		}
	}
	gone, abandoned := false, false
	m.node.submit(create("a", 1), func() bool { return gone }, func(controller.Reply, error) { abandoned = true })
	m.step()
	w.pass(5 * time.Second)
	gone = true
	w.run(10*time.Second, "abandoned", func() bool { return abandoned })
	began := w.clock.Now()
	r := w.submit(m, create("b", 1))
	if took := w.clock.Now().Sub(began); kafka.CodeOf(r.err) != kafka.RequestTimedOut || took < time.Minute || took > 62*time.Second {
		t.Errorf("%v after %v", r.err, took)
	}
}

// A witness that was wrong takes it back; then the broker has its whole session.
func TestSightingIsTakenBack(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	m := w.follower()
	epoch := registered(m)
	for _, gone := range []bool{true, true, false} {
		w.active().observe(Evidence{Broker: m.id, Epoch: epoch, Gone: gone})
		w.pass(time.Second)
	}
	w.pass(5 * time.Second)
	m.vanish()
	if took := w.run(10*time.Second, "fenced", w.fenced(m.id)); took < 7*time.Second {
		t.Errorf("fenced after %v", took)
	}
}

// Nobody waits for a node that is closed, wherever the command was.
func TestCloseAnswersEverybody(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	for _, m := range []*machine{w.follower(), w.active()} {
		w.cut[m.id] = true
		answers := 0
		for i := range 3 { // on their way, proposed and queued; or not even looked at
			m.node.SubmitAsync(create(fmt.Sprint("t", m.id, ".", i), 1), func(reply controller.Reply, err error) {
				if kafka.CodeOf(err) != kafka.NotController {
					t.Errorf("node %d, command %d: %v, %v", m.id, i, reply, err)
				}
				answers++
			})
			if i < 2 {
				m.step()
			}
		}
		if err := m.node.Close(); err != nil || answers != 3 {
			t.Errorf("%d answers, %v", answers, err)
		}
		m.node = nil
		w.cut[m.id] = false
		m.start()
		w.run(20*time.Second, "back", w.running(1, 2, 3))
	}
}
