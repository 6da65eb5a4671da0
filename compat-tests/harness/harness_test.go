package harness

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseCases(t *testing.T) {
	cases, other := parseCases("starting\n{\"case\":\"a\",\"error\":\"\"}\n{\"case\":\"b\",\"error\":\"no\"}\n{\"json\":1}\n{\"case\":\"c\",\"skip\":\"why\"}")
	want := []caseLine{{Case: "a"}, {Case: "b", Error: "no"}, {Case: "c", Skip: "why"}}
	if len(cases) != len(want) || cases[0] != want[0] || cases[1] != want[1] || cases[2] != want[2] {
		t.Errorf("%+v, want %+v", cases, want)
	}
	if other != "starting\n{\"json\":1}\n" {
		t.Errorf("other lines: %q", other)
	}
}

func TestLogSince(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(name, []byte("before\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := logSince(name, 7); got != "after" {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(name, []byte(strings.Repeat("x", 1<<20)), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := logSince(name, 0); !strings.HasPrefix(got, "[...]\nx") || len(got) > 100<<10 {
		t.Errorf("%d bytes of a long log", len(got))
	}
}

func TestFixedPortCanBeBound(t *testing.T) {
	address, err := FixedPort()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// A broker that does not start is told with its reason, and no process is left.
func TestLaunchTellsWhyNothingStarted(t *testing.T) {
	dir := t.TempDir()
	_, err := Launch(Options{Binary: "false", DataDir: dir, LogFile: filepath.Join(dir, "log")})
	if err == nil || !strings.Contains(err.Error(), "ended before it was ready: exit status 1") {
		t.Errorf("%v", err)
	}
	_, err = Launch(Options{Binary: filepath.Join(dir, "nosuch"), DataDir: dir, LogFile: filepath.Join(dir, "log")})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("%v", err)
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct{ baseline, known, outcome, verdict string }{
		{"pass", "", "pass", "pass"},
		{"pass", "", "fail", "fail"},
		{"pass", "", "skip", "fail"},
		{"pass", "", "", "fail"},
		{"pass", "why", "fail", "skip"},
		{"pass", "why", "skip", "skip"},
		{"pass", "why", "pass", "fail"}, // the list is stale
		{"fail", "", "fail", "skip"},
		{"fail", "", "pass", "skip"},
		{"skip", "", "skip", "skip"},
	} {
		if verdict, _ := judge(c.baseline, c.known, Foreign{Outcome: c.outcome}); verdict != c.verdict {
			t.Errorf("%+v: %s", c, verdict)
		}
	}
}
