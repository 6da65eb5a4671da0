package broker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
)

const (
	maxAssignments    = 2000 // in one command, as in Kafka
	assignmentPause   = 500 * time.Millisecond
	assignmentTimeout = 30 * time.Second
)

// assignments tell the controller in which directories this broker's replicas are, where it does not know or is wrong
// (KIP-858): after a disk was replaced, where there is more than one, and before a replica moves to another. Until it knows,
// such a replica leads nothing, and a directory that fails takes it out of no ISR.
//
// Goroutines: one while there is something to tell. Safe for concurrent use.
type assignments struct {
	self     kafka.BrokerID
	replicas *replica.Manager
	node     func() commander
	clock    clock.Clock
	logger   *slog.Logger

	ctx    context.Context // until close
	cancel context.CancelFunc
	mu     struct {
		sync.Mutex
		image   *metadata.Image        // the newest; that of the node comes after it
		pending []kafka.TopicPartition // in the order in which they came
		queued  map[kafka.TopicPartition]bool
		running bool
		work    sync.WaitGroup
	}
}

// commander is what of cluster.Node the assignments need.
type commander interface {
	Registered() (kafka.BrokerEpoch, bool)
	Submit(context.Context, controller.Command) (controller.Reply, error)
}

func newAssignments(self kafka.BrokerID, replicas *replica.Manager, node func() commander, c clock.Clock, logger *slog.Logger) *assignments {
	a := &assignments{self: self, replicas: replicas, node: node, clock: c, logger: logger}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.mu.queued = make(map[kafka.TopicPartition]bool)
	return a
}

// Apply looks at the replicas that a change concerns, after the replica manager has taken it over.
func (a *assignments) Apply(delta *metadata.Delta, img *metadata.Image) {
	local := delta.Local(a.self)
	var wrong []kafka.TopicPartition
	for _, list := range [][]metadata.LocalPartition{local.Leaders, local.Followers} {
		for i := range list {
			if _, ok := a.misplaced(list[i].TopicPartition, &list[i].Registration); ok {
				wrong = append(wrong, list[i].TopicPartition)
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.image = img
	a.queueLocked(wrong...)
}

// look looks at a replica that moves to another directory, or does not any more.
func (a *assignments) look(tp kafka.TopicPartition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queueLocked(tp)
}

func (a *assignments) queueLocked(tps ...kafka.TopicPartition) {
	for _, tp := range tps {
		if !a.mu.queued[tp] {
			a.mu.queued[tp] = true
			a.mu.pending = append(a.mu.pending, tp)
		}
	}
	if len(a.mu.pending) > 0 && a.mu.image != nil && !a.mu.running && a.ctx.Err() == nil {
		a.mu.running = true
		a.mu.work.Go(a.run)
	}
}

// misplaced returns the directory that a replica is in, or is about to be, if the controller believes that it is elsewhere.
func (a *assignments) misplaced(tp kafka.TopicPartition, r *metadata.PartitionRegistration) (kafka.DirectoryID, bool) {
	p := a.replicas.Partition(tp)
	if p == nil {
		return kafka.DirectoryID{}, false
	}
	dir := a.replicas.Directory(p)
	return dir, dir != r.Directory(a.self)
}

// run tells the controller until nothing is left.
func (a *assignments) run() {
	for {
		tps, img := a.take()
		if tps == nil {
			return
		}
		if cmd, ok := a.command(tps, img); ok && !a.tell(cmd) {
			return
		}
	}
}

// take returns some of what is to be told, with the newest image; nil, and the end of the work, if that is nothing.
func (a *assignments) take() ([]kafka.TopicPartition, *metadata.Image) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.mu.pending), maxAssignments)
	if n == 0 || a.ctx.Err() != nil {
		a.mu.running = false
		return nil, nil
	}
	tps := a.mu.pending[:n:n]
	a.mu.pending = a.mu.pending[n:]
	for _, tp := range tps {
		delete(a.mu.queued, tp)
	}
	return tps, a.mu.image
}

// command says what is still wrong in an image.
func (a *assignments) command(tps []kafka.TopicPartition, img *metadata.Image) (cmd controller.AssignReplicasToDirs, ok bool) {
	cmd.Broker = a.self
	for _, tp := range tps {
		topic, known := img.Topics.ByName(tp.Topic)
		if !known || topic.Partition(tp.Partition) == nil {
			continue
		}
		if dir, wrong := a.misplaced(tp, topic.Partition(tp.Partition)); wrong {
			cmd.Assignments = append(cmd.Assignments, controller.DirAssignment{TopicID: topic.ID, Partition: tp.Partition, Directory: dir})
		}
	}
	return cmd, len(cmd.Assignments) > 0
}

// tell repeats until the controller has taken it; false when the broker stops.
func (a *assignments) tell(cmd controller.AssignReplicasToDirs) bool {
	for logged := false; ; logged = true {
		node := a.node()
		cmd.Epoch, _ = node.Registered()
		ctx, cancel := context.WithTimeout(a.ctx, assignmentTimeout)
		_, err := node.Submit(ctx, cmd)
		cancel()
		if err == nil || a.ctx.Err() != nil {
			return err == nil
		}
		if !logged {
			a.logger.Warn("the controller could not be told where replicas are, and is told again", "replicas", len(cmd.Assignments), "error", err)
		}
		if !clock.Sleep(a.clock, assignmentPause, a.ctx.Done()) {
			return false
		}
	}
}

// close ends it, and returns when its work has ended.
func (a *assignments) close() {
	a.mu.Lock()
	a.cancel() // no work begins after this
	a.mu.Unlock()
	a.mu.work.Wait()
}
