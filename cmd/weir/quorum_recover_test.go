package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/broker"
	"weir/broker/config"
	"weir/internal/clock"
	"weir/internal/metrics"
	"weir/internal/vfs"
)

// nodeData runs a node with its metadata log in a directory of its own, and calls look before it is closed.
func nodeData(t *testing.T, dataDir, metadataDir string, look func()) {
	t.Helper()
	settings, _, err := config.Load(config.Inputs{Listen: "127.0.0.1:0", DataDir: dataDir, Overrides: []string{"metadata.log.dir=" + metadataDir}, Host: config.LocalHost()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(t.Context(), broker.Options{Config: settings, FS: vfs.OS(), Clock: clock.System(), Logger: slog.New(slog.DiscardHandler), Metrics: metrics.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	look()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// The metadata log is found wherever the settings say that it is. Nothing is changed before that is asked for, and the node
// starts afterwards.
func TestQuorumRecover(t *testing.T) {
	home := t.TempDir()
	data, meta := filepath.Join(home, "data"), filepath.Join(home, "meta")
	nodeData(t, data, meta, func() {
		if code, _, stderr := weir(t, "", "quorum", "recover", "--metadata-dir", meta, "--force"); code != exitFailed || !strings.Contains(stderr, "the node of "+meta+" runs: stop it first") {
			t.Errorf("a node that runs: exit %d, %s", code, stderr)
		}
	})
	file := filepath.Join(home, "server.properties")
	if err := os.WriteFile(file, []byte("log.dirs="+data+"\nmetadata.log.dir="+meta+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := weir(t, "", "quorum", "recover", "-c", file)
	if code != exitOK || !strings.HasPrefix(stdout, "Term, index:  1, ") || !strings.Contains(stdout, "Nothing was changed.") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	var plan, done quorumRecovery
	for _, c := range []struct {
		report *quorumRecovery
		args   []string
	}{
		{&plan, []string{"--data-dir", data, "--metadata-dir", meta}},
		{&done, []string{"--data-dir", data, "--override", "metadata.log.dir=" + meta, "--force"}},
	} {
		code, stdout, stderr := weir(t, "", append([]string{"quorum", "recover", "-o", "json"}, c.args...)...)
		if err := json.Unmarshal([]byte(stdout), c.report); code != exitOK || err != nil {
			t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
		}
	}
	if plan.Recovered || plan.Backup != "" || plan.Term != 1 || plan.Index != done.Index || plan.Node != 1 || plan.Brokers != 1 || plan.Directory != meta {
		t.Errorf("planned %+v", plan)
	}
	if !done.Recovered || filepath.Dir(done.Backup) != meta || done.NewIndex <= done.Index || done.NewTerm <= done.Term || done.Others == nil {
		t.Errorf("did %+v", done)
	}
	code, stdout, stderr = weir(t, "", "quorum", "recover", "-c", file, "--force")
	if code != exitOK || !strings.Contains(stdout, "Node 1 is the only voter now.") || !strings.Contains(stdout, "Next:\n 1. Start this node") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	nodeData(t, data, meta, func() {})
}

func TestQuorumRecoverRefuses(t *testing.T) {
	home := t.TempDir()
	data := filepath.Join(home, "data")
	nodeData(t, data, data, func() {})
	broken := filepath.Join(home, "broken")
	if err := os.CopyFS(broken, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(broken, "__cluster_metadata-0", "raft-state"), 5); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(home, "empty")
	if err := os.CopyFS(empty, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(empty, "__cluster_metadata-0")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no directory":         {[]string{"--data-dir", filepath.Join(home, "none")}, exitUsage, "none is no data directory of a node: it has no meta.properties"},
		"another directory":    {[]string{"--data-dir", home}, exitUsage, "is no data directory of a node"},
		"no metadata log":      {[]string{"--data-dir", empty}, exitFailed, "there is no metadata log here that could be recovered"},
		"a broken one":         {[]string{"--data-dir", broken}, exitFailed, "is refused and left as it is: term and vote cannot be read"},
		"a wrong setting":      {[]string{"--data-dir", data, "--override", "num.partitions=x"}, exitUsage, "num.partitions=x"},
		"an unknown output":    {[]string{"--data-dir", data, "-o", "xml"}, exitUsage, `must be "text" or "json"`},
		"an argument too many": {[]string{data}, exitUsage, "unknown command"},
	} {
		code, stdout, stderr := weir(t, "", append([]string{"quorum", "recover"}, c.args...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %s%s; want exit %d, %s", name, code, stdout, stderr, c.code, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(home, ".lock")); err == nil {
		t.Error("a directory that is no node's was written to")
	}
}
