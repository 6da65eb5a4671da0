package cluster

import (
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// oneLeader is a network in which one node decides commands, and the others refuse them at once.
type oneLeader struct {
	leader kafka.BrokerID
	asked  map[string][]kafka.BrokerID // by the name of the command
}

func (*oneLeader) Send([]*raftpb.Message)             {}
func (*oneLeader) SetMembers([]metadata.QuorumMember) {}

func (p *oneLeader) Submit(to metadata.QuorumMember, cmd controller.Command, done func(Answer, error)) {
	name := controller.Name(cmd)
	p.asked[name] = append(p.asked[name], to.Node)
	if to.Node != p.leader {
		done(Answer{}, notController())
		return
	}
	done(Answer{Reply: controller.InitializeReply{}}, nil)
}

// routed is a control loop of node 1 that knows of four nodes, and of which only the routing runs.
func routed(t *testing.T, peers *oneLeader) (*Node, *control) {
	o := options(newDisk(), 1)
	o.Peers = peers
	for id := kafka.BrokerID(1); id <= 4; id++ {
		o.Founders = append(o.Founders, member(id))
	}
	n := New(o)
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.quorum.Close() })
	return n, n.control
}

// Commands that fail in lockstep each ask everybody: the failures of one say nothing of whom another has asked.
func TestEveryCommandAsksEverybody(t *testing.T) {
	names := []string{"BrokerHeartbeat", "RegisterMember", "RegisterBroker"}
	mine := []controller.Command{controller.BrokerHeartbeat{}, controller.RegisterMember{}, controller.RegisterBroker{}}
	for _, believed := range []kafka.BrokerID{0, 2, 3} { // who leads, as far as node 1 knows
		for leader := kafka.BrokerID(2); leader <= 4; leader++ {
			peers := &oneLeader{leader: leader, asked: map[string][]kafka.BrokerID{}}
			n, c := routed(t, peers)
			c.lead.Leader = 0
			if believed > 0 {
				c.lead.Leader = member(believed).RaftID
			}
			answers := 0
			for _, cmd := range []controller.Command{controller.ElectLeaders{}, controller.DescribeQuorum{}} {
				c.submit(&submission{cmd: cmd, from: client, done: func(Answer, error) {}})
			}
			for range 6 {
				for i, cmd := range mine {
					if !slices.Contains(peers.asked[names[i]], leader) { // else it was answered, and is not made again
						c.submit(&submission{cmd: cmd, from: own, done: func(_ Answer, err error) {
							if err == nil {
								answers++
							}
						}})
					}
				}
				events, _ := n.events.take()
				for _, e := range events {
					c.take(e)
				}
				c.now = c.now.Add(time.Second)
				c.retry()
			}
			for _, name := range append([]string{"ElectLeaders", "DescribeQuorum"}, names...) {
				if !slices.Contains(peers.asked[name], leader) {
					t.Errorf("%d is taken for the leader: %s asked %v, and not %d", believed, name, peers.asked[name], leader)
				}
			}
			if answers != len(mine) {
				t.Errorf("%d is taken for the leader: %d commands were answered by %d", believed, answers, leader)
			}
		}
	}
}

// Whoever was removed is told so by any node that knows: it may find no other than those that do not lead.
func TestAnyNodeKnowsWhoWasRemoved(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	w.join(4)
	gone := w.hosts[4]
	member, _ := w.active().node.Image().Quorum.ByRaftID(gone.node.quorum.RaftID())
	epoch, _ := gone.node.Registered()
	gone.kill()
	w.pass(12 * time.Second)
	if err := w.remove(w.active(), gone); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	for _, m := range w.all() {
		if m.node == nil {
			continue
		}
		stale := controller.BrokerHeartbeat{Broker: gone.id, Epoch: epoch} // it does not know yet that it is none any more
		told := make(chan error, 1)
		m.node.Decide(stale, func(_ Answer, err error) { told <- err })
		w.pass(time.Second)
		if err := <-told; kafka.CodeOf(err) != kafka.BrokerIDNotRegistered {
			t.Errorf("node %d says %v to a heartbeat", m.id, err)
		}
		for _, cmd := range []controller.Command{
			controller.RegisterMember{ClusterID: "c1", Member: member},                                                      // of one that has another address
			controller.RegisterBroker{ClusterID: "c1", Broker: gone.id, Directories: []kafka.DirectoryID{member.Directory}}, // or has it still
		} {
			told := make(chan error, 1)
			m.node.Decide(cmd, func(_ Answer, err error) { told <- err })
			w.pass(time.Second)
			if err := <-told; kafka.CodeOf(err) != kafka.InvalidRegistration {
				t.Errorf("node %d says %v to %T", m.id, err, cmd)
			}
		}
	}
}
