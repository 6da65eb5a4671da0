package coordinator

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
	"weir/protocol/batch"
)

// Options are what a Runtime works on. All fields but Stepped are required; the zero Codec is none.
type Options struct {
	Topic         string
	New           func() Shard // makes the empty shard of a partition; called by several goroutines
	CommitTimeout time.Duration
	Codec         batch.Codec // of the batches that are appended
	Clock         clock.Clock
	Logger        *slog.Logger
	Metrics       *metrics.Registry
	// Stepped has actors do nothing by themselves: Runtime.Step drives them.
	Stepped bool
}

// Runtime runs the shards of one coordinator's topic on one broker. It is safe for concurrent use.
type Runtime struct {
	Options
	metrics runtimeMetrics
	loading chan struct{}  // has a slot for each load that may run at a time
	running sync.WaitGroup // actors

	mu struct {
		sync.RWMutex
		actors     map[int32]*actor
		ending     []*actor // that are stepped, and have not noticed that they are over
		partitions int32    // of the topic; 0 while it does not exist
		closed     bool
	}
}

// parallelLoads bounds the memory of read buffers and decompressed batches; more would wait for the same disk.
const parallelLoads = 4

// New returns a runtime that coordinates nothing until Elect.
func New(o Options) *Runtime {
	r := &Runtime{Options: o, metrics: newMetrics(o.Metrics, o.Topic), loading: make(chan struct{}, parallelLoads)}
	r.mu.actors = make(map[int32]*actor)
	return r
}

// SetPartitions says how many partitions the topic has; 0 where it does not exist.
func (r *Runtime) SetPartitions(n int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.partitions = n
}

// Elect begins to coordinate a partition that this broker leads in that epoch. It does nothing where that has begun
// already; an older epoch ends.
func (r *Runtime) Elect(partition int32, epoch kafka.LeaderEpoch, p Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.mu.actors[partition]
	if r.mu.closed || old != nil && old.epoch >= epoch {
		return
	}
	if old != nil {
		r.endLocked(old)
	}
	a := newActor(r, kafka.TopicPartition{Topic: r.Topic, Partition: partition}, epoch, p)
	r.mu.actors[partition] = a
	r.metrics.owned.Set(int64(len(r.mu.actors)))
	if !r.Stepped {
		r.running.Add(1)
		go a.run()
	}
}

// endLocked tells an actor that it is over. One that is stepped takes note of that in one more step.
func (r *Runtime) endLocked(a *actor) {
	a.mailbox.set(over)
	if r.Stepped {
		r.mu.ending = append(r.mu.ending, a)
	}
}

// Resign ends coordinating a partition, if that has begun. Whoever waits for an answer gets NOT_COORDINATOR, soon.
func (r *Runtime) Resign(partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resignLocked(partition)
}

func (r *Runtime) resignLocked(partition int32) {
	if a := r.mu.actors[partition]; a != nil {
		r.endLocked(a)
		delete(r.mu.actors, partition)
		r.metrics.owned.Set(int64(len(r.mu.actors)))
	}
}

// Close resigns from everything and returns when every call is answered and every actor has ended.
func (r *Runtime) Close() {
	r.mu.Lock()
	r.mu.closed = true
	for _, partition := range slices.Sorted(maps.Keys(r.mu.actors)) {
		r.resignLocked(partition)
	}
	r.mu.Unlock()
	r.running.Wait()
	if r.Stepped {
		r.Step()
	}
}

// Owned lists the partitions that this broker coordinates, in order, also those that are loading or could not be loaded.
func (r *Runtime) Owned() []int32 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.mu.actors))
}

// AwaitLoads returns when every partition that is coordinated now has been loaded or cannot be, or with the error of ctx.
func (r *Runtime) AwaitLoads(ctx context.Context) error {
	r.mu.RLock()
	actors := slices.Collect(maps.Values(r.mu.actors))
	r.mu.RUnlock()
	for _, a := range actors {
		select {
		case <-a.mailbox.settled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Submit asks the shard of the partition that a key belongs to. It does not wait; c.Done is told the answer.
func (r *Runtime) Submit(key string, c *Call) {
	r.mu.RLock()
	var a *actor
	if n := r.mu.partitions; n > 0 {
		a = r.mu.actors[PartitionFor(key, n)]
	}
	r.mu.RUnlock()
	a.submit(c)
}

// SubmitTo asks the shard of one partition.
func (r *Runtime) SubmitTo(partition int32, c *Call) {
	r.mu.RLock()
	a := r.mu.actors[partition]
	r.mu.RUnlock()
	a.submit(c)
}

// Each gives an input that nobody waits for to every shard of this broker. Those that are loading get it afterwards.
func (r *Runtime) Each(in Input) {
	r.mu.RLock()
	actors := slices.Collect(maps.Values(r.mu.actors))
	r.mu.RUnlock()
	for _, a := range actors {
		_ = a.mailbox.put(in) // refused where it is over: nothing to be done there
	}
}
