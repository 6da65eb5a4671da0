package coordinator

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

// A disk may recover, and a process may get file descriptors again.
func TestAPartitionThatCannotBeReadIsTriedAgain(t *testing.T) {
	s, p := newStepped(), newPartition()
	p.appendRaw(bankBatch(batch.None, bankRecord(time.UnixMilli(0), "a", 7, 1)))
	p.set(func(p *partition) { p.mu.readErr = errors.New("too many open files") })
	s.Elect(0, 0, p)
	began := s.clock.Now()
	for i, at := range []time.Duration{1 * time.Second, 3 * time.Second, 7 * time.Second} {
		if next := s.Step(); next.Sub(began) != at {
			t.Fatalf("try %d: the next one is due after %v, want %v", i, next.Sub(began), at)
		}
		s.ask("early", balances{})
		s.clock.Advance(at - s.clock.Now().Sub(began))
	}
	p.set(func(p *partition) { p.mu.readErr = nil })
	s.Step()
	s.ask("served", deposit{account: "a", amount: 1})
	s.Step()
	want := []string{"early=COORDINATOR_LOAD_IN_PROGRESS", "early=COORDINATOR_LOAD_IN_PROGRESS", "early=COORDINATOR_LOAD_IN_PROGRESS", "served=8"}
	if !slices.Equal(s.answers, want) {
		t.Errorf("answers %q, want %q", s.answers, want)
	}
}

func TestAPartitionThatCannotBeReadIsResigned(t *testing.T) {
	s, p := newStepped(), newPartition()
	p.appendRaw(bankBatch(batch.None, bankRecord(time.UnixMilli(0), "a", 7, 1)))
	p.set(func(p *partition) { p.mu.readErr = errors.New("too many open files") })
	s.Elect(0, 0, p)
	s.Step()
	s.Resign(0)
	if next := s.Step(); !next.IsZero() {
		t.Errorf("something is due at %v", next)
	}
}

func TestTheGoroutineTriesAgainAndEnds(t *testing.T) {
	f, p := newFixture(t), newPartition()
	p.appendRaw(bankBatch(batch.None, bankRecord(time.UnixMilli(0), "a", 7, 1)))
	p.set(func(p *partition) { p.mu.readErr = errors.New("too many open files") })
	f.elect(p)
	if err := f.runtime.AwaitLoads(t.Context()); err != nil { // nor waits a start for it
		t.Fatal(err)
	}
	for !strings.Contains(f.log.String(), "too many open files") {
		if a := f.call(balances{}); kafka.CodeOf(a.err) != kafka.CoordinatorLoadInProgress {
			t.Fatalf("%+v", a)
		}
	}
	p.set(func(p *partition) { p.mu.readErr = nil })
	var a answer
	for {
		if a = f.call(deposit{account: "a", amount: 1}); kafka.CodeOf(a.err) != kafka.CoordinatorLoadInProgress {
			break
		}
		f.clock.Advance(firstRest)
	}
	f.wantBody(a, 8)
	g, q := newFixture(t), newPartition() // ends while it waits
	q.appendRaw(bankBatch(batch.None, bankRecord(time.UnixMilli(0), "a", 7, 1)))
	q.set(func(p *partition) { p.mu.readErr = errors.New("too many open files") })
	g.elect(q)
	g.runtime.Close()
}
