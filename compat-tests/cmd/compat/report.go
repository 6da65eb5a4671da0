package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is a line of `go test -json` (see go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // in build events, instead of Package
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// tally counts cases: tests that have no subtests of their own.
type tally struct{ passed, failed, skipped int }

// reporter follows the events of a run and prints what a reader wants to know of it.
type reporter struct {
	w      io.Writer
	total  tally
	table  table
	output map[string][]string // what a package or a case has printed so far, by caseName
	parent map[string]bool     // tests that have subtests
	failed map[string]bool     // packages and tests below which a case has failed
}

// report reads events until the end, prints a line for each case that passed, the output of those that failed, the
// reason of those that were skipped, counts them, and closes with a table.
func report(events io.Reader, w io.Writer) (tally, error) {
	r := reporter{
		w: w, table: newTable(), output: make(map[string][]string), parent: make(map[string]bool), failed: make(map[string]bool),
	}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20) // a test may print long lines
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return r.total, fmt.Errorf("reading go test's output: %w: %q", err, lines.Text())
		}
		r.handle(e)
	}
	r.table.print(w)
	return r.total, lines.Err()
}

func (r *reporter) handle(e event) {
	name := caseName(e)
	switch e.Action {
	case "run":
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			r.parent[caseName(event{Package: e.Package, Test: e.Test[:i]})] = true
		}
	case "output", "build-output":
		if !isNoise(e.Output) {
			r.output[name] = append(r.output[name], e.Output)
			r.table.addOutput(caseName(event{Package: e.Package}), e.Output)
		}
	case "build-fail":
		r.count(name, "fail")
		r.failed[name] = true
		r.show("FAIL", name, "does not build")
	case "pass", "fail", "skip":
		r.finish(e, name)
	}
}

// finish counts a case. A test with subtests is no case of its own, unless it failed beside them; nor is a package.
func (r *reporter) finish(e event, name string) {
	container := e.Test == "" || r.parent[name]
	took := fmt.Sprintf("%.1fs", e.Elapsed)
	switch {
	case e.Action == "fail" && !r.failed[name]:
		r.count(name, e.Action)
		r.failBelow(e)
		r.show("FAIL", name, took)
	case container:
	case e.Action == "skip":
		r.count(name, e.Action)
		r.show("SKIP", name, "")
	case e.Action == "pass":
		r.count(name, e.Action)
		fmt.Fprintf(r.w, "ok    %s (%s)\n", name, took)
	}
	delete(r.output, name)
}

func (r *reporter) count(name, action string) {
	r.total = r.total.plus(action)
	r.table.add(name, action)
}

// failBelow remembers, for everything that holds the case, that its failure has been told.
func (r *reporter) failBelow(e event) {
	for test := e.Test; ; {
		r.failed[caseName(event{Package: e.Package, Test: test})] = true
		i := strings.LastIndexByte(test, '/')
		if i < 0 {
			break
		}
		test = test[:i]
	}
	r.failed[caseName(event{Package: e.Package})] = true
}

func (r *reporter) show(verdict, name, detail string) {
	if detail != "" {
		detail = " (" + detail + ")"
	}
	fmt.Fprintf(r.w, "%-5s %s%s\n", verdict, name, detail)
	for _, line := range r.output[name] {
		fmt.Fprintf(r.w, "      %s\n", strings.TrimRight(line, "\n"))
	}
}

// caseName is "kcat/TestProduce/lz4": the folder of the suite, then the test.
func caseName(e event) string {
	name := e.Package
	if name == "" {
		name, _, _ = strings.Cut(e.ImportPath, " ") // "p [p.test]" is the test variant of p
	}
	name = strings.TrimPrefix(name, "weir/compat-tests/")
	if e.Test != "" {
		name += "/" + e.Test
	}
	return name
}

// isNoise tells the test runner's own lines, which the report says in its own way.
func isNoise(line string) bool {
	trimmed := strings.TrimLeft(line, " ")
	for _, prefix := range []string{"=== ", "--- PASS", "--- FAIL", "--- SKIP", "PASS\n", "FAIL\n", "FAIL\t", "ok  \t", "?   \t", "exit status "} {
		if strings.HasPrefix(trimmed, prefix) {
			return true
		}
	}
	return false
}
