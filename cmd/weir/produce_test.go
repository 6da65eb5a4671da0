package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// read parses stdin as `weir produce t ARGS` does and renders the records, nulls as "-".
func read(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := newProduceCommand()
	input := inputFlags{}
	cmd.ResetFlags()
	input.register(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		return "", err
	}
	cmd.SetIn(strings.NewReader(stdin))
	next, err := input.reader(cmd)
	if err != nil {
		return "", err
	}
	field := func(b []byte) string {
		if b == nil {
			return "-"
		}
		return fmt.Sprintf("%q", b)
	}
	var out []string
	for {
		r, err := next()
		if errors.Is(err, io.EOF) {
			return strings.Join(out, " "), nil
		}
		if err != nil {
			return strings.Join(out, " "), err
		}
		text := field(r.Key) + "=" + field(r.Value)
		for _, h := range r.Headers {
			text += "," + h.Key + ":" + string(h.Value)
		}
		out = append(out, text)
	}
}

func TestProduceInput(t *testing.T) {
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", nil, ``},
		{"a\nb\n", nil, `-="a" -="b"`},
		{"a\n\nb", nil, `-="a" -="" -="b"`},
		{"a\r\n", nil, `-="a\r"`},
		{"k:v:w\n:x\n", []string{"-K", ":"}, `"k"="v:w" ""="x"`},
		{"k→v\n", []string{"--key-separator", "→"}, `"k"="v"`},
		{"v\n", []string{"-k", "fixed"}, `"fixed"="v"`},
		{"v\n", []string{"-k", ""}, `""="v"`},
		{"v\n", []string{"-H", "a=1", "-H", "b=c=d", "-H", "e="}, `-="v",a:1,b:c=d,e:`},
		{"k:NULL\nNULL:v\n", []string{"-K", ":", "--null-marker", "NULL"}, `"k"=- -="v"`},
		{"k:\n", []string{"-K", ":", "--null-marker", ""}, `"k"=-`},
		{"1\thello\n2\tworld\n", []string{"-f", `%k\t%v\n`}, `"1"="hello" "2"="world"`},
		{`{"key":"k","value":null,"headers":[{"key":"h","value":"x"}]}` + "\n" + `{"value":"v"}`, []string{"-i", "json", "-H", "a=1"}, `"k"=-,h:x,a:1 -="v",a:1`},
	} {
		got, err := read(t, c.stdin, c.args...)
		if err != nil || got != c.want {
			t.Errorf("%q %q: %s, %v; want %s", c.stdin, c.args, got, err, c.want)
		}
	}
}

func TestProduceInputErrorsNameTheLine(t *testing.T) {
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"k:v\nkv\n", []string{"-K", ":"}, `line 2 of the input: no key separator ":" in "kv"`},
		{"{}\n{\n", []string{"-i", "json"}, "line 2 of the input: unexpected EOF"},
		{"1\thello\n2", []string{"-f", `%k\t%v\n`}, "record 2 of the input: unexpected EOF"},
	} {
		if got, err := read(t, c.stdin, c.args...); err == nil || err.Error() != c.want {
			t.Errorf("%q %q: %s, %v; want %s", c.stdin, c.args, got, err, c.want)
		}
	}
}

func TestProducerGivesUpWhenNothingIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := producer{flags: &produceFlags{clientFlags: clientFlags{timeout: time.Minute}}, failed: make(chan struct{})}
		sending, giveUp := context.WithCancel(t.Context())
		go p.watch(sending, giveUp)

		time.Sleep(time.Hour) // nothing is waiting: somebody thinks before they type
		p.mu.Lock()
		p.mu.waiting, p.mu.progress = 2, time.Now()
		p.mu.Unlock()
		time.Sleep(50 * time.Second)
		p.delivered(1, &kgo.Record{}, nil)
		time.Sleep(50 * time.Second) // since the last acknowledgement
		failure := func() error {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.mu.err
		}
		if err := sending.Err(); err != nil || failure() != nil {
			t.Fatalf("gave up too early: %v, %v", err, failure())
		}
		<-sending.Done()
		if got, want := fmt.Sprint(failure()), "nothing was acknowledged for 1m0s, 1 records are waiting"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		<-p.failed
	})
}

// What is wrong in the command line is told before any broker is asked.
func TestClientUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"produce":                                  "accepts 1 arg(s), received 0",
		"produce t --acks 2":                       `--acks "2": must be all, 1 or 0`,
		"produce t -z brotli":                      `--compression "brotli": must be none, gzip, snappy, lz4 or zstd`,
		"produce t -p -2":                          "a partition's number is not negative",
		"produce t -p 1 --keep-partition":          "--partition and --keep-partition exclude each other",
		"produce t -H nope":                        `--header "nope" is not of the form name=value`,
		"produce t -f %q":                          "--format: unknown",
		"produce t -f %v -K :":                     "exclude each other",
		"produce t -i yaml":                        `must be "text" or "json"`,
		"consume":                                  "requires at least 1 arg(s)",
		"consume t -n -1":                          "--count -1 is negative",
		"consume t -o json -f %v":                  "--output json and --format exclude each other",
		"consume t -f %q":                          "--format: unknown escape sequence %q",
		"consume t --isolation-level snapshot":     "must be read_uncommitted or read_committed",
		"topic create":                             "requires at least 1 arg(s)",
		"topic create t -c retention.ms":           `--config "retention.ms" is not of the form name=value`,
		"topic add-partitions t":                   "give either --add or --total",
		"topic add-partitions t --add 1 --total 3": "give either --add or --total",
		"topic lst":                                "did you mean list?",
		"topic delete-records t":                   "say with --before which records to delete",
		"topic trim t --before x":                  "must be start, end, N, +N, -N or @TIME",
		"consume t -g g -p 0":                      "--group and --partition exclude each other",
		"consume t -g g --session-timeout 0s":      "--session-timeout 0s is too short",
		"consume t -g g --group-protocol eager":    `--group-protocol "eager": must be classic or consumer`,
		"consume t -g g --group-protocol consumer --session-timeout 10s": "--session-timeout is the broker's setting",
		"group list --state Stabel":                                      `--state "Stabel": must be one of Empty, `,
		"group list --type old":                                          `--type "old": must be one of classic, `,
		"group describe":                                                 "give either the names of groups or --all",
		"group describe g --all":                                         "give either the names of groups or --all",
		"group delete":                                                   "requires at least 1 arg(s)",
		"group delete-offsets g":                                         "name the topics with --topic",
		"group delete-offsets g -t a:x":                                  "is not of the form TOPIC or TOPIC:PARTITION",
		"group reset g -t a":                                             "give one of --to, --shift-by, --to-group and --from-file",
		"group reset g -t a --to start --shift-by 1":                     "give one of --to, --shift-by, --to-group and --from-file",
		"group reset g --to start":                                       "name the topics with --topic, or all of them with --all-topics",
		"group reset g --to start -t a --all-topics":                     "--topic and --all-topics exclude each other",
		"group reset g --to-group h --all-topics":                        "--all-topics is what --to-group does without --topic",
		"group reset g --to-group h -t a:":                               "is not of the form TOPIC or TOPIC:PARTITION",
		"group reset g --from-file /nosuch":                              "no such file",
		"group reset g --to soon -t a":                                   "must be start, end, N, +N, -N or @TIME",
		"config describe":                                                "requires at least 1 arg(s)",
		"config describe orders":                                         `"orders" has no settings: must be one of topic, `,
		"config set topic":                                               "which topic? Its name is missing",
		"config set topic t":                                             "give at least one name=value",
		"config set topic t retention.ms":                                `"retention.ms" is not of the form name=value`,
		"config delete topic t":                                          "name the settings to delete",
		"config list --type cluster":                                     `--type "cluster": must be one of topic, `,
		"config explain":                                                 "requires at least 1 arg(s)",
	} {
		code, stdout, stderr := weir(t, "", strings.Fields(line)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("weir %s: exit %d\nstdout: %s\nstderr: %s\nwant: %s", line, code, stdout, stderr, want)
		}
	}
}

func TestWithoutABrokerTheAddressIsNamed(t *testing.T) {
	for _, args := range [][]string{
		{"topic", "list"}, {"produce", "t"}, {"consume", "t"}, {"consume", "t", "-g", "g"}, {"group", "list"}, {"config", "list"},
	} {
		code, _, stderr := weir(t, "", append(args, "-b", "127.0.0.1:1")...)
		if code != exitFailed || !strings.Contains(stderr, "weir: no broker answers at 127.0.0.1:1: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("weir %v: exit %d, %s", args, code, stderr)
		}
	}
}
