package wire

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/compat-tests/harness"
)

// server is a broker of a case's own, which it may kill, measure, and whose files and log it may read.
type server struct {
	*harness.Process
	options harness.Options
}

// start starts a broker with more arguments to `weir serve`; it dies with the case. Skipped where the broker is the user's.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	return startIn(t, filepath.Join(t.TempDir(), "data"), args...)
}

// startIn is start on a data directory that the case knows.
func startIn(t *testing.T, dataDir string, args ...string) *server {
	t.Helper()
	s := prepare(t, dataDir, args...)
	s.restart(t)
	return s
}

// prepare is start without the start.
func prepare(t *testing.T, dataDir string, args ...string) *server {
	t.Helper()
	needOwn(t)
	s := &server{options: harness.Options{Binary: weir(t), DataDir: dataDir, LogFile: filepath.Join(t.TempDir(), "log"), Args: args}}
	t.Cleanup(func() {
		if s.Process != nil {
			s.Kill()
		}
		if t.Failed() {
			log := s.log(t)
			t.Logf("the broker's log:\n%s", log[max(0, len(log)-16<<10):])
		}
	})
	return s
}

// needOwn skips a case that cannot do with a broker of the user's.
func needOwn(t *testing.T) {
	t.Helper()
	if harness.External() != "" {
		t.Skip("needs a broker of its own, and WEIR_COMPAT_BOOTSTRAP names another")
	}
}

func weir(t *testing.T) string {
	t.Helper()
	path, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// restart starts the broker on the same files, on another port. It must not run.
func (s *server) restart(t *testing.T) {
	t.Helper()
	p, err := harness.Launch(s.options)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.log(t))
	}
	s.Process = p
}

// stop ends the broker with SIGTERM; it must end cleanly.
func (s *server) stop(t *testing.T) {
	t.Helper()
	if err := s.Process.Stop(); err != nil {
		t.Fatal(err)
	}
}

// ended reports whether the process is gone.
func (s *server) ended() bool { return syscall.Kill(s.PID(), 0) != nil }

// awaitEnd waits until the process has ended by itself, or by a signal that was sent before.
func (s *server) awaitEnd(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(endsWithin); !s.ended(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the broker does not end")
		}
	}
}

// log returns what the broker has logged, from its first start on.
func (s *server) log(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(s.options.LogFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// awaitLog waits until the log has a line with all of these words in it, and returns it. A line about a connection may
// come a moment after that was closed.
func (s *server) awaitLog(t *testing.T, words ...string) string {
	t.Helper()
	for deadline := time.Now().Add(replyWithin); ; time.Sleep(10 * time.Millisecond) {
		log := s.log(t)
		for line := range strings.Lines(log) {
			if containsAll(line, words) {
				return line
			}
		}
		if time.Now().After(deadline) {
			t.Errorf("no line of the log has %q:\n%s", words, log)
			return ""
		}
	}
}

func containsAll(s string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

// rss returns the broker's resident memory in MiB.
func (s *server) rss(t *testing.T) int64 {
	t.Helper()
	bytes, err := s.RSS()
	if err != nil {
		t.Fatal(err)
	}
	return bytes >> 20
}

// ended is how a process ended that a case ran to its end.
type ended struct {
	output string // both streams
	code   int    // -1: by a signal
}

// endsWithin is how long a start that must fail may take.
const endsWithin = 10 * time.Second

// serveFails runs `weir serve` where it must refuse to start.
func serveFails(t *testing.T, environment []string, attr syscall.SysProcAttr, args ...string) ended {
	t.Helper()
	needOwn(t)
	return runFails(t, weir(t), environment, attr, append([]string{"serve"}, args...)...)
}

// runFails runs a program that must end by itself.
func runFails(t *testing.T, program string, environment []string, attr syscall.SysProcAttr, args ...string) ended {
	t.Helper()
	cmd := exec.Command(program, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(os.Environ(), environment...)
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = &attr
	runtime.LockOSThread() // whose death would kill the child
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	alarm := time.AfterFunc(endsWithin, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // the exit code says it
	if !alarm.Stop() {
		t.Fatalf("%s %q did not end:\n%s", program, args, output.String())
	}
	return ended{output.String(), cmd.ProcessState.ExitCode()}
}
