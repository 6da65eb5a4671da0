package lint

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden list of dependencies anew; read the diff before committing it")

// listedPackage is the part of `go list -json` that is looked at here.
type listedPackage struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path, Dir string }
}

// The golden file makes every new module and package that reaches users a line in a review.
func TestBinaryLinksOnlyWhatIsListed(t *testing.T) {
	const golden = "testdata/deps.txt"
	got := describeDependencies(t, "./cmd/weir")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	for _, line := range missingLines(got, string(want)) {
		t.Errorf("not in %s: %s", golden, line)
	}
	for _, line := range missingLines(string(want), got) {
		t.Errorf("in %s, but no longer linked: %s", golden, line)
	}
	t.Error("if the change is meant: go test ./internal/lint -run Links -update")
}

// The server is linked into other programs' tests; what only the command needs must stay out of it.
func TestEmbeddedBrokerStaysSmall(t *testing.T) {
	unwanted := map[string]string{
		kgo:    "a client library is for client verbs and tests",
		kadm:   "a client library is for client verbs and tests",
		gossip: "cmd/weir hands the gossip in",
		prom:   "cmd/weir turns internal/metrics into Prometheus text",
		cobra:  "the command line is cmd/weir's",
	}
	for _, pkg := range []string{"broker", "weirtest"} {
		if !hasGoFiles(filepath.Join(root, pkg)) {
			continue
		}
		for _, p := range listDependencies(t, "./"+pkg) {
			for path, why := range unwanted {
				if within(p.ImportPath, path) {
					t.Errorf("%s links %s: %s", pkg, p.ImportPath, why)
				}
			}
		}
	}
}

func hasGoFiles(dir string) bool {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	return err == nil && len(names) > 0
}

// describeDependencies renders the packages outside the standard library and this module, below their modules and the
// modules' licences.
func describeDependencies(t *testing.T, pkg string) string {
	t.Helper()
	packages := make(map[string][]string)
	dirs := make(map[string]string)
	for _, p := range listDependencies(t, pkg) {
		if p.Standard || p.Module == nil || p.Module.Path == modulePath {
			continue
		}
		packages[p.Module.Path] = append(packages[p.Module.Path], p.ImportPath)
		dirs[p.Module.Path] = p.Module.Dir
	}
	if len(packages) == 0 {
		t.Fatalf("%s links nothing outside the standard library?", pkg)
	}
	var b strings.Builder
	for _, module := range slices.Sorted(maps.Keys(packages)) {
		licence, err := licenceOf(dirs[module])
		if err != nil {
			t.Errorf("%s: %v", module, err)
		}
		fmt.Fprintf(&b, "%s (%s)\n", module, licence)
		slices.Sort(packages[module])
		for _, p := range packages[module] {
			fmt.Fprintf(&b, "\t%s\n", p)
		}
	}
	return b.String()
}

// listDependencies returns a package and all that it links, as built for a release.
func listDependencies(t *testing.T, pkg string) []listedPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Module", pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", pkg, err, stderr.String())
	}
	var packages []listedPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// licences are told by a phrase of their text. Modules that hold several parts name several. What matches none of
// these may not be linked into an Apache-licensed binary without a thought.
var licences = []struct{ name, phrase string }{
	{"Apache-2.0", "Apache License"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"BSD-3-Clause", "Neither the name of"},
	{"MPL-2.0", "Mozilla Public License"},
	{"ISC", "Permission to use, copy, modify, and"},
}

func licenceOf(dir string) (string, error) {
	for _, name := range []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		return classifyLicence(string(text))
	}
	return "", fmt.Errorf("no licence file in %s", dir)
}

func classifyLicence(text string) (string, error) {
	text = strings.Join(strings.Fields(text), " ")
	var found []string
	for _, l := range licences {
		if strings.Contains(text, l.phrase) {
			found = append(found, l.name)
		}
	}
	if len(found) == 0 && strings.Contains(text, "Redistribution and use in source and binary forms") {
		found = append(found, "BSD-2-Clause")
	}
	if len(found) == 0 {
		return "", fmt.Errorf("unknown licence: %.80q", text)
	}
	return strings.Join(found, ", "), nil
}

func TestClassifyLicence(t *testing.T) {
	ours, err := licenceOf(root)
	if err != nil || ours != "Apache-2.0" {
		t.Errorf("this module's licence: %q, %v", ours, err)
	}
	for text, want := range map[string]string{
		"Permission is hereby granted,\n free of charge, to": "MIT",
		"Redistribution and use in source and binary forms":  "BSD-2-Clause",
		"All rights reserved.":                               "",
	} {
		if got, err := classifyLicence(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// missingLines returns the lines of a that b lacks.
func missingLines(a, b string) []string {
	have := strings.Split(b, "\n")
	var missing []string
	for line := range strings.Lines(a) {
		if line = strings.TrimRight(line, "\n"); !slices.Contains(have, line) {
			missing = append(missing, strings.TrimSpace(line))
		}
	}
	return missing
}
