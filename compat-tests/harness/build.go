package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// moduleDir is the folder of this module.
var moduleDir = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	file := strings.TrimSpace(string(out))
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(text), "module weir/compat-tests\n") {
		return "", fmt.Errorf("run the suites from within compat-tests, not from %s", filepath.Dir(file))
	}
	return filepath.Dir(file), nil
})

// BuildDir returns a folder below compat-tests/.build, which git ignores and which is kept from run to run: what is
// downloaded or built once lives there.
func BuildDir(elem ...string) (string, error) {
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(append([]string{module, ".build"}, elem...)...)
	return dir, os.MkdirAll(dir, 0o755)
}

// Binary returns the path of weir: WEIR_BIN, or one built now from the checkout.
var Binary = sync.OnceValues(func() (string, error) {
	if named := os.Getenv("WEIR_BIN"); named != "" {
		return filepath.Abs(named)
	}
	dir, err := BuildDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "weir")
	cmd := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/weir")
	cmd.Dir = filepath.Dir(filepath.Dir(dir)) // the top of the repository
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New("weir does not build:\n" + string(out))
	}
	return binary, nil
})
