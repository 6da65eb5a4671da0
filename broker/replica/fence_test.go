package replica

import (
	"testing"
	"time"

	"weir/internal/kafka"
)

// A broker that may have been replaced serves nobody, also none of those who wait, and goes on where it was if it was not.
func TestFencedPartitionsServeNobody(t *testing.T) {
	l := newLeaders(t, 2, 1, 2)
	p := l.partition(1)
	produce(t, p, AcksLeader, nil)
	l.copyTo(2)
	l.fetch(2, 1)
	l.requireHW(1)
	a, w, reader := newAcks(), NewFollowerWaiter(), NewWaiter()
	produce(t, p, AcksAll, a)
	p.Register(w)
	p.Register(reader)

	l.managers[1].SetFenced(true)
	l.managers[1].RefuseWaiting()
	if !acked(a) || kafka.CodeOf(a.errs[0]) != kafka.NotLeaderOrFollower {
		t.Errorf("the producer that waits is told %v", a.errs)
	}
	for _, w := range []*Waiter{w, reader} {
		select {
		case <-w.C():
		default:
			t.Error("a fetch that waits is not woken")
		}
	}
	refused := func(what string, err error) {
		t.Helper()
		if kafka.CodeOf(err) != kafka.NotLeaderOrFollower {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksLeader, Now: testTime})
	refused("an append", err)
	_, err = p.Await(0, 2, a, 1)
	refused("waiting for what was appended", err)
	refused("a coordinator's check", p.CheckAppend(0))
	for _, from := range []kafka.BrokerID{2, -1} {
		r := l.request(from, 1)
		r.AnyReplica = true
		_, err = p.Read(r)
		refused("a read", err)
	}
	_, err = p.ListOffset(TimestampLatest, ReadUncommitted, 0)
	refused("the end of the log", err)
	_, err = p.EndOffsetForEpoch(0, 0)
	refused("the end of an epoch", err)
	if p.LeaderEpoch() != 0 {
		t.Error("it has lost its role")
	}
	if l.clock.Advance(time.Minute); p.check(l.clock.Now()) {
		t.Error("a follower that is refused counts as lagging")
	}

	l.managers[1].SetFenced(false)
	if p.check(l.clock.Now()) {
		t.Error("a follower that is served again counts as lagging at once")
	}
	b := newAcks()
	produce(t, p, AcksAll, b)
	l.copyTo(2)
	l.fetch(2, 3)
	l.requireHW(3)
	if !acked(b) || b.errs[0] != nil {
		t.Errorf("afterwards: %v", b.errs)
	}
	produce(t, p, AcksLeader, nil)
	if l.clock.Advance(time.Minute); !p.check(l.clock.Now()) {
		t.Error("a follower that does not come back never counts as lagging")
	}
}
