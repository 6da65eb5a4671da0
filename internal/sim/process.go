package sim

import (
	"errors"
	"log/slog"
	"time"

	"weir/broker/replica"
	"weir/cluster"
	"weir/cluster/metadata"
	"weir/coordinator"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
)

// process is one run of a broker: what package broker puts together, without sockets and handlers, and stepped.
type process struct {
	n      *node
	s      *simulation
	host   *host
	clock  skewedClock
	faulty *vfs.Faulty

	store    *log.Store
	replicas *replica.Manager
	fetchers *replica.Fetchers
	endpoint *endpoint
	groups   *coordinator.Runtime
	node     *cluster.Node

	members  []metadata.QuorumMember // where they are, as far as the process knows
	contacts map[kafka.BrokerID]contact
	led      leading

	sessions    map[sessionKey]*fetchSession
	lastSession int
	waiting     []*waitingFetch

	published  bool
	parts      []*observed
	committing bool
	committed  time.Duration // when that began
	silent     bool          // that took so long that it sends no heartbeats
	wakeAt     time.Duration // of the earliest wake that is planned; 0 for none
	tasksAt    time.Time
	dirFailed  bool
	failure    error // why the process cannot go on
	noted      kafka.BrokerEpoch
	run        log.Run // the note of it
	leaving    bool
	assigning  bool // a request of assign is under way
}

// skewedClock is the world's time as one machine shows it.
type skewedClock struct {
	w    *world
	skew time.Duration
}

var _ clock.Clock = skewedClock{}

func (c skewedClock) Now() time.Time { return c.w.time().Add(c.skew) }

// NewTimer is not there: what is stepped waits for nothing.
func (c skewedClock) NewTimer(time.Duration) clock.Timer { panic("a stepped part makes a timer") }

// AfterFunc is not there, either.
func (c skewedClock) AfterFunc(time.Duration, func()) clock.Timer {
	panic("a stepped part makes a timer")
}

// openProcess puts a broker together on the node's disk, as package broker does.
func openProcess(n *node) (*process, error) {
	s := n.s
	p := &process{
		n: n, s: s, host: n.host, clock: skewedClock{s.w, n.skew}, faulty: vfs.NewFaulty(n.disk, n.broken...),
		sessions: map[sessionKey]*fetchSession{}, contacts: map[kafka.BrokerID]contact{},
	}
	p.endpoint = &endpoint{p: p, sessions: map[endpointKey]*endpointSession{}}
	logger := slog.New(logHandler{n})
	var err error
	p.store, err = log.OpenStore(log.StoreOptions{
		FS: p.faulty, Clock: p.clock, Dirs: n.dirs, NodeID: n.id, ClusterID: clusterID, FsyncPolicy: s.c.policy, Logger: logger,
		Recoveries: 1, DefaultConfig: logConfig(topicSpec{segmentBytes: 1 << 20}), DirFailed: p.directoryFailed,
		CheckpointInterval: 7 * time.Second, HighWatermarkInterval: 2 * time.Second, RetentionCheckInterval: 5 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	p.fetchers = replica.NewFetchers(replica.FetcherOptions{
		Endpoint: p.endpoint, Clock: p.clock, Logger: logger, PerLeader: 1, WaitMax: s.c.fetchWait, Backoff: 300 * time.Millisecond,
		MinBytes: 1, MaxBytes: 1 << 20, ResponseMaxBytes: 10 << 20,
	})
	p.replicas = replica.NewManager(replica.Options{
		Self: n.id, Logs: steppedLogs{p.store, p}, FsyncPolicy: s.c.policy, Followers: p.fetchers, Logger: logger,
		TopicConfig: s.topicConfig, Clock: p.clock, MaxLag: s.c.lag, Controller: p, Epoch: p.brokerEpoch,
	})
	p.groups = p.newGroups(logger)
	if err := p.openNode(logger); err != nil {
		return nil, err
	}
	return p, nil
}

// steppedLogs plans the group commits that partitions ask for.
type steppedLogs struct {
	*log.Store
	p *process
}

// Commit has the store's commit take some time.
func (l steppedLogs) Commit(of *log.Log, done func(error)) {
	l.Store.Commit(of, done)
	l.p.planCommit()
}

func (p *process) planCommit() {
	if p.committing {
		return
	}
	p.committing, p.committed, p.silent = true, p.s.w.now, false
	p.commitAfter(between(p.s.disk, 50*time.Microsecond, p.s.c.fsyncTime))
}

// commitAfter does what is to be committed, when the disk answers again.
func (p *process) commitAfter(d time.Duration) {
	p.host.after(d, func() {
		if hangs := p.n.hungUntil - p.s.w.now; hangs > 0 {
			p.commitAfter(min(hangs, 100*time.Millisecond)) // healing ends it sooner
			return
		}
		p.committing = false
		p.store.StepCommits()
	})
}

// dirFailureTimeout is after how long a disk that does not answer has the broker fall silent.
const dirFailureTimeout = 5 * time.Second

// stalled is how long the disk has kept the process waiting.
func (p *process) stalled() time.Duration {
	if !p.committing {
		return 0
	}
	since := p.s.w.now - p.committed
	if since > dirFailureTimeout && !p.silent {
		p.silent = true
		p.s.rare.count(rareHung)
	}
	return since
}

// registration is what this process says of itself, and of the one before. What it is itself is noted before anybody is
// told, so that the next process knows whose logs it has, whatever this one hears.
func (p *process) registration() (r cluster.Registration, err error) {
	n := p.n
	r = cluster.Registration{Incarnation: n.incarnation, Listeners: []metadata.Endpoint{n.endpoint()}}
	for _, info := range p.store.Dirs() {
		if info.Offline == nil {
			r.Directories = append(r.Directories, info.ID)
		} else {
			p.dirFailed = true
		}
	}
	previous := p.store.PreviousRun(n.bootID())
	r.PreviousEpoch, r.PreviousIncarnations = previous.BrokerEpoch, previous.Incarnations
	p.s.w.tracef("n%d continues epoch %d of %v (lossy=%v)", n.id, r.PreviousEpoch, r.PreviousIncarnations, p.store.Lossy())
	if r.PreviousEpoch < 0 && len(r.PreviousIncarnations) == 0 {
		n.markLossy(false) // as far as the controller can tell
	}
	p.store.SetBrokerEpoch(r.PreviousEpoch)
	run, _ := previous.Next(n.bootID(), n.incarnation, p.s.c.policy)
	return r, p.noteRun(run)
}

// noteRun notes for the next process whose logs it will have, unless a disk failed: then nobody knows what they have.
func (p *process) noteRun(run log.Run) error {
	p.run = run
	if p.dirFailed {
		return log.RemoveRun(p.faulty, p.store.MetadataDir())
	}
	return log.WriteRun(p.faulty, p.store.MetadataDir(), run)
}

// directoryFailed is told of a directory that goes offline.
func (p *process) directoryFailed(dir string, err error) {
	p.dirFailed = true
	p.n.markLossy(false)
	_ = log.RemoveRun(p.faulty, p.n.dirs[0]) // it may be this very directory that fails
	if p.store != nil && dir == p.store.MetadataDir() {
		p.failure = err
		return
	}
	for i, path := range p.n.dirs {
		if path == dir && p.node != nil {
			p.node.DirFailed(p.n.directory(i))
			p.s.rare.count(rareDirectoryFailed)
		}
	}
}

// stop ends the process in good order: the broker gives away what it leads, then closes its logs.
func (p *process) stop(done func()) {
	if p.leaving {
		return
	}
	p.leaving = true
	end := func() {
		if p.n.proc != p {
			return // something else ended it
		}
		p.groups.Close()
		err := p.node.Close()
		// Close does the commits that still wait, which acknowledges what they make visible, and ends the logs at once: they are
		// done here, where it can be seen.
		for p.store.StepCommits() > 0 {
			p.observe()
		}
		err = errors.Join(err, p.store.Close())
		p.s.w.tracef("n%d has stopped: %v", p.n.id, err)
		p.n.stopped = true
		p.n.kill()
		done()
	}
	p.node.ShutdownAsync(func() { p.host.after(0, end) })
	p.host.after(longestStop, end) // whoever supervises it has no more patience
}

// longestStop is how long a process is let stop in good order. What it does then, without the controller, is in order, too.
const longestStop = 4 * time.Second

// damaged reports whether something of the process is offline because of its disk.
func (p *process) damaged() bool {
	_, offline := p.replicas.Counts()
	return p.dirFailed || offline > 0 || len(p.store.Broken()) > 0
}

// pump does all that follows from what has come to the process.
func (p *process) pump() {
	if p.stepAll() {
		p.answerWaiting()
	}
	p.observe()
	if p.failure != nil && p.n.proc == p {
		p.n.fail(p.failure)
	}
}

// stepAll steps every part until none has anything to do now. It reports false if the process cannot go on.
func (p *process) stepAll() bool {
	now := p.clock.Now()
	next := p.stepNode(now)
	for _, at := range []time.Time{p.fetchers.Step(now), p.replicas.ISRUpdates().Step(now), p.groups.Step(), p.stepTasks(now)} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	p.planWake(now, next)
	return p.failure == nil
}

// shortestWake keeps a part that wants to be called again at once from stopping the time.
const shortestWake = 100 * time.Microsecond

// planWake plans the next pump, if nothing comes before.
func (p *process) planWake(now, next time.Time) {
	if next.IsZero() {
		return
	}
	at := p.s.w.now + max(next.Sub(now), shortestWake)
	if p.wakeAt > p.s.w.now && p.wakeAt <= at {
		return
	}
	p.wakeAt = at
	p.host.after(at-p.s.w.now, func() {})
}

// stepTasks does the store's background work.
func (p *process) stepTasks(now time.Time) time.Time {
	if p.tasksAt.IsZero() || !now.Before(p.tasksAt) {
		p.tasksAt = p.store.StepTasks(now)
	}
	return p.tasksAt
}

// publish is what happens to an image that became true: what package broker does, in its order.
func (p *process) publish(delta *metadata.Delta, img *metadata.Image) {
	p.observe() // what has moved just now may be taken away: with a single voter nothing is between an answer and its consequences
	p.replicas.Apply(delta, img)
	if !p.published {
		p.replicas.SetStraysAside()
		p.published = true
	}
	p.coordinate(delta, img)
	for _, b := range delta.Brokers {
		if b.New != nil && !b.New.Fenced {
			p.fetchers.Retry(b.ID)
		}
	}
	p.watchPartitions(img)
	p.s.published(p.n, delta, img)
	p.host.after(0, p.assign)
}
