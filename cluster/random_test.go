package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// Whatever dies, pauses or is cut off, and comes back: what was answered is true on every node, all of them have one truth,
// and all brokers run again.
func TestRandomDays(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	created := 0
	for seed := range seeds {
		d := &days{world: newWorld(t, seed, 3), topics: map[string]kafka.TopicID{}}
		d.live(40)
		created += len(d.topics)
	}
	if created < 10*int(seeds) {
		t.Errorf("only %d topics were created", created)
	}
}

// days is a world with what its clients were told.
type days struct {
	*world
	topics map[string]kafka.TopicID // that were created
	number int
	open   []*pendingTopic
}

type pendingTopic struct {
	m        *machine
	life     int
	answered bool
}

// answered reports whether every process that lives has answered everything.
func (d *days) answered() bool {
	return !slices.ContainsFunc(d.open, func(p *pendingTopic) bool { return !p.answered && p.m.life == p.life })
}

func (d *days) live(events int) {
	for id := kafka.BrokerID(11); id <= 12; id++ {
		d.add(id, func(o *Options) { o.Join = d.members })
	}
	d.up(1, 2, 3, 11, 12)
	d.loss = d.rng.Float64() * 0.1
	for range events {
		d.event(d.all()[d.rng.IntN(5)])
		if m := d.all()[d.rng.IntN(5)]; m.node != nil && !m.paused {
			d.submitTopic(m)
		}
		d.pass(time.Duration(d.rng.Int64N(int64(2 * time.Second))))
	}
	d.heal()
	d.run(90*time.Second, "all running", d.running(1, 2, 3, 11, 12))
	d.run(90*time.Second, "all answered", d.answered)
	d.run(5*time.Second, "one truth", d.agree)
	for name, id := range d.topics {
		if topic, there := d.hosts[1].node.Image().Topics.ByName(name); !there || topic.ID != id {
			d.t.Fatalf("topic %s, which was created, is not there: %+v", name, topic)
		}
	}
}

// event does something to a machine.
func (d *days) event(m *machine) {
	switch n := d.rng.IntN(12); {
	case m.node == nil:
		m.start()
	case n == 0 && !m.paused:
		m.kill()
		m.powerCut(vfs.LoseNone())
	case n == 1:
		m.vanish()
		m.powerCut(vfs.LoseSome(d.rng))
	case n == 2:
		d.cut[m.id] = !d.cut[m.id]
	case n == 3 && !m.paused:
		m.paused = true
	case n == 4 && m.paused:
		m.resume()
	case n == 5:
		m.node.ShutdownAsync(func() {})
		m.step()
	case n == 6:
		clear(d.cut)
	}
}

// powerCut gives a machine whose process is gone the disk that the next one finds.
func (m *machine) powerCut(loss vfs.Loss) {
	m.paused, m.backlog = false, nil
	m.disk = m.disk.Crash(loss)
	m.o.FS = m.disk
}

func (d *days) submitTopic(m *machine) {
	d.number++
	name := fmt.Sprint("t", d.number)
	life, node := m.life, m.node
	pending := &pendingTopic{m: m, life: life}
	d.open = append(d.open, pending)
	node.SubmitAsync(create(name, 1), func(reply controller.Reply, err error) {
		pending.answered = true
		if err != nil || m.life != life {
			return
		}
		row := reply.(controller.CreateTopicsReply).Topics[0]
		switch topic, there := node.Image().Topics.ByName(name); {
		case row.Code == kafka.InvalidReplicationFactor: // everybody is fenced just now
		case !row.OK() || !there || topic.ID != row.ID:
			d.t.Fatalf("node %d answers %+v, and has %+v", m.id, row, topic)
		default:
			d.topics[name] = row.ID
		}
	})
	m.step()
}

func (d *days) heal() {
	d.loss = 0
	clear(d.cut)
	for _, m := range d.all() {
		if m.paused {
			m.resume()
		}
		if m.node != nil && m.node.State() >= PendingControlledShutdown {
			m.vanish()
		}
		if m.node == nil {
			m.start()
		}
	}
}

// agree reports whether all nodes have published the same image.
func (d *days) agree() bool {
	var first *metadata.Image
	for _, m := range d.all() {
		img := m.node.Image()
		if first == nil {
			first = img
			continue
		}
		if img.Index != first.Index {
			return false
		}
		a := metadata.AppendEntry(nil, 0, slices.Collect(first.Records()))
		if b := metadata.AppendEntry(nil, 0, slices.Collect(img.Records())); string(a) != string(b) {
			d.t.Fatalf("two images of index %d differ", img.Index)
		}
	}
	return true
}
