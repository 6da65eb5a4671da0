package harness

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Foreign is how one test of a suite that others wrote ended.
type Foreign struct {
	Outcome string // "pass", "fail" or "skip"
	Output  string // shown if it fails
}

// CompareBaseline makes a case of each test of a suite that others wrote. Two files in the suite's folder say what is
// expected of it:
//
//   - baseline.tsv: what Apache Kafka reaches, a line a test: pass, fail or skip, a tab, the test's name.
//   - known-failures.tsv: which of those that pass on Kafka do not pass on Weir, a line each: the name, a tab, the
//     reason. Its cases count as skipped. One that passes after all fails, so that the list does not grow stale.
//
// A test that passes on Kafka has to pass unless the list names it; one that does not pass on Kafka is skipped; one that
// the baseline does not know fails. With partial set only some tests have run, and those that have not are left out. A
// broker of the user's is held to the baseline alone.
func CompareBaseline(t *testing.T, got map[string]Foreign, partial bool) {
	t.Helper()
	baseline, known := ReadBaseline(t), readKnown(t, "known-failures.tsv")
	if External() != "" {
		known = nil
	}
	var count struct{ passed, expected, known int }
	for _, name := range slices.Sorted(maps.Keys(baseline)) {
		result, ran := got[name]
		if !ran && partial {
			continue
		}
		if baseline[name] == "pass" {
			count.expected++
			if result.Outcome == "pass" {
				count.passed++
			} else if known[name] != "" {
				count.known++
			}
		}
		t.Run(name, func(t *testing.T) {
			verdict, why := judge(baseline[name], known[name], result)
			switch verdict {
			case "skip":
				t.Skip(why)
			case "fail":
				t.Errorf("%s\n%.16000s", why, result.Output)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if baseline[name] == "" {
			t.Errorf("%s: %s, and baseline.tsv does not know it", name, got[name].Outcome)
		}
	}
	for name := range known {
		if baseline[name] != "pass" {
			t.Errorf("known-failures.tsv names %s, which baseline.tsv does not say to pass", name)
		}
	}
	// cmd/compat shows this line below its table.
	t.Logf("baseline: of %d that pass on Kafka %d passed, %d failed as known, %d failed",
		count.expected, count.passed, count.known, count.expected-count.passed-count.known)
}

// judge says what becomes of a test's case: "pass", "skip" or "fail", and why.
func judge(baseline, known string, got Foreign) (verdict, why string) {
	outcome := got.Outcome
	if outcome == "" {
		outcome = "it did not run"
	}
	switch {
	case baseline != "pass":
		return "skip", fmt.Sprintf("%s on Kafka as well: %s here", baseline, outcome)
	case outcome == "pass" && known != "":
		return "fail", "it passes: take it out of known-failures.tsv, which says: " + known
	case outcome == "pass":
		return "pass", ""
	case known != "":
		return "skip", "known: " + known
	}
	return "fail", "it passes on Kafka: " + outcome
}

// ReadBaseline returns what each test reaches on Kafka, by its name: "pass", "fail" or "skip".
func ReadBaseline(t *testing.T) map[string]string {
	t.Helper()
	outcomes := make(map[string]string)
	for _, row := range readTSV(t, "baseline.tsv") {
		if row[0] != "pass" && row[0] != "fail" && row[0] != "skip" {
			t.Fatalf("baseline.tsv: %q", row)
		}
		outcomes[row[1]] = row[0]
	}
	return outcomes
}

func readKnown(t *testing.T, file string) map[string]string {
	t.Helper()
	reasons := make(map[string]string)
	for _, row := range readTSV(t, file) {
		if row[1] == "" {
			t.Fatalf("%s: %s has no reason", file, row[0])
		}
		reasons[row[0]] = row[1]
	}
	return reasons
}

// readTSV reads lines of two columns; empty ones and those that start with # are left out.
func readTSV(t *testing.T, file string) (rows [][2]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		a, b, ok := strings.Cut(line, "\t")
		if !ok {
			t.Fatalf("%s: no tab in %q", file, line)
		}
		rows = append(rows, [2]string{a, b})
	}
	return rows
}
