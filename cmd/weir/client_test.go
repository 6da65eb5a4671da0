package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestClientLogIsQuiet(t *testing.T) {
	var out bytes.Buffer
	l := &lateLogger{Logger: kgo.BasicLogger(&out, kgo.LogLevelWarn, nil)}
	l.Log(kgo.LogLevelWarn, "no connection", "addr", "a:1") // connect itself tells this
	l.on.Store(true)
	for range 3 {
		l.Log(kgo.LogLevelWarn, "no connection", "addr", "a:1")
		l.Log(kgo.LogLevelWarn, "no connection", "addr", "b:1")
		l.Log(kgo.LogLevelError, "join failed", "group", "g") // the member tells this
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "a:1") || !strings.Contains(got, "b:1") {
		t.Errorf("%s", got)
	}
}

func TestRepeats(t *testing.T) {
	var r repeats
	start := time.UnixMilli(0)
	for _, step := range []struct {
		after time.Duration
		line  string
		want  bool
	}{
		{0, "a", true}, {1, "a", false}, {2, "b", true}, {repeatInterval - 1, "a", false},
		{repeatInterval, "a", true}, {repeatInterval + 1, "a", false}, {repeatInterval + 2, "b", true},
	} {
		if got := r.isNews(start.Add(step.after), step.line); got != step.want {
			t.Errorf("%s after %v: %v", step.line, step.after, got)
		}
	}
	for i := range 10 * maxRepeats {
		r.isNews(start, fmt.Sprint(i))
	}
	if n := len(r.mu.last); n > maxRepeats {
		t.Errorf("%d lines are remembered", n)
	}
}

func TestBrokerErrorsAreALine(t *testing.T) {
	err := brokerError("creating topic t", kerr.InvalidConfig, "Invalid value\n for x. ")
	if want := "creating topic t: INVALID_CONFIG: Invalid value for x."; err.Error() != want || !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("%q, want %q", err, want)
	}
	shards := &kadm.ShardErrors{Name: "ListGroups", Errs: []kadm.ShardError{{Err: kerr.NotCoordinator}, {Err: kerr.UnknownServerError}}}
	if got := firstError(shards); got != kerr.NotCoordinator {
		t.Errorf("%v", got)
	}
	if got := firstError(kerr.NotCoordinator); got != kerr.NotCoordinator {
		t.Errorf("%v", got)
	}
	if got := topicError("deleting topic", "t", kerr.UnknownTopicOrPartition, "whatever").Error(); got != "deleting topic t: there is no such topic (UNKNOWN_TOPIC_OR_PARTITION)" {
		t.Errorf("%s", got)
	}
}

// A shell gets names and nothing else, not even where no broker answers.
func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // the line that is looked for
	}{
		{[]string{"config", ""}, "explain\t"},
		{[]string{"config", "describe", ""}, "topic\n"},
		{[]string{"config", "describe", "topic", "orders", ""}, "retention.ms\n"},
		{[]string{"config", "set", "cluster", ""}, "log.retention.ms=\n"},
		{[]string{"config", "explain", ""}, "weir.fsync.policy\n"},
		{[]string{"group", "list", "--state", ""}, "Stable\n"},
		{[]string{"produce", "-z", ""}, "zstd\n"},
		{[]string{"produce", "--acks", ""}, "all\n"},
		{[]string{"produce", "--input", ""}, "json\n"},
		{[]string{"consume", "-o", ""}, "json\n"},
		{[]string{"consume", "--group-protocol", ""}, "consumer\n"},
		{[]string{"consume", "--isolation-level", ""}, "read_committed\n"},
		{[]string{"topic", "list", "-o", ""}, "json\n"},
		{[]string{"topic", "describe", "-b", "127.0.0.1:1", ""}, ":4\n"},
		{[]string{"group", "describe", "-b", "127.0.0.1:1", ""}, ":4\n"},
		{[]string{"produce", "orders", ""}, ":4\n"},
	} {
		code, stdout, _ := weir(t, "", append([]string{"__complete"}, c.args...)...)
		if code != exitOK || !strings.Contains("\n"+stdout, "\n"+c.want) {
			t.Errorf("%q: exit %d, %q is missing in\n%s", c.args, code, c.want, stdout)
		}
	}
	if code, stdout, _ := weir(t, "", "completion", "bash"); code != exitOK || !strings.Contains(stdout, "__start_weir") {
		t.Errorf("completion bash: exit %d", code)
	}
}
