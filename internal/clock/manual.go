package clock

import (
	"sync"
	"time"
)

// Manual is a clock that stands still until Advance moves it. The zero value is not usable; see NewManual.
type Manual struct {
	mu struct {
		sync.Mutex
		now    time.Time
		timers []*manualTimer
	}
}

type manualTimer struct {
	clock *Manual
	at    time.Time
	c     chan time.Time // nil for AfterFunc
	f     func()
}

// NewManual returns a clock that shows start.
func NewManual(start time.Time) *Manual {
	m := &Manual{}
	m.mu.now = start
	return m
}

// Now returns the time that the clock was last moved to.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.now
}

// NewTimer returns a timer that fires when the clock has been advanced by d.
func (m *Manual) NewTimer(d time.Duration) Timer {
	return m.add(d, &manualTimer{clock: m, c: make(chan time.Time, 1)})
}

// AfterFunc runs f in a goroutine of its own when the clock has been advanced by d.
func (m *Manual) AfterFunc(d time.Duration, f func()) Timer {
	return m.add(d, &manualTimer{clock: m, f: f})
}

func (m *Manual) add(d time.Duration, t *manualTimer) Timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	t.at = m.mu.now.Add(d)
	if d <= 0 {
		t.fire(m.mu.now)
		return t
	}
	m.mu.timers = append(m.mu.timers, t)
	return t
}

// Advance moves the clock by d, firing what falls due in the order of its times.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	end := m.mu.now.Add(d)
	for {
		next := -1
		for i, t := range m.mu.timers {
			if !t.at.After(end) && (next < 0 || t.at.Before(m.mu.timers[next].at)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		t := m.mu.timers[next]
		m.mu.timers = append(m.mu.timers[:next], m.mu.timers[next+1:]...)
		m.mu.now = t.at
		t.fire(t.at)
	}
	m.mu.now = end
	m.mu.Unlock()
}

func (t *manualTimer) fire(now time.Time) {
	if t.f != nil {
		go t.f()
		return
	}
	t.c <- now
}

func (t *manualTimer) C() <-chan time.Time { return t.c }

func (t *manualTimer) Stop() bool {
	m := t.clock
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, other := range m.mu.timers {
		if other == t {
			m.mu.timers = append(m.mu.timers[:i], m.mu.timers[i+1:]...)
			return true
		}
	}
	return false
}
