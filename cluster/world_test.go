package cluster

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// world is several nodes, time, and a network that is late and loses things, all in the test's own goroutine.
type world struct {
	t       testing.TB
	clock   *clock.Manual
	rng     *rand.Rand
	loss    float64
	queue   deliveries
	seq     int
	hosts   map[kafka.BrokerID]*machine
	cut     map[kafka.BrokerID]bool // nobody hears from it, it hears from nobody, and nothing is refused
	members []metadata.QuorumMember
}

// machine is a node with its disk, in one life after the other.
type machine struct {
	w       *world
	id      kafka.BrokerID
	o       Options
	disk    *vfs.Mem
	node    *Node // nil while no process runs
	life    int
	failed  error
	members []metadata.QuorumMember // as the node knows them
	leases  []bool                  // what LeaseLost was told
	watch   func(string)            // is told what is published; may be nil
	paused  bool
	backlog []func() // what comes meanwhile
}

type delivery struct {
	at  time.Time
	seq int
	do  func()
}

type deliveries []delivery

func (d deliveries) Len() int { return len(d) }
func (d deliveries) Less(i, j int) bool {
	return d[i].at.Before(d[j].at) || d[i].at.Equal(d[j].at) && d[i].seq < d[j].seq
}
func (d deliveries) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *deliveries) Push(x any)   { *d = append(*d, x.(delivery)) }
func (d *deliveries) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}

func member(id kafka.BrokerID) metadata.QuorumMember {
	dir := kafka.UUID{byte(id), 15: 200}
	return metadata.QuorumMember{RaftID: quorum.RaftID(dir), Node: id, Directory: dir, Host: fmt.Sprintf("host%d", id), Port: 9000, Controller: true}
}

// newWorld has founders 1 to n, none of which runs yet.
func newWorld(t testing.TB, seed uint64, founders int) *world {
	cryptotest.SetGlobalRandom(t.(*testing.T), seed)
	w := &world{t: t, clock: clock.NewManual(start), rng: rand.New(rand.NewPCG(seed, 1)), hosts: map[kafka.BrokerID]*machine{}, cut: map[kafka.BrokerID]bool{}}
	for id := range kafka.BrokerID(founders) {
		w.members = append(w.members, member(id+1))
	}
	for _, m := range w.members {
		w.add(m.Node, func(o *Options) { o.Founders = w.members })
	}
	return w
}

// add makes a machine on which nothing runs yet.
func (w *world) add(id kafka.BrokerID, change ...func(*Options)) *machine {
	m := &machine{w: w, id: id, disk: newDisk()}
	m.o = options(m.disk, 0)
	self := member(id)
	m.o.Self, m.o.DirectoryID, m.o.Address = id, self.Directory, Address{Host: self.Host, Port: self.Port}
	m.o.Clock, m.o.Peers, m.o.Rand = w.clock, peersOf{m}, w.rng
	m.o.Registration.Directories = []kafka.DirectoryID{self.Directory}
	m.o.Settings.Self = id
	for _, f := range change {
		f(&m.o)
	}
	w.hosts[id] = m
	return m
}

// start begins a process of a machine.
func (m *machine) start() {
	m.w.t.Helper()
	m.life++
	m.o.Registration.Incarnation = kafka.UUID{byte(m.id), byte(m.life)}
	m.o.Failed = func(err error) { m.failed = err }
	m.o.LeaseLost = func(lost bool) { m.leases = append(m.leases, lost) }
	m.node = New(m.o)
	if m.watch != nil {
		m.node.Subscribe(func(d *metadata.Delta, img *metadata.Image) {
			m.watch(fmt.Sprint(img.Index, ".", img.Term, " ", describe(d)))
		})
	}
	if err := m.node.Open(); err != nil {
		m.w.t.Fatal(err)
	}
	m.step()
}

func (m *machine) step() {
	if m.node == nil || m.paused {
		return
	}
	if err := m.node.Step(m.w.clock.Now()); err != nil {
		m.failed, m.node = err, nil
	}
}

// kill ends a process as SIGKILL does: its host closes connections and refuses new ones, which everybody notices.
func (m *machine) kill() {
	epoch, _ := m.node.Registered()
	m.node = nil
	m.life++
	for _, other := range m.w.all() {
		if other.node != nil {
			m.w.after(2*time.Millisecond, func() { other.observe(Evidence{Broker: m.id, Epoch: epoch, Gone: true}) })
		}
	}
}

func (m *machine) observe(e Evidence) {

	if m.node != nil && !m.w.cut[m.id] {
		m.node.Observe(e)
		m.step()
	}
}

// resume lets a paused process go on: it sees the time, and then what came meanwhile.
func (m *machine) resume() {
	m.paused = false
	m.step()
	backlog := m.backlog
	m.backlog = nil
	for _, f := range backlog {
		f()
		m.step()
	}
}

// vanish ends a process without a trace, as a power cut does.
func (m *machine) vanish() {
	m.node = nil
	m.life++
}

func (w *world) all() (out []*machine) {
	for id := range kafka.BrokerID(100) {
		if m := w.hosts[id]; m != nil {
			out = append(out, m)
		}
	}
	return out
}

func (w *world) after(d time.Duration, f func()) {
	w.seq++
	heap.Push(&w.queue, delivery{w.clock.Now().Add(d), w.seq, f})
}

// run lets time pass until something is true. It fails the test when that takes too long.
func (w *world) run(limit time.Duration, what string, until func() bool) time.Duration {
	w.t.Helper()
	began := w.clock.Now()
	for !until() {
		now := w.clock.Now()
		if now.Sub(began) > limit {
			w.t.Fatalf("after %v: not %s; %s", limit, what, w)
		}
		next := began.Add(limit + 1)
		if len(w.queue) > 0 {
			next = w.queue[0].at
		}
		for _, m := range w.all() {
			if m.node != nil && !m.paused {
				if at := m.node.NextWake(); !at.IsZero() && at.Before(next) {
					next = at
				}
			}
		}
		w.clock.Advance(max(0, next.Sub(now)))
		if len(w.queue) > 0 && !w.queue[0].at.After(w.clock.Now()) {
			heap.Pop(&w.queue).(delivery).do()
			continue
		}
		for _, m := range w.all() {
			if m.node != nil && !m.paused {
				if at := m.node.NextWake(); !at.IsZero() && !at.After(w.clock.Now()) {
					m.step()
				}
			}
		}
	}
	return w.clock.Now().Sub(began)
}

func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.clock.Now().Add(d)
	w.after(d, func() {})
	w.run(d+time.Second, "time passed", func() bool { return !w.clock.Now().Before(end) })
}

func (w *world) String() string {
	var out string
	for _, m := range w.all() {
		if m.node == nil {
			out += fmt.Sprintf("[%d down %v] ", m.id, m.failed)
			continue
		}
		out += fmt.Sprintf("[%d state %d %+v image %d] ", m.id, m.node.State(), m.node.QuorumStatus().Leadership, m.node.Image().Index)
	}
	return out
}

// active returns the machine of the active controller, or nil.
func (w *world) active() *machine {
	for _, m := range w.all() {
		if m.node != nil && m.node.QuorumStatus().Ready && !w.cut[m.id] {
			return m
		}
	}
	return nil
}

// running reports whether brokers run, as far as they know and as all nodes know.
func (w *world) running(ids ...kafka.BrokerID) func() bool {
	return func() bool {
		for _, id := range ids {
			if m := w.hosts[id]; m.node == nil || m.node.State() != Running {
				return false
			}
			for _, m := range w.all() {
				if m.node == nil || w.cut[m.id] {
					continue
				}
				if b, ok := m.node.Image().Brokers.ByID(id); !ok || b.Fenced {
					return false
				}
			}
		}
		return true
	}
}

// fenced reports whether all nodes know that a broker is fenced.
func (w *world) fenced(id kafka.BrokerID) func() bool {
	return func() bool {
		for _, m := range w.all() {
			if m.node == nil || w.cut[m.id] {
				continue
			}
			if b, ok := m.node.Image().Brokers.ByID(id); !ok || !b.Fenced {
				return false
			}
		}
		return true
	}
}

// up starts machines and waits for their brokers.
func (w *world) up(ids ...kafka.BrokerID) {
	w.t.Helper()
	var brokers []kafka.BrokerID
	for _, id := range ids {
		w.hosts[id].start()
		if !w.hosts[id].o.Roles.NoBroker {
			brokers = append(brokers, id)
		}
	}
	w.run(30*time.Second, "all running", w.running(brokers...))
}

// submit has a command decided through a node, and checks that the node then knows the image of the answer.
func (w *world) submit(m *machine, cmd controller.Command) result {
	w.t.Helper()
	var got *result
	m.node.SubmitAsync(cmd, func(reply controller.Reply, err error) { got = &result{reply, err} })
	m.step()
	w.run(70*time.Second, fmt.Sprintf("%T answered", cmd), func() bool { return got != nil })
	return *got
}

// peersOf is what one machine says to the others.
type peersOf struct{ m *machine }

func (p peersOf) late() time.Duration {
	return time.Millisecond + time.Duration(p.m.w.rng.Int64N(int64(2*time.Millisecond)))
}

// deliver carries something to another machine, unless it is lost, or nobody is at that address. lost may be nil.
func (p peersOf) deliver(to kafka.BrokerID, address Address, f func(*Node), lost func()) {
	w, from := p.m.w, p.m.id
	if there := w.hosts[to].o.Address; there.Host != address.Host || there.Port != address.Port {
		if lost != nil {
			w.after(p.late(), lost)
		}
		return
	}
	if w.rng.Float64() < w.loss {
		if lost != nil && w.rng.IntN(2) == 0 { // the other half is never heard of again
			w.after(p.late(), lost)
		}
		return
	}
	w.after(p.late(), func() {
		m := w.hosts[to]
		switch {
		case m == nil || w.cut[to] || w.cut[from]:
		case m.node == nil:
			if lost != nil {
				lost()
			}
		case m.paused:
			m.backlog = append(m.backlog, func() { f(m.node) })
		default:
			f(m.node)
			m.step()
		}
	})
}

func (p peersOf) Send(messages []*raftpb.Message) {
	for _, msg := range messages {
		for _, to := range p.m.w.all() {
			if quorum.RaftID(to.o.DirectoryID) != msg.GetTo() {
				continue
			}
			snapshot := msg.GetType() == raftpb.MsgSnap
			life := p.m.life
			told := func(ok bool) {
				if p.m.node != nil && p.m.life == life {
					if snapshot {
						p.m.node.SnapshotSent(msg.GetTo(), ok)
					} else if !ok {
						p.m.node.Unreachable(msg.GetTo())
					}
					p.m.step()
				}
			}
			p.deliver(to.id, p.address(msg.GetTo()), func(n *Node) {
				n.Receive(quorum.Receive{Messages: []*raftpb.Message{msg}})
				if snapshot {
					p.m.w.after(p.late(), func() { told(true) })
				}
			}, func() { told(false) })
		}
	}
}

// address is where the machine takes a member to be.
func (p peersOf) address(raftID uint64) Address {
	for _, m := range p.m.members {
		if m.RaftID == raftID {
			return Address{Host: m.Host, Port: m.Port}
		}
	}
	return Address{}
}

func (p peersOf) SetMembers(members []metadata.QuorumMember) { p.m.members = slices.Clone(members) }

func (p peersOf) Submit(to metadata.QuorumMember, cmd controller.Command, done func(Answer, error)) {
	life := p.m.life
	answer := func(a Answer, err error) {
		if p.m.node != nil && p.m.life == life && !p.m.w.cut[p.m.id] {
			done(a, err)
			p.m.step()
		}
	}
	p.deliver(to.Node, Address{Host: to.Host, Port: to.Port}, func(n *Node) {
		n.Decide(cmd, func(a Answer, err error) {
			back := peersOf{p.m.w.hosts[to.Node]}
			back.deliver(p.m.id, p.m.o.Address, func(*Node) { answer(a, err) }, nil)
		})
	}, func() { answer(Answer{}, errors.New("connection reset by peer")) })
}
