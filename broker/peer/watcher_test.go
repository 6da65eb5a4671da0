package peer

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func startWatcher(t *testing.T, o WatcherOptions) (*Watcher, <-chan Sighting) {
	t.Helper()
	seen := make(chan Sighting, 16)
	o.Observe = func(s Sighting) { seen <- s }
	w := NewWatcher(o)
	t.Cleanup(w.Close)
	return w, seen
}

func TestWatcherSeesAProcessEndAndComeBack(t *testing.T) {
	noGoroutineIsLeft(t)
	connected := make(chan struct{}, 16)
	serve := func(c *fakeConn) {
		connected <- struct{}{}
		c.untilClosed()
	}
	b, other := startBroker(t, serve), startBroker(t, func(c *fakeConn) { c.untilClosed() })
	w, seen := startWatcher(t, WatcherOptions{})
	targets := []Target{{ID: 1, Epoch: 10, Address: b.address()}, {ID: 2, Epoch: 20, Address: other.address()}}
	w.SetTargets(targets)
	await(t, connected)
	b.stop()
	if s := await(t, seen); s != (Sighting{Broker: 1, Epoch: 10, Gone: true}) {
		t.Fatalf("%+v", s)
	}
	b.listen(b.address(), serve)
	if s := await(t, seen); s != (Sighting{Broker: 1, Epoch: 10}) {
		t.Fatalf("%+v", s)
	}
	// It registers again: what is seen from then on is about that.
	await(t, connected)
	targets[0].Epoch = 11
	w.SetTargets(targets)
	await(t, connected)
	b.stop()
	if s := await(t, seen); s != (Sighting{Broker: 1, Epoch: 11, Gone: true}) {
		t.Fatalf("%+v", s)
	}
	w.Close()
	w.Close()
	if len(seen) > 0 {
		t.Fatalf("and %+v", <-seen)
	}
}

// memoryHost is brokers in memory that end as a test says.
type memoryHost struct {
	refuses bool
	conns   []net.Conn
	dials   int
}

func (h *memoryHost) dial(ctx context.Context, _ string) (net.Conn, error) {
	h.dials++
	if h.refuses {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	ours, theirs := net.Pipe()
	h.conns = append(h.conns, theirs)
	return ours, ctx.Err()
}

func TestWatcherCostsNothingWhileNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &memoryHost{}
		w, seen := startWatcher(t, WatcherOptions{Dial: h.dial})
		w.SetTargets([]Target{{ID: 1, Epoch: 1, Address: "a:1"}})
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if h.dials != 1 || len(seen) > 0 {
			t.Errorf("%d connections in a day, %d sightings", h.dials, len(seen))
		}
		w.SetTargets(nil)
		synctest.Wait()
		if n, err := h.conns[0].Read(make([]byte, 1)); n > 0 || err == nil {
			t.Error("a broker that is not watched any more keeps its connection")
		}
		w.Close()
	})
}

func TestWatcherGivesUpOnDialsAndOnTalkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		talker := &pipeDialer{serve: func(c *fakeConn) { _, _ = c.Write([]byte("hello")) }}
		silent := 0
		w, seen := startWatcher(t, WatcherOptions{Dial: func(ctx context.Context, address string) (net.Conn, error) {
			if address == "talker:1" {
				return talker.dial(ctx, address)
			}
			silent++
			<-ctx.Done()
			return nil, errors.New("timed out")
		}})
		w.SetTargets([]Target{{ID: 1, Epoch: 1, Address: "talker:1"}, {ID: 2, Epoch: 1, Address: "silent:1"}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(seen) > 0 || silent < 15 || silent > 20 { // each 3 s, and a pause
			t.Errorf("%d sightings, %d attempts", len(seen), silent)
		}
		w.Close()
	})
}

func TestWatcherStopsBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &memoryHost{}
		w, seen := startWatcher(t, WatcherOptions{Dial: h.dial})
		w.SetTargets([]Target{{ID: 3, Epoch: 4, Address: "a:1"}})
		synctest.Wait()
		h.refuses = true
		_ = h.conns[0].Close()
		if s := <-seen; s != (Sighting{Broker: 3, Epoch: 4, Gone: true}) {
			t.Fatalf("%+v", s)
		}
		w.SetTargets([]Target{}) // fenced
		synctest.Wait()
		before := h.dials
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.dials != before {
			t.Errorf("%d more connections were tried", h.dials-before)
		}
		w.Close()
		w.SetTargets([]Target{{ID: 3, Epoch: 5, Address: "a:1"}}) // too late
	})
}

func TestEndsOfConnectionsAreToldApart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	pair := func() (ours, theirs net.Conn) {
		ours, err := Dial(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if theirs, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		return ours, theirs
	}
	for name, c := range map[string]struct {
		end  func(ours, theirs *net.TCPConn)
		want bool
	}{
		"closed":         {func(_, theirs *net.TCPConn) { _ = theirs.Close() }, true},
		"reset":          {func(_, theirs *net.TCPConn) { _ = theirs.SetLinger(0); _ = theirs.Close() }, true},
		"closed by us":   {func(ours, _ *net.TCPConn) { _ = ours.Close() }, false},
		"our time is up": {func(ours, _ *net.TCPConn) { _ = ours.SetReadDeadline(time.Unix(1, 0)) }, false},
		"it talks":       {func(_, theirs *net.TCPConn) { _, _ = theirs.Write([]byte("x")); _ = theirs.Close() }, false},
	} {
		ours, theirs := pair()
		c.end(ours.(*net.TCPConn), theirs.(*net.TCPConn))
		if got := isClosedByHost(awaitEnd(ours)); got != c.want {
			t.Errorf("%s: closed by its host: %v", name, got)
		}
		_, _ = ours.Close(), theirs.Close()
	}
	_ = l.Close()
	if _, err := Dial(t.Context(), l.Addr().String()); !isRefused(err) {
		t.Errorf("a port without a listener: %v", err)
	}
	for _, err := range []error{errors.New("x"), context.DeadlineExceeded, syscall.EHOSTUNREACH, syscall.ETIMEDOUT} {
		if isRefused(err) || isClosedByHost(err) {
			t.Errorf("%v is taken for evidence", err)
		}
	}
}
