package controller

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// Partitions are moved, and moved elsewhere meanwhile, and back, while brokers die and return, some with nothing on their
// disks. Whatever happened: what is moved is on its way to whom was named last, a cancellation leads to the replicas that there were
// before, and when all brokers are back everything arrives.
func TestReassignmentsArrive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for id := range 4 {
			w.run(fmt.Sprintf("broker %d", id+1))
		}
		w.run(fmt.Sprintf("create a assign=0:1,2/1:3,4 min.insync.replicas=%d unclean.leader.election.enable=%v",
			rapid.IntRange(1, 3).Draw(t, "minimum"), rapid.Bool().Draw(t, "unclean")))
		wanted := map[int32]*moved{0: {from: []kafka.BrokerID{1, 2}}, 1: {from: []kafka.BrokerID{3, 4}}}
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			cmd := drawMove(t, w)
			before := w.img
			w.step(t, cmd)
			for i, m := range wanted {
				m.follow(t, w, cmd, before.Topics, i)
			}
		}
		w.heal(t)
		topic, _ := w.img.Topics.ByName("a")
		for i, m := range wanted {
			if p := topic.Partition(i); !slices.Equal(sorted(p.Replicas), sorted(m.whole())) || p.Adding != nil || p.Removing != nil || p.Leader == kafka.NoBroker {
				t.Fatalf("a-%d shall have %v, and comes to be %s", i, m.whole(), describePartition(p))
			}
		}
	})
}

// moved is what a partition had when it began to be moved, and where to; nil for nowhere.
type moved struct{ from, to []kafka.BrokerID }

func (m *moved) whole() []kafka.BrokerID {
	if m.to != nil {
		return m.to
	}
	return m.from
}

// follow notes what a command has done to partition i.
func (m *moved) follow(t *rapid.T, w *world, cmd Command, before *metadata.Topics, i int32) {
	was, _ := before.ByName("a")
	topic, _ := w.img.Topics.ByName("a")
	old, p := was.Partition(i), topic.Partition(i)
	if c, is := cmd.(AlterReassignments); is && c.Partitions[0].Partition == i && !old.Equal(p) {
		m.to = c.Partitions[0].Replicas
	}
	if target := p.Replicas[:len(p.Replicas)-len(p.Removing)]; m.to != nil && !slices.Equal(target, m.to) {
		t.Fatalf("%+v: a-%d shall have %v, and %s became %s", cmd, i, m.to, describePartition(old), describePartition(p))
	}
	if len(p.Adding)+len(p.Removing) > 0 {
		return
	}
	if m.to != nil {
		m.from, m.to = m.to, nil
	} else if !slices.Equal(sorted(p.Replicas), sorted(m.from)) {
		t.Fatalf("%+v: a-%d had %v, and %s became %s", cmd, i, m.from, describePartition(old), describePartition(p))
	}
}

func drawMove(t *rapid.T, w *world) Command {
	id := rapid.IntRange(1, 4).Draw(t, "broker")
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1:
		return drawReassignment(t, w)
	case 2:
		b, _ := w.img.Brokers.ByID(kafka.BrokerID(id))
		return BrokerHeartbeat{Broker: b.ID, Epoch: b.Epoch, MetadataOffset: w.img.Index, WantFence: true}
	case 3:
		w.leases.Reset(w.now.Add(-w.leases.SessionTimeout))
		return w.register(parseWords(fmt.Sprintf("%d incarnation=%d", id, rapid.IntRange(1, 9).Draw(t, "incarnation"))))
	case 4:
		return ElectLeaders{Type: PreferredElection, All: true}
	case 5, 6:
		b, _ := w.img.Brokers.ByID(kafka.BrokerID(id))
		return BrokerHeartbeat{Broker: b.ID, Epoch: b.Epoch, MetadataOffset: w.img.Index}
	}
	return drawISRChange(t, w)
}

// heal has every broker back, a leader for every partition, and all its replicas in sync.
func (w *world) heal(t *rapid.T) {
	for b := range w.img.Brokers.All() {
		w.step(t, BrokerHeartbeat{Broker: b.ID, Epoch: b.Epoch, MetadataOffset: w.img.Index})
	}
	w.step(t, ElectLeaders{Type: UncleanElection, All: true})
	for range 3 { // it has recovered; all are in sync; and so are they where others lead now
		topic, _ := w.img.Topics.ByName("a")
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			leader, _ := w.img.Brokers.ByID(p.Leader)
			change := ISRChange{TopicID: topic.ID, Partition: int32(i), LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
			for _, id := range p.Replicas {
				change.ISR = append(change.ISR, ISRMember{id, -1})
			}
			w.step(t, AlterPartition{Broker: p.Leader, Epoch: leader.Epoch, Partitions: []ISRChange{change}})
		}
	}
}

func sorted(ids []kafka.BrokerID) []kafka.BrokerID { return slices.Sorted(slices.Values(ids)) }
