package main

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// weir runs one command line in this process.
func weir(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := newRootCommand()
	var out, errs bytes.Buffer
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	code = run(t.Context(), root, args)
	return code, out.String(), errs.String()
}

func TestUsageErrorsExitWithTwoAndSayWhereHelpIs(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // on stderr
	}{
		{[]string{"versoin"}, `weir: unknown command "versoin" for "weir"; did you mean version?`},
		{[]string{"--nosuch"}, "weir: unknown flag: --nosuch"},
		{[]string{"topic", "list", "--timeout", "0s"}, "weir: --timeout 0s: must be more than 0"},
		{[]string{"consume", "orders", "--timeout", "-1s"}, "weir: --timeout -1s: must be more than 0"},
		{[]string{"version", "extra"}, `weir: unknown command "extra" for "weir version"`},
	} {
		code, stdout, stderr := weir(t, "", c.args...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "--help' for usage.") {
			t.Errorf("weir %v: exit %d\nstdout: %s\nstderr: %s\nwant: %s", c.args, code, stdout, stderr, c.want)
		}
	}
}

func TestWithoutArgumentsPrintsHelp(t *testing.T) {
	code, stdout, stderr := weir(t, "")
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "Available Commands:") {
		t.Errorf("exit %d\nstdout: %s\nstderr: %s", code, stdout, stderr)
	}
}

func TestVersionNamesTheBuild(t *testing.T) {
	built := " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	for _, c := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"release", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "weir v1.2.3" + built},
		{"no module version", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "weir devel" + built},
		{"no build information", nil, "weir unknown" + built},
		{"changed work tree", &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123"},
			{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
			{Key: "vcs.modified", Value: "true"},
		}}, "weir v1.2.3 (commit 0123456789ab, 2026-01-02T03:04:05Z, modified)" + built},
	} {
		if got := versionLine(c.info); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	code, stdout, _ := weir(t, "", "version")
	if code != exitOK || !strings.HasPrefix(stdout, "weir ") || !strings.HasSuffix(stdout, built+"\n") {
		t.Errorf("weir version: exit %d, %q", code, stdout)
	}
}
