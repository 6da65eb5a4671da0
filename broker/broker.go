package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"weir/broker/config"
	"weir/broker/handler"
	"weir/broker/replica"
	"weir/cluster"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/coordinator"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol"
)

// loadTime is how long a start waits for the coordinators to load what they know, so that no client is told to come again.
const loadTime = 5 * time.Second

// drainTime is how long a stop waits for requests that are being answered.
const drainTime = 5 * time.Second

// leaveTime is how long a stop waits until other brokers lead what this one leads. Kafka waits for five minutes; whoever
// stops a process kills it before.
const leaveTime = 20 * time.Second

// Options are what a broker is made of. All fields but the last four are required.
type Options struct {
	Config  *config.Server
	FS      vfs.FS
	Clock   clock.Clock
	Logger  *slog.Logger
	Metrics *metrics.Registry
	Gossip  cluster.Gossip // nil: this node hears of others by connections alone
	Memory  int64          // bytes that the process may use, 0 where that is not known

	OpenFiles   int // segment files that may be open at a time, 0 for the store's default
	Connections int // connections that there may be at a time whatever the settings say, 0 where that is not known
}

// Broker is a running node: a broker, a controller, or both.
type Broker struct {
	Options
	bound    []boundListener
	founding founding
	founded  cluster.Founding // what came of founding, or of joining; zero for a node that has a log already, or is alone
	asked    bool             // this process was taken into the cluster
	peerNote peerNote
	late     lateListener
	store    *log.Store
	run      runNote
	node     *cluster.Node
	others   others
	gossip   *gossiper
	replicas *replica.Manager
	unclean  metrics.Counter // elections, while this node was the active controller
	groups   *coordinator.Runtime
	fence    *selfFence
	handlers *handler.Handlers
	server   *Server
	ready    chan struct{} // closed when handlers may be asked
	failed   chan error    // what makes going on impossible, such as a failed metadata directory
	stopping chan struct{}
	serving  sync.WaitGroup

	stopTasks context.CancelFunc
	tasks     sync.WaitGroup // the store's, and what the lost lease leads to

	incarnation kafka.UUID // of this process, from the node's start on

	closeOnce func() error
}

// Open binds the listeners and brings everything up that lies behind them. The broker serves clients from Run on; until
// then they wait. Other nodes are answered from the beginning, since a cluster that is founded needs all of them. The
// caller calls Run or Close.
//
// Errors: *BindError; those of log.OpenStore, which name the directory; those of cluster.Start.
func Open(ctx context.Context, o Options) (*Broker, error) {
	note, err := readPeerNote(o.FS, metadataPath(o.Config))
	if err != nil {
		return nil, err
	}
	bound, err := bindAll(o, note)
	if err != nil {
		return nil, err
	}
	b := &Broker{Options: o, bound: bound, peerNote: note, ready: make(chan struct{}), failed: make(chan error, 1), stopping: make(chan struct{})}
	b.gossip = b.newGossiper()
	b.founding.clock, b.founding.logger, b.founding.members = o.Clock, o.Logger, b.voters
	_, hasPeers := b.peerEndpoint()
	b.late.needed = !hasPeers
	b.closeOnce = sync.OnceValue(b.close)
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// metadataPath is the directory of the metadata log as the store calls it: the setting is kept as it was written.
func metadataPath(c *config.Server) string { return filepath.Clean(c.MetadataDir) }

func (b *Broker) open(ctx context.Context) error {
	if err := b.tryGossipPort(); err != nil {
		return err
	}
	b.server = NewServer(ServerOptions{Handle: b.handle, Clock: b.Clock, Logger: b.Logger,
		Limits: limitsOf(b.Config, b.Memory, b.Connections), Metrics: b.Metrics})
	b.makePeers()
	for _, l := range b.bound {
		if l.Peers {
			b.serve(l)
		}
	}
	if err := b.openStore(ctx); err != nil {
		return err
	}
	if err := b.checkJoin(ctx); err != nil {
		return err
	}
	b.makeLinks()
	b.makeReplicas()
	b.groups = b.newGroups()
	b.fence = newSelfFence(b.Config.NodeID, b.replicas, b.groups, b.Logger)
	if b.Config.Cluster.SelfFence {
		b.tasks.Go(func() { b.fence.run(b.stopping) })
	}
	if err := b.startNode(ctx); err != nil {
		return err
	}
	b.warnVoters()
	b.handlers = handler.New(handler.Options{Self: b.Config.NodeID, Image: b.node.Image, Controller: b.node, Replicas: b.replicas,
		Directories: directories{b.store, b.FS}, Groups: b.groups, Config: b.Config, Clock: b.Clock, Stopping: b.stopping, Logger: b.Logger})
	close(b.ready)
	return b.awaitCoordinators(ctx)
}

// handle answers a request. Other nodes are served while this one still starts; whoever else comes to a listener that both
// share waits as in a backlog.
func (b *Broker) handle(r *handler.Request) handler.Reply {
	if r.Header.Key == protocol.PeerKey {
		return b.others.peers.Handle(r)
	}
	select {
	case <-b.ready:
	default:
		select {
		case <-b.ready:
		case <-b.stopping:
			return handler.Close(errStopped)
		case <-r.Conn.Closed():
			return handler.Silent()
		}
	}
	return b.handlers.Handle(r)
}

var errStopped = errors.New("the broker stops before it was ready")

// makeReplicas makes what holds the partitions and copies them between brokers.
func (b *Broker) makeReplicas() {
	r, d := b.Config.Replication, b.Config.Dynamic(nil, nil)
	b.others.fetchers = replica.NewFetchers(replica.FetcherOptions{
		Endpoint: newLeaderEndpoint(b.others.links.pool, b.Config.NodeID, b.epoch), Clock: b.Clock, Logger: b.Logger,
		PerLeader: int(d.NumReplicaFetchers), WaitMax: r.FetchWaitMax, Backoff: r.FetchBackoff,
		MinBytes: r.FetchMinBytes, MaxBytes: r.FetchMaxBytes, ResponseMaxBytes: r.FetchResponseBytes,
		Throttle: replica.NewThrottle(d.FollowerThrottledRate),
	})
	isr := isrController{self: b.Config.NodeID, epoch: b.epoch, submit: func(cmd controller.Command, done func(controller.Reply, error)) { b.node.SubmitAsync(cmd, done) }}
	b.replicas = replica.NewManager(replica.Options{Self: b.Config.NodeID, Epoch: b.epoch, Logs: b.store, FsyncPolicy: log.FsyncPolicy(b.Config.FsyncPolicy), Logger: b.Logger,
		Clock: b.Clock, MaxLag: r.LagTimeMax, Followers: b.others.fetchers, Controller: isr, Throttle: replica.NewThrottle(d.LeaderThrottledRate),
		Misplaced: func(tp kafka.TopicPartition) { b.others.places.look(tp) },
		TopicConfig: func(img *metadata.Image, topic string) *replica.TopicConfig {
			return topicConfig(b.Config, b.Config.NodeID, img, topic)
		}})
	b.replicas.Moves().SetRate(b.Clock.Now(), d.AlterLogDirsRate)
	b.others.places = newAssignments(b.Config.NodeID, b.replicas, func() commander { return b.node }, b.Clock, b.Logger)
	b.others.startCopying(b.replicas.ISRUpdates(), b.replicas.Moves(), b.Clock)
}

// epoch is this broker's, as it is registered; -1 before that.
func (b *Broker) epoch() kafka.BrokerEpoch {
	epoch, _ := b.node.Registered()
	return epoch
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

func (b *Broker) openStore(ctx context.Context) error {
	defaults := b.Config.TopicConfig(nil, nil, nil)
	store, err := log.OpenStore(log.StoreOptions{
		FS: b.FS, Clock: b.Clock, Logger: b.Logger,
		Dirs: b.Config.DataDirs, MetadataDir: b.Config.MetadataDir, NodeID: b.configuredID(), ClusterID: b.Config.ClusterID,
		Found: func(dir kafka.DirectoryID, known log.Identity) (log.Identity, error) {
			return b.found(ctx, dir, known)
		},
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
	b.Config = b.Config.WithNodeID(store.NodeID())
	if b.founded.Join == nil {
		b.founded.Join = b.peerNote.Contacts // it may have been killed before it had a log
	}
	running, cancel := context.WithCancel(context.Background())
	b.stopTasks = cancel
	b.tasks.Go(func() {
		if err := store.Run(running); err != nil && running.Err() == nil {
			b.fail(fmt.Errorf("the logs' background tasks ended: %w", err))
		}
	})
	return b.keepPeerPort(b.bound)
}

// dirFailed is told of a data directory that failed. The process cannot go on without its metadata; the partitions of
// other directories are offline, and the rest serves.
func (b *Broker) dirFailed(dir string, err error) {
	b.Logger.Error("a data directory failed; its partitions are offline", "dir", dir, "error", err)
	b.voidRun()
	if b.clusterID() != "" { // there is a node
		if id, ok := b.directoryID(dir); ok {
			b.node.DirFailed(id)
		}
	}
	if dir == metadataPath(b.Config) {
		b.fail(fmt.Errorf("the metadata directory %s failed: %w", dir, err))
	}
}

func (b *Broker) fail(err error) {
	select {
	case b.failed <- err:
	default: // the first reason counts
	}
}

// Advertised returns the addresses that clients are told, as NAME://host:port; of a controller alone, those of its own
// listeners.
func (b *Broker) Advertised() []string {
	want := forClients
	if !b.Config.Roles.Broker {
		want = func(l config.Listener) bool { return l.Controller }
	}
	var out []string
	for _, e := range endpoints(b.bound, want) {
		out = append(out, fmt.Sprintf("%s://%s:%d", e.Name, e.Host, e.Port))
	}
	return out
}

// Bound returns the address that each listener is bound to, the first where a name has two.
func (b *Broker) Bound() map[string]string {
	out := make(map[string]string)
	for _, l := range b.listening() {
		if _, ok := out[l.Name]; !ok {
			out[l.Name] = l.socket.Addr().String()
		}
	}
	return out
}

// NodeID returns the node's id, which the settings may leave to the cluster.
func (b *Broker) NodeID() kafka.BrokerID { return b.Config.NodeID }

// ClusterID returns the id of the cluster that this broker belongs to.
func (b *Broker) ClusterID() string { return b.store.ClusterID() }

// serve accepts connections on a listener until the broker stops.
func (b *Broker) serve(l boundListener) {
	serve := b.server.Serve
	switch {
	case l.Controller:
		serve = b.server.ServePeers
	case l.Peers:
		serve = b.server.ServeShared
	}
	b.serving.Go(func() {
		if err := serve(l.socket, l.Name); err != nil {
			b.fail(err)
		}
	})
}

// Run serves clients until ctx ends, then closes the broker. The error is what made it end before, or what a clean stop
// could not do.
func (b *Broker) Run(ctx context.Context) error {
	for _, l := range b.bound {
		if !l.Peers {
			b.serve(l)
		}
	}
	var err error
	select {
	case <-ctx.Done():
		b.Logger.Info("stopping")
		b.leave()
	case err = <-b.failed:
	}
	return errors.Join(err, b.Close())
}

// leave gives away what this broker leads while it still serves, so that clients go over to others without a pause
// (controlled shutdown).
func (b *Broker) leave() {
	if !b.Config.Cluster.ControlledShutdown {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	begin := b.Clock.Now()
	if err := b.node.Shutdown(ctx); err != nil {
		b.Logger.Warn("the cluster was left before others lead what this broker led", "waited", b.Clock.Now().Sub(begin).Round(time.Millisecond).String())
	}
}

// Close stops the broker in the reverse order of its start. A second call does nothing and returns the same.
func (b *Broker) Close() error { return b.closeOnce() }

func (b *Broker) close() error {
	var errs []error
	close(b.stopping)
	gossip := make(chan struct{})
	go func() { // it takes a moment to tell others
		b.gossip.close()
		close(gossip)
	}()
	b.closeLate()
	if b.groups != nil {
		b.groups.Close() // before the server waits for what is being answered: a member may wait for others for minutes
	}
	if b.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		_ = b.server.Shutdown(ctx) // that connections had to be closed is not an error of the stop
		cancel()
	}
	closeAll(b.bound)
	b.serving.Wait()
	b.others.stopCopying()
	<-gossip
	if b.node != nil {
		errs = append(errs, b.node.Close())
	}
	b.others.close()
	if b.store != nil {
		b.stopTasks()
		b.tasks.Wait()
		errs = append(errs, b.store.Close())
	}
	return errors.Join(errs...)
}
