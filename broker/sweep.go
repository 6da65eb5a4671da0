package broker

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"weir/internal/clock"
)

// activity is what a connection tells the sweeper, which keeps the time, so that no request pays for a timer or a look
// at the clock.
type activity struct {
	frame          atomic.Uint64 // counts beginnings and ends of frames: odd while one arrives
	received       atomic.Int64  // bytes of that frame
	waitsForMemory atomic.Bool   // the reader is ours to wait for, not the peer's
	writes         atomic.Uint64 // counts beginnings and ends of writes, and by two what is written: odd while writing
	inFlight       atomic.Int64  // requests whose reply is not written
}

// swept is what the sweeper remembers of a connection from one sweep to the next.
type swept struct {
	at                                time.Time
	frame, writes                     uint64
	frameSince, writeSince, idleSince time.Time
	waited                            time.Duration // of the time since frameSince, how long for memory
	watchWanted                       bool
}

var (
	errIdle        = errors.New("nothing was in flight for too long")
	errSlowReader  = errors.New("the peer does not read its replies")
	errMemoryShort = errors.New("a frame took too long while others waited for its memory")
)

// slowFrameError is a frame that came too slowly.
type slowFrameError struct {
	received int64
	in       time.Duration
}

func (e *slowFrameError) Error() string {
	return fmt.Sprintf("only %d bytes of a frame came in %v", e.received, e.in.Round(time.Second))
}

// sweep closes connections that are too slow or idle, and has those watched whose handler waits for long, until the
// server closes.
func (s *Server) sweep() {
	defer s.goroutines.Done()
	for clock.Sleep(s.clock, sweepInterval, s.closing) {
		now := s.clock.Now()
		memoryShort := s.frames.waiters.Load() > 0
		for _, c := range s.connections() {
			if why := c.swept.overdue(&s.limits, &c.activity, now, memoryShort); why != nil {
				c.close(why)
			} else if c.swept.lasting(c.watch.state.Load() == wanted) {
				c.startWatch()
			}
		}
		s.sweeps.Add(1)
	}
}

// overdue compares what a connection did with what was seen the last time, and says why it is to be closed if it is.
func (w *swept) overdue(l *Limits, a *activity, now time.Time, memoryShort bool) error {
	frame, writes := a.frame.Load(), a.writes.Load()
	inFrame, writing := frame%2 == 1, writes%2 == 1
	if w.at.IsZero() {
		*w = swept{at: now, frame: frame, writes: writes, frameSince: now, writeSince: now, idleSince: now}
		return nil
	}
	since := now.Sub(w.at)
	w.at = now
	if inFrame || writing || a.inFlight.Load() > 0 || frame != w.frame || writes != w.writes {
		w.idleSince = now
	}
	if frame != w.frame {
		w.frame, w.frameSince, w.waited = frame, now, 0
	}
	if writes != w.writes {
		w.writes, w.writeSince = writes, now
	}
	if a.waitsForMemory.Load() {
		w.waited += since
	}
	switch {
	case inFrame && exceeds(now.Sub(w.frameSince), l.FrameTime):
		return w.slowFrame(l, a.received.Load(), now, memoryShort)
	case writing && exceeds(now.Sub(w.writeSince), l.WriteTime):
		return errSlowReader
	case exceeds(now.Sub(w.idleSince), l.IdleTime):
		return errIdle
	}
	return nil
}

// exceeds compares with a limit that may be none.
func exceeds(d, limit time.Duration) bool { return limit > 0 && d > limit }

// slowFrame judges a frame that has used up its time.
func (w *swept) slowFrame(l *Limits, received int64, now time.Time, memoryShort bool) error {
	if memoryShort && received > freeFrameBytes {
		return errMemoryShort
	}
	if in := now.Sub(w.frameSince) - w.waited; in > l.FrameTime && float64(received) < float64(l.MinFrameRate)*in.Seconds() {
		return &slowFrameError{received: received, in: in}
	}
	return nil
}

// lasting reports whether a watch was wanted at the last sweep, too. (By another request, perhaps; that does no harm.)
func (w *swept) lasting(watchWanted bool) bool {
	before := w.watchWanted
	w.watchWanted = watchWanted
	return before && watchWanted
}
