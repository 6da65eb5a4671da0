package replica

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/log"
)

// MovingLogs is what moves need of the set of logs.
type MovingLogs interface {
	DirectoryOf(l *log.Log) kafka.DirectoryID
	CheckMove(tp kafka.TopicPartition, path string) error
	Want(tp kafka.TopicPartition, path string)
	BeginMove(tp kafka.TopicPartition, path string) error
	ResumeMove(tp kafka.TopicPartition) (bool, error)
	EndMove(future *log.Log) error
	Future(tp kafka.TopicPartition) *log.Log
	Copy(future *log.Log, maxBytes int, buf *[]byte) (n int, caughtUp bool, err error)
	Promote(future *log.Log, buf *[]byte) (done bool, err error)
	Settle(tp kafka.TopicPartition, dir kafka.DirectoryID) error
	Unsettled() []kafka.TopicPartition
}

const (
	// copyBytes is copied of one replica before it is another's turn: enough for the disks, and nothing waits long.
	copyBytes = 1 << 20
	// catchUpPause is how often a copy follows its log while the controller takes note of the directory; news of that wakes.
	catchUpPause = 100 * time.Millisecond
	// promotePause is when a copy that was overtaken tries again to take its log's place.
	promotePause = 10 * time.Millisecond
)

// Moves takes replicas from one data directory of this broker to another (KIP-113). A replica is copied while it is used, led or
// followed. When the copy has caught up, the controller is told of its directory (KIP-858), and only when the metadata names
// that, the copy takes the replica's place. So, whatever fails meanwhile, the controller takes the replica for lost if the directory
// that it counts on is; and after a crash the metadata says which of two logs is the right one.
//
// One goroutine, that of Run, copies for all, by turns. A test calls Step instead.
type Moves struct {
	logs      MovingLogs
	throttle  *Throttle                  // replica.alter.log.dirs.io.max.bytes.per.second
	misplaced func(kafka.TopicPartition) // Options.Misplaced
	logger    *slog.Logger
	wake      chan struct{}
	buf       []byte // the stepping goroutine's

	mu struct {
		sync.Mutex
		moves []*move // whose turn is next comes first
	}
}

// move is one replica's.
type move struct {
	p      *Partition
	future *log.Log
	target kafka.DirectoryID
	begun  time.Time
	// announced says that the controller is told that the replica is in target. Guarded by the lock of Moves.
	announced bool
}

func newMoves(o *Options) *Moves {
	m := &Moves{logs: o.Logs, throttle: NewThrottle(unlimitedRate), misplaced: o.Misplaced, logger: o.Logger, wake: make(chan struct{}, 1)}
	if m.misplaced == nil {
		m.misplaced = func(kafka.TopicPartition) {}
	}
	return m
}

// SetRate limits the copying to so many bytes a second.
func (m *Moves) SetRate(now time.Time, rate int64) {
	m.throttle.SetRate(now, rate)
	m.poke()
}

func (m *Moves) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run moves until ctx ends. What is not done then goes on after the next start.
func (m *Moves) Run(ctx context.Context, c clock.Clock) {
	for ctx.Err() == nil {
		now := c.Now()
		next := m.round(ctx, now)
		if next.IsZero() {
			next = now.Add(time.Hour) // there is nothing to do
		}
		timer := c.NewTimer(next.Sub(now))
		select {
		case <-timer.C():
		case <-m.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Step gives each move a turn, and returns when it wants to be called again; zero if only for news.
func (m *Moves) Step(now time.Time) (next time.Time) { return m.round(context.Background(), now) }

// round is a Step that ends early with ctx: a turn of each of very many moves takes minutes, for which no stop waits.
func (m *Moves) round(ctx context.Context, now time.Time) (next time.Time) {
	for range m.count() {
		if ctx.Err() != nil {
			return now
		}
		at := now
		if wait := m.throttle.Wait(now); wait > 0 {
			return now.Add(wait)
		}
		if mv := m.turn(); mv != nil {
			at = m.step(now, mv)
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func (m *Moves) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.moves)
}

// turn returns the first move, which becomes the last one.
func (m *Moves) turn() *move {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.moves) == 0 {
		return nil
	}
	mv := m.mu.moves[0]
	m.mu.moves = append(m.mu.moves[1:], mv)
	return mv
}

func (m *Moves) step(now time.Time, mv *move) (next time.Time) {
	n, caughtUp, err := m.logs.Copy(mv.future, copyBytes, &m.buf)
	m.throttle.Add(now, n)
	if err == nil && !caughtUp {
		return now
	}
	done := false
	if err == nil {
		if m.announce(mv); mv.p.directory() != mv.target {
			return now.Add(catchUpPause)
		}
		done, err = m.logs.Promote(mv.future, &m.buf)
		mv.p.commitAgain()
	}
	switch {
	case err != nil:
		m.fail(mv, err)
	case !done:
		return now.Add(promotePause)
	default:
		m.remove(mv)
		m.logger.Info("a replica has moved to another directory", "partition", mv.p.tp, "dir", mv.p.log.Dir(), "took", now.Sub(mv.begun).Round(time.Millisecond).String())
	}
	return time.Time{}
}

// announce has the controller told of the directory that the replica is about to be in.
func (m *Moves) announce(mv *move) {
	m.mu.Lock()
	news := !mv.announced && slices.Contains(m.mu.moves, mv)
	mv.announced = true
	m.mu.Unlock()
	if news {
		m.misplaced(mv.p.tp)
	}
}

// fail ends a move that cannot go on. If it is the replica's own disk that failed, the copy is kept: after the next start, when
// that may be whole again, it goes on.
func (m *Moves) fail(mv *move, err error) {
	if !m.remove(mv) {
		return // it was ended, which is why it failed
	}
	m.logger.Error("a replica cannot move to another directory, and stays where it is", "partition", mv.p.tp, "from", mv.p.log.Dir(), "to", mv.future.Dir(), "error", err)
	if mv.p.log.Offline() == nil {
		if err := m.logs.EndMove(mv.future); err != nil {
			m.logger.Error("the copy of a replica that does not move could not be removed", "dir", mv.future.Dir(), "error", err)
		}
	}
	m.misplaced(mv.p.tp)
}

// remove takes a move out; false if it was not there any more.
func (m *Moves) remove(mv *move) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.mu.moves, mv)
	if i >= 0 {
		m.mu.moves = slices.Delete(slices.Clone(m.mu.moves), i, i+1)
	}
	return i >= 0
}

// set makes a copy of a partition's log the move under way, or none with nil. announced says that the metadata has it in the copy's
// directory already.
func (m *Moves) set(p *Partition, future *log.Log, announced bool) {
	m.mu.Lock()
	i := slices.IndexFunc(m.mu.moves, func(mv *move) bool { return mv.p.tp == p.tp })
	if i >= 0 && m.mu.moves[i].p == p && m.mu.moves[i].future == future {
		m.mu.Unlock()
		return
	}
	revoked := false
	if i >= 0 {
		revoked = m.mu.moves[i].announced
		m.mu.moves = slices.Delete(slices.Clone(m.mu.moves), i, i+1)
	}
	if future != nil {
		m.mu.moves = append(m.mu.moves, &move{p: p, future: future, target: m.logs.DirectoryOf(future), begun: p.clock.Now(), announced: announced})
	}
	m.mu.Unlock()
	m.poke()
	if revoked {
		m.misplaced(p.tp)
	}
}

// announced returns the directory that the controller is told that a replica is in, if that is not the one that it is in.
func (m *Moves) announced(p *Partition) (kafka.DirectoryID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mv := range m.mu.moves {
		if mv.p == p && mv.announced {
			return mv.target, true
		}
	}
	return kafka.DirectoryID{}, false
}

// commitAgain makes up for commits that did not count because the log was about to move, or moved.
func (p *Partition) commitAgain() {
	if p.leadership.Load() != nil {
		p.store.Commit(p.log, p.durable)
	}
}

// directory is the one that the metadata has this replica in.
func (p *Partition) directory() kafka.DirectoryID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.registration.Directory(p.self)
}

// Moves returns what takes replicas to other directories. Whoever made the manager runs or steps it.
func (m *Manager) Moves() *Moves { return m.moves }

// Directory returns the data directory that the controller shall believe a replica to be in.
func (m *Manager) Directory(p *Partition) kafka.DirectoryID {
	if dir, ok := m.moves.announced(p); ok {
		return dir
	}
	return m.Logs.DirectoryOf(p.log)
}

// Future returns the copy of a replica that is on its way to another directory, nil if there is none.
func (m *Manager) Future(p *Partition) *log.Log { return m.Logs.Future(p.tp) }

// MoveReplica has a replica move to another data directory of this broker; whatever other move of it there is ends. A move to where
// it is already ends that, too, and does nothing else. Moves go on until they have ended, also after a restart.
//
// Errors, as in Kafka: those of log.Store.CheckMove; KAFKA_STORAGE_ERROR where the replica, or any of the directories, is offline;
// REPLICA_NOT_AVAILABLE where this broker has none: it will be made in that directory, if one comes.
func (m *Manager) MoveReplica(tp kafka.TopicPartition, path string) error {
	if err := m.Logs.CheckMove(tp, path); err != nil {
		return err
	}
	m.placing.Lock()
	defer m.placing.Unlock()
	p := m.Partition(tp)
	switch {
	case m.Offline(tp), p != nil && p.log.Offline() != nil:
		return kafka.Errorf(kafka.KafkaStorageError, "Partition %v is offline", tp)
	case p == nil:
		m.Logs.Want(tp, path)
		return kafka.Errorf(kafka.ReplicaNotAvailable, "this broker has no replica of %v", tp)
	}
	err := m.Logs.BeginMove(tp, path)
	m.moves.set(p, m.Logs.Future(tp), false)
	return err
}

// resumeMove has a move go on that a process before began.
func (m *Manager) resumeMove(p *Partition, dir kafka.DirectoryID) {
	resumed, err := m.Logs.ResumeMove(p.tp)
	future := m.Logs.Future(p.tp)
	switch {
	case err != nil:
		m.Logger.Error("a replica's move to another directory cannot go on", "partition", p.tp, "error", err)
		if future != nil {
			_ = m.Logs.EndMove(future) // it says so itself
		}
	case resumed:
		m.Logger.Info("a replica's move to another directory goes on", "partition", p.tp, "from", p.log.Dir(), "to", future.Dir())
		m.moves.set(p, future, m.Logs.DirectoryOf(future) == dir)
	}
}
