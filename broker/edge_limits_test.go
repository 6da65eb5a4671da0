package broker

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

// The rules of the sweeper, by what a connection does between sweeps a second apart.
func TestOverdue(t *testing.T) {
	l := DefaultLimits(0)
	start := time.Unix(0, 0)
	for _, c := range []struct {
		name  string
		each  func(a *activity, second int) (memoryShort bool) // before each sweep
		until int                                              // seconds until it is closed; 0 for not within 20 minutes
		why   error
	}{
		{"idle", func(*activity, int) bool { return false }, 601, errIdle},
		{"asks now and then", func(a *activity, s int) bool {
			if s%590 == 0 {
				a.frame.Add(2)
			}
			return false
		}, 0, nil},
		{"waits for a reply", func(a *activity, _ int) bool { a.inFlight.Store(1); return false }, 0, nil},
		{"sends nothing of a frame", func(a *activity, _ int) bool { a.frame.Store(1); return false }, 31, &slowFrameError{}},
		{"sends 2 KiB a second", func(a *activity, s int) bool { a.frame.Store(1); a.received.Store(int64(s) * 2048); return false }, 0, nil},
		{"sends 2 KiB a second while memory is short", func(a *activity, s int) bool {
			a.frame.Store(1)
			a.received.Store(int64(s) * 2048)
			return s >= 100
		}, 100, errMemoryShort},
		{"holds nothing worth while memory is short", func(a *activity, s int) bool {
			a.frame.Store(1)
			a.received.Store(4096)
			a.waitsForMemory.Store(true)
			return true
		}, 0, nil},
		{"waits for memory first, then stalls", func(a *activity, s int) bool {
			a.frame.Store(1)
			a.waitsForMemory.Store(s < 100)
			return false
		}, 130, &slowFrameError{}},
		{"new frames all the time", func(a *activity, s int) bool { a.frame.Store(uint64(2*s + 1)); return true }, 0, nil},
		{"does not read", func(a *activity, _ int) bool { a.writes.Store(1); return false }, 61, errSlowReader},
		{"reads slowly", func(a *activity, s int) bool { a.writes.Store(uint64(s/50*2 + 1)); return false }, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w swept
			var a activity
			for s := range 1200 {
				short := c.each(&a, s)
				why := w.overdue(&l, &a, start.Add(time.Duration(s)*time.Second), short)
				if why == nil {
					continue
				}
				var slow *slowFrameError
				sameKind := errors.Is(why, c.why) || errors.As(c.why, &slow) && errors.As(why, &slow)
				if s != c.until || !sameKind {
					t.Errorf("closed after %d s: %v; want %d s: %v", s, why, c.until, c.why)
				}
				return
			}
			if c.until != 0 {
				t.Errorf("never closed; want %d s", c.until)
			}
		})
	}
}

func TestTimesMayBeUnlimited(t *testing.T) {
	l := DefaultLimits(0)
	l.FrameTime, l.WriteTime, l.IdleTime = 0, 0, -time.Millisecond // connections.max.idle.ms=-1
	var w swept
	var a activity
	for s, set := range []func(){func() {}, func() {}, func() { a.frame.Store(1) }, func() { a.writes.Store(1) }, func() {}} {
		set()
		if why := w.overdue(&l, &a, time.Unix(int64(s)*1e6, 0), true); why != nil {
			t.Errorf("closed in step %d: %v", s, why)
		}
	}
}

func TestAdmission(t *testing.T) {
	l := DefaultLimits(0)
	l.ConnectionRate = 4
	a := newAdmission(l)
	now := time.Unix(0, 0)
	from := netip.MustParseAddr("192.0.2.1")
	admit := func(want ...time.Duration) {
		t.Helper()
		for i, w := range want {
			if delay, why := a.admit(from, "PLAINTEXT", now); delay != w || why != admitted {
				t.Errorf("connection %d: %v %q, want %v", i, delay, why, w)
			}
		}
	}
	const ms = time.Millisecond
	admit(0, 0, 0, 0, 250*ms, 500*ms, 750*ms, 1000*ms)
	if _, why := a.admit(from, "PLAINTEXT", now); why != refusedByRate {
		t.Errorf("the ninth of a second is %q", why)
	}
	now = now.Add(time.Second)
	admit(250*ms, 500*ms)
	now = now.Add(time.Hour)
	admit(0, 0, 0, 0, 250*ms)
	if delay, why := a.admit(netip.MustParseAddr("::1"), "PLAINTEXT", now); delay != 0 || why != admitted {
		t.Errorf("loopback: %v %q", delay, why)
	}
	a.rate = 0
	admit(0, 0, 0, 0, 0, 0)
	a.setLimits(ConnectionLimits{Total: 1000, PerAddress: 10})
	if _, why := a.admit(from, "PLAINTEXT", now); why != refusedByAddress {
		t.Errorf("beyond a limit by address that was lowered: %q", why)
	}
}

func TestBudgetServesInOrderAndWhatHasBegunFirst(t *testing.T) {
	b := newBudget(100)
	never := make(chan struct{})
	if n, err := b.acquire(1000, false, never); n != 100 || err != nil {
		t.Fatalf("more than all gives %d, %v", n, err)
	}
	got := make(chan string)
	start := func(name string, n int64, growing bool) {
		waiting := b.waiters.Load()
		go func() {
			if took, err := b.acquire(n, growing, never); err != nil || took != n {
				t.Errorf("%s: %d, %v", name, took, err)
			}
			got <- name
		}()
		eventually(t, name+" waits", func() bool { return b.waiters.Load() == waiting+1 })
	}
	start("large", 80, false)
	start("small", 10, false)
	start("growing", 50, true)
	expect := func(want string) {
		t.Helper()
		if name := <-got; name != want {
			t.Errorf("%s is served, want %s", name, want)
		}
	}
	b.release(40)
	select {
	case name := <-got:
		t.Errorf("%s overtook", name)
	default:
	}
	b.release(10)
	expect("growing")
	b.release(80) // 80 are free: enough for the first of the others, and not for both
	expect("large")
	b.release(10)
	expect("small")
}

func TestBudgetIsGivenUp(t *testing.T) {
	b := newBudget(100)
	if _, err := b.acquire(60, false, nil); err != nil {
		t.Fatal(err)
	}
	closed, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := b.acquire(80, false, closed)
		done <- err
	}()
	eventually(t, "it waits", func() bool { return b.waiters.Load() == 1 })
	behind := make(chan struct{})
	go func() {
		defer close(behind)
		_, _ = b.acquire(40, false, nil)
	}()
	eventually(t, "the next waits", func() bool { return b.waiters.Load() == 2 })
	close(closed)
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
	<-behind // what stood behind is served now
	b.release(100)
	if b.mu.free != 100 {
		t.Errorf("%d bytes are free, want 100", b.mu.free)
	}
}

func TestLogLinesAreLimited(t *testing.T) {
	var l logLimit
	now := time.Unix(0, 0)
	for i := range 2 * logBurst {
		if _, ok := l.allow(now); ok != (i < logBurst) {
			t.Fatalf("line %d allowed: %v", i, ok)
		}
	}
	now = now.Add(time.Second)
	if dropped, ok := l.allow(now); !ok || dropped != logBurst {
		t.Errorf("a second later: %v, %d dropped", ok, dropped)
	}
	for i := range 2 * logRate {
		if _, ok := l.allow(now); ok != (i < logRate-1) {
			t.Fatalf("line %d of the next second allowed: %v", i, ok)
		}
	}
}
