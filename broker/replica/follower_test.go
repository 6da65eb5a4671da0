package replica

import (
	"slices"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
)

func TestAFollowerHasTheLeadersBytes(t *testing.T) {
	for name, sessions := range map[string]bool{"with sessions": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, 2)
			c.sessions = sessions
			c.elect(1)
			c.applyAll()
			c.node(1).produce(1, 3, 2)
			c.settle()
			c.requireEqual()
			c.node(1).produce(4)
			c.node(1).produceTo(1, 1, 1)
			c.settle()
			c.requireEqual()
			for _, n := range c.nodes {
				if hw := n.log().HighWatermark(); hw != 10 {
					t.Errorf("broker %d has the high watermark %d", n.id, hw)
				}
			}
		})
	}
}

// A producer with acks=all is answered as soon as the followers tell that they have its records.
func TestAcknowledgedWhenTheFollowersTell(t *testing.T) {
	for _, policy := range []log.FsyncPolicy{log.FsyncBackground, log.FsyncAck} {
		c := newCluster(t, 3, 1)
		for _, n := range c.nodes {
			n.policy = policy
			n.restart(vfs.NewMem())
		}
		c.sessions = true
		c.elect(1)
		c.parts[0].ISR = c.parts[0].Replicas
		c.applyAll()
		c.settle()
		a := newAcks()
		if r := produce(t, c.node(1).partition(0), AcksAll, a); !r.Parked {
			t.Fatal("acknowledged before a follower had it")
		}
		c.cutOff(3)
		for range 5 {
			c.answerAll()
			c.node(1).commit()
			c.node(2).commit()
		}
		if len(a.c) > 0 {
			t.Fatal("acknowledged before broker 3 had it")
		}
		c.heal()
		c.wait(time.Second)
		if i := <-a.c; a.errs[i] != nil {
			t.Fatal(a.errs[i])
		}
		c.requireEqual()
		for _, n := range c.nodes {
			if hw := n.log().HighWatermark(); hw != 1 {
				t.Errorf("policy %s: broker %d has the high watermark %d", policy, n.id, hw)
			}
			if policy == log.FsyncAck && n.log().DurableEndOffset() != 1 {
				t.Errorf("broker %d has made durable up to %d", n.id, n.log().DurableEndOffset())
			}
		}
	}
}

// KIP-101, scenario 1: a follower that knows only of an older high watermark restarts, and then leads. It must not have cut
// off what lies above, which its leader had acknowledged.
func TestKIP101ARestartedFollowerKeepsWhatIsAboveItsHighWatermark(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.edit = func(d *FetchedPartition) { d.HighWatermark = min(d.HighWatermark, 1) }
	c.node(1).produce(1, 1)
	for range 5 {
		c.answerAll()
	}
	c.node(2).restart(c.node(2).disk.Kill())
	c.elect(1) // whatever happens to the leader meanwhile
	c.node(2).apply()
	c.node(2).step()
	c.node(2).requireLog("[[0-0 e0] [1-1 e0]]")
	if hw := c.node(2).log().HighWatermark(); hw > 1 {
		t.Fatalf("the high watermark is %d, the test is about a lower one", hw)
	}
	c.elect(2)
	c.edit = nil
	c.applyAll()
	c.settle()
	c.requireEqual()
	c.node(1).requireLog("[[0-0 e0] [1-1 e0]]")
}

// KIP-101, scenario 2: after both brokers went down, the one that had fewer records leads and writes at the offset where
// the other has another record.
func TestKIP101BTheSameOffsetOfTwoLeaders(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(1)
	c.settle()
	c.cutOff(1)
	c.node(1).produce(1) // offset 1, never replicated
	c.elect(2)
	c.node(2).apply()
	c.node(2).produce(1, 1)
	c.heal()
	c.applyAll()
	c.settle()
	c.requireEqual()
	c.node(1).requireLog("[[0-0 e0] [1-1 e1] [2-2 e1]]")
}

// KIP-279: leaders change so fast that each writes what the others never see; one round of truncation does not find where
// the logs agree.
func TestKIP279FastFailover(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(1)
	c.settle()
	c.cutOff(1)
	c.node(1).produce(1, 1) // offsets 1 and 2 of epoch 0
	c.elect(2)
	c.node(2).apply()
	c.node(2).produce(1, 1, 1) // offsets 1 to 3 of epoch 1
	c.elect(1)
	c.node(1).apply()
	c.node(1).produce(1, 1) // offsets 3 and 4 of epoch 2
	c.elect(2)
	c.node(2).apply()
	c.node(2).produce(1)
	c.heal()
	c.applyAll()
	before := len(c.fetches)
	c.settle()
	c.requireEqual()
	c.node(1).requireLog("[[0-0 e0] [1-1 e1] [2-2 e1] [3-3 e1] [4-4 e3]]")
	var epochs []kafka.LeaderEpoch
	for _, f := range c.fetches[before:] {
		epochs = append(epochs, f.Partitions[0].LastFetchedEpoch)
	}
	if !slices.Contains(epochs, 2) || !slices.Contains(epochs, 0) {
		t.Errorf("asked with last epochs %v: no second round", epochs)
	}
}

// KAFKA-7164: of several elections a follower may see the last one only.
func TestKAFKA7164SeveralEpochsMissed(t *testing.T) {
	c := newCluster(t, 3, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(2)
	c.settle()
	c.cutOff(1)
	c.node(1).produce(1)
	for _, leader := range []kafka.BrokerID{2, 3, 2, 1} { // broker 1 leads again, and does not know that it ever did not
		c.elect(leader)
	}
	c.node(2).apply()
	c.node(3).apply()
	c.heal()
	c.applyAll()
	c.node(1).produce(1)
	c.settle()
	c.requireEqual()
	c.node(2).requireLog("[[0-1 e0] [2-2 e0] [3-3 e4]]")
}

// KAFKA-10706: an epoch in which nothing was written is known to one broker only. The other does not get stuck on it.
func TestKAFKA10706ElectionsWithoutData(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(3)
	c.settle()
	c.elect(2)
	c.node(2).apply() // broker 1 does not hear of it
	c.elect(1)
	c.elect(2)
	c.node(2).apply()
	c.elect(1)
	c.applyAll()
	c.settle()
	if e := c.node(2).log().LatestEpoch(); e != 0 {
		t.Errorf("the follower's latest epoch is %d, in which nobody wrote", e)
	}
	c.node(1).produce(1)
	c.settle()
	c.requireEqual()
	c.node(2).requireLog("[[0-2 e0] [3-3 e4]]")
}

// KAFKA-14704: the high watermark that comes with a divergence is not about the records that the follower has there.
func TestKAFKA14704TruncationComesBeforeTheHighWatermark(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(1)
	c.settle()
	c.cutOff(1)
	c.node(1).produce(1, 1)
	c.elect(2)
	c.node(2).apply()
	c.node(2).produce(1, 1, 1) // the high watermark is 4: these are committed
	c.heal()
	c.applyAll()
	// The leader of its own alone in sync, it had a high watermark of 3; a follower that restarts has an older one.
	c.node(1).restart(c.node(1).disk.Kill())
	c.node(1).apply()
	follower := c.node(1).log()
	committed, _ := c.node(2).content(0)
	for range 10 {
		c.answerAll()
		got, _ := c.node(1).content(0)
		if hw := follower.HighWatermark(); hw > 1 && describe(got) != describe(committed)[:len(describe(got))-1]+"]" {
			t.Fatalf("the high watermark is %d in %s, the leader has %s", hw, describe(got), describe(committed))
		}
	}
	c.requireEqual()
}

// KAFKA-9491: a follower whose log ends before the leader's begins gives it up, with its high watermark.
func TestTheLeadersLogBeginsAboveTheFollowersEnd(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(1, 1)
	c.settle()
	c.cutOff(2)
	c.elect(1) // the leader's high watermark does not wait for the other
	c.node(1).apply()
	c.node(1).produce(1, 1, 1)
	if _, err := c.node(1).partition(0).DeleteRecords(4); err != nil {
		t.Fatal(err)
	}
	c.heal()
	c.node(2).apply()
	c.wait(2 * time.Second)
	l := c.node(2).log()
	if l.StartOffset() != 4 || l.EndOffset() != 5 || l.HighWatermark() != 5 {
		t.Fatalf("the follower's log is [%d, %d), high watermark %d", l.StartOffset(), l.EndOffset(), l.HighWatermark())
	}
	c.requireEqual()
}

// The leader's log start is the follower's as soon as it is told.
func TestLogStartFollowsTheLeaders(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.sessions = true
	c.elect(1)
	c.applyAll()
	c.node(1).produce(1, 1, 1)
	c.settle()
	if _, err := c.node(1).partition(0).DeleteRecords(2); err != nil {
		t.Fatal(err)
	}
	c.settle()
	if start := c.node(2).log().StartOffset(); start != 2 {
		t.Fatalf("the follower's log begins at %d", start)
	}
	if p := c.fetches[len(c.fetches)-1].Partitions; len(p) != 1 || p[0].LogStartOffset != 2 {
		t.Errorf("the leader is told %+v", p)
	}
}

// A follower that lost its disk has everything again, wherever the leader's log begins: at its very beginning, between
// two batches, or within one, which is sent as a whole (KAFKA-6975).
func TestAWipedFollowerHasEverythingAgain(t *testing.T) {
	for _, start := range []int64{0, 3, 4} {
		c := newCluster(t, 2, 1)
		c.elect(1)
		c.applyAll()
		c.node(1).produce(3, 3, 1)
		c.settle()
		if _, err := c.node(1).partition(0).DeleteRecords(start); err != nil {
			t.Fatal(err)
		}
		c.node(2).restart(vfs.NewMem())
		c.node(2).apply()
		c.wait(2 * time.Second)
		l := c.node(2).log()
		if l.StartOffset() != start || l.EndOffset() != 7 || l.HighWatermark() != 7 {
			t.Fatalf("the leader begins at %d, the follower's log is [%d, %d), high watermark %d", start, l.StartOffset(), l.EndOffset(), l.HighWatermark())
		}
		c.requireEqual()
	}
}

// A leader that was deposed has records of its own where the new one's were deleted, up to the middle of a batch. What the new
// leader tells of epochs begins there too: the old one keeps nothing of its own below, and has the whole batch then.
func TestADeposedLeaderBelowTheLeadersBeginning(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(2)
	c.applyAll()
	c.node(2).produce(1)
	c.settle()
	c.node(2).produce(3, 2) // nobody has them
	c.elect(1)
	c.node(1).apply()
	c.node(1).produce(2, 3)
	p := c.node(1).partition(0)
	p.Log().SetHighWatermark(6) // the only one in the ISR
	if _, err := p.DeleteRecords(4); err != nil {
		t.Fatal(err)
	}
	c.node(2).requireLog("[[0-0 e0] [1-3 e0] [4-5 e0]]")
	c.node(2).apply()
	c.settle()
	c.wait(2 * time.Second)
	c.requireEqual()
	if l := c.node(2).log(); l.StartOffset() != 4 || l.EndOffset() != 6 {
		t.Errorf("the follower's log is [%d, %d)", l.StartOffset(), l.EndOffset())
	}
}

// A leader that lost its disk, and leads nevertheless, takes its followers' records with it.
func TestALeaderThatEndsBeforeItsFollower(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(2, 2)
	c.settle()
	c.node(1).restart(vfs.NewMem())
	c.elect(1) // unclean
	c.applyAll()
	c.settle()
	c.requireEqual()
	c.node(2).requireLog("[]")
	c.node(1).produce(1)
	c.settle()
	c.requireEqual()
}

// The same where no epochs tell it, as in logs from before leader epochs.
func TestAFollowerBeyondItsLeadersEnd(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(2, 2)
	c.settle()
	c.node(1).restart(vfs.NewMem())
	c.elect(1)
	c.applyAll()
	c.late(2, 1, func(d *FetchedPartition) {
		*d = FetchedPartition{TopicIDPartition: d.TopicIDPartition, Code: kafka.OffsetOutOfRange}
	})()
	c.node(2).step()
	c.node(1).produce(3)
	c.answerAll() // the leader's end is 3
	c.node(2).requireLog("[[0-1 e0]]")
	c.settle()
	c.requireEqual()
}

// A leader may be told where to cut a batch in two; the follower cuts the whole batch off and fetches it again.
func TestTruncationInTheMiddleOfABatch(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(1, 4)
	c.settle()
	c.node(2).requireLog("[[0-0 e0] [1-4 e0]]")
	diverged := false
	c.edit = func(d *FetchedPartition) {
		if !diverged {
			diverged = true
			d.Records, d.Diverging = nil, &EpochEnd{Epoch: 0, End: 3}
		}
	}
	c.elect(1)
	c.applyAll()
	before := len(c.fetches)
	c.settle()
	if again := c.fetches[before+1].Partitions[0].Offset; again != 1 {
		t.Errorf("fetched again from offset %d", again)
	}
	c.requireEqual()
}

// A damaged answer leaves nothing behind, and the other partitions go on.
func TestCorruptRecordsHoldUpTheirPartitionAlone(t *testing.T) {
	for name, damage := range map[string]func(*FetchedPartition){
		"a flipped bit":             func(d *FetchedPartition) { d.Records[len(d.Records)-1] ^= 1 },
		"records before the offset": func(d *FetchedPartition) { d.Records[7] = 0; d.Records = slices.Concat(d.Records, d.Records) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2, 2)
			c.sessions = true
			c.elect(1)
			c.applyAll()
			c.node(1).produce(1)
			c.settle()
			c.edit = func(d *FetchedPartition) {
				if d.Partition == 0 && len(d.Records) > 0 {
					damage(d)
				}
			}
			c.node(1).produce(2, 1)
			c.node(1).produceTo(1, 1)
			c.settle()
			c.node(2).requireLog("[[0-0 e0]]")
			for range 3 { // the others are served meanwhile
				c.node(1).produceTo(1, 1)
				c.settle()
				if end := c.node(2).partition(1).Log().EndOffset(); end != c.node(1).partition(1).Log().EndOffset() {
					t.Fatalf("the other partition stands at %d", end)
				}
			}
			c.edit = nil
			c.wait(900 * time.Millisecond)
			c.node(2).requireLog("[[0-0 e0]]")
			c.wait(700 * time.Millisecond) // replica.fetch.backoff.ms is a second
			c.requireEqual()
		})
	}
}

// KAFKA-18723: a leader that is deposed while it sends from its file sends records of the next leader.
func TestRecordsOfALaterEpochAreNotAppended(t *testing.T) {
	c := newCluster(t, 3, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(1)
	c.settle()
	c.elect(2)
	c.node(2).apply()
	c.node(2).produce(1)
	later, _ := c.node(2).content(0)
	c.edit = func(d *FetchedPartition) {
		if len(d.Records) > 0 {
			d.Records = slices.Concat(d.Records, later[len(later)/2:])
		}
	}
	c.node(1).produce(1)
	c.settle()
	c.node(3).requireLog("[[0-0 e0] [1-1 e0]]")
	c.edit = nil
	c.applyAll()
	c.settle()
	c.requireEqual()
}

// An answer that belongs to an older epoch changes nothing, whatever it says (KAFKA-13207).
func TestAnAnswerOfAnOlderEpochIsIgnored(t *testing.T) {
	for _, sessions := range []bool{false, true} {
		c := newCluster(t, 3, 1)
		c.sessions = sessions
		diverging := func(d *FetchedPartition) { d.Records, d.Diverging = nil, &EpochEnd{Epoch: 0, End: 0} }
		records := func(*FetchedPartition) {}
		outOfRange := func(d *FetchedPartition) {
			*d = FetchedPartition{TopicIDPartition: d.TopicIDPartition, Code: kafka.OffsetOutOfRange}
		}
		for _, leader := range []kafka.BrokerID{2, 1} { // fetched by another fetcher from now on, and by the same one
			for _, edit := range []func(*FetchedPartition){diverging, records, outOfRange} {
				c.elect(1)
				c.applyAll()
				c.settle()
				c.node(1).produce(1)
				late := c.late(3, 1, edit)
				before, _ := c.node(3).content(0)
				c.elect(leader)
				c.node(3).apply()
				late()
				c.node(3).step()
				if after, _ := c.node(3).content(0); describe(after) != describe(before) {
					t.Fatalf("sessions %v, next leader %d: %s became %s", sessions, leader, describe(before), describe(after))
				}
				c.applyAll()
				c.wait(time.Second)
				c.requireEqual()
			}
		}
	}
}

// So it is where the follower has nothing yet: the offset alone does not tell.
func TestRecordsOfAnOlderEpochAreNotTheFirst(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.settle()
	c.node(1).produce(1)
	late := c.late(2, 1, func(*FetchedPartition) {})
	c.elect(1)
	c.node(2).apply()
	late()
	c.node(2).step()
	c.node(2).requireLog("[]")
}

// So it is with what an express request brings.
func TestAnExpressAnswerOfAnOlderEpochIsIgnored(t *testing.T) {
	c := newCluster(t, 2, 2)
	c.sessions = true
	c.elect(1)
	p := &c.parts[0]
	p.Leader = kafka.NoBroker
	c.applyAll()
	c.settle()
	p.Leader, p.LeaderEpoch, p.PartitionEpoch = 1, p.LeaderEpoch+1, p.PartitionEpoch+1
	c.applyAll()
	c.node(1).produce(1)
	late := c.late(2, 1, func(d *FetchedPartition) {})
	p.LeaderEpoch, p.PartitionEpoch = p.LeaderEpoch+1, p.PartitionEpoch+1
	c.node(2).apply()
	late()
	c.node(2).step()
	c.node(2).requireLog("[]")
	c.node(1).apply()
	c.wait(time.Second)
	c.requireEqual()
}

// A topic that is deleted while its records are under way, and made anew, has nothing of the old one.
func TestATopicDeletedInFlight(t *testing.T) {
	for _, sessions := range []bool{false, true} {
		c := newCluster(t, 2, 1)
		c.sessions = sessions
		c.elect(1)
		c.applyAll()
		c.settle()
		c.node(1).produce(1)
		late := c.late(2, 1, func(*FetchedPartition) {})
		c.recreate(1)
		c.node(2).apply()
		late()
		c.node(2).step()
		c.node(2).requireLog("[]")
		c.applyAll()
		c.node(1).produce(2)
		c.wait(time.Second)
		c.requireEqual()
		c.node(2).requireLog("[[0-1 e0]]")
	}
}

// A broker whose metadata is behind or ahead of the leader's: where only metadata helps it waits for that, else it asks
// again soon.
func TestAFollowerWithOtherMetadataThanTheLeader(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.sessions = true
	c.elect(1)
	c.applyAll()
	c.node(1).produce(1)
	c.settle()
	c.elect(1)
	c.node(1).apply() // the leader is the first to know: the follower is fenced
	c.node(1).produce(1)
	c.settle()
	n := len(c.fetches)
	c.wait(10 * time.Second)
	if asked := len(c.fetches) - n; asked > 0 || c.node(2).fetchers.Stats().Failed != 1 {
		t.Errorf("asked %d times in an epoch that the leader has left; %+v", asked, c.node(2).fetchers.Stats())
	}
	c.node(2).apply()
	c.settle()
	c.requireEqual()
	c.elect(1)
	c.node(2).apply() // the follower is the first to know
	n = len(c.fetches)
	c.wait(10 * time.Second)
	if asked := len(c.fetches) - n; asked < 10 || asked > 20 {
		t.Errorf("asked %d times in ten seconds for what the leader does not know yet", asked)
	}
	c.node(1).apply()
	c.node(1).produce(1)
	c.parts[0].PartitionEpoch++
	c.node(2).apply() // the same leader and epoch again, which is worth a try
	c.settle()
	c.requireEqual()
	if s := c.node(2).fetchers.Stats(); s.Failed != 0 || s.MaxLag != 0 || s.Partitions != 1 {
		t.Errorf("%+v", s)
	}
}

// A partition that is ready while the others' long poll is under way does not wait for its end.
func TestAnElectionDoesNotWaitForTheLongPoll(t *testing.T) {
	for _, sessions := range []bool{true, false} {
		c := newCluster(t, 3, 3)
		c.sessions = sessions
		c.elect(1)
		for i := range 2 {
			c.parts[i].Leader, c.parts[i].ISR = 3, []kafka.BrokerID{3}
		}
		c.applyAll()
		c.settle()
		begin := c.now
		for i := range 2 {
			p := &c.parts[i]
			p.Leader, p.ISR, p.LeaderEpoch, p.PartitionEpoch = 1, []kafka.BrokerID{1}, p.LeaderEpoch+1, p.PartitionEpoch+1
		}
		n := len(c.fetches)
		c.node(2).apply() // the leader does not know yet
		c.wait(100 * time.Millisecond)
		if got, want := c.since(n)[0], "full, wait 0, t-0 at 0, t-1 at 0"; got != want {
			t.Fatalf("asked %q, want %q", got, want)
		}
		c.applyAll()
		for i := range 3 {
			c.node(1).produceTo(i, 1)
			c.wait(50 * time.Millisecond)
			if end := c.node(2).partition(i).Log().EndOffset(); end != 1 {
				t.Errorf("partition %d ends at %d after %v", i, end, c.now.Sub(begin))
			}
		}
		c.wait(2 * time.Second)
		c.requireEqual()
		n = len(c.fetches)
		c.wait(time.Second)
		for _, r := range c.fetches[n:] {
			if r.Fetcher >= expressNumbers {
				t.Errorf("asked %+v long after the election", r)
			}
		}
	}
}

// Where express requests fail, their partitions wait for the others.
func TestAnExpressRequestThatFails(t *testing.T) {
	c := newCluster(t, 2, 2)
	c.sessions = true
	c.elect(1)
	c.parts[0].Leader = kafka.NoBroker
	c.applyAll()
	c.settle()
	p := &c.parts[0]
	p.Leader, p.LeaderEpoch, p.PartitionEpoch = 1, p.LeaderEpoch+1, p.PartitionEpoch+1
	c.applyAll()
	c.node(2).step()
	for _, q := range slices.Clone(c.asked) {
		if q.fetch.Fetcher >= expressNumbers {
			c.fail(q)
		}
	}
	n := len(c.fetches)
	c.node(1).produce(1)
	c.wait(499 * time.Millisecond)
	if len(c.fetches) != n {
		t.Errorf("asked %q", c.since(n))
	}
	c.wait(time.Millisecond)
	c.requireEqual()
}

// The partition itself refuses what was fetched for another leader epoch, when the fetcher does not know yet.
func TestThePartitionKnowsOfANewEpochFirst(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(1)
	c.settle()
	c.node(1).produce(1)
	for _, edit := range []func(*FetchedPartition){
		func(*FetchedPartition) {},
		func(d *FetchedPartition) { d.Records, d.Diverging = nil, &EpochEnd{Epoch: 0, End: 0} },
	} {
		late := c.late(2, 1, edit)
		c.elect(1)
		if err := c.node(2).partition(0).apply(c.parts[0].PartitionRegistration); err != nil {
			t.Fatal(err)
		}
		late()
		c.node(2).step()
		c.node(2).requireLog("[[0-0 e0]]")
		c.node(2).fetchers.Follow(c.node(2).partition(0), 1, c.parts[0].LeaderEpoch)
		c.node(1).apply()
	}
	c.settle()
	c.requireEqual()
}

// An answer that the follower can do nothing with is not asked for over and over.
func TestADivergenceThatIsNone(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.node(1).produce(1)
	c.settle()
	c.edit = func(d *FetchedPartition) { d.Records, d.Diverging = nil, &EpochEnd{Epoch: 0, End: 9} }
	c.elect(1)
	c.applyAll()
	n := len(c.fetches)
	c.wait(time.Second)
	if asked := len(c.fetches) - n; asked > 8 {
		t.Errorf("asked %d times in a second", asked)
	}
	c.node(2).requireLog("[[0-0 e0]]")
}

// flush.messages of more than one bounds what is not durable; nothing waits for it.
func TestFlushMessagesOnAFollower(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.config.Log.FlushMessages = 3
	c.elect(1)
	c.applyAll()
	c.settle()
	for i := range 3 {
		c.node(1).produce(1)
		c.answerAll()
		if commits, want := len(c.node(2).logs.waiting), i/2; commits != want {
			t.Errorf("%d commits are under way after %d records", commits, i+1)
		}
		c.answerAll()
	}
}

// Under weir.fsync.policy=ack, and with flush.messages=1, a follower tells of what is durable only.
func TestAFollowerTellsOfWhatIsDurable(t *testing.T) {
	for name, prepare := range map[string]func(*cluster){
		"policy ack":       func(c *cluster) { c.node(2).policy = log.FsyncAck },
		"flush.messages=1": func(c *cluster) { c.config.Log.FlushMessages = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2, 2)
			prepare(c)
			c.node(2).restart(vfs.NewMem())
			c.sessions = true
			c.elect(1)
			c.applyAll()
			c.settle()
			c.node(1).produce(1, 1)
			c.node(1).produceTo(1, 1)
			c.node(1).commit()
			n := len(c.fetches)
			c.answerAll()
			if c.node(2).log().EndOffset() != 2 || len(c.fetches) != n {
				t.Fatalf("appended up to %d, and asked %+v before that was durable", c.node(2).log().EndOffset(), c.fetches[n:])
			}
			c.node(2).commit()
			c.node(2).step()
			if len(c.fetches) != n+1 || len(c.fetches[n].Partitions) != 2 || c.fetches[n].Partitions[0].Offset != 2 {
				t.Fatalf("asked %+v when it was", c.fetches[n:])
			}
			c.settle()
			c.requireEqual()
			// What a crash left in the log and not on the disk is made durable first.
			c.node(2).restart(c.node(2).disk.Kill())
			c.node(2).apply()
			c.node(2).step()
			if durable, asked := c.node(2).log().DurableEndOffset(), c.fetches[len(c.fetches)-1]; asked.Full && asked.Partitions[0].Offset > durable {
				t.Errorf("asked %+v with %d durable", asked, durable)
			}
			c.settle()
			c.requireEqual()
		})
	}
}

// A disk that is stuck under one partition does not hold up the others for longer than a long poll.
func TestACommitThatDoesNotEnd(t *testing.T) {
	c := newCluster(t, 2, 2)
	c.node(2).policy = log.FsyncAck
	c.node(2).restart(vfs.NewMem())
	c.sessions = true
	c.elect(1)
	c.applyAll()
	c.settle()
	c.node(1).produce(1)
	c.answerAll()
	stuck := c.node(2).logs.waiting
	c.node(2).logs.waiting = nil
	if len(stuck) != 1 {
		t.Fatalf("%d commits are under way", len(stuck))
	}
	if wake := c.node(2).wake; !wake.Equal(c.now.Add(500 * time.Millisecond)) {
		t.Errorf("it wants to wake after %v", wake.Sub(c.now))
	}
	c.node(1).produceTo(1, 1)
	c.wait(499 * time.Millisecond)
	n := len(c.fetches)
	c.wait(time.Millisecond)
	if len(c.fetches) == n || len(c.fetches[n].Forgotten) != 1 || c.node(2).partition(1).Log().EndOffset() != 1 {
		t.Fatalf("asked %+v, the other partition stands at %d", c.fetches[n:], c.node(2).partition(1).Log().EndOffset())
	}
	stuck[0]()
	c.wait(time.Second)
	c.requireEqual()
}
