package java

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

var update = flag.Bool("update", false, "write what the tools print into the scripts of testdata; ask Apache Kafka for it (WEIR_COMPAT_BOOTSTRAP)")

// TestScripts runs the tools as the scripts of testdata say and compares what they print with what they print on Apache
// Kafka. A script has lines of these kinds:
//
//	# a comment
//	@ require N…           the script needs requests of these keys
//	@ join GROUP TOPIC     a member of a group, client id "member", reads until
//	@ leave                it leaves
//	@ file NAME TEXT       a file in DIR
//	$ TOOL ARGUMENTS       runs a tool
//	$ sorted TOOL …        the same, and the order of the lines does not matter
//	$ ours TOOL …          the same, and only lines about RUN are looked at, as the broker may have other things to list
//	< TEXT                 a line of the tool's standard input
//	exit N                 how it has to end
//	1| TEXT                a line of its standard output
//	2| TEXT                a line of its standard error, without what the tool logs and Java's stack traces
//
// RUN is a word of this run, DIR a folder, HOST:PORT the broker's address; what else differs from run to run is a word in
// capitals, see normalize. Runs of spaces are one.
func TestScripts(t *testing.T) {
	kafka := newTools(t)
	broker := harness.Shared(t)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel() // a tool waits as much as it works
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := script{t: t, kafka: kafka, broker: broker, run: fmt.Sprintf("%08x", time.Now().UnixNano()&0xffffffff), dir: t.TempDir()}
			steps := parseScript(string(text))
			defer s.cleanUp()
			var said strings.Builder
			for i := range steps {
				said.WriteString(s.do(i, &steps[i]))
			}
			if *update {
				if err := os.WriteFile(file, []byte(said.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// step is a line that does something, with the lines that belong to it.
type step struct {
	line  string
	stdin []string
	want  []string // from "exit" on
}

func parseScript(text string) (steps []step) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		input, isInput := strings.CutPrefix(line, "< ")
		switch {
		case isInput:
			last := &steps[len(steps)-1]
			last.stdin = append(last.stdin, input)
		case strings.HasPrefix(line, "exit ") || strings.HasPrefix(line, "1|") || strings.HasPrefix(line, "2|"):
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		default:
			steps = append(steps, step{line: line})
		}
	}
	return steps
}

// script is one run of a script.
type script struct {
	t        *testing.T
	kafka    tools
	broker   *harness.Broker
	run, dir string
	member   *kgo.Client
}

// expand puts what is true of this run in the place of words.
func (s *script) expand(text string) string {
	return strings.NewReplacer("RUN", s.run, "DIR", s.dir, "HOST:PORT", s.broker.Bootstrap).Replace(text)
}

// do carries out a step and returns it with what was printed.
func (s *script) do(i int, st *step) string {
	kind, rest, _ := strings.Cut(st.line, " ")
	words := strings.Fields(s.expand(rest))
	switch {
	case kind == "@" && words[0] == "require":
		for _, word := range words[1:] {
			s.broker.Require(s.t, kmsg.Key(number(s.t, word)))
		}
	case kind == "@" && words[0] == "join":
		s.join(words[1], words[2])
	case kind == "@" && words[0] == "leave":
		s.member.Close()
	case kind == "@" && words[0] == "file":
		content := strings.Join(words[2:], " ")
		if err := os.WriteFile(filepath.Join(s.dir, words[1]), []byte(content), 0o644); err != nil {
			s.t.Fatal(err)
		}
	case kind == "$":
		return s.runTool(i, st, words)
	case kind != "#" && st.line != "":
		s.t.Fatalf("a line that says nothing: %q", st.line)
	}
	return st.line + "\n"
}

func (s *script) runTool(i int, st *step, words []string) string {
	ours, sorted := words[0] == "ours", words[0] == "sorted"
	if ours || sorted {
		words = words[1:]
	}
	said := st.line + "\n"
	var stdin strings.Builder
	for _, line := range st.stdin {
		said += "< " + line + "\n"
		stdin.WriteString(s.expand(line) + "\n")
	}
	name := strings.NewReplacer("$ ", "", "ours ", "", "sorted ", "", "--bootstrap-server HOST:PORT ", "").Replace(st.line)
	s.t.Run(fmt.Sprintf("%02d %.80s", i, name), func(t *testing.T) {
		class := toolClasses[words[0]]
		if class == "" {
			t.Fatalf("there is no tool %s", words[0])
		}
		r := s.kafka.run(t, stdin.String(), class, words[1:]...)
		got := []string{fmt.Sprintf("exit %d", r.Code)}
		lines := s.normalize(r.Stdout)
		if ours || sorted {
			slices.Sort(lines)
		}
		for _, line := range lines {
			if !ours || strings.Contains(line, "RUN") {
				got = append(got, strings.TrimRight("1| "+line, " "))
			}
		}
		for _, line := range s.normalize(r.Stderr) {
			if line != "" && !isJavaNoise(line) {
				got = append(got, strings.TrimRight("2| "+line, " "))
			}
		}
		text, want := strings.Join(got, "\n")+"\n", strings.Join(st.want, "\n")+"\n"
		if said += text; text != want && !*update {
			t.Errorf("%s\ngot:\n%swant:\n%s%.2000s", st.line, text, want, r.Stderr)
		}
	})
	return said
}

var varying = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`(localhost|127\.0\.0\.1|\[::1\]):\d+`), "HOST:PORT"},
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`TopicId: [\w-]{22}`), "TopicId: ID22"},
	{regexp.MustCompile(`"logDir":"[^"]*"`), `"logDir":"LOGDIR"`},
	{regexp.MustCompile(`"size":[1-9]\d*`), `"size":SIZE`},
	{regexp.MustCompile(` +`), " "},
}

// normalize splits what a tool printed into lines, with words for what differs from run to run.
func (s *script) normalize(text string) []string {
	text = strings.NewReplacer(s.run, "RUN", s.dir, "DIR", s.broker.Bootstrap, "HOST:PORT").Replace(text)
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.word)
	}
	if text == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

// isJavaNoise tells what a tool logs and how it came to an exception from what it says.
func isJavaNoise(line string) bool {
	return line[0] == '[' || line[0] == '\t' || strings.HasPrefix(line, "Caused by: ") || strings.HasPrefix(line, " (org.apache") ||
		strings.HasPrefix(line, "The consumer rebalance protocol (KIP-848)") // an advertisement of the tool's
}

// join starts a member and waits until its group is stable.
func (s *script) join(group, topic string) {
	s.member = s.broker.Client(s.t, kgo.ClientID("member"), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit())
	go func() {
		for ctx := s.t.Context(); ctx.Err() == nil && !s.member.PollFetches(ctx).IsClientClosed(); {
		}
	}()
	s.broker.AwaitGroup(s.t, group, "stable", func(g kadm.DescribedGroup) bool { return g.State == "Stable" })
}

// cleanUp deletes the topics of the run from a broker of the user's.
func (s *script) cleanUp() {
	if harness.External() == "" {
		return
	}
	client, err := kadm.NewOptClient(kgo.SeedBrokers(s.broker.Bootstrap))
	if err != nil {
		s.t.Error(err)
		return
	}
	defer client.Close()
	topics, err := client.ListTopics(context.Background())
	if err != nil {
		s.t.Error(err)
	}
	for name := range topics {
		if strings.Contains(name, s.run) {
			if _, err := client.DeleteTopic(context.Background(), name); err != nil {
				s.t.Errorf("deleting %s: %v", name, err)
			}
		}
	}
}
