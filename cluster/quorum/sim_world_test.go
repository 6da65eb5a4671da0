package quorum

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"weir/internal/kafka"
)

// world is a quorum of hosts on a network that one seed decides all about. One event happens after the other, in one
// goroutine: the same seed gives the same run, to which trace attests.
type world struct {
	t     testing.TB
	seed  uint64
	rng   *rand.Rand
	now   time.Duration
	queue schedule
	seq   uint64
	hosts []*host
	byID  map[uint64]*host
	check *checker
	trace hash.Hash64
	seen  map[string]int // what came to pass, for the generator to be judged by

	voters int // how many voters the cluster is to have
	clock  int64
	mix    mix
	link   link
	cut    map[[2]int]bool // from one host to another nothing arrives
	calm   bool            // no faults any more
}

// link is how the network treats messages.
type link struct {
	loss, twice float64       // probabilities
	delay       time.Duration // half of it at least; sometimes ten times as much
}

var calmLink = link{delay: 2 * time.Millisecond}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0x51)), byID: map[uint64]*host{}, trace: fnv.New64a(),
		seen: map[string]int{}, cut: map[[2]int]bool{}, link: calmLink,
	}
	w.check = newChecker(w)
	return w
}

func (w *world) time() time.Time { return epoch.Add(w.now) }

// failf ends the run.
func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d at %s: %s", w.seed, w.now, fmt.Sprintf(format, args...))
}

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// between draws a duration.
func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rng.Int64N(int64(b-a)+1))
}

// note puts something down in the trace.
func (w *world) note(values ...uint64) {
	var b [8]byte
	for _, v := range values {
		binary.LittleEndian.PutUint64(b[:], v)
		_, _ = w.trace.Write(b[:]) // a hash takes everything
	}
}

// after has something happen.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, happening{w.now + d, w.seq, do})
}

// every has something happen again and again, at random intervals, while there are faults.
func (w *world) every(a, b time.Duration, do func()) {
	var again func()
	again = func() {
		if !w.calm {
			do()
			w.after(w.between(a, b), again)
		}
	}
	w.after(w.between(a, b), again)
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	for end := w.now + d; len(w.queue) > 0 && w.queue[0].at <= end; {
		next := heap.Pop(&w.queue).(happening)
		w.now = next.at
		next.do()
	}
}

type happening struct {
	at  time.Duration
	seq uint64
	do  func()
}

// schedule is a heap of happenings; those of one moment keep the order in which they were planned.
type schedule []happening

func (s schedule) Len() int { return len(s) }
func (s schedule) Less(i, j int) bool {
	return s[i].at < s[j].at || s[i].at == s[j].at && s[i].seq < s[j].seq
}
func (s schedule) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)   { *s = append(*s, x.(happening)) }
func (s *schedule) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last].do = nil
	*s = (*s)[:last]
	return x
}

// send puts a message on its way, as bytes: what two hosts have in memory is never the same.
func (w *world) send(from *host, m *raftpb.Message) {
	b, err := proto.Marshal(m)
	if err != nil {
		w.failf("%v", err)
	}
	to := w.byID[m.GetTo()]
	snapshot := m.GetType() == raftpb.MsgSnap
	if snapshot {
		w.seen["snapshot sent"]++
	}
	copies := 1
	if w.chance(w.link.twice) {
		copies = 2
	}
	arrived := false
	for range copies {
		if to == nil || w.cut[[2]int{from.number, to.number}] || w.chance(w.link.loss) {
			continue
		}
		arrived = true
		w.after(w.travel(), func() {
			var m raftpb.Message
			if err := proto.Unmarshal(b, &m); err != nil {
				w.failf("%v", err)
			}
			to.deliver(&m)
		})
	}
	life := from.life
	switch {
	case snapshot:
		w.after(w.between(0, 100*time.Millisecond), func() { from.stepIn(life, SnapshotSent{m.GetTo(), arrived}) })
	case !arrived && w.chance(0.3):
		w.after(w.travel(), func() { from.stepIn(life, Unreachable{m.GetTo()}) })
	}
}

func (w *world) travel() time.Duration {
	d := w.between(w.link.delay/2, w.link.delay)
	if !w.calm && w.chance(0.02) {
		d *= 10
	}
	return d
}

// leader is the host that leads in the highest term and may decide.
func (w *world) leader() *host {
	var leader *host
	for _, h := range w.hosts {
		if h.node != nil && h.node.Leadership().Ready && (leader == nil || h.node.lead.Term > leader.node.lead.Term) {
			leader = h
		}
	}
	return leader
}

// addHost is another machine with an empty disk.
func (w *world) addHost() *host {
	h := &host{w: w, number: len(w.hosts), cutIn: -1}
	h.member.Node = kafka.BrokerID(h.number + 1)
	h.member.Directory = kafka.UUID{0: byte(h.number), 1: byte(w.seed), 2: byte(w.seed >> 8), 15: 1}
	h.member.RaftID = RaftID(h.member.Directory)
	h.member.Host, h.member.Port = fmt.Sprintf("h%d", h.number), 9093
	h.disk(newDisk())
	w.hosts = append(w.hosts, h)
	w.byID[h.member.RaftID] = h
	return h
}
