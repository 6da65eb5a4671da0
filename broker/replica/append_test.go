package replica

import (
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/log"
	"weir/protocol/batch"
)

// A batch of a few kilobytes may take 128 MiB to look at: as many at a time as there are processors, whatever the number
// of clients. What is not compressed goes past.
func TestOnlySoManyBatchesAreDecompressedAtATime(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("topic", kafka.TopicID{1}, self)
	for range cap(decompressing) {
		decompressing <- struct{}{}
	}
	b := batch.NewBuilder(batch.Gzip, 0)
	b.Append(testTime.UnixMilli(), nil, []byte("value"))
	packed, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := p.Append(&AppendRequest{Records: packed, Version: 9, Acks: AcksLeader, Now: testTime})
		done <- err
	}()
	if _, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksLeader, Now: testTime}); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond): // nothing tells that it waits
	}
	for range cap(decompressing) {
		<-decompressing
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(decompressing) != 0 || p.Log().EndOffset() != 2 {
		t.Errorf("%d slots are taken, the log ends at %d", len(decompressing), p.Log().EndOffset())
	}
}

// So it is with look-ups by time, which read a batch; others go past.
func TestOnlySoManyBatchesAreSearchedAtATime(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("topic", kafka.TopicID{1}, self)
	produce(t, p, AcksLeader, nil)
	for range cap(searching) {
		searching <- struct{}{}
	}
	done := make(chan ListedOffset)
	go func() {
		found, err := p.ListOffset(testTime.UnixMilli(), ReadUncommitted, kafka.NoLeaderEpoch)
		if err != nil {
			t.Error(err)
		}
		done <- found
	}()
	if found, err := p.ListOffset(TimestampLatest, ReadUncommitted, kafka.NoLeaderEpoch); err != nil || found.Offset != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	select {
	case found := <-done:
		t.Fatalf("it did not wait: %+v", found)
	case <-time.After(20 * time.Millisecond): // nothing tells that it waits
	}
	for range cap(searching) {
		<-searching
	}
	if found := <-done; found.Offset != 0 || len(searching) != 0 {
		t.Errorf("%+v; %d slots are taken", found, len(searching))
	}
}

func TestWhatTheBrokerBuiltItselfIsFencedByItsEpoch(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	f.config.Rules.MaxMessageBytes = 1 // a rule for clients
	id := kafka.NewUUID()
	p := f.create("t", id, self, 2)
	a := newAcks()
	if r, err := p.AppendOwn(0, records(t, 2), a, 7); err != nil || !r.Parked || r.LastOffset != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if parked, err := p.Await(0, 2, a, 8); err != nil || !parked {
		t.Fatalf("parked %v, %v", parked, err)
	}
	if parked, err := p.Await(0, 0, a, 9); err != nil || parked {
		t.Fatalf("waits for nothing: parked %v, %v", parked, err)
	}
	if err := p.CheckAppend(0); err != nil {
		t.Fatal(err)
	}
	alone := f.registration(id, 0, self, 2)
	alone.ISR, alone.PartitionEpoch = []kafka.BrokerID{self}, 1
	f.apply(alone) // the other replica has left, and nothing waits for it
	for _, want := range []int{7, 8} {
		if got := <-a.c; got != want || a.errs[got] != nil {
			t.Fatalf("acknowledged %d with %v, want %d", got, a.errs[got], want)
		}
	}
	again := f.registration(id, 1, self, 2)
	again.PartitionEpoch = 2
	f.apply(again)
	for _, epoch := range []kafka.LeaderEpoch{0, 2} { // deposed meanwhile, or ahead of this broker
		_, err := p.AppendOwn(epoch, records(t, 1), a, 0)
		_, awaitErr := p.Await(epoch, 0, a, 0)
		for _, err := range []error{err, p.CheckAppend(epoch), awaitErr} {
			if kafka.CodeOf(err) != kafka.NotLeaderOrFollower {
				t.Errorf("epoch %d: %v", epoch, err)
			}
		}
	}
	if end := p.Log().EndOffset(); end != 2 {
		t.Errorf("the log ends at %d", end)
	}
}

func TestWhatTheBrokerBuiltItselfNeedsTheMinimumOfReplicas(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	f.config.MinInsyncReplicas = 2
	id := kafka.NewUUID()
	p := f.create("t", id, self, 2)
	alone := f.registration(id, 0, self, 2)
	alone.ISR, alone.PartitionEpoch = []kafka.BrokerID{self}, 1
	f.apply(alone)
	_, err := p.AppendOwn(0, records(t, 1), newAcks(), 0)
	if check := p.CheckAppend(0); kafka.CodeOf(err) != kafka.NotEnoughReplicas || kafka.CodeOf(check) != kafka.NotEnoughReplicas {
		t.Fatalf("append: %v, check: %v", err, check)
	}
}
