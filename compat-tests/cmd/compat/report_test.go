package main

import (
	"regexp"
	"strings"
	"testing"
)

const events = `
{"Action":"start","Package":"weir/compat-tests/kcat"}
{"Action":"run","Package":"weir/compat-tests/kcat","Test":"TestCodecs"}
{"Action":"output","Package":"weir/compat-tests/kcat","Test":"TestCodecs","Output":"=== RUN   TestCodecs\n"}
{"Action":"run","Package":"weir/compat-tests/kcat","Test":"TestCodecs/lz4"}
{"Action":"output","Package":"weir/compat-tests/kcat","Test":"TestCodecs/lz4","Output":"    lz4_test.go:3: bad frame\n"}
{"Action":"output","Package":"weir/compat-tests/kcat","Test":"TestCodecs/lz4","Output":"--- FAIL: TestCodecs/lz4 (0.10s)\n"}
{"Action":"fail","Package":"weir/compat-tests/kcat","Test":"TestCodecs/lz4","Elapsed":0.1}
{"Action":"run","Package":"weir/compat-tests/kcat","Test":"TestCodecs/zstd"}
{"Action":"pass","Package":"weir/compat-tests/kcat","Test":"TestCodecs/zstd","Elapsed":0.2}
{"Action":"fail","Package":"weir/compat-tests/kcat","Test":"TestCodecs","Elapsed":0.3}
{"Action":"fail","Package":"weir/compat-tests/kcat","Elapsed":0.4}
{"Action":"start","Package":"weir/compat-tests/java"}
{"Action":"run","Package":"weir/compat-tests/java","Test":"TestConsole"}
{"Action":"output","Package":"weir/compat-tests/java","Test":"TestConsole","Output":"    java_test.go:9: java is not installed\n"}
{"Action":"skip","Package":"weir/compat-tests/java","Test":"TestConsole","Elapsed":0}
{"Action":"pass","Package":"weir/compat-tests/java","Elapsed":0.1}
{"Action":"start","Package":"weir/compat-tests/kgo"}
{"Action":"output","Package":"weir/compat-tests/kgo","Output":"the broker did not start\n"}
{"Action":"fail","Package":"weir/compat-tests/kgo","Elapsed":0.1}
{"ImportPath":"weir/compat-tests/broken [weir/compat-tests/broken.test]","Action":"build-output","Output":"x.go:1:1: syntax error\n"}
{"ImportPath":"weir/compat-tests/broken [weir/compat-tests/broken.test]","Action":"build-fail"}
{"Action":"fail","Package":"weir/compat-tests/broken","Elapsed":0,"FailedBuild":"weir/compat-tests/broken [weir/compat-tests/broken.test]"}
{"Action":"skip","Package":"weir/compat-tests/cmd/measure","Elapsed":0}
{"Action":"start","Package":"weir/compat-tests/franz-go"}
{"Action":"run","Package":"weir/compat-tests/franz-go","Test":"TestSuite"}
{"Action":"run","Package":"weir/compat-tests/franz-go","Test":"TestSuite/TestGroup"}
{"Action":"output","Package":"weir/compat-tests/franz-go","Test":"TestSuite","Output":"    baseline.go:9: baseline: of 1 that pass on Kafka 1 passed\n"}
{"Action":"pass","Package":"weir/compat-tests/franz-go","Test":"TestSuite/TestGroup","Elapsed":0.1}
{"Action":"pass","Package":"weir/compat-tests/franz-go","Test":"TestSuite","Elapsed":0.1}
{"Action":"pass","Package":"weir/compat-tests/franz-go","Elapsed":0.1}
`

const reported = `FAIL  kcat/TestCodecs/lz4 (0.1s)
          lz4_test.go:3: bad frame
ok    kcat/TestCodecs/zstd (0.2s)
SKIP  java/TestConsole
          java_test.go:9: java is not installed
FAIL  kgo (0.1s)
      the broker did not start
FAIL  broken (does not build)
      x.go:1:1: syntax error
ok    franz-go/TestSuite/TestGroup (0.1s)
`

const tabled = `
passed, FAILED or skipped            kgo       kcat      java
codec lz4                            -         1 FAILED  -
codec zstd                           -         1         -
other cases                          1 FAILED  -         1 skipped

suite     passed  failed  skipped
broken    0       1       0
franz-go  1       0       0
java      0       0       1
kcat      1       1       0
kgo       0       1       0

franz-go: of 1 that pass on Kafka 1 passed

`

func TestReportCountsCasesAndShowsWhatFailed(t *testing.T) {
	var out strings.Builder
	total, err := report(strings.NewReader(strings.TrimPrefix(events, "\n")), &out)
	if err != nil {
		t.Fatal(err)
	}
	if want := (tally{passed: 2, failed: 3, skipped: 1}); total != want {
		t.Errorf("counted %+v, want %+v", total, want)
	}
	cases, table, _ := strings.Cut(out.String(), "\n\n")
	if cases+"\n" != reported {
		t.Errorf("reported:\n%s\nwant:\n%s", cases, reported)
	}
	// Rows without a case say nothing here.
	empty := regexp.MustCompile(`(?m)^.*( +-){3}\n`)
	if table := "\n" + empty.ReplaceAllString(table, ""); table != tabled {
		t.Errorf("the table is:\n%s\nwant:\n%s", table, tabled)
	}
}

func TestReportRefusesWhatIsNoEvent(t *testing.T) {
	if _, err := report(strings.NewReader("go: cannot find main module\n"), new(strings.Builder)); err == nil {
		t.Error("no error")
	}
}

func TestWordsOf(t *testing.T) {
	for test, words := range map[string]string{
		"TestKeysHeadersAndNulls/lz4": "test keys headers and nulls lz4",
		"TestSuite/null_keys-zstd":    "test suite null keys zstd",
	} {
		if got := wordsOf(test); got != words {
			t.Errorf("%s: %q, want %q", test, got, words)
		}
	}
}
