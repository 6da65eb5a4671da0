package main

import (
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
`

func TestReportCountsCasesAndShowsWhatFailed(t *testing.T) {
	var out strings.Builder
	total, err := report(strings.NewReader(strings.TrimPrefix(events, "\n")), &out)
	if err != nil {
		t.Fatal(err)
	}
	if want := (tally{passed: 1, failed: 3, skipped: 1}); total != want {
		t.Errorf("counted %+v, want %+v", total, want)
	}
	if out.String() != reported {
		t.Errorf("reported:\n%s\nwant:\n%s", out.String(), reported)
	}
}

func TestReportRefusesWhatIsNoEvent(t *testing.T) {
	if _, err := report(strings.NewReader("go: cannot find main module\n"), new(strings.Builder)); err == nil {
		t.Error("no error")
	}
}
