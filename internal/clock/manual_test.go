package clock

import (
	"slices"
	"testing"
	"time"
)

func TestAdvanceFiresInOrderAndNoFurther(t *testing.T) {
	start := time.Unix(1000, 0)
	m := NewManual(start)
	late, early, never := m.NewTimer(3*time.Second), m.NewTimer(time.Second), m.NewTimer(4*time.Second)
	m.Advance(3 * time.Second)
	if got := m.Now(); !got.Equal(start.Add(3 * time.Second)) {
		t.Fatalf("the clock shows %v", got)
	}
	got := []time.Time{<-early.C(), <-late.C()}
	if want := []time.Time{start.Add(time.Second), start.Add(3 * time.Second)}; !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Fatalf("fired at %v, want %v", got, want)
	}
	select {
	case at := <-never.C():
		t.Fatalf("a timer of 4 s fired at %v", at)
	default:
	}
}

func TestStoppedTimerDoesNotFire(t *testing.T) {
	m := NewManual(time.Unix(0, 0))
	timer := m.NewTimer(time.Second)
	if !timer.Stop() || timer.Stop() {
		t.Fatal("only the first Stop stops")
	}
	m.Advance(time.Minute)
	select {
	case <-timer.C():
		t.Fatal("a stopped timer fired")
	default:
	}
}

func TestAfterFuncRunsOnceDue(t *testing.T) {
	m := NewManual(time.Unix(0, 0))
	ran := make(chan struct{})
	m.AfterFunc(time.Second, func() { close(ran) })
	m.Advance(time.Second)
	<-ran
	again := make(chan struct{})
	m.AfterFunc(0, func() { close(again) }) // due at once, without an Advance
	<-again
}
