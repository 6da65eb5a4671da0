package replica

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
)

// TestLogsAreEqualAfterAnything has brokers lead, follow, lose their connections, their metadata's tail, their processes
// and their disks at random, and leaders of all kinds elected. When that is over all replicas are the leader's, byte for
// byte.
func TestLogsAreEqualAfterAnything(t *testing.T) {
	for seed := range uint64(100) {
		r := &randomCluster{rng: rand.New(rand.NewPCG(seed, 1))}
		r.cluster = newCluster(t, 3, 2)
		r.sessions = seed%2 == 0
		if seed%3 == 0 {
			for _, n := range r.nodes {
				n.policy = log.FsyncAck
				n.restart(vfs.NewMem())
			}
		}
		r.elect(1)
		for range 80 {
			r.something()
		}
		r.heal()
		r.deliver(len(r.late))
		r.applyAll()
		r.wait(4 * time.Second)
		r.requireEqual()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type randomCluster struct {
	*cluster
	rng  *rand.Rand
	late []func() // answers that are under way
}

func (r *randomCluster) any() *node { return r.nodes[r.rng.IntN(len(r.nodes))] }

func (r *randomCluster) something() {
	n := r.any()
	switch r.rng.IntN(20) {
	case 0:
		r.elect(n.id)
		n.apply()
	case 1:
		r.elect(n.id) // nobody knows yet
	case 2, 3:
		n.apply()
	case 4:
		r.cut[[2]kafka.BrokerID{n.id, r.any().id}] = true
	case 5:
		r.heal()
	case 6:
		n.restart(n.disk.Kill())
	case 7:
		r.lose(n)
	case 8:
		r.pass(r.now.Add(time.Duration(r.rng.IntN(600)) * time.Millisecond))
	case 9:
		r.deleteRecords(n)
	case 10, 11, 12:
		r.append(n)
	case 13:
		r.deliver(r.rng.IntN(3))
	case 14:
		r.settle()
	default:
		r.step(n)
	}
}

// lose has a broker come back with an empty disk, or without what was not durable. A leader that does so is not the same
// leader any more.
func (r *randomCluster) lose(n *node) {
	disk := vfs.NewMem()
	if r.rng.IntN(2) == 0 {
		disk = n.disk.Crash(vfs.LoseAll())
	}
	r.elect(r.any().id)
	n.restart(disk)
	n.apply()
}

func (r *randomCluster) append(n *node) {
	i := r.rng.IntN(len(r.parts))
	if p := n.partition(i); p != nil && p.LeaderEpoch() != kafka.NoLeaderEpoch {
		n.produceTo(i, 1+r.rng.IntN(4))
	}
}

func (r *randomCluster) deleteRecords(n *node) {
	p := n.partition(r.rng.IntN(len(r.parts)))
	if p == nil || p.LeaderEpoch() == kafka.NoLeaderEpoch {
		return
	}
	if hw, start := p.Log().HighWatermark(), p.Log().StartOffset(); hw > start {
		if _, err := p.DeleteRecords(start + r.rng.Int64N(hw-start+1)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// step moves one broker on: by what it has, and by an answer to one of its requests, which may come late.
func (r *randomCluster) step(n *node) {
	n.step()
	if r.rng.IntN(2) == 0 {
		n.commit()
	}
	asked := slices.DeleteFunc(slices.Clone(r.asked), func(q *question) bool { return q.from != n.id })
	if len(asked) == 0 {
		return
	}
	q := asked[r.rng.IntN(len(asked))]
	if q.fetch == nil || r.rng.IntN(3) > 0 || r.node(q.to).manager == nil {
		r.answer(q)
		return
	}
	response, err := r.node(q.to).fetch(q)
	r.over(q)
	r.late = append(r.late, func() { q.answered(response, err) })
}

// deliver has late answers arrive, the oldest first.
func (r *randomCluster) deliver(n int) {
	for range min(n, len(r.late)) {
		r.late[0]()
		r.late = r.late[1:]
	}
}
