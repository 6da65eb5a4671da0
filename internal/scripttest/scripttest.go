package scripttest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the expected outputs of testdata/*.txt anew; read the diff before committing it")

// Run runs each script in testdata as a subtest. start makes a new machine for one of them, and returns what executes the
// lines of a block and gives back what they put out.
func Run(t *testing.T, start func(t *testing.T) (run func(block string) string)) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			runFile(t, file, start(t))
		})
	}
}

func runFile(t *testing.T, file string, run func(string) string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, block := range strings.Split(strings.TrimRight(string(text), "\n"), "\n\n") {
		if onlyComments(block) {
			blocks = append(blocks, block)
			continue
		}
		input, want, found := strings.Cut(block, "----\n")
		if !found && !*rewrite {
			t.Fatalf("block %d has no output: %s", i+1, block)
		}
		input = strings.TrimRight(strings.TrimSuffix(input, "----"), "\n")
		got := strings.TrimSuffix(run(input), "\n")
		blocks = append(blocks, strings.TrimSuffix(input+"\n----\n"+got, "\n"))
		if want = strings.TrimRight(want, "\n"); got != want && !*rewrite {
			t.Errorf("%s\n---- got\n%s\n---- want\n%s", input, got, want)
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(blocks, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func onlyComments(block string) bool {
	for line := range strings.Lines(block) {
		if !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}
