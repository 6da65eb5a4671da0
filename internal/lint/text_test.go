package lint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unwanted is what no file of the repository may say. The patterns are written so that they do not match themselves.
var unwanted = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"a path of one machine", regexp.MustCompile(`(^|[^\w.])/(?:work|root|home|Users)/\w`)},
	{"unfinished work; finish it or file an issue", regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME)\b`)},
	{"a conflict marker", regexp.MustCompile(`^(?:<{7}|>{7}) `)},
}

func TestTextsSpeakOfNoMachineAndLeaveNothingUnfinished(t *testing.T) {
	for _, name := range repositoryFiles(t) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(text, 0) >= 0 || name == "LICENSE" {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			if what := findUnwanted(line); what != "" {
				t.Errorf("%s:%d: %s: %s", name, i+1, what, strings.TrimSpace(line))
			}
		}
	}
}

func findUnwanted(line string) string {
	for _, u := range unwanted {
		if u.pattern.MatchString(line) {
			return u.what
		}
	}
	return ""
}

// repositoryFiles lists what git tracks or would track.
func repositoryFiles(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("not a git checkout: what belongs to the repository cannot be told")
	}
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if len(names) < 2 {
		t.Fatalf("git ls-files lists %q", names)
	}
	return names
}

func TestFindUnwanted(t *testing.T) {
	for line, found := range map[string]bool{
		"see /" + "home/someone/weir":           true,
		"cd /" + "work/main":                    true,
		"log.dirs=/var/lib/weir":                false,
		"https://example.com/home/page":         false,
		"// TO" + "DO: later":                   true,
		"context.TO" + "DO()":                   true,
		strings.Repeat("<", 7) + " HEAD":        true,
		"the mastodon shrugs":                   false,
		"a/" + "work/b is relative, not rooted": false,
	} {
		if got := findUnwanted(line); (got != "") != found {
			t.Errorf("%q: %q, want found=%v", line, got, found)
		}
	}
}
