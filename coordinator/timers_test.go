package coordinator

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func takeDue(s *timers, now time.Time) (keys []any) {
	for {
		key, ok := s.due(now, s.sets)
		if !ok {
			return keys
		}
		keys = append(keys, key)
	}
}

func TestTimersComeInTheOrderOfTheirTimes(t *testing.T) {
	t0 := time.Unix(1000, 0)
	var s timers
	if _, ok := s.next(); ok {
		t.Fatal("an empty set has a next timer")
	}
	for i, after := range []int{5, 3, 9, 3, 7} {
		s.set(Timer{Key: i, At: t0.Add(time.Duration(after) * time.Second)})
	}
	s.set(Timer{Key: 4, At: t0.Add(time.Second)}) // anew, earlier
	s.set(Timer{Key: 0, At: t0.Add(time.Minute)}) // anew, later
	s.set(Timer{Key: 2})                          // cancelled
	s.set(Timer{Key: "none"})                     // that there is not
	if at, _ := s.next(); !at.Equal(t0.Add(time.Second)) {
		t.Fatalf("next at %v", at)
	}
	if got := takeDue(&s, t0.Add(10*time.Second)); !slices.Equal(got, []any{4, 1, 3}) {
		t.Fatalf("due: %v", got)
	}
	if got := takeDue(&s, t0.Add(time.Hour)); !slices.Equal(got, []any{0}) {
		t.Fatalf("left: %v", got)
	}
	if len(s.byKey) != 0 {
		t.Fatalf("%d timers are still known", len(s.byKey))
	}
}

// A plain map says which timers there are.
func TestTimersAreThoseThatWereSetLast(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1000, 0)
	var s timers
	model := make(map[any]time.Time)
	for range 20_000 {
		key, at := r.IntN(40), now.Add(time.Duration(1+r.IntN(50))*time.Millisecond)
		switch r.IntN(4) {
		case 0:
			s.set(Timer{Key: key})
			delete(model, key)
		case 1, 2:
			s.set(Timer{Key: key, At: at})
			model[key] = at
		default:
			now = now.Add(time.Duration(r.IntN(5)) * time.Millisecond)
			var want []any
			for k, at := range model {
				if !at.After(now) {
					want = append(want, k)
					delete(model, k)
				}
			}
			got := takeDue(&s, now)
			if len(got) != len(want) {
				t.Fatalf("due: %v, want %v", got, want)
			}
			for _, k := range got {
				if !slices.Contains(want, k) {
					t.Fatalf("%v is not due, only %v", k, want)
				}
			}
		}
	}
}
