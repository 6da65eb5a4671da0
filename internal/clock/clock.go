// Package clock is the time that shells are given: the system's, or one that a test advances.
//
// Sessions, waits and timeouts are measured on the monotonic part of Now; only record timestamps and retention use its
// wall part. Pure packages take `now` as an argument and import nothing of this package. A Clock is safe for concurrent
// use; callbacks of AfterFunc run in a goroutine of their own.
package clock

import "time"

// Clock tells the time and makes timers.
type Clock interface {
	Now() time.Time
	NewTimer(d time.Duration) Timer
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is the part of time.Timer that callers need. C is nil for timers of AfterFunc.
type Timer interface {
	C() <-chan time.Time
	// Stop reports whether it stopped the timer before it fired.
	Stop() bool
}

// Sleep waits for d, or until done is closed, and reports whether d has passed.
func Sleep(c Clock, d time.Duration, done <-chan struct{}) bool {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-done:
		return false
	}
}

// System is the clock of the machine.
func System() Clock { return system{} }

type system struct{}

type systemTimer struct{ t *time.Timer }

func (system) Now() time.Time                            { return time.Now() }
func (system) NewTimer(d time.Duration) Timer            { return systemTimer{time.NewTimer(d)} }
func (system) AfterFunc(d time.Duration, f func()) Timer { return systemTimer{time.AfterFunc(d, f)} }

func (t systemTimer) C() <-chan time.Time { return t.t.C }
func (t systemTimer) Stop() bool          { return t.t.Stop() }
