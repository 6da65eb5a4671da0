package broker

import (
	"sync"
	"time"
)

// logLimit is a bucket of log lines.
type logLimit struct {
	mu struct {
		sync.Mutex
		tokens  float64
		at      time.Time
		dropped int
	}
}

// allow reports whether a line may be written, and how many were not since the last one.
func (l *logLimit) allow(now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.at.IsZero() {
		l.mu.tokens = logBurst
	} else {
		l.mu.tokens = min(logBurst, l.mu.tokens+logRate*now.Sub(l.mu.at).Seconds())
	}
	l.mu.at = now
	if l.mu.tokens < 1 {
		l.mu.dropped++
		return 0, false
	}
	l.mu.tokens--
	dropped, l.mu.dropped = l.mu.dropped, 0
	return dropped, true
}
