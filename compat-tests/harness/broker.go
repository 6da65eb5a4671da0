package harness

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// External is the address of a broker that the user runs, or "".
func External() string { return os.Getenv("WEIR_COMPAT_BOOTSTRAP") }

// Soak reports whether the suites' long forms are asked for.
func Soak() bool { return os.Getenv("WEIR_COMPAT_SOAK") != "" }

// Broker is what a case talks to.
type Broker struct {
	Bootstrap string // host:port

	process *Process // nil for a broker of the user's
	options Options
}

// shared is the broker of a test process, started when first asked for.
var shared struct {
	once   sync.Once
	dir    string
	broker *Broker
	err    error
}

// Main is what a suite's TestMain calls: it runs the cases and then stops the shared broker, which must end cleanly.
func Main(m *testing.M) {
	code := m.Run()
	if b := shared.broker; b != nil && b.process != nil {
		if err := b.process.Stop(); err != nil {
			fmt.Println(err)
			fmt.Print(logSince(b.options.LogFile, 0))
			code = max(code, 1)
		}
	}
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// Shared returns the broker that the cases of one suite have in common. Cases use topics of their own.
func Shared(t *testing.T) *Broker {
	t.Helper()
	shared.once.Do(func() { shared.broker, shared.err = startShared() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	b := shared.broker
	if b.process != nil {
		showLogIfFailed(t, b.options.LogFile)
	}
	return b
}

func startShared() (*Broker, error) {
	if address := External(); address != "" {
		return &Broker{Bootstrap: address}, nil
	}
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	if shared.dir, err = os.MkdirTemp("", "weir-compat-"); err != nil {
		return nil, err
	}
	b := &Broker{options: Options{
		Binary: binary, DataDir: filepath.Join(shared.dir, "data"), LogFile: filepath.Join(shared.dir, "log"),
		Args: quickGroups,
	}}
	if err := b.launch(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, logSince(b.options.LogFile, 0))
	}
	return b, nil
}

// quickGroups are settings of every broker of the suites: by default a new group waits three seconds for more members.
var quickGroups = []string{"--override", "group.initial.rebalance.delay.ms=0"}

// Start returns a broker that belongs to this case alone, on a port that stays the same over restarts. The case is
// skipped where the broker is the user's.
func Start(t *testing.T, args ...string) *Broker {
	t.Helper()
	if External() != "" {
		t.Skip("needs a broker of its own, and WEIR_COMPAT_BOOTSTRAP names another")
	}
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	listen, err := FixedPort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b := &Broker{options: Options{
		Binary: binary, Listen: listen, DataDir: filepath.Join(dir, "data"), LogFile: filepath.Join(dir, "log"),
		Args: slices.Concat(quickGroups, args), // the last one of a name counts
	}}
	showLogIfFailed(t, b.options.LogFile)
	if err := b.launch(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.process.Kill() })
	return b
}

func (b *Broker) launch() error {
	process, err := Launch(b.options)
	if err != nil {
		return err
	}
	b.process, b.Bootstrap = process, process.Address
	return nil
}

// DataDir is where a broker of Start keeps its files.
func (b *Broker) DataDir() string { return b.options.DataDir }

// Kill crashes a broker of Start (SIGKILL).
func (b *Broker) Kill() { b.process.Kill() }

// Stop ends a broker of Start (SIGTERM); it must end cleanly.
func (b *Broker) Stop(t *testing.T) {
	t.Helper()
	if err := b.process.Stop(); err != nil {
		t.Fatal(err)
	}
}

// Restart starts a killed or stopped broker again, on the same port and the same files.
func (b *Broker) Restart(t *testing.T) {
	t.Helper()
	if err := b.launch(); err != nil {
		t.Fatal(err)
	}
}

// showLogIfFailed adds to a failed case what the broker logged while it ran.
func showLogIfFailed(t *testing.T, name string) {
	var before int64
	if info, err := os.Stat(name); err == nil {
		before = info.Size()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker's log:\n%s", logSince(name, before))
		}
	})
}

// logSince returns a log from an offset on; of a long one, the end.
func logSince(name string, offset int64) string {
	const limit = 64 << 10
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	cut := ""
	if info.Size()-offset > limit {
		offset, cut = info.Size()-limit, "[...]\n"
	}
	text, err := io.ReadAll(io.NewSectionReader(f, offset, info.Size()-offset))
	if err != nil {
		return err.Error()
	}
	return cut + strings.TrimRight(string(text), "\n")
}
