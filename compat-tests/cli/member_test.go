package cli

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// groupKeys are the requests that a member of a group needs.
var groupKeys = []kmsg.Key{kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.OffsetCommit, kmsg.OffsetFetch}

// groupName returns a name that no other case uses. A group on a broker of the user's is deleted at the end.
func (c cli) groupName(t *testing.T) string {
	t.Helper()
	name := harness.TopicName(t)
	if harness.External() != "" {
		t.Cleanup(func() {
			_ = exec.Command(c.binary, "group", "delete", name, "-b", c.bootstrap).Run() // it may be gone already
		})
	}
	return name
}

// output is what a running program has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// member is a `weir consume --group` that runs beside the case.
type member struct {
	stdout, stderr output
	cmd            *exec.Cmd
	exited         chan struct{}
}

func (c cli) join(t *testing.T, topic, group string, args ...string) *member {
	t.Helper()
	m := &member{exited: make(chan struct{})}
	m.cmd = exec.Command(c.binary, append([]string{"consume", topic, "--group", group, "--verbose", "-b", c.bootstrap}, args...)...)
	m.cmd.Stdout, m.cmd.Stderr = &m.stdout, &m.stderr
	m.start(t)
	return m
}

func (m *member) start(t *testing.T) {
	t.Helper()
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = m.cmd.Wait() // the exit code is in ProcessState
		close(m.exited)
	}()
	t.Cleanup(func() {
		m.kill()
		if t.Failed() {
			t.Logf("a member's standard error:\n%s", m.stderr.String())
		}
	})
}

// kill ends the member as a crash does.
func (m *member) kill() {
	_ = m.cmd.Process.Kill() // it may have ended already
	<-m.exited
}

// terminate asks the member to end, which has to be a success.
func (m *member) terminate(t *testing.T, with syscall.Signal) {
	t.Helper()
	if err := m.cmd.Process.Signal(with); err != nil {
		t.Fatal(err)
	}
	await(t, "the member ended", m.ended)
	if code := m.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d after %v: %s", code, with, m.stderr.String())
	}
}

func (m *member) ended() bool {
	select {
	case <-m.exited:
		return true
	default:
		return false
	}
}

// holds returns how many partitions the member has, by what it says of the group.
func (m *member) holds() int {
	held := make(map[string]bool)
	for line := range strings.Lines(m.stderr.String()) {
		fields := strings.Fields(line) // weir: group NAME: assigned|revoked|lost TOPIC[PARTITION]...
		if len(fields) < 5 {
			continue
		}
		for _, partition := range fields[4:] {
			switch fields[3] {
			case "assigned":
				held[partition] = true
			case "revoked", "lost":
				delete(held, partition)
			}
		}
	}
	return len(held)
}

// await waits for something to become true. The limit only ends a case that would hang.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx := harness.Context(t)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		case <-poll.C:
		}
	}
}

// countLines tells how often each line was printed.
func countLines(outputs ...string) map[string]int {
	count := make(map[string]int)
	for _, text := range outputs {
		for line := range strings.Lines(text) {
			count[strings.TrimSuffix(line, "\n")]++
		}
	}
	return count
}
