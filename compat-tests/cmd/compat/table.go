package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// clients are the columns of the table, by the folders of their suites. Other suites have a line each below it.
var clients = []string{"kgo", "kcat", "java", "kafkajs", "confluent-kafka", "kafka-python", "aiokafka", "cli"}

// checks are the rows of the table. A case belongs to each row whose expression finds something among the words of its
// name: "TestKeysHeadersAndNulls/lz4" and "keys_headers_and_nulls_lz4" are "keys headers and nulls lz4".
var checks = []struct {
	name  string
	words *regexp.Regexp
}{
	{"create a topic", regexp.MustCompile(`\bcreate topics?\b|\btopics\b|\btopic lifecycle\b`)},
	{"codec none", regexp.MustCompile(`\bnone\b`)},
	{"codec gzip", regexp.MustCompile(`\bgzip\b`)},
	{"codec snappy", regexp.MustCompile(`\bsnappy\b`)},
	{"codec lz4", regexp.MustCompile(`\blz4\b`)},
	{"codec zstd", regexp.MustCompile(`\bzstd\b`)},
	{"read by another client", regexp.MustCompile(`\bcross\b`)},
	{"headers", regexp.MustCompile(`\bheaders?\b`)},
	{"null keys and values", regexp.MustCompile(`\bnulls?\b`)},
	{"message at and above the limit", regexp.MustCompile(`\blimits?\b|\blarge\b`)},
	{"idempotent producer", regexp.MustCompile(`\bidempoten(t|ce)\b`)},
	{"offsets of a partition", regexp.MustCompile(`\boffsets?\b`)},
	{"configs", regexp.MustCompile(`\bconfigs?\b`)},
	{"log directories", regexp.MustCompile(`\blog dirs?\b`)},
	{"groups: list, describe, delete", regexp.MustCompile(`\bgroups?\b`)},
	{"groups: committed offsets", regexp.MustCompile(`\bcommit(s|ted|ting)?\b|\breset offsets\b`)},
	{"rebalance after SIGKILL of a member", regexp.MustCompile(`\btakes? over\b`)},
	{"resume after kill -9 of the broker", regexp.MustCompile(`\bresumes?\b`)},
}

const otherCases = "other cases"

// table counts cases by suite and check.
type table struct {
	suites  map[string]tally
	cells   map[string]map[string]tally // suite → check
	remarks []string                    // what suites of others say of themselves
}

func newTable() table {
	return table{suites: make(map[string]tally), cells: make(map[string]map[string]tally)}
}

// add counts a case, named by its suite and its test, that ended with "pass", "fail" or "skip".
func (t *table) add(name, action string) {
	suite, test := splitName(name)
	t.suites[suite] = t.suites[suite].plus(action)
	if t.cells[suite] == nil {
		t.cells[suite] = make(map[string]tally)
	}
	words, found := wordsOf(test), false
	for _, c := range checks {
		if c.words.MatchString(words) {
			t.cells[suite][c.name] = t.cells[suite][c.name].plus(action)
			found = true
		}
	}
	if !found {
		t.cells[suite][otherCases] = t.cells[suite][otherCases].plus(action)
	}
}

// addOutput keeps the lines that are to be read below the table: how a suite of others' tests compares with its baseline,
// and what was measured while nodes failed.
func (t *table) addOutput(suite, line string) {
	for _, mark := range []string{": baseline: ", ": figure: "} {
		if _, said, ok := strings.Cut(line, mark); ok {
			t.remarks = append(t.remarks, fmt.Sprintf("%s: %s", suite, strings.TrimSpace(said)))
		}
	}
}

// splitName cuts "kcat/TestProduce/lz4" after the suite's folder, which may be below another.
func splitName(name string) (suite, test string) {
	if i := strings.Index(name, "/Test"); i >= 0 {
		return name[:i], name[i+1:]
	}
	return name, "" // a suite that failed as a whole
}

var (
	wordEnds   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	separators = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

func wordsOf(test string) string {
	spaced := separators.ReplaceAllString(wordEnds.ReplaceAllString(test, "$1 $2"), " ")
	return strings.ToLower(spaced)
}

// print shows the checks of the clients that ran, a line for each of the other suites, and the remarks.
func (t *table) print(w io.Writer) {
	columns := slices.DeleteFunc(slices.Clone(clients), func(c string) bool { return t.cells[c] == nil })
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(columns) > 0 {
		fmt.Fprintln(out, "\npassed, FAILED or skipped\t"+strings.Join(columns, "\t"))
		for _, c := range checks {
			t.printRow(out, columns, c.name)
		}
		t.printRow(out, columns, otherCases)
	}
	fmt.Fprintln(out, "\nsuite\tpassed\tfailed\tskipped")
	for _, suite := range slices.Sorted(maps.Keys(t.suites)) {
		s := t.suites[suite]
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\n", suite, s.passed, s.failed, s.skipped)
	}
	out.Flush() // to a terminal or a test's buffer
	for _, line := range t.remarks {
		fmt.Fprintf(w, "\n%s\n", line)
	}
	fmt.Fprintln(w)
}

func (t *table) printRow(w io.Writer, columns []string, check string) {
	row := []string{check}
	for _, suite := range columns {
		row = append(row, t.cells[suite][check].String())
	}
	fmt.Fprintln(w, strings.Join(row, "\t"))
}

// plus counts one more case.
func (t tally) plus(action string) tally {
	switch action {
	case "pass":
		t.passed++
	case "fail":
		t.failed++
	case "skip":
		t.skipped++
	}
	return t
}

// String is what a cell shows: "3", "2, 1 FAILED", "1 skipped"; nothing where there is no case.
func (t tally) String() string {
	var parts []string
	if t.passed > 0 {
		parts = append(parts, fmt.Sprint(t.passed))
	}
	if t.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d FAILED", t.failed))
	}
	if t.skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", t.skipped))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}
