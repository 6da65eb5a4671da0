package quorum

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// Of three voters two are gone for good. The third goes on alone, so far ahead that nothing is given twice, and when the others
// are there again, whatever they had committed, they follow it.
func TestRecover(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 11)
	w, opts := cluster(t, 3, nil)
	w.tick(30)
	leader := w.leader()
	topic := newTopic(1)
	p := topic[1].(metadata.PartitionRecord)
	p.Replicas, p.ISR, p.Leader, p.LeaderEpoch, p.PartitionEpoch = []kafka.BrokerID{2, 1, 3}, []kafka.BrokerID{2, 1}, 2, 5, 7
	topic[1] = p
	broker := metadata.RegisterBrokerRecord{BrokerRegistration: metadata.BrokerRegistration{ID: 2, Epoch: metadata.EpochOfEntry, Incarnation: kafka.UUID{1}}}
	if !w.propose(append(topic, producerIDs(4000), broker)...) {
		t.Fatal("dropped")
	}
	w.agree(4000)
	self := leader.RaftID()%3 + 1
	w.cut[self] = true
	for range 5 { // the others go on without it
		if !w.propose(producerIDs(9000)) {
			t.Fatal("dropped")
		}
	}
	last, term := int64(w.nodes[self].storage.last()), w.nodes[self].lead.Term
	if err := w.nodes[self].Close(); err != nil {
		t.Fatal(err)
	}
	delete(w.nodes, self)
	o := opts(self)

	before := files(t, o.FS, logDir)
	plan, err := Recover(o.FS, logDir, epoch, false)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(before, files(t, o.FS, logDir)) || plan.Backup != "" {
		t.Fatal("without force something was changed")
	}
	report, err := Recover(o.FS, logDir, epoch, true)
	if err != nil {
		t.Fatal(err)
	}
	if report.LastIndex != last || report.LastTerm != int64(term) || report.Self.RaftID != self || len(report.Others) != 2 || report.Partitions != 1 ||
		report.Brokers != 1 || report.Index != last+recoverySkip || report.Index != plan.Index {
		t.Errorf("%+v", report)
	}
	if !maps.Equal(before, files(t, o.FS, report.Backup)) || !strings.HasSuffix(report.Backup, "-stray") {
		t.Error("the old log is not kept as it was")
	}
	o.Founders = nil
	o.FS = o.FS.(*vfs.Mem).Crash(vfs.LoseAll())
	n, err := Open(o, epoch)
	if err != nil {
		t.Fatal(err)
	}
	step(t, n, Tick{})
	if lead := n.Leadership(); !lead.Ready || int64(lead.Term) <= report.Term || !slices.Equal(n.Members().Voters, []uint64{self}) {
		t.Fatalf("%+v, members %+v", lead, n.Members())
	}
	checkRecovered(t, n.Image(), kafka.BrokerID(self), report.Index)
	propose(t, n, producerIDs(n.Image().NextProducerID+1))

	w.nodes[self] = n
	delete(w.cut, self)
	others := slices.DeleteFunc([]uint64{1, 2, 3}, func(id uint64) bool { return id == self })
	step(t, n, ChangeMembers{Learn: others})
	w.tick(40)
	w.agree(n.Image().NextProducerID)
	if got := n.Members(); !slices.Equal(got.Voters, []uint64{self}) || !slices.Equal(got.Learners, others) {
		t.Errorf("%+v", got)
	}
}

func checkRecovered(t *testing.T, img *metadata.Image, self kafka.BrokerID, index int64) {
	t.Helper()
	topic, _ := img.Topics.ByName("topic-1")
	p := *topic.Partition(0)
	waitedFor := kafka.BrokerID(2) // the leader
	if self == 1 {
		waitedFor = 1
	}
	if p.Leader != kafka.NoBroker || p.ISR != nil || p.ELR != nil || !slices.Equal(p.LastKnownELR, []kafka.BrokerID{waitedFor}) ||
		p.LeaderEpoch != 5+recoverySkip || p.PartitionEpoch != 7+recoverySkip {
		t.Errorf("%+v", p)
	}
	if b, _ := img.Brokers.ByID(2); !b.Fenced || b.Epoch != kafka.BrokerEpoch(index) || !b.Incarnation.IsZero() {
		t.Errorf("%+v", b)
	}
	if img.NextProducerID != 4000+recoverySkip*recoveredProducerIDs {
		t.Errorf("producer ids from %d", img.NextProducerID)
	}
}

// Which replica is waited for.
func TestLeaderless(t *testing.T) {
	ids := func(ids ...kafka.BrokerID) []kafka.BrokerID { return ids }
	for name, c := range map[string]struct {
		p    metadata.PartitionRegistration
		want []kafka.BrokerID
	}{
		"this node":             {metadata.PartitionRegistration{ISR: ids(2, 1), Leader: 2}, ids(1)},
		"the leader":            {metadata.PartitionRegistration{ISR: ids(3, 2), ELR: ids(1), Leader: 2}, ids(2)},
		"in sync":               {metadata.PartitionRegistration{ISR: ids(3, 2), Leader: kafka.NoBroker}, ids(3)},
		"this node is eligible": {metadata.PartitionRegistration{ELR: ids(3, 1), Leader: kafka.NoBroker}, ids(1)},
		"eligible":              {metadata.PartitionRegistration{ELR: ids(3, 2), Leader: kafka.NoBroker}, ids(3)},
		"waited for already":    {metadata.PartitionRegistration{LastKnownELR: ids(4), Leader: kafka.NoBroker}, ids(4)},
	} {
		if got := leaderless(c.p, 1); !slices.Equal(got.LastKnownELR, c.want) || got.ISR != nil || got.ELR != nil || got.Leader != kafka.NoBroker {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhatIsNotRecovered(t *testing.T) {
	fsys := newDisk()
	if _, err := Recover(fsys, logDir, epoch, true); !errors.As(err, new(*RefusedError)) {
		t.Errorf("nothing: %v", err)
	}
	n := alone(t, options(fsys))
	propose(t, n, producerIDs(1000))
	lock, err := fsys.Lock("/data/.lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Recover(fsys, logDir, epoch, true); !errors.As(err, new(vfs.ErrLocked)) {
		t.Errorf("a node that runs: %v", err)
	}
	if err := errors.Join(lock.Close(), n.Close()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(fsys vfs.FS){
		"an entry is damaged": func(fsys vfs.FS) {
			path := logDir + "/00000000000000000000.log"
			content := []byte(file(t, fsys, path))
			content[len(content)/2] ^= 1
			putFile(t, fsys, path, content)
		},
		"entries are gone":       func(fsys vfs.FS) { putFile(t, fsys, logDir+"/00000000000000000000.log", nil) },
		"raft-state is gone":     func(fsys vfs.FS) { _ = fsys.Remove(logDir + "/" + raftStateFile) },
		"raft-state is damaged":  func(fsys vfs.FS) { putFile(t, fsys, logDir+"/"+raftStateFile, []byte("x")) },
		"it never had a log yet": func(fsys vfs.FS) { _ = writeRaftState(fsys, logDir, raftState{RaftID: 7}) },
		"it is another's":        func(fsys vfs.FS) { _ = writeRaftState(fsys, logDir, raftState{RaftID: 8, Committed: 1}) },
		"its terms are at an end": func(fsys vfs.FS) {
			_ = writeRaftState(fsys, logDir, raftState{RaftID: 7, Committed: 1, Term: maxTerm - 9})
		},
		"it was cut short": func(fsys vfs.FS) { _ = fsys.Rename(logDir, logDir+recoveringSuffix) },
	} {
		spoilt := fsys.Crash(vfs.LoseNone())
		spoil(spoilt)
		if _, err := Recover(spoilt, logDir, epoch, true); !errors.As(err, new(*RefusedError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 { // again and again, for what it is worth; what an earlier try prepared is in nobody's way
		if err := fsys.MkdirAll(logDir+recoveringSuffix+"/x", 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := Recover(fsys, logDir, epoch, true); err != nil {
			t.Fatal(err)
		}
	}
	if n := alone(t, options(fsys)); n.Image().NextProducerID != 1000+2*recoverySkip*recoveredProducerIDs {
		t.Errorf("producer ids from %d", n.Image().NextProducerID)
	}
}

// At whatever moment the power goes, the node has its old log, or the new one, or says what is to be done.
func TestPowerCutWhileRecovering(t *testing.T) {
	fsys := newDisk()
	n := alone(t, options(fsys))
	propose(t, n, producerIDs(1000))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]int{}
	for moment, ended := 1, false; !ended; moment++ {
		for _, loss := range []vfs.Loss{vfs.LoseAll(), vfs.LoseNone()} {
			disk, image := fsys.Crash(vfs.LoseNone()), (*vfs.Mem)(nil)
			count := 0
			hook := &hookFS{FS: disk, before: func() {
				if count++; count == moment {
					image = disk.Crash(loss)
				}
			}}
			if _, err := Recover(hook, logDir, epoch, true); err != nil {
				t.Fatal(err)
			}
			if ended = image == nil; !ended {
				outcomes[recovered(t, image)]++
			}
		}
	}
	if outcomes["old"] == 0 || outcomes["refused"] == 0 {
		t.Errorf("%v", outcomes)
	}
}

// recovered says which log a disk has after a recovery that was cut short.
func recovered(t *testing.T, disk *vfs.Mem) string {
	n, err := Open(options(disk), epoch)
	if err != nil {
		var refused *RefusedError
		if _, again := Recover(disk, logDir, epoch, true); !errors.As(again, &refused) || !strings.Contains(refused.Reason, "rename") {
			t.Fatalf("%v, then %v", err, again)
		}
		return "refused"
	}
	step(t, n, Tick{})
	if n.Image().NextProducerID == 1000 {
		return "old"
	}
	return "new"
}
