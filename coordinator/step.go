package coordinator

import (
	"maps"
	"slices"
	"time"
)

// Step has every actor do what has come to it and what is due, one after the other in the order of their partitions, until
// nothing is left, and returns when it is to be called again at the latest, which may be now; zero if no timer is set. It is for a Runtime that
// is Stepped: nothing runs outside of it, and the same inputs in the same order have the same effects.
func (r *Runtime) Step() (next time.Time) {
	r.mu.Lock()
	actors := r.mu.ending
	r.mu.ending = nil
	for _, partition := range slices.Sorted(maps.Keys(r.mu.actors)) {
		actors = append(actors, r.mu.actors[partition])
	}
	r.mu.Unlock()
	for _, a := range actors {
		if at, ok := a.step(); ok && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// step is what the actor's goroutine does between two sleeps.
func (a *actor) step() (next time.Time, ok bool) {
	for !a.ended {
		if !a.loaded && a.resumeAt.After(a.runtime.Clock.Now()) && !a.mailbox.isOver() {
			return a.resumeAt, true
		}
		err := error(nil)
		if !a.loaded {
			err = a.caught(a.begin)
		}
		if err == nil {
			err = a.caught(a.turn)
		}
		if err != nil {
			a.ended = !a.end(err)
			continue
		}
		if !a.mailbox.waits() {
			return a.next()
		}
	}
	return time.Time{}, false
}
