package log

import (
	"sync/atomic"
	"time"
)

// stall notes since when one of Run's goroutines has been at a piece of its work, all of which is short as long as the disk
// answers. A disk that fails says so; one that hangs, as behind a network that is gone, keeps everybody waiting who comes to
// it, the flush that comes every second among them.
type stall struct{ since atomic.Pointer[time.Time] }

func (s *stall) begin(now time.Time) { s.since.Store(&now) }
func (s *stall) end()                { s.since.Store(nil) }

// Stalled is how long the disks have kept the longest piece of background work waiting by now; 0 where none is under way. It
// does not block.
func (s *Store) Stalled() (longest time.Duration) {
	now := s.clock.Now()
	for _, w := range s.stalls {
		if since := w.since.Load(); since != nil {
			longest = max(longest, now.Sub(*since))
		}
	}
	return longest
}
