package harness

import (
	"strconv"
	"strings"
	"testing"
)

// RunPythonClient asks a client in Python what every client is asked. Its suite.py, in the test's folder, is one of those
// that python/checks.py describes. What waits for sessions and for processes that start shares the time.
func RunPythonClient(t *testing.T, suite string) {
	t.Helper()
	python := Python(t, suite)
	broker := OwnOrExternal(t, "group.initial.rebalance.delay.ms=0")
	run := func(t *testing.T, broker *Broker, stdin, verb string, args ...string) []string {
		return strings.Fields(MustRun(t, stdin, python, append([]string{"suite.py", broker.Bootstrap, verb}, args...)...))
	}
	for name, test := range map[string]func(t *testing.T){
		"cases": func(t *testing.T) { RunCases(t, python, "suite.py", broker.Bootstrap, "cases") },
		"cross_read": func(t *testing.T) {
			CrossRead(t, broker, func(topic, codec string, values []string) {
				run(t, broker, strings.Join(values, "\n"), "produce", topic, codec)
			}, func(topic string, records int) []string {
				return run(t, broker, "", "consume", topic, strconv.Itoa(records))
			})
		},
		"group_takes_over": func(t *testing.T) {
			TakeOver(t, broker, func(topic, group string) *Member {
				return StartMember(t, python, "suite.py", broker.Bootstrap, "member", topic, group)
			})
		},
		"group_resumes": func(t *testing.T) {
			Resume(t, func(broker *Broker, topic, group string, records int) []string {
				return run(t, broker, "", "read", topic, group, strconv.Itoa(records))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// OwnOrExternal returns a broker that belongs to this case alone, with settings given as name=value, or the user's with
// those that it has.
func OwnOrExternal(t *testing.T, settings ...string) *Broker {
	t.Helper()
	if External() != "" {
		return Shared(t)
	}
	var args []string
	for _, setting := range settings {
		args = append(args, "--override", setting)
	}
	return Start(t, args...)
}
