package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"weir/broker/config"
	"weir/broker/handler"
	"weir/broker/replica"
	"weir/cluster"
	"weir/cluster/metadata"
	"weir/coordinator"
	"weir/internal/clock"
	"weir/internal/metrics"
	"weir/internal/vfs"
	"weir/log"
)

// loadTime is how long a start waits for the coordinators to load what they know, so that no client is told to come again.
const loadTime = 5 * time.Second

// drainTime is how long a stop waits for requests that are being answered.
const drainTime = 5 * time.Second

// Options are what a broker is made of. All fields but the last three are required.
type Options struct {
	Config  *config.Server
	FS      vfs.FS
	Clock   clock.Clock
	Logger  *slog.Logger
	Metrics *metrics.Registry
	Memory  int64 // bytes that the process may use, 0 where that is not known

	OpenFiles   int // segment files that may be open at a time, 0 for the store's default
	Connections int // connections that there may be at a time whatever the settings say, 0 where that is not known
}

// Broker is a running broker.
type Broker struct {
	Options
	bound    []boundListener
	store    *log.Store
	node     *cluster.Node
	replicas *replica.Manager
	groups   *coordinator.Runtime
	handlers *handler.Handlers
	server   *Server
	failed   chan error // what makes going on impossible, such as a failed metadata directory
	stopping chan struct{}

	stopTasks context.CancelFunc
	tasks     chan struct{} // closed when the store's tasks have ended

	closeOnce func() error
}

// Open binds the listeners and brings everything up that lies behind them. The broker serves clients from Run on; until
// then they wait. The caller calls Run or Close.
//
// Errors: *BindError; those of log.OpenStore, which name the directory; those of cluster.Start.
func Open(ctx context.Context, o Options) (*Broker, error) {
	bound, err := bind(forClients(o.Config.Listeners), net.Listen)
	if err != nil {
		return nil, err
	}
	b := &Broker{Options: o, bound: bound, failed: make(chan error, 1), stopping: make(chan struct{})}
	b.closeOnce = sync.OnceValue(b.close)
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Broker) open(ctx context.Context) error {
	if err := b.openStore(); err != nil {
		return err
	}
	b.replicas = replica.NewManager(replica.Options{Self: b.Config.NodeID, Logs: b.store, FsyncPolicy: log.FsyncPolicy(b.Config.FsyncPolicy), Logger: b.Logger,
		TopicConfig: func(img *metadata.Image, topic string) *replica.TopicConfig {
			return topicConfig(b.Config, b.Config.NodeID, img, topic)
		}})
	// The server is there before the first image, whose settings it follows; it serves nobody before Run.
	b.server = NewServer(ServerOptions{Handle: func(r *handler.Request) handler.Reply { return b.handlers.Handle(r) }, Clock: b.Clock, Logger: b.Logger,
		Limits: limitsOf(b.Config, b.Memory, b.Connections), Metrics: b.Metrics})
	b.groups = b.newGroups()
	if err := b.startNode(ctx); err != nil {
		return err
	}
	b.handlers = handler.New(handler.Options{Self: b.Config.NodeID, Image: b.node.Image, Controller: b.node, Quorum: b.quorumStatus, Replicas: b.replicas,
		Directories: directories{b.store, b.FS}, Groups: b.groups, Config: b.Config, Clock: b.Clock, Stopping: b.stopping, Logger: b.Logger})
	return b.awaitCoordinators(ctx)
}

// awaitCoordinators waits until the coordinators are loaded. Those that take longer go on while others are served.
func (b *Broker) awaitCoordinators(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	if err := b.groups.AwaitLoads(within); err != nil && ctx.Err() == nil {
		b.Logger.Warn("groups are still being loaded; their clients are told to come again", "waited", loadTime)
	}
	return ctx.Err()
}

func (b *Broker) openStore() error {
	defaults := b.Config.TopicConfig(nil, nil, nil)
	store, err := log.OpenStore(log.StoreOptions{
		FS: b.FS, Clock: b.Clock, Logger: b.Logger,
		Dirs: b.Config.DataDirs, MetadataDir: b.Config.MetadataDir, NodeID: b.Config.NodeID, ClusterID: b.Config.ClusterID,
		FsyncPolicy:            log.FsyncPolicy(b.Config.FsyncPolicy),
		RetentionCheckInterval: b.Config.RetentionCheckInterval,
		ProducerExpirationMs:   b.Config.Dynamic(nil, nil).ProducerIDExpiration.Milliseconds(),
		DefaultConfig:          logConfig(&defaults),
		OpenFiles:              b.OpenFiles,
		DirFailed:              b.dirFailed,
	})
	if err != nil {
		return err
	}
	b.store = store
	ctx, cancel := context.WithCancel(context.Background())
	b.stopTasks, b.tasks = cancel, make(chan struct{})
	go func() {
		defer close(b.tasks)
		if err := store.Run(ctx); err != nil && ctx.Err() == nil {
			b.fail(fmt.Errorf("the logs' background tasks ended: %w", err))
		}
	}()
	return nil
}

// dirFailed is told of a data directory that failed. The process cannot go on without its metadata; the partitions of
// other directories are offline, and the rest serves.
func (b *Broker) dirFailed(dir string, err error) {
	b.Logger.Error("a data directory failed; its partitions are offline", "dir", dir, "error", err)
	if dir == filepath.Clean(b.Config.MetadataDir) { // the setting is kept as it was written
		b.fail(fmt.Errorf("the metadata directory %s failed: %w", dir, err))
	}
}

func (b *Broker) fail(err error) {
	select {
	case b.failed <- err:
	default: // the first reason counts
	}
}

// Advertised returns the addresses that clients are told, as NAME://host:port.
func (b *Broker) Advertised() []string {
	var out []string
	for _, e := range endpoints(b.bound) {
		out = append(out, fmt.Sprintf("%s://%s:%d", e.Name, e.Host, e.Port))
	}
	return out
}

// Bound returns the address that each listener is bound to, the first where a name has two.
func (b *Broker) Bound() map[string]string {
	out := make(map[string]string)
	for _, l := range b.bound {
		if _, ok := out[l.Name]; !ok {
			out[l.Name] = l.socket.Addr().String()
		}
	}
	return out
}

// ClusterID returns the id of the cluster that this broker belongs to.
func (b *Broker) ClusterID() string { return b.store.ClusterID() }

// Run serves clients until ctx ends, then closes the broker. The error is what made it end before, or what a clean stop
// could not do.
func (b *Broker) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	for _, l := range b.bound {
		serving.Go(func() {
			if err := b.server.Serve(l.socket, l.Name); err != nil {
				b.fail(err)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
		b.Logger.Info("stopping")
	case err = <-b.failed:
	}
	err = errors.Join(err, b.Close())
	serving.Wait()
	return err
}

// Close stops the broker in the reverse order of its start. A second call does nothing and returns the same.
func (b *Broker) Close() error { return b.closeOnce() }

func (b *Broker) close() error {
	var errs []error
	close(b.stopping)
	if b.groups != nil {
		b.groups.Close() // before the server waits for what is being answered: a member may wait for others for minutes
	}
	if b.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		_ = b.server.Shutdown(ctx) // that connections had to be closed is not an error of the stop
		cancel()
	}
	closeAll(b.bound)
	if b.node != nil {
		errs = append(errs, b.node.Close())
	}
	if b.store != nil {
		b.stopTasks()
		<-b.tasks
		errs = append(errs, b.store.Close())
	}
	return errors.Join(errs...)
}
