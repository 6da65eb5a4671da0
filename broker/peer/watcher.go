package peer

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
)

// WatcherOptions are what a Watcher needs.
type WatcherOptions struct {
	Dial  Dialer // nil for Dial
	Clock clock.Clock
	// Observe is told what is seen. It is called from several goroutines, those of one broker one after the other, and must
	// not block.
	Observe func(Sighting)
}

// Watcher keeps one connection to each of a set of brokers, over which nothing is said, and tells when a broker's process
// is gone. Safe for concurrent use.
type Watcher struct {
	o     WatcherOptions
	loops sync.WaitGroup
	mu    struct {
		sync.Mutex
		closed  bool
		watches map[kafka.BrokerID]*watch
	}
}

// NewWatcher returns a watcher that watches nobody yet.
func NewWatcher(o WatcherOptions) *Watcher {
	if o.Dial == nil {
		o.Dial = Dial
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	w := &Watcher{o: o}
	w.mu.watches = make(map[kafka.BrokerID]*watch)
	return w
}

// SetTargets says whom to watch from now on.
func (w *Watcher) SetTargets(targets []Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		return
	}
	wanted := make(map[kafka.BrokerID]bool, len(targets))
	for _, t := range targets {
		wanted[t.ID] = true
		one := w.mu.watches[t.ID]
		if one == nil {
			one = &watch{o: &w.o, targets: make(chan Target, 1), ends: make(chan struct{}), events: make(chan attemptEvent)}
			w.mu.watches[t.ID] = one
			w.loops.Go(one.run)
		}
		one.setTarget(t)
	}
	for id, one := range w.mu.watches {
		if !wanted[id] {
			close(one.ends)
			delete(w.mu.watches, id)
		}
	}
}

// Close ends all watching and returns when the goroutines have ended.
func (w *Watcher) Close() {
	w.mu.Lock()
	if !w.mu.closed {
		w.mu.closed = true
		for _, one := range w.mu.watches {
			close(one.ends)
		}
	}
	w.mu.Unlock()
	w.loops.Wait()
}

// watch drives one broker's Witness. Its goroutine owns it; an attempt's goroutine connects, and waits for the end of the
// connection.
type watch struct {
	o       *WatcherOptions
	targets chan Target // one slot: the newest
	ends    chan struct{}
	events  chan attemptEvent

	witness Witness
	attempt *attempt // the last one
	retry   <-chan time.Time
	timer   clock.Timer    // behind retry
	since   time.Time      // when the connection was made
	running sync.WaitGroup // attempts
}

// setTarget is called by one goroutine at a time.
func (w *watch) setTarget(t Target) {
	select {
	case <-w.targets: // an older one that was not taken yet
	default:
	}
	w.targets <- t
}

func (w *watch) run() {
	defer w.running.Wait()
	defer w.drop()
	for {
		select {
		case t := <-w.targets:
			w.follow(w.witness.Watch(t))
		case <-w.retry:
			w.stopTimer()
			w.dial()
		case e := <-w.events:
			if e.attempt == w.attempt {
				w.follow(w.judge(e))
			}
		case <-w.ends:
			return
		}
	}
}

func (w *watch) judge(e attemptEvent) Next {
	switch {
	case e.connected:
		w.since = w.o.Clock.Now()
		return w.witness.Connected()
	case e.dialed:
		return w.witness.Lost(isClosedByHost(e.err), w.o.Clock.Now().Sub(w.since))
	}
	return w.witness.Failed(isRefused(e.err))
}

func (w *watch) follow(next Next) {
	if next.Sighting != nil {
		w.o.Observe(*next.Sighting)
	}
	if next.Drop {
		w.drop()
	}
	switch {
	case next.Dial && next.After > 0:
		w.timer = w.o.Clock.NewTimer(jittered(next.After))
		w.retry = w.timer.C()
	case next.Dial:
		w.dial()
	}
}

// drop ends the last attempt; what it still tells is not heard.
func (w *watch) drop() {
	w.stopTimer()
	if w.attempt != nil {
		w.attempt.cancel()
		w.attempt = nil
	}
}

func (w *watch) stopTimer() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer, w.retry = nil, nil
	}
}

func (w *watch) dial() {
	ctx, cancel := context.WithCancel(context.Background())
	a := &attempt{ctx: ctx, cancel: cancel}
	w.attempt = a
	address := w.witness.target.Address
	w.running.Go(func() { w.try(a, address) })
}

// attempt is one connection, from the dial to its end.
type attempt struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// attemptEvent is what becomes of an attempt: connected, or not (err), or connected and ended (dialed, err).
type attemptEvent struct {
	attempt           *attempt
	connected, dialed bool
	err               error
}

var errTalks = errors.New("it says something, and nothing was asked")

// try is an attempt's goroutine.
func (w *watch) try(a *attempt, address string) {
	defer a.cancel()
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	timer := w.o.Clock.AfterFunc(connectTimeout, cancel)
	nc, err := w.o.Dial(ctx, address)
	timer.Stop()
	if err != nil {
		w.tell(attemptEvent{attempt: a, err: err})
		return
	}
	stop := context.AfterFunc(a.ctx, func() { _ = nc.Close() })
	defer stop()
	w.tell(attemptEvent{attempt: a, connected: true})
	err = awaitEnd(nc)
	_ = nc.Close()
	w.tell(attemptEvent{attempt: a, dialed: true, err: err})
}

// tell hands an event to the watch's goroutine, unless that has dropped the attempt.
func (w *watch) tell(e attemptEvent) {
	select {
	case w.events <- e:
	case <-e.attempt.ctx.Done():
	}
}

// awaitEnd waits until the connection ends.
func awaitEnd(nc net.Conn) error {
	var b [1]byte
	n, err := nc.Read(b[:])
	if n > 0 {
		return errTalks
	}
	return err
}
