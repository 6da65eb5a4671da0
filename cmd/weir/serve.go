package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/broker"
	"weir/broker/config"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
	"weir/internal/vfs"
)

// processStart is as near to exec as a program can be.
var processStart = time.Now()

type serveFlags struct {
	file      string
	overrides []string
	listen    string
	dataDir   string
	http      string
	join      string
	portsFile string
}

func newServeCommand() *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a broker",
		Long: `Run a broker until SIGTERM or SIGINT; a second signal ends it at once. Where there are others in its cluster,
it gives away first what it leads.

Without any setting it listens on localhost:9092 only and keeps its data in the user's data folder
($XDG_DATA_HOME/weir, else ~/.local/share/weir).

Settings have Kafka's names. They come from, later ones winning: defaults, the file of --config (Kafka's
server.properties, as it is), variables KAFKA_* (KAFKA_NUM_PARTITIONS=3 is num.partitions=3), --override, and
--listen, --data-dir, --join and --http. A wrong setting ends with exit code 2 before anything is touched.

A node is a cluster of its own. Others become part of it with --join and an address of any of its nodes; they get their
ids from it. The same command starts them again.

Several nodes found a cluster together when all have been started: each with a node.id of its own, the same
controller.quorum.voters, and the port that these name for it as weir.peer.port. With process.roles=broker, a node
joins the cluster of those voters.`,
		Example: `  weir serve
  weir serve --listen 127.0.0.1:9192 --data-dir /tmp/weir
  weir serve --listen 127.0.0.1:9292 --data-dir /tmp/weir2 --join 127.0.0.1:9192
  weir serve --config server.properties --override num.partitions=3
  weir serve --listen 127.0.0.1:9092 --data-dir n1 --override node.id=1 --override weir.peer.port=9192 \
    --override controller.quorum.voters=1@127.0.0.1:9192,2@127.0.0.1:9292,3@127.0.0.1:9392`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), cmd.ErrOrStderr(), &flags) },
	}
	f := cmd.Flags()
	f.StringVarP(&flags.file, "config", "c", "", "read settings from this `file` (server.properties)")
	f.StringArrayVar(&flags.overrides, "override", nil, "set `name=value`; may be given often")
	f.StringVar(&flags.listen, "listen", "", "listen on `host:port`; port 0 takes any free one")
	f.StringVar(&flags.dataDir, "data-dir", "", "keep data in this `folder`")
	f.StringVar(&flags.join, "join", "", "join the cluster of the node at `host:port`, or of the first of several that answers; a node that belongs to a cluster stays there")
	f.StringVar(&flags.http, "http", "", "serve metrics, health and profiles on `host:port`; off by default")
	f.StringVar(&flags.portsFile, "ports-file", "", "when ready, write the bound addresses to this `file` as JSON")
	return cmd
}

// serve runs a broker until ctx ends.
func serve(ctx context.Context, stderr io.Writer, flags *serveFlags) error {
	settings, warnings, err := config.Load(config.Inputs{File: flags.file, Env: os.Environ(), Overrides: flags.overrides,
		Listen: flags.listen, DataDir: flags.dataDir, HTTP: flags.http, Join: flags.join, Host: config.LocalHost()})
	if err != nil {
		return usageLine(err)
	}
	logger := newLogger(stderr, settings.LogLevel)
	for _, line := range warnings.Lines() {
		logger.Warn(line)
	}
	registry := metrics.NewRegistry()
	files := openFiles()
	web, err := listenHTTP(settings.HTTPListeners, files.http, registry, logger)
	if err != nil {
		return usageLine(err)
	}
	defer web.close()
	b, err := broker.Open(ctx, broker.Options{Config: settings, FS: vfs.OS(), Clock: clock.System(), Logger: logger, Metrics: registry, Gossip: newGossip(logger, registry),
		Memory: limitMemory(), OpenFiles: files.segments, Connections: files.connections})
	if err != nil {
		if isSetting(err) {
			return usageLine(err)
		}
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // it was told to stop while it waited for the others
		}
		return err
	}
	web.opened(b)
	if flags.portsFile != "" {
		if err := writePorts(flags.portsFile, b, web); err != nil {
			return errors.Join(fmt.Errorf("write the ports: %w", err), b.Close())
		}
	}
	logger.Info("Kafka Server started", "listeners", strings.Join(b.Advertised(), ","), "data", strings.Join(settings.DataDirs, ","),
		"cluster", b.ClusterID(), "node", b.NodeID(), "fsync", settings.FsyncPolicy, "took", time.Since(processStart).Round(time.Microsecond).String())
	return b.Run(ctx)
}

// isSetting reports whether a start failed for what the operator gave: an address that cannot be bound, or that is no Weir, or
// settings that contradict the data directory or those of other nodes.
func isSetting(err error) bool {
	switch kafka.CodeOf(err) {
	case kafka.InvalidConfig, kafka.InconsistentClusterID, kafka.DuplicateBrokerRegistration, kafka.InvalidRegistration:
		return true
	}
	return errors.As(err, new(*broker.BindError))
}

// descriptors are how many of them each kind of use may have at a time, 0 for the default.
type descriptors struct{ segments, connections, http int }

// usageLine is an error in what the operator gave: exit code 2, without pointing to the help.
func usageLine(err error) error { return &exitError{err: err, code: exitUsage} }

func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return slog.New(slog.NewTextHandler(w, options))
		}
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// ports is what --ports-file holds.
type ports struct {
	Listeners map[string]string `json:"listeners"`      // listener name → address that is bound
	HTTP      []string          `json:"http,omitempty"` // addresses that are bound
	ClusterID string            `json:"cluster_id"`
	PID       int               `json:"pid"`
}

// writePorts appears at once and whole, so that who waits for the file never reads half of it.
func writePorts(path string, b *broker.Broker, web *httpServer) error {
	data, err := json.Marshal(ports{Listeners: b.Bound(), HTTP: web.bound(), ClusterID: b.ClusterID(), PID: os.Getpid()})
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(data, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
