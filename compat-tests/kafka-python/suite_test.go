// Package kafkapython runs the broker under kafka-python, a client in pure Python: the current release by suite.py, which
// is its side of harness/python/checks.py, and those that older programs still use by older.py.
package kafkapython

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

func TestSuite(t *testing.T) { harness.RunPythonClient(t, "kafka-python") }

func TestOlderReleases(t *testing.T) {
	python := harness.Python(t, "kafka-python")
	broker := harness.OwnOrExternal(t, "group.initial.rebalance.delay.ms=0")
	releases, err := os.ReadFile("older.txt")
	if err != nil {
		t.Fatal(err)
	}
	for release := range strings.Lines(string(releases)) {
		release = strings.TrimSpace(release)
		_, version, _ := strings.Cut(release, "==")
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			// The folder comes before the interpreter's own packages, which have another release.
			harness.RunCases(t, "env", "PYTHONPATH="+install(t, python, release), python, "older.py", broker.Bootstrap)
		})
	}
}

// install returns a folder with one package, which is installed once.
func install(t *testing.T, python, release string) string {
	t.Helper()
	dir, err := harness.BuildDir("kafka-python", release)
	if err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(dir, "ready")
	if _, err := os.Stat(ready); err == nil {
		return dir
	}
	r := harness.Run(t, "", python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
		"--target", dir, release)
	if r.Code != 0 {
		t.Skipf("pip could not install %s:\n%s", release, r.Stderr)
	}
	if err := os.WriteFile(ready, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
