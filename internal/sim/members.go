package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// membersConfig says how the quorum grows and shrinks. The zero value is what brokers do by themselves, and nobody joins late.
type membersConfig struct {
	maxVoters      int
	stabilization  time.Duration // how long learners keep up before they get votes
	deadVoterAfter time.Duration
	grow           time.Duration // in which those who do not found the cluster come; 0: all at once
}

func drawMembers(rng *rand.Rand, c *config) membersConfig {
	return membersConfig{
		maxVoters: max(c.voters, pick(rng, 1, 3, 3, 5)), stabilization: between(rng, 300*time.Millisecond, 3*time.Second),
		deadVoterAfter: between(rng, 4*time.Second, 12*time.Second), grow: pick(rng, time.Millisecond, 4*time.Second),
	}
}

// members are the machines that were ever part of the cluster, and whose logs of the metadata must not be lost.
type members struct {
	machines []*node // all that there ever were; those that are nodes now are simulation.nodes
	founders []metadata.QuorumMember
	lostLogs map[uint64]bool // by Raft id
	retired  []voterSet
	spared   time.Duration // no learner loses its disk before
}

// voterSet are voters that a node knew until a time.
type voterSet struct {
	ids   []uint64
	until time.Duration
}

func newMembers() members { return members{lostLogs: map[uint64]bool{}} }

// raftID is that of the node's present disk.
func (n *node) raftID() uint64 { return n.raftIDs[len(n.raftIDs)-1] }

// loseLog takes note that the log of the metadata on the node's disk is gone.
func (n *node) loseLog() {
	n.s.lostLogs[n.raftID()] = true
	if n.votes() {
		n.s.rare.count(rareVoterLost)
	} else {
		n.s.spared = n.s.w.now + 2*n.s.c.election + time.Second
	}
}

// votes reports whether the node has a vote, as far as it knows.
func (n *node) votes() bool { return slices.Contains(n.voters, n.raftID()) }

// noteVoters takes note of the voters that a node knows.
func (s *simulation) noteVoters(n *node, status *quorum.Status) {
	same := func(a []uint64) bool {
		return slices.EqualFunc(a, status.Voters, func(id uint64, r quorum.Replica) bool { return id == r.RaftID })
	}
	if same(n.voters) {
		return
	}
	if n.voters != nil {
		s.retired = append(s.retired, voterSet{n.voters, s.w.now})
		if len(status.Voters) > len(n.voters) && status.Ready {
			s.rare.count(rareVotersGrew)
		}
	}
	n.voters = nil
	for _, r := range status.Voters {
		n.voters = append(n.voters, r.RaftID)
	}
	s.w.tracef("n%d knows %d voters", n.id, len(n.voters))
}

// inForce is how long voters may count after the nodes that knew them know others: the change of one set into another has both
// of them vote.
const inForce = 5 * time.Second

// quorumBears reports whether the metadata is safe though a node loses its disk: of all voters that may count, a majority has
// its logs; and it has of those that are left when the ones that were removed, or are about to be, have left Raft, which nobody
// may know yet. A learner that is gone may still get a vote until the leader misses it: where one votes, two at a time would be the
// majority of three.
func (s *simulation) quorumBears(n *node) bool {
	one := !slices.ContainsFunc(s.nodes, func(m *node) bool { return len(m.voters) > 2 })
	if one && !n.votes() && s.w.now < s.spared {
		return false
	}
	bear := func(ids []uint64) bool {
		lost := 0
		for _, id := range ids {
			if s.lostLogs[id] || id == n.raftID() {
				lost++
			}
		}
		return lost <= (len(ids)-1)/2 || len(ids) == 0
	}
	goes := func(id uint64) bool {
		_, member := s.newest.Quorum.ByRaftID(id)
		return !member || slices.ContainsFunc(s.nodes, func(m *node) bool { return m.removing && m.raftID() == id })
	}
	bears := func(ids []uint64) bool {
		return bear(ids) && bear(slices.DeleteFunc(slices.Clone(ids), goes))
	}
	founders := make([]uint64, len(s.founders))
	for i, m := range s.founders {
		founders[i] = m.RaftID
	}
	known := false
	for _, m := range s.nodes {
		known = known || m.voters != nil
		if !bears(m.voters) {
			return false
		}
	}
	for _, set := range s.retired {
		if s.w.now-set.until < inForce && !bears(set.ids) {
			return false
		}
	}
	return known && (s.w.now > inForce || bears(founders))
}

// join asks members of the cluster, one after the other, to take this node in, and then runs done.
func (n *node) join(done func()) {
	joins := controller.JoinNode{ClusterID: clusterID, Directory: n.directory(0), Node: n.id}
	registers := controller.RegisterMember{ClusterID: clusterID, Member: n.member()}
	if n.s.c.members.maxVoters == 0 {
		n.ask(registers, done) // as one does that is told the others' addresses
		return
	}
	n.ask(joins, func() {
		n.s.rare.count(rareJoined)
		n.ask(registers, done)
	})
}

// ask has members of the cluster, one after the other, see to a command, until one does.
func (n *node) ask(cmd controller.Command, done func()) {
	others := n.s.contacts(n)
	target := n.s.node(others[n.s.disk.IntN(len(others))].Node)
	call(n.s.net, n.host.id, target.host.id, callTimeout, func(reply func(error)) {
		target.proc.submit(cmd, func(_ controller.Reply, err error) { reply(err) })
	}, func(refused error, err error) {
		if err != nil || refused != nil {
			if kafka.CodeOf(refused) == kafka.DuplicateBrokerRegistration {
				n.s.dismissLost(n)
			}
			n.host.after(200*time.Millisecond, func() { n.ask(cmd, done) })
			return
		}
		done()
	})
}

// dismissLost has an operator remove a disk that a node had before and that is lost, where no broker was ever registered with
// it: of such a member the cluster cannot know that it will not come back.
func (s *simulation) dismissLost(n *node) {
	b, registered := s.newest.Brokers.ByID(n.id)
	for m := range s.newest.Quorum.All() {
		if m.Node != n.id || !s.lostLogs[m.RaftID] || n.dismissing || registered && slices.Contains(b.Directories, m.Directory) {
			continue
		}
		n.dismissing = true
		s.admin.operate(controller.RemoveMember{ClusterID: clusterID, Node: n.id, Directory: m.Directory}, func(err error) {
			s.w.tracef("a lost disk of n%d is removed: %v", n.id, err)
			n.dismissing = false
		})
	}
}

// replace has another machine take the place of a node, with the same id. The old one was thrown away, or an operator removes it
// though it may live; then it goes on until it is refused.
func (s *simulation) replace(slot int, rng *rand.Rand) bool {
	n := s.nodes[slot]
	if n.removing || n.joined != n.disks && !n.founds() || len(s.machines) >= 40 || !s.bears(n) || !s.quorumBears(n) {
		return false
	}
	alive := chance(rng, 0.5)
	if alive && s.beingMoved(n) {
		return false // it might have the only replica of a partition when the removal is decided
	}
	n.markLossy(true)
	n.wiped, n.removing = true, true
	remove := controller.RemoveMember{ClusterID: clusterID, Node: n.id, Directory: n.directory(0)}
	if !alive {
		n.loseLog()
		n.end(chance(rng, 0.5))
		n.lost = true
		s.substitute(slot, rng)
		if chance(rng, 0.3) {
			s.admin.operate(remove, func(error) {})
		}
		return true
	}
	s.admin.operate(remove, func(err error) {
		n.removing = false
		if err != nil {
			s.w.tracef("n%d is not removed: %v", n.id, err)
			s.rare.count(rareRemovalRefused)
			return
		}
		if n.proc != nil {
			s.rare.count(rareRemovedAlive)
		}
		s.substitute(slot, rng)
		s.w.after(between(rng, 0, 3*time.Second), n.start) // somebody does not know, and starts it once more
	})
	return true
}

// substitute gives a node's id to a machine with an empty disk.
func (s *simulation) substitute(slot int, rng *rand.Rand) {
	old := s.nodes[slot]
	old.removed, old.removing = true, false
	n := newNode(s, len(s.machines)+1, old.id)
	n.markLossy(true)
	n.wiped = true
	s.nodes[slot] = n
	s.machines = append(s.machines, n)
	s.rare.count(rareReplaced)
	s.w.tracef("machine %d takes the place of machine %d as n%d", n.machine, old.machine, n.id)
	s.restartLater(n, pick(rng, 5*time.Millisecond, 500*time.Millisecond, 2*time.Second))
}

// operate has a command decided that an operator gives, until it is known what became of it. done is told why it was refused.
// Where an earlier try has no answer, that may come true yet: then the operator insists.
func (a *admin) operate(cmd controller.Command, done func(error)) { a.insist(cmd, true, done) }

func (a *admin) insist(cmd controller.Command, first bool, done func(error)) {
	n := a.s.nodes[a.rng.IntN(len(a.s.nodes))]
	callOnce(a.s.net, a.host.id, n.host.id, 3*time.Second, func(reply func(submission)) {
		n.proc.submit(cmd, func(r controller.Reply, err error) { reply(submission{r, err}) })
	}, func(got submission, err error) {
		if err == nil {
			err = got.err
			if code := kafka.CodeOf(err); err == nil || first && code == kafka.InvalidRequest || code == kafka.VoterNotFound {
				done(err)
				return
			}
		}
		a.s.w.tracef("admin: %T: %v", cmd, err)
		a.host.after(between(a.rng, 50*time.Millisecond, 300*time.Millisecond), func() { a.insist(cmd, false, done) })
	})
}

// unsettledMembers says what is to be done about the quorum before it is as it is to be: its members are the nodes that there
// are, and an odd number of them votes.
func (s *simulation) unsettledMembers() string {
	for _, n := range s.machines {
		if n.removed && n.proc != nil {
			return fmt.Sprintf("machine %d still runs, which was n%d and is removed", n.machine, n.id)
		}
	}
	for _, n := range s.nodes {
		if n.removing {
			return fmt.Sprintf("%v is being removed", n)
		}
	}
	for m := range s.newest.Quorum.All() {
		if n := s.node(m.Node); n.raftID() != m.RaftID {
			return fmt.Sprintf("%v is still a member with the directory %v", n, m.Directory)
		}
	}
	a := s.activeController()
	if a == nil {
		return "nobody is the active controller"
	}
	voters := a.proc.node.QuorumStatus().Voters
	most := s.c.members.maxVoters
	if most == 0 {
		most = max(5, s.c.voters)
	}
	if want := min(most, s.newest.Quorum.Len()-(s.newest.Quorum.Len()+1)%2); len(voters) != want {
		return fmt.Sprintf("%d of %d members vote; %d should", len(voters), s.newest.Quorum.Len(), want)
	}
	return ""
}
