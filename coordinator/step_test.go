package coordinator

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
)

// stepped is a runtime that does nothing by itself, with what its calls were answered.
type stepped struct {
	*Runtime
	clock   *clock.Manual
	answers []string
}

func newStepped() *stepped {
	s := &stepped{clock: clock.NewManual(time.UnixMilli(1_700_000_000_000))}
	s.Runtime = New(Options{Topic: "__bank", New: newBank, CommitTimeout: commitTimeout, Clock: s.clock, Logger: slog.New(slog.DiscardHandler),
		Metrics: metrics.NewRegistry(), Stepped: true})
	s.SetPartitions(1)
	return s
}

func (s *stepped) ask(name string, body any) {
	s.SubmitTo(0, &Call{Body: body, Done: func(body any, err error) {
		if err != nil {
			body = kafka.CodeOf(err)
		}
		s.answers = append(s.answers, fmt.Sprint(name, "=", body))
	}})
}

func (s *stepped) want(t *testing.T, answers ...string) {
	t.Helper()
	if !slices.Equal(s.answers, answers) {
		t.Fatalf("answered %q, want %q", s.answers, answers)
	}
	s.answers = nil
}

func TestSteppedRuntimeDoesNothingByItself(t *testing.T) {
	s, p := newStepped(), newPartition()
	p.mu.hold = true
	s.Elect(0, 0, p)
	s.ask("a", deposit{account: "x", amount: 5})
	s.want(t)
	s.Step()
	s.want(t) // appended, not committed
	s.ask("b", balances{})
	if next := s.Step(); !next.Equal(s.clock.Now().Add(commitTimeout)) {
		t.Fatalf("the next step is due at %v", next)
	}
	p.commit()
	s.want(t)
	s.Step()
	s.want(t, "a=5", "b=map[x:5]")

	s.ask("timer", remind{key: "k", after: time.Minute})
	if next := s.Step(); !next.Equal(s.clock.Now().Add(time.Minute)) {
		t.Fatalf("the next step is due at %v", next)
	}
	s.clock.Advance(time.Minute)
	s.Step()
	s.want(t, "timer=fired")

	s.ask("repeat", repeat{on: true})
	if next := s.Step(); next.After(s.clock.Now()) {
		t.Fatalf("a timer that sets itself for now is due at %v", next)
	}
	s.want(t, "repeat=true")
}

// Whoever waits is answered in the order of the questions when the end comes.
func TestSteppedRuntimeEndsInOrder(t *testing.T) {
	s, p := newStepped(), newPartition()
	s.Elect(0, 0, p)
	s.Step()
	var want []string
	for i := range 50 {
		s.ask(fmt.Sprint(i), watch{account: fmt.Sprint(i % 7)})
		want = append(want, fmt.Sprint(i, "=", kafka.NotCoordinator))
	}
	s.Step()
	s.want(t)
	s.Resign(0)
	s.ask("late", balances{})
	s.want(t, fmt.Sprint("late=", kafka.NotCoordinator))
	s.Step()
	s.want(t, want...)

	s.Elect(0, 1, p)
	s.ask("deposed", watch{account: "x"})
	s.Step()
	s.Elect(0, 2, p)
	s.ask("a", balances{})
	s.Step()
	s.want(t, fmt.Sprint("deposed=", kafka.NotCoordinator), fmt.Sprint("a=", kafka.NotCoordinator)) // the partition is in epoch 0
	s.Close()
}

// A shard that panics begins a new life within the step.
func TestSteppedRuntimeStartsOver(t *testing.T) {
	s, p := newStepped(), newPartition()
	s.Elect(0, 0, p)
	s.ask("a", deposit{account: "x", amount: 5})
	s.Step()
	s.ask("crash", crash{})
	s.Step()
	s.want(t, "a=5", fmt.Sprint("crash=", kafka.UnknownServerError))
	s.ask("b", balances{})
	s.Step()
	s.want(t, "b=map[x:5]")
}
