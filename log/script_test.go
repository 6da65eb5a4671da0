package log

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts in testdata answer into them; read the diff before committing it")

// runScript runs the commands of a file, one a line, and compares the answers with the indented lines below each. A
// command is a word and arguments of the form name=value, or just name. Lines that begin with # are comments.
func runScript(t *testing.T, path string, command func(word string, args scriptArgs) string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "  ") {
			continue // an answer, given anew
		}
		got.WriteString(line)
		if line == "\n" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		args := scriptArgs{t: t, line: strings.TrimSpace(line), values: map[string]string{}}
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			args.values[name] = value
		}
		for answer := range strings.Lines(command(fields[0], args)) {
			fmt.Fprintf(&got, "  %s\n", strings.TrimSuffix(answer, "\n"))
		}
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() == string(content) {
		return
	}
	gotLines, wantLines := strings.Split(got.String(), "\n"), strings.Split(string(content), "\n")
	for i := range gotLines {
		if i >= len(wantLines) || gotLines[i] != wantLines[i] {
			want := "the end of the file"
			if i < len(wantLines) {
				want = wantLines[i]
			}
			t.Fatalf("%s:%d:\n got %s\nwant %s", path, i+1, gotLines[i], want)
		}
	}
	t.Fatalf("%s: answers are missing after line %d", path, len(gotLines))
}

type scriptArgs struct {
	t      *testing.T
	line   string
	values map[string]string
}

func (a scriptArgs) has(name string) bool {
	_, ok := a.values[name]
	return ok
}

// int gives an argument's number, or otherwise where it is not given.
func (a scriptArgs) int(name string, otherwise int64) int64 {
	text, ok := a.values[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		a.t.Fatalf("%s: %v", a.line, err)
	}
	return n
}
