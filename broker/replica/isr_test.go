package replica

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/log"
)

// step has broker 1 take what it wants to the controller.
func (l *leaders) step() time.Time { return l.managers[1].ISRUpdates().Step(l.clock.Now()) }

// accept answers what is asked: the controller takes it, and brokers hear of it by the metadata if they are told.
func (l *leaders) accept() ISRResult {
	l.t.Helper()
	if len(l.asked.proposals) != 1 {
		l.t.Fatalf("asked for %v", l.asked.proposals)
	}
	p := l.asked.proposals[0]
	l.record.ISR = nil
	for _, m := range p.ISR {
		l.record.ISR = append(l.record.ISR, m.Broker)
	}
	l.record.PartitionEpoch, l.record.RecoveryState = p.PartitionEpoch+1, p.RecoveryState
	result := ISRResult{Leader: 1, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch + 1, ISR: l.record.ISR, RecoveryState: p.RecoveryState}
	l.asked.answer(l.t, result)
	l.step()
	return result
}

func (l *leaders) requireAsked(want ...ISRMember) {
	l.t.Helper()
	l.step()
	if len(want) == 0 {
		if len(l.asked.proposals) != 0 {
			l.t.Fatalf("asked for %v", l.asked.proposals)
		}
		return
	}
	if len(l.asked.proposals) != 1 || !slices.Equal(l.asked.proposals[0].ISR, want) {
		l.t.Fatalf("asked for %v, want %v", l.asked.proposals, want)
	}
}

func TestAFollowerJoinsTheISRAndLeavesIt(t *testing.T) {
	l := newLeaders(t, 1, 1)
	p := l.partition(1)
	produce(t, p, AcksLeader, nil)
	l.fetch(2, 0)
	l.requireAsked()
	l.fetch(2, 1)
	l.requireAsked(ISRMember{1, brokerEpoch(1)}, ISRMember{2, brokerEpoch(2)})
	if asked := l.asked.proposals[0]; asked.TopicPartition != p.TP() || asked.TopicID != l.topic || asked.LeaderEpoch != 0 || asked.PartitionEpoch != 0 || asked.RecoveryState != metadata.Recovered {
		t.Fatalf("asked for %+v", asked)
	}
	// It counts from now on, whatever becomes of that.
	a := newAcks()
	produce(t, p, AcksAll, a)
	l.clock.Advance(time.Second)
	if l.step(); acked(a) {
		t.Fatal("acknowledged before who joins has it")
	}
	l.accept()
	l.fetch(2, 2)
	if !acked(a) || a.errs[0] != nil {
		t.Fatalf("not acknowledged: %v", a.errs)
	}
	l.apply(l.record) // which says nothing new
	// It has all, and may be silent as long as it likes.
	l.clock.Advance(time.Minute)
	l.requireAsked()
	// But not when there is more.
	produce(t, p, AcksAll, a)
	l.clock.Advance(16 * time.Second)
	l.requireAsked(ISRMember{1, brokerEpoch(1)})
	if acked(a) {
		t.Fatal("acknowledged before the controller has taken who lags out of the ISR")
	}
	l.accept()
	if !acked(a) || a.errs[0] != nil {
		t.Fatalf("not acknowledged: %v", a.errs)
	}
	if counts := l.managers[1].ISRUpdates().Counts(); counts != (ISRCounts{Expands: 1, Shrinks: 1}) {
		t.Errorf("%+v", counts)
	}
}

func TestAFencedFollowerDoesNotJoin(t *testing.T) {
	l := newLeaders(t, 1, 1)
	l.fence(2, true)
	l.fetch(2, 0)
	l.requireAsked()
	l.fence(2, false)
	l.fetch(2, 0)
	l.requireAsked(ISRMember{1, brokerEpoch(1)}, ISRMember{2, brokerEpoch(2)})
}

func TestARecoveringLeaderSaysThatItHasRecovered(t *testing.T) {
	l := newLeaders(t, 1, 1)
	l.elect(2, 2)
	l.change(func(r *metadata.PartitionRegistration) {
		r.Leader, r.ISR, r.RecoveryState = 1, []kafka.BrokerID{1}, metadata.Recovering
	})
	l.fetch(2, 0)
	l.requireAsked(ISRMember{1, brokerEpoch(1)})
	if state := l.asked.proposals[0].RecoveryState; state != metadata.Recovered {
		t.Fatalf("recovery state %d", state)
	}
	l.accept()
	l.fetch(2, 0)
	l.requireAsked(ISRMember{1, brokerEpoch(1)}, ISRMember{2, brokerEpoch(2)})
}

func TestProposalsAreMadeAgainUntilTheyAreAnswered(t *testing.T) {
	l := newLeaders(t, 1, 1)
	l.fetch(2, 0)
	both := []ISRMember{{1, brokerEpoch(1)}, {2, brokerEpoch(2)}}
	l.requireAsked(both...)
	fail := map[string]func(){
		"no answer":       func() { l.asked.done(nil, kafka.Errorf(kafka.NotController, "")) },
		"too few answers": func() { l.asked.done(nil, nil) },
		"no definite one": func() { l.asked.done([]ISRResult{{Code: kafka.UnknownServerError}}, nil) },
	}
	waited := []time.Duration{50, 100, 200, 400, 800, 1000, 1000}
	for i, ms := range waited {
		what := []string{"no answer", "too few answers", "no definite one"}[i%3]
		answer := fail[what]
		answer()
		l.asked.proposals = nil
		if next := l.step(); next.Sub(l.clock.Now()) != ms*time.Millisecond || len(l.asked.proposals) > 0 {
			t.Fatalf("after %s: next step in %v, asked for %v", what, next.Sub(l.clock.Now()), l.asked.proposals)
		}
		l.clock.Advance(ms * time.Millisecond)
		l.requireAsked(both...)
	}
	l.accept()
	if got := l.partition(1).mu.tracker.ISR(); !slices.Equal(got, []kafka.BrokerID{1, 2}) {
		t.Fatalf("ISR %v", got)
	}
	l.requireAsked()
}

func TestADefiniteRefusalIsNotRepeated(t *testing.T) {
	for _, code := range []kafka.Code{kafka.IneligibleReplica, kafka.InvalidUpdateVersion, kafka.FencedLeaderEpoch, kafka.UnknownTopicID} {
		l := newLeaders(t, 1, 1)
		l.fetch(2, 0)
		l.step()
		l.asked.answer(t, ISRResult{Code: code})
		l.requireAsked()
		l.clock.Advance(10 * time.Second)
		l.requireAsked()
		l.fetch(2, 0) // an ineligible replica may be eligible by now; with the others only metadata helps
		want := 0
		if code == kafka.IneligibleReplica {
			want = 1
		}
		if l.step(); len(l.asked.proposals) != want {
			t.Errorf("%v: asked for %v", code, l.asked.proposals)
		}
		if counts := l.managers[1].ISRUpdates().Counts(); counts != (ISRCounts{Failed: 1}) {
			t.Errorf("%v: %+v", code, counts)
		}
	}
}

// A leader that its own proposal takes out of the replicas was not refused.
func TestAProposalThatCompletesAReassignmentCountsAsMade(t *testing.T) {
	l := newLeaders(t, 1, 1)
	l.fetch(2, 0)
	l.step()
	l.asked.answer(t, ISRResult{Code: kafka.NewLeaderElected})
	l.requireAsked()
	if counts := l.managers[1].ISRUpdates().Counts(); counts != (ISRCounts{Expands: 1}) {
		t.Errorf("%+v", counts)
	}
}

func TestAllPartitionsAskInOneRequestAndOneRequestAtATime(t *testing.T) {
	l := newLeaders(t, 1, 1)
	topic := kafka.TopicID{15: 10}
	created := []metadata.Record{metadata.TopicRecord{ID: topic, Name: "many"}}
	const partitions = maxISRProposals + 200
	for i := range int32(partitions) {
		r := l.record
		r.TopicID, r.Partition = topic, i
		created = append(created, r)
	}
	l.apply(created...)
	fetch := func(from kafka.BrokerID, partition int) {
		p := l.managers[1].Partition(kafka.TopicPartition{Topic: "many", Partition: int32(partition)})
		if _, err := p.Read(l.request(from, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range partitions {
		fetch(2, i)
		fetch(2, i) // wants nothing new
	}
	l.step()
	if n := len(l.asked.proposals); n != maxISRProposals || l.asked.proposals[1].Partition != 1 {
		t.Fatalf("%d proposals, the second %+v", n, l.asked.proposals[1])
	}
	l.step()
	if l.asked.requests != 1 {
		t.Fatal("a second request before the first is answered")
	}
	// Meanwhile the metadata takes one away from this broker, and a topic altogether.
	gone := l.record
	gone.TopicID, gone.Partition, gone.Leader, gone.ISR, gone.LeaderEpoch, gone.PartitionEpoch = topic, partitions-1, 2, []kafka.BrokerID{2}, 1, 1
	l.apply(gone)
	results := make([]ISRResult, maxISRProposals)
	for i := range results {
		results[i] = ISRResult{Leader: 1, PartitionEpoch: 1, ISR: []kafka.BrokerID{1, 2}}
	}
	l.asked.answer(t, results...)
	l.step()
	if n := len(l.asked.proposals); n != partitions-maxISRProposals-1 {
		t.Fatalf("%d proposals in the second request", n)
	}
	l.apply(metadata.RemoveTopicRecord{ID: topic})
	l.asked.done(nil, kafka.Errorf(kafka.NetworkException, ""))
	l.asked.proposals = nil
	l.clock.Advance(time.Minute)
	l.requireAsked()
}

func TestChecksAreDoneInParts(t *testing.T) {
	l := newLeaders(t, 1, 1)
	topic := kafka.TopicID{15: 10}
	created := []metadata.Record{metadata.TopicRecord{ID: topic, Name: "many"}}
	for i := range int32(maxISRChecks + 1) {
		r := l.record
		r.TopicID, r.Partition, r.ISR = topic, i, []kafka.BrokerID{1, 2}
		created = append(created, r)
	}
	l.step()
	l.apply(created...)
	l.clock.Advance(31 * time.Second)
	now := l.clock.Now()
	if next := l.step(); !next.Equal(now) || len(l.asked.proposals) != maxISRChecks {
		t.Fatalf("next step at %v, now %v; %d proposals", next, now, len(l.asked.proposals))
	}
	if next := l.step(); !next.Equal(now.Add(15 * time.Second)) {
		t.Fatalf("next step in %v", next.Sub(now))
	}
}

// Whatever time it is, what is wanted and answered does not wait for the next check.
func TestISRUpdatesRun(t *testing.T) {
	l := newLeaders(t, 1, 1)
	requests := make(chan []ISRProposal)
	c := &channelController{requests: requests}
	l.managers[1].ISRUpdates().controller = c
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.managers[1].ISRUpdates().Run(ctx, clock.System()) })
	l.fetch(2, 0)
	asked := <-requests
	c.done([]ISRResult{{Leader: 1, PartitionEpoch: 1, ISR: []kafka.BrokerID{1, 2}}}, nil)
	for len(l.partition(1).isr()) != 2 {
		time.Sleep(time.Millisecond) // nothing else tells that the answer was taken
	}
	l.fetch(3, 0)
	if again := <-requests; len(asked) != 1 || len(again[0].ISR) != 3 {
		t.Errorf("asked for %v, then %v", asked, again)
	}
	cancel()
	running.Wait()
}

type channelController struct {
	requests chan []ISRProposal
	done     func([]ISRResult, error)
}

func (c *channelController) AlterISR(proposals []ISRProposal, done func([]ISRResult, error)) {
	c.done = done
	c.requests <- proposals
}

func (p *Partition) isr() []kafka.BrokerID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.tracker.ISR()
}

// TestLeadingConcurrently has clients, followers, the controller and the metadata at a partition at the same time, for the
// race detector; every acknowledged record must be below the high watermark.
func TestLeadingConcurrently(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	f.manager.isr.controller = acceptingController{}
	id := kafka.NewUUID()
	f.apply(metadata.RegisterBrokerRecord{BrokerRegistration: metadata.BrokerRegistration{ID: 2, Epoch: 20}},
		metadata.RegisterBrokerRecord{BrokerRegistration: metadata.BrokerRegistration{ID: self, Epoch: 10}})
	p := f.create("t", id, self, 2)
	const n = 200
	ctx, cancel := context.WithCancel(t.Context())
	var clients, others sync.WaitGroup
	a := newAcks()
	a.c = make(chan int, 3*n)
	for client := range 3 {
		clients.Go(func() {
			for i := range n {
				r, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksAll, Now: time.Now(), Acker: a, Index: client*n + i})
				if err != nil || !r.Parked {
					a.Acked(client*n+i, err)
				}
			}
		})
	}
	others.Go(func() { f.manager.isr.Run(ctx, clock.System()) })
	others.Go(func() { // a follower
		w := NewFollowerWaiter()
		for ctx.Err() == nil {
			w.Look()
			p.Register(w)
			end := p.Log().EndOffset()
			r, err := p.Read(&ReadRequest{Offset: end, MaxBytes: 1, Replica: 2, ReplicaEpoch: 20, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, Fetched: time.Now()})
			if err != nil {
				t.Error(err)
			}
			r.Records.Release()
			w.Arm(1)
			select {
			case <-w.C():
			case <-time.After(time.Millisecond): // a fetch does not wait for ever
			}
		}
		p.Unregister(w)
	})
	others.Go(func() { // the metadata
		for epoch := kafka.PartitionEpoch(1); ctx.Err() == nil; epoch++ {
			r := f.registration(id, 0, self, 2)
			r.PartitionEpoch = epoch
			if epoch%2 == 0 {
				r.ISR = []kafka.BrokerID{self}
			}
			f.apply(r)
			time.Sleep(time.Millisecond)
		}
	})
	clients.Wait()
	for range 3 * n {
		<-a.c
	}
	cancel()
	others.Wait()
	for i, err := range a.errs {
		if err != nil {
			t.Errorf("append %d: %v", i, err)
		}
	}
	if hw := p.Log().HighWatermark(); hw != 3*n {
		t.Errorf("high watermark %d", hw)
	}
}

// acceptingController does what it is asked for.
type acceptingController struct{}

func (acceptingController) AlterISR(proposals []ISRProposal, done func([]ISRResult, error)) {
	results := make([]ISRResult, len(proposals))
	for i, p := range proposals {
		results[i] = ISRResult{Leader: self, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, ISR: []kafka.BrokerID{self}}
		if len(p.ISR) == 2 {
			results[i].ISR = append(results[i].ISR, 2)
		}
	}
	done(results, nil)
}
