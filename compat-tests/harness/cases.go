package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// caseLine is how a suite in another language tells the outcome of one case, as a line of JSON on its standard output.
// Other lines are kept and shown if something fails.
type caseLine struct {
	Case  string `json:"case"`
	Error string `json:"error"` // "" if it passed
	Skip  string `json:"skip"`  // why it did not run
}

// RunCases runs a suite in another language and makes each of its cases one here.
func RunCases(t *testing.T, program string, args ...string) {
	t.Helper()
	r := Run(t, "", program, args...)
	cases, other := parseCases(r.Stdout)
	if len(cases) == 0 {
		t.Fatalf("%s %q told of no case, exit %d\nstdout: %.4000s\nstderr: %.4000s", program, args, r.Code, r.Stdout, r.Stderr)
	}
	failed := false
	for _, c := range cases {
		ok := t.Run(c.Case, func(t *testing.T) {
			if c.Skip != "" {
				t.Skip(c.Skip)
			}
			if c.Error != "" {
				t.Error(c.Error)
			}
		})
		failed = failed || !ok
	}
	if r.Code != 0 && !failed {
		t.Errorf("%s %q: exit %d", program, args, r.Code)
		failed = true
	}
	if failed {
		t.Logf("other output:\n%.8000s\n%.8000s", other, r.Stderr)
	}
}

func parseCases(stdout string) (cases []caseLine, other string) {
	for line := range strings.Lines(stdout) {
		var c caseLine
		if json.Unmarshal([]byte(line), &c) == nil && c.Case != "" {
			cases = append(cases, c)
		} else {
			other += line
		}
	}
	return cases, other
}

// Python returns an interpreter that has the packages of requirements.txt in the suite's folder. They are installed once
// into a folder of their own and again when the file changes.
func Python(t *testing.T, suite string) string {
	t.Helper()
	python := Tool(t, "python3", "python3", "python3-venv")
	requirements, err := os.ReadFile("requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(requirements)
	dir, err := BuildDir(suite)
	if err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(dir, "venv-"+hex.EncodeToString(sum[:4]))
	interpreter, ready := filepath.Join(venv, "bin", "python"), filepath.Join(venv, "ready")
	if _, err := os.Stat(ready); err == nil {
		return interpreter
	}
	if err := os.RemoveAll(venv); err != nil {
		t.Fatal(err)
	}
	if r := Run(t, "", python, "-m", "venv", venv); r.Code != 0 {
		// Debian's Python has no ensurepip without a package of its own.
		if err := aptInstall([]string{"python3-venv"}); err != nil {
			t.Skipf("python3 -m venv fails (Debian: apt-get install python3-venv): %v", err)
		}
		MustRun(t, "", python, "-m", "venv", "--clear", venv)
	}
	if r := Run(t, "", interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"); r.Code != 0 {
		t.Skipf("pip could not install %q:\n%s", strings.TrimSpace(string(requirements)), r.Stderr)
	}
	if err := os.WriteFile(ready, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return interpreter
}
