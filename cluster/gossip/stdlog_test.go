package gossip

import (
	"log/slog"
	"strings"
	"testing"

	"weir/internal/clock"
	"weir/internal/metrics"
)

func TestLinesOfMemberlist(t *testing.T) {
	for line, want := range map[string]struct {
		level slog.Level
		text  string
	}{
		"[DEBUG] memberlist: Stream connection from=a:1\n": {slog.LevelDebug, "Stream connection from=a:1"},
		"[WARN] memberlist: [x] y\n":                       {slog.LevelWarn, "[x] y"},
		"[ERR] memberlist: failed\n":                       {slog.LevelError, "failed"},
		"[ERROR] memberlist: failed\n":                     {slog.LevelError, "failed"},
		"[INFO] memberlist: Suspect 2.a has failed\n":      {slog.LevelInfo, "Suspect 2.a has failed"},
		"Err: Could not set the deadline\n":                {slog.LevelInfo, "Err: Could not set the deadline"},
		"[]\n":                                             {slog.LevelInfo, "[]"},
		"":                                                 {slog.LevelInfo, ""},
	} {
		if level, text := parseLine([]byte(line)); level != want.level || text != want.text {
			t.Errorf("%q is %v, %q", line, level, text)
		}
	}
}

func TestOutsidersAreWarnedOfOnceAMinute(t *testing.T) {
	var out logged
	c := clock.NewManual(noon)
	refused := new(metrics.Counter)
	l := &memberlistLog{newWarner(slog.New(slog.NewTextHandler(&out, nil)), c), refused}
	std := l.logger()
	const line = "[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message from=10.0.0.9:77"
	for range 3 {
		std.Print(line)
	}
	std.Print("[ERR] memberlist: Failed to send UDP ping: no route to host")
	std.Print("[WARN] memberlist: Was able to connect to 2.a over TCP but UDP probes failed, network may be misconfigured")
	c.Advance(quietTime)
	std.Print(line)
	text := out.text()
	if refused.Value() != 4 || strings.Count(text, "\n") != 3 || strings.Count(text, "from=10.0.0.9:77") != 2 ||
		strings.Count(text, "kept_back=2") != 1 || strings.Count(text, "not by UDP") != 1 {
		t.Errorf("%d are counted; the log:\n%s", refused.Value(), text)
	}
}
