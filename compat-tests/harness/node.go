package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// Node returns the Node.js interpreter and lets it find, during this case, the packages of package-lock.json in the
// suite's folder. They are installed once into a folder of their own and again when the file changes.
func Node(t *testing.T, suite string) string {
	t.Helper()
	node := Tool(t, "node", "nodejs", "npm")
	npm := Tool(t, "npm", "npm")
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir, err := BuildDir(suite, "npm-"+hex.EncodeToString(sum[:4]))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NODE_PATH", filepath.Join(dir, "node_modules"))
	ready := filepath.Join(dir, "ready")
	if _, err := os.Stat(ready); err == nil {
		return node
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := Run(t, "", npm, "ci", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	if r.Code != 0 {
		t.Skipf("npm could not install what package-lock.json names:\n%.2000s", r.Stderr)
	}
	if err := os.WriteFile(ready, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return node
}
