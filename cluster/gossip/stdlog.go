package gossip

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"

	"weir/internal/clock"
	"weir/internal/metrics"
)

// quietTime is how long one kind of warning is not repeated.
const quietTime = time.Minute

// warner warns of what others cause: of each kind once in a while, with how often it was kept back since. The rest is for debugging.
type warner struct {
	logger *slog.Logger
	clock  clock.Clock
	mu     struct {
		sync.Mutex
		kinds map[string]*warned
	}
}

type warned struct {
	at   time.Time
	kept int // back, since then
}

func newWarner(logger *slog.Logger, c clock.Clock) *warner {
	w := &warner{logger: logger, clock: c}
	w.mu.kinds = make(map[string]*warned)
	return w
}

// warn says text, of which there are few.
func (w *warner) warn(text string, args ...any) {
	level := slog.LevelDebug
	if kept, ok := w.mayWarn(text); ok {
		level = slog.LevelWarn
		if kept > 0 {
			args = append(args, "kept_back", kept)
		}
	}
	w.logger.Log(context.Background(), level, text, args...)
}

func (w *warner) mayWarn(kind string) (kept int, ok bool) {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.mu.kinds[kind]
	if k != nil && now.Sub(k.at) < quietTime {
		k.kept++
		return 0, false
	}
	if k != nil {
		kept = k.kept
	}
	w.mu.kinds[kind] = &warned{at: now}
	return kept, true
}

// memberlistLog takes memberlist's log, line by line.
type memberlistLog struct {
	*warner
	refused *metrics.Counter
}

// logger is what memberlist is given.
func (l *memberlistLog) logger() *log.Logger { return log.New(l, "", 0) }

// refusals are parts of lines that say that somebody without this cluster's key or id sent something.
var refusals = []string{
	"Decrypt packet failed", "failed to receive", "unacceptable label", "label header", "cannot decode label",
}

// Write implements io.Writer. What an outsider can cause without end is counted. Failures to reach a node are for debugging: that
// it is gone is told once, by who it concerns.
func (l *memberlistLog) Write(line []byte) (int, error) {
	level, text := parseLine(line)
	for _, part := range refusals {
		if strings.Contains(text, part) {
			l.refused.Inc()
			text, from := cutSource(text)
			l.warn("gossip from without the cluster is refused: another key, or another cluster's", "from", from, "why", text)
			return len(line), nil
		}
	}
	if level >= slog.LevelWarn && strings.Contains(text, "network may be misconfigured") {
		l.warn("a node is reached by TCP and not by UDP at its gossip port", "memberlist", text)
		return len(line), nil
	}
	l.warner.logger.Debug(text, "memberlist", level)
	return len(line), nil
}

// parseLine takes "[WARN] memberlist: text" apart.
func parseLine(line []byte) (slog.Level, string) {
	line = bytes.TrimSpace(line)
	level := slog.LevelInfo
	if name, rest, ok := bytes.Cut(line, []byte("] ")); ok && len(name) > 0 && name[0] == '[' {
		line = rest
		switch string(name[1:]) {
		case "DEBUG":
			level = slog.LevelDebug
		case "WARN":
			level = slog.LevelWarn
		case "ERR", "ERROR":
			level = slog.LevelError
		}
	}
	return level, string(bytes.TrimPrefix(line, []byte("memberlist: ")))
}

// cutSource takes the sender off the end of a line; "" where it has none.
func cutSource(text string) (rest, from string) {
	rest, from, _ = strings.Cut(text, " from=")
	return rest, from
}
