package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// Tool returns the path of a client program. As root on Debian a missing one is installed from the named packages;
// elsewhere the case is skipped and says what is missing.
func Tool(t *testing.T, program string, packages ...string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	if err := aptInstall(packages); err != nil {
		t.Skipf("%s is not installed (Debian: apt-get install %s): %v", program, strings.Join(packages, " "), err)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("installing %v brought no %s", packages, program)
	}
	return path
}

var apt struct {
	sync.Mutex
	updated bool
}

func aptInstall(packages []string) error {
	if os.Geteuid() != 0 {
		return errors.New("only root may install it")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("there is no apt-get")
	}
	apt.Lock()
	defer apt.Unlock()
	if !apt.updated {
		if out, err := exec.Command("apt-get", "update", "-qq").CombinedOutput(); err != nil {
			return errors.New("apt-get update: " + string(out))
		}
		apt.updated = true
	}
	cmd := exec.Command("apt-get", append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.New("apt-get install: " + string(out))
	}
	return nil
}

// Result is how a client program ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a client program with an input, and fails the case if it does not end. Its exit code is the caller's to
// judge.
func Run(t *testing.T, stdin string, program string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	result := Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("%s %q did not end\nstdout: %.2000s\nstderr: %.2000s", program, args, result.Stdout, result.Stderr)
	case err != nil && !errors.As(err, &exit):
		t.Fatalf("%s: %v", program, err)
	}
	return result
}

// MustRun is Run for what has to succeed; it returns the standard output.
func MustRun(t *testing.T, stdin string, program string, args ...string) string {
	t.Helper()
	r := Run(t, stdin, program, args...)
	if r.Code != 0 {
		t.Fatalf("%s %q: exit %d\nstdout: %.2000s\nstderr: %.4000s", program, args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}
