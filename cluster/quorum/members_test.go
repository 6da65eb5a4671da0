package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
	"weir/internal/vfs"
)

// join opens a node that others take in.
func (w *net) join(id uint64, opts func(uint64) Options) *Node {
	w.t.Helper()
	o := opts(id)
	o.Founders, o.Join = nil, true
	n, err := Open(o, epoch)
	if err != nil {
		w.t.Fatal(err)
	}
	w.nodes[id] = n
	return n
}

// change has the leader change members, and all that follows from it happen.
func (w *net) change(c ChangeMembers) {
	w.t.Helper()
	if out := step(w.t, w.leader(), c); out.Dropped {
		w.t.Fatalf("dropped: %+v", c)
	}
	w.run()
	w.tick(5)
}

// reopen closes a node and opens it again, told of nothing.
func (w *net) reopen(id uint64, opts func(uint64) Options) {
	w.t.Helper()
	if err := w.nodes[id].Close(); err != nil {
		w.t.Fatal(err)
	}
	o := opts(id)
	o.Founders = nil
	n, err := Open(o, epoch)
	if err != nil {
		w.t.Fatal(err)
	}
	w.nodes[id] = n
}

// From one voter to three in one change, by way of learners; and back.
func TestMembersChange(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 3) // Raft draws its election timeouts from crypto/rand
	w, opts := cluster(t, 1, nil)
	w.tick(1)
	propose(t, w.nodes[1], producerIDs(1000))
	for _, id := range []uint64{2, 3} {
		n := w.join(id, opts)
		if !n.Waiting() || !n.Ticking() || n.IsVoter() || n.Image().ClusterID != "" {
			t.Fatalf("node %d, which joins: waiting %v, ticking %v, voter %v, cluster %q", id, n.Waiting(), n.Ticking(), n.IsVoter(), n.Image().ClusterID)
		}
	}
	w.tick(40)
	if lead := w.nodes[2].Leadership(); lead != (Leadership{}) {
		t.Fatalf("a node that waits has come to %+v by itself", lead)
	}
	for _, id := range []uint64{2, 3} {
		w.change(ChangeMembers{Learn: []uint64{id}})
	}
	w.agree(1000)
	leader := w.nodes[1]
	end := int64(leader.storage.last()) + 1
	if got, want := leader.Status(), (&Status{
		Leadership: Leadership{Term: 1, Leader: 1, Ready: true}, HighWatermark: end,
		Voters: []Replica{{RaftID: 1, LogEndOffset: end}}, Learners: []Replica{{2, end, epoch, epoch, epoch}, {3, end, epoch, epoch, epoch}},
	}); !reflect.DeepEqual(got, want) || leader.Match(3) != end || leader.Match(4) != -1 || leader.Match(1) != end || w.nodes[2].Match(1) != -1 {
		t.Errorf("with learners: %+v, want %+v; matches %d %d", got, want, leader.Match(3), leader.Match(4))
	}
	w.reopen(2, opts) // it remembers that it is a learner
	w.tick(40)
	if w.nodes[2].Waiting() || w.nodes[2].IsVoter() || w.leader() != leader {
		t.Fatalf("a learner that started again: %+v", w.nodes[2].Members())
	}

	w.change(ChangeMembers{Promote: []uint64{2, 3}})
	w.proposeAll(2000)
	three := Members{Voters: []uint64{1, 2, 3}}
	for id := range uint64(3) {
		if got := w.nodes[id+1].Members(); !reflect.DeepEqual(got, three) || !w.nodes[id+1].IsVoter() {
			t.Fatalf("node %d has %+v", id+1, got)
		}
	}
	for id := range uint64(3) { // what was changed is known after a restart: nobody elects itself alone
		w.reopen(id+1, opts)
	}
	if step(t, w.nodes[1], Tick{}); w.nodes[1].Leadership().Leader != 0 {
		t.Fatal("one of three voters made itself the leader")
	}
	w.run()
	w.tick(40)
	w.proposeAll(3000)

	gone := w.leader().RaftID()
	if out := step(t, w.leader(), ChangeMembers{Remove: []uint64{gone}}); !out.Dropped {
		t.Fatal("a leader removes itself")
	}
	w.run() // but it has handed over
	other := w.leader().RaftID()
	w.change(ChangeMembers{Remove: []uint64{gone}})
	if other == gone || w.nodes[gone].IsVoter() {
		t.Fatalf("%d leads, and %d, which was removed, has members %+v", other, gone, w.nodes[gone].Members())
	}
	w.change(ChangeMembers{Remove: []uint64{6 - gone - other}})
	delete(w.nodes, gone)
	delete(w.nodes, 6-gone-other)
	if last := w.nodes[other]; last.Ticking() || !reflect.DeepEqual(last.Members(), Members{Voters: []uint64{other}}) {
		t.Fatalf("the last voter: ticking %v, members %+v", last.Ticking(), last.Members())
	}
	w.reopen(other, opts)
	step(t, w.nodes[other], Tick{}) // it is alone, and knows it
	propose(t, w.nodes[other], producerIDs(4000))
}

// proposeAll has producer ids committed, and all agree on them.
func (w *net) proposeAll(next int64) {
	w.t.Helper()
	if !w.propose(producerIDs(next)) {
		w.t.Fatal("dropped")
	}
	w.agree(next)
}

// A learner takes the place of a voter that is down in one change, and that one learns when it comes back.
func TestVoterBecomesLearner(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 8)
	w, opts := cluster(t, 3, nil)
	w.tick(30)
	w.join(4, opts)
	w.change(ChangeMembers{Learn: []uint64{4}})
	gone := w.leader().RaftID()%3 + 1
	w.cut[gone] = true
	w.change(ChangeMembers{Promote: []uint64{4}, Demote: []uint64{gone}})
	w.proposeAll(1000 * int64(gone)) // the cut one has no say in it
	voters := slices.DeleteFunc([]uint64{1, 2, 3, 4}, func(id uint64) bool { return id == gone })
	if got := w.leader().Members(); !reflect.DeepEqual(got, Members{Voters: voters, Learners: []uint64{gone}}) {
		t.Fatalf("%d was to become a learner: %+v", gone, got)
	}
	w.reopen(gone, opts) // and does not know that it is one
	delete(w.cut, gone)
	w.tick(40)
	w.agree(1000 * int64(gone))
	if w.nodes[gone].IsVoter() {
		t.Fatalf("%d still votes: %+v", gone, w.nodes[gone].Members())
	}
	leader := w.leader().RaftID()
	if out := step(t, w.leader(), ChangeMembers{Demote: []uint64{leader}}); !out.Dropped {
		t.Fatal("a leader takes its own vote")
	}
	w.run() // but it has handed over
	if w.leader().RaftID() == leader {
		t.Fatalf("%d still leads", leader)
	}
	w.change(ChangeMembers{Demote: []uint64{leader}, Promote: []uint64{gone}})
	w.reopen(leader, opts)
	w.tick(40)
	w.proposeAll(9000)
	if w.nodes[leader].IsVoter() || !w.nodes[gone].IsVoter() {
		t.Fatalf("%+v", w.leader().Members())
	}
}

func TestChangesThatAreRefused(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 5)
	w, opts := cluster(t, 3, nil)
	w.tick(30)
	w.join(4, opts)
	w.change(ChangeMembers{Learn: []uint64{4}})
	leader := w.leader()
	follower := w.nodes[leader.RaftID()%3+1]
	if out := step(t, follower, ChangeMembers{Learn: []uint64{5}}); !out.Dropped {
		t.Error("a follower took a change")
	}
	for _, c := range []ChangeMembers{
		{}, {Learn: []uint64{0}}, {Learn: []uint64{4}}, {Learn: []uint64{1}}, {Promote: []uint64{5}}, {Promote: []uint64{2}},
		{Remove: []uint64{5}}, {Promote: []uint64{4, 5}}, {Demote: []uint64{4}}, {Demote: []uint64{5}},
	} {
		before := leader.storage.last()
		if out := step(t, leader, c); !out.Dropped || leader.storage.last() != before {
			t.Errorf("%+v was taken", c)
		}
		w.run()
	}
	if out := step(t, leader, ChangeMembers{Learn: []uint64{5}}); out.Dropped || !leader.Members().Changing {
		t.Fatalf("%+v %+v", out, leader.Members())
	}
	if out := step(t, leader, ChangeMembers{Learn: []uint64{6}}); !out.Dropped {
		t.Error("a change was taken while another was under way")
	}
	w.run()
	if got := leader.Members(); got.Changing || !slices.Equal(got.Learners, []uint64{4, 5}) {
		t.Errorf("%+v", got)
	}
}

// A change in the log that nothing can follow on is passed over, by every node and at every start.
func TestImpossibleChangeHasNoEffect(t *testing.T) {
	fsys := newDisk()
	n := alone(t, options(fsys))
	for _, c := range []raftpb.ConfChangeI{
		&raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(7))},
		&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(7))}}},
	} {
		if err := n.raft.ProposeConfChange(c); err != nil {
			t.Fatal(err)
		}
		step(t, n, Wake{})
	}
	propose(t, n, producerIDs(1000))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = alone(t, options(fsys))
	if n.Image().NextProducerID != 1000 || n.Members().Changing || !slices.Equal(n.Members().Voters, []uint64{7}) {
		t.Fatalf("%+v, producer ids from %d", n.Members(), n.Image().NextProducerID)
	}
}

// Entries of the first kind of change come from older logs.
func TestOldKindOfChange(t *testing.T) {
	n := alone(t, options(newDisk()))
	c := &raftpb.ConfChange{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: new(uint64(8))}
	if err := n.raft.ProposeConfChange(c); err != nil {
		t.Fatal(err)
	}
	if out := step(t, n, Wake{}); !out.MembersChanged || !slices.Equal(n.Members().Learners, []uint64{8}) {
		t.Fatalf("%+v %+v", out, n.Members())
	}
}

// A majority of an old configuration must not elect anybody once the others have gone on without it: what a node has
// said that it has, it knows to be committed after a power cut. Here {1} became {1, 2, 3}, and 2 and 3 go on without 1.
func TestForgottenChangeElectsNobody(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 6)
	w, opts := cluster(t, 1, nil)
	w.tick(1)
	w.join(2, opts)
	w.join(3, opts)
	w.change(ChangeMembers{Learn: []uint64{2, 3}})
	w.change(ChangeMembers{Promote: []uint64{2, 3}})
	o := opts(1)
	o.FS = o.FS.(*vfs.Mem).Crash(vfs.LoseAll())
	w.cut[1] = true
	w.tick(40)
	w.proposeAll(2000)
	n, err := Open(o, epoch)
	if err != nil {
		t.Fatal(err)
	}
	w.nodes[1] = n
	for range 40 {
		step(t, n, Tick{})
	}
	if n.Leadership().Leader != 0 || !n.Ticking() {
		t.Fatalf("cut off, it has come to %+v with members %+v", n.Leadership(), n.Members())
	}
	w.queue = nil
	delete(w.cut, 1)
	w.agree(2000)
}

// At whatever moment the power goes while a node is taken in, it goes on when it starts again, and lacks nothing.
func TestPowerCutWhileJoining(t *testing.T) {
	moments, caught := 0, map[string]int{}
	for cut := 0; ; cut++ {
		cryptotest.SetGlobalRandom(t, 7)
		w, opts := cluster(t, 1, nil)
		w.tick(1)
		for i := range 3 {
			propose(t, w.nodes[1], newTopic(i)...)
		}
		mem := newDisk()
		fsys := &hookFS{FS: mem, before: func() {}}
		join := func(fsys vfs.FS) error {
			o := opts(2)
			o.FS, o.Founders, o.Join = fsys, nil, true
			n, err := Open(o, epoch)
			if err == nil {
				w.nodes[2] = n
			}
			return err
		}
		var image *vfs.Mem
		left := cut
		fsys.before = func() {
			if left--; left == -1 {
				image = mem.Crash(losses(uint64(cut))[cut%4])
				w.cut[2] = true // nobody hears what it says from here on
			}
		}
		if err := join(fsys); err != nil {
			t.Fatal(err)
		}
		w.change(ChangeMembers{Learn: []uint64{2}})
		if image == nil {
			w.change(ChangeMembers{Promote: []uint64{2}})
		}
		w.propose(producerIDs(1000))
		if image == nil {
			break
		}
		moments++
		delete(w.cut, 2)
		o := opts(2)
		o.FS, o.Founders = image, nil
		if _, err := image.Stat(logDir + "/" + raftStateFile); err != nil {
			o.Join = true // nothing remembers it: the node has to be told once more
			caught["nothing"]++
		}
		n, err := Open(o, epoch)
		if err != nil {
			t.Fatalf("moment %d: %v", cut, err)
		}
		step(t, n, Wake{})
		switch {
		case n.Waiting():
			caught["waiting"]++
		case n.IsVoter():
			caught["voter"]++
		default:
			caught["learner"]++
		}
		w.nodes[2] = n
		w.tick(60)
		w.proposeAll(2000)
	}
	if moments < 20 || len(caught) != 4 {
		t.Errorf("%d moments, at which the node was %v", moments, caught)
	}
}

// A voter without its log must not vote under the name that it had.
func TestLostLogIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"alone":   func(*Options) {},
		"founder": func(o *Options) { o.Founders = []metadata.QuorumMember{o.Self, member(2)} },
		"joins":   func(o *Options) { o.Join = true },
	} {
		t.Run(name, func(t *testing.T) {
			fsys := newDisk()
			n := alone(t, options(fsys))
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			if err := fsys.RemoveAll(logDir); err != nil {
				t.Fatal(err)
			}
			o := options(fsys)
			change(&o)
			_, err := Open(o, epoch)
			if !errors.As(err, new(*RefusedError)) || !strings.Contains(err.Error(), "/data/raft-member") {
				t.Fatal(err)
			}
			o.Self = metadata.QuorumMember{RaftID: 8, Node: 1, Directory: member(8).Directory} // another directory is somebody else
			o.Founders = nil
			if _, err := Open(o, epoch); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A node that waits has no vote, whatever id it comes under, and begins with no entry: it has no offset 0 to go before it.
func TestWaitingNodeTakesOnlySnapshots(t *testing.T) {
	w := &net{t: t}
	o := options(newDisk())
	o.Join, o.Transport = true, w
	n, err := Open(o, epoch)
	if err != nil {
		t.Fatal(err)
	}
	entry := &raftpb.Entry{Index: new(uint64(1)), Term: new(uint64(5)), Type: raftpb.EntryNormal.Enum()}
	for _, m := range []*raftpb.Message{
		{Type: raftpb.MsgVote.Enum(), Term: new(uint64(9)), Index: new(uint64(100)), LogTerm: new(uint64(8))},
		{Type: raftpb.MsgPreVote.Enum(), Term: new(uint64(9)), Index: new(uint64(100)), LogTerm: new(uint64(8))},
		{Type: raftpb.MsgApp.Enum(), Term: new(uint64(5)), Index: new(uint64(0)), Entries: []*raftpb.Entry{entry}, Commit: new(uint64(1))},
	} {
		m.To, m.From = new(n.RaftID()), new(uint64(1))
		step(t, n, Receive{[]*raftpb.Message{m}})
	}
	if len(w.queue) > 0 || !n.Waiting() || n.storage.log.EndOffset() != 0 {
		t.Fatalf("it answers %v", w.queue)
	}
}

// Messages that are none between members, or for another, change nothing; nor does a snapshot that is broken.
func TestMessagesThatAreNotTaken(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 8)
	w, _ := cluster(t, 3, nil)
	w.tick(30)
	leader := w.leader()
	follower := w.nodes[leader.RaftID()%3+1]
	from, term := leader.RaftID(), uint64(leader.Leadership().Term)
	before, last := leader.Leadership(), leader.storage.last()
	broken := &raftpb.Snapshot{Data: []byte("?"), Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(50)), Term: new(term), ConfState: leader.conf}}
	for i, m := range []*raftpb.Message{
		{Type: raftpb.MsgProp.Enum(), To: new(from), From: new(from), Entries: []*raftpb.Entry{{Data: []byte("x")}}},
		{Type: raftpb.MsgTransferLeader.Enum(), To: new(from), From: new(follower.RaftID())},
		{Type: raftpb.MsgHup.Enum(), To: new(follower.RaftID()), From: new(follower.RaftID())},
		{Type: raftpb.MsgForgetLeader.Enum(), To: new(follower.RaftID()), From: new(from)},
		{Type: raftpb.MsgHeartbeat.Enum(), To: new(uint64(9)), From: new(from), Term: new(term + 5)},
		{Type: raftpb.MsgSnap.Enum(), To: new(follower.RaftID()), From: new(from), Term: new(term), Snapshot: broken},
	} {
		for _, n := range []*Node{leader, follower} {
			step(t, n, Receive{[]*raftpb.Message{m}})
			w.run()
			if got := leader.Leadership(); got != before || leader.storage.last() != last || n.lead.Leader != from {
				t.Fatalf("message %d: %+v, last %d", i, got, leader.storage.last())
			}
		}
	}
	w.proposeAll(1000)
}

// Founders write the same bytes, in whatever order they are named; one that comes later begins like the others.
func TestFoundersBeginAlike(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 9)
	var founders []metadata.QuorumMember
	for id := range byte(3) {
		m := member(uint64(id + 1))
		m.RaftID, m.Host, m.Port = 0, fmt.Sprintf("h%d", id), 9093
		founders = append(founders, m)
	}
	w := &net{t: t, nodes: map[uint64]*Node{}, cut: map[uint64]bool{}}
	var zeros []string
	begin := func(i int) {
		t.Helper()
		o := options(newDisk())
		o.Self, o.Transport = founders[i], w
		o.Self.Host = "" // what a node calls itself counts less than what was agreed
		o.Founders = slices.Clone(founders)
		rand.New(rand.NewPCG(uint64(i), 1)).Shuffle(3, func(i, j int) { o.Founders[i], o.Founders[j] = o.Founders[j], o.Founders[i] })
		n, err := Open(o, epoch)
		if err != nil {
			t.Fatal(err)
		}
		zeros = append(zeros, files(t, o.FS, logDir)["00000000000000000000.log"])
		if id := n.RaftID(); id != RaftID(o.Self.Directory) {
			t.Fatalf("raft id %x", id)
		}
		w.nodes[n.RaftID()] = n
	}
	begin(0)
	begin(1)
	w.tick(60)
	if m, ok := w.leader().Image().Quorum.ByRaftID(RaftID(founders[2].Directory)); !ok || m.Host != "h2" || m.Port != 9093 {
		t.Fatalf("the third founder is %+v", m)
	}
	w.propose(producerIDs(1000))
	begin(2)
	w.agree(1000)
	if zeros[0] != zeros[1] || zeros[0] != zeros[2] || len(zeros[0]) == 0 {
		t.Fatalf("offset 0:\n%q\n%q\n%q", zeros[0], zeros[1], zeros[2])
	}
}
