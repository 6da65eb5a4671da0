package cluster

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// State is where a broker is in its life, with Kafka's numbers (BrokerState).
type State int8

// The states, in their order. A broker that is registered again while it runs keeps its state.
const (
	NotRunning                State = 0
	Starting                  State = 1 // until this node has published its own registration
	Recovery                  State = 2 // until the controller unfences it
	Running                   State = 3
	PendingControlledShutdown State = 6 // until it leads nothing and the other brokers know
	ShuttingDown              State = 7
)

// Registration is what this broker says of itself.
type Registration struct {
	Incarnation kafka.UUID // random, another one at each start
	Listeners   []metadata.Endpoint
	Rack        string
	Directories []kafka.DirectoryID
	// PreviousEpoch is the epoch of the incarnation whose logs this one has whole; -1 where that is not known.
	PreviousEpoch kafka.BrokerEpoch
	// PreviousIncarnations are processes whose logs this one has whole; none where that is not known.
	PreviousIncarnations []kafka.UUID
}

const notRegistered = -1

// How long to wait when something did not work.
const (
	firstBackoff = 50 * time.Millisecond
	longestPause = time.Second
)

// maxShutdown is Kafka's limit for a controlled shutdown (BrokerServer.shutdown).
const maxShutdown = 5 * time.Minute

// lifecycle is this broker's standing towards the active controller: Kafka's BrokerLifecycleManager (KIP-631). It is pure:
// Step says which command is to be submitted now, and Answered takes what came of it; one is under way at a time. Commands are
// submitted once: what is repeated is made anew, of what is true then.
type lifecycle struct {
	o            *Options
	logger       *slog.Logger
	state        State
	registration Registration
	registered   bool
	epoch        kafka.BrokerEpoch // notRegistered before the first registration

	due      time.Time // of the next command; zero: when something happens
	asked    controller.Command
	askedAt  time.Time
	failures int       // since the last answer
	failing  time.Time // since then
	warned   bool      // of that
	taken    bool      // another process has the id: that was said
	turned   bool      // somebody else leads since then
	began    time.Time // Start
	pending  time.Time // the controlled shutdown began
	unfenced int64     // index of the image in which this broker first was unfenced; with Running
	up       bool      // that is published

	caughtUp  bool                           // this node has published the registration
	told      []controller.UnreachableBroker // with the last heartbeat
	dirs      []failedDir
	granted   time.Time // when the last heartbeat that was granted was sent: the lease begins there
	leaseLost bool
	mute      bool            // its disks do not answer
	image     *metadata.Image // of the last view
}

type failedDir struct {
	id   kafka.DirectoryID
	at   time.Time
	told bool
}

// view is what the lifecycle goes by, beside time and answers.
type view struct {
	image       *metadata.Image // that this node has published
	alone       bool            // nobody else is in the cluster, and this node is the active controller
	unreachable []controller.UnreachableBroker
	stalled     time.Duration // how long its disks have kept this broker waiting by now
}

func newLifecycle(o *Options) *lifecycle {
	return &lifecycle{o: o, logger: o.Logger, registration: o.Registration, epoch: notRegistered, image: metadata.Empty()}
}

// begin lets the broker register.
func (l *lifecycle) begin(now time.Time) {
	l.state, l.began, l.due = Starting, now, now
}

// Step returns the command that is due, or nil. An error is final: the broker must not go on.
func (l *lifecycle) Step(now time.Time, v view) (controller.Command, error) {
	l.look(now, v)
	if err := l.overdue(now); err != nil {
		return nil, err
	}
	if !l.ready(now) {
		return nil, nil
	}
	if l.mustBeSilent(v) {
		l.due = now.Add(l.o.HeartbeatInterval)
		return nil, nil
	}
	l.due, l.askedAt = time.Time{}, now
	if l.registered {
		l.asked = l.heartbeat(v)
	} else {
		l.asked = l.register()
	}
	return l.asked, nil
}

// ready reports whether Step has a command.
func (l *lifecycle) ready(now time.Time) bool {
	return l.state != NotRunning && l.state != ShuttingDown && l.asked == nil && !l.due.IsZero() && !now.Before(l.due)
}

// mustBeSilent reports whether a heartbeat would say too much: that a broker is well whose disks neither answer nor fail. What
// it leads takes no records then, and somebody else could. One that goes away says so all the same.
func (l *lifecycle) mustBeSilent(v view) bool {
	silent := v.stalled >= l.o.DirFailureTimeout && l.registered && l.state != PendingControlledShutdown
	switch {
	case silent && !l.mute:
		l.logger.Error("a disk does not answer; the controller hears no more of this broker until it does", "broker", l.o.Self, "waited", v.stalled.String())
	case !silent && l.mute:
		l.logger.Info("the disks answer again", "broker", l.o.Self)
	}
	l.mute = silent
	return silent
}

// Next is when Step has something to do though nothing happens; zero for never.
func (l *lifecycle) Next() time.Time {
	if l.state == NotRunning || l.state == ShuttingDown {
		return time.Time{}
	}
	var next time.Time
	if l.asked == nil {
		next = l.due
	}
	if l.state == PendingControlledShutdown {
		next = sooner(next, l.pending.Add(maxShutdown))
	}
	for _, d := range l.dirs {
		if !d.told {
			next = sooner(next, d.at.Add(l.o.DirFailureTimeout))
		}
	}
	if at, ok := l.leaseEnd(); ok {
		next = sooner(next, at)
	}
	return next
}

// soon makes the next command due.
func (l *lifecycle) soon(now time.Time) { l.due = sooner(l.due, now) }

// look takes what changed around the broker. What others wait for is told at once and not at the next interval.
func (l *lifecycle) look(now time.Time, v view) {
	if l.registered && !l.caughtUp && v.image.Index >= int64(l.epoch) {
		l.caughtUp = true
		l.state = max(l.state, Recovery)
		l.soon(now)
	}
	if l.state >= Running && !l.up && l.unfenced > 0 && v.image.Index >= l.unfenced {
		l.up = true
	}
	if l.registered && !v.alone && l.due.IsZero() && l.asked == nil { // it is alone no more
		l.granted = now
		l.soon(now)
	}
	if l.registered && !slices.Equal(l.told, v.unreachable) {
		l.soon(now)
	}
	if v.image != l.image {
		if l.registered && someoneLeaves(l.image, v.image, l.o.Self) {
			l.soon(now) // it goes when everybody has seen that
		}
		_, was := l.image.Brokers.ByID(l.o.Self)
		if _, is := v.image.Brokers.ByID(l.o.Self); l.registered && was && !is {
			l.soon(now) // it was unregistered, of which who is alone would hear by no heartbeat
		}
		l.image = v.image
	}
}

// someoneLeaves reports whether another broker began a controlled shutdown between two images.
func someoneLeaves(from, to *metadata.Image, self kafka.BrokerID) bool {
	for b := range to.Brokers.All() {
		if b.ID == self || !b.InControlledShutdown {
			continue
		}
		if old, known := from.Brokers.ByID(b.ID); !known || !old.InControlledShutdown {
			return true
		}
	}
	return false
}

// overdue ends what has waited for too long.
func (l *lifecycle) overdue(now time.Time) error {
	for _, d := range l.dirs {
		if !d.told && now.Sub(d.at) >= l.o.DirFailureTimeout {
			return fmt.Errorf("no controller could be told within %v that directory %v failed", l.o.DirFailureTimeout, d.id)
		}
	}
	if l.state == PendingControlledShutdown && now.Sub(l.pending) >= maxShutdown {
		l.logger.Warn("the controlled shutdown did not end in time; the broker stops without", "limit", maxShutdown.String())
		l.state = ShuttingDown
	}
	if at, ok := l.leaseEnd(); ok && !now.Before(at) {
		l.setLeaseLost(true)
	}
	return nil
}

// leaseEnd is when this broker, unheard, is no longer sure of its session; ok is false where that is of no interest.
func (l *lifecycle) leaseEnd() (at time.Time, ok bool) {
	if !l.o.SelfFence || l.leaseLost || l.state == ShuttingDown || l.granted.IsZero() || l.due.IsZero() && l.asked == nil {
		return time.Time{}, false
	}
	return l.granted.Add(l.o.SessionTimeout), true
}

func (l *lifecycle) setLeaseLost(lost bool) {
	if l.leaseLost == lost || !l.o.SelfFence {
		return
	}
	l.leaseLost = lost
	if l.o.LeaseLost != nil {
		l.o.LeaseLost(lost)
	}
}

func (l *lifecycle) register() controller.Command {
	r := l.registration
	previous := r.PreviousEpoch
	if l.epoch != notRegistered { // the logs are whole up to here; whether that is the last who had them, the controller knows
		previous = l.epoch
	}
	return controller.RegisterBroker{
		ClusterID: l.o.ClusterID, Broker: l.o.Self, Incarnation: r.Incarnation, Listeners: r.Listeners, Rack: r.Rack, Directories: r.Directories,
		PreviousEpoch: previous, PreviousIncarnations: r.PreviousIncarnations,
	}
}

func (l *lifecycle) heartbeat(v view) controller.Command {
	h := controller.BrokerHeartbeat{
		Broker: l.o.Self, Epoch: l.epoch, MetadataOffset: v.image.Index, WantFence: l.state == Starting,
		WantShutDown: l.state == PendingControlledShutdown, Unreachable: slices.Clone(v.unreachable),
	}
	for _, d := range l.dirs {
		h.OfflineDirs = append(h.OfflineDirs, d.id)
	}
	l.told = h.Unreachable
	return h
}

// Answered takes what came of the command that Step returned. index is that of the image in which the reply is true. alone is
// as in view. An error is final.
func (l *lifecycle) Answered(now time.Time, reply controller.Reply, index int64, err error, alone bool) error {
	cmd := l.asked
	l.asked = nil
	if l.state == ShuttingDown {
		return nil
	}
	switch cmd := cmd.(type) {
	case controller.RegisterBroker:
		if err != nil {
			return l.notRegistered(now, err)
		}
		l.isRegistered(now, reply.(controller.RegisterBrokerReply).Epoch)
		l.registered = slices.Equal(cmd.Listeners, l.registration.Listeners) // else it has moved meanwhile
		if !l.registered {
			l.soon(now)
		}
	case controller.BrokerHeartbeat:
		if err == nil {
			l.wasGranted(now, cmd, reply.(controller.BrokerHeartbeatReply), index, alone)
			return nil
		}
		l.wasRefused(now, err)
	}
	return nil
}

func (l *lifecycle) isRegistered(now time.Time, epoch kafka.BrokerEpoch) {
	l.answered()
	l.registered, l.epoch, l.caughtUp = true, epoch, false
	l.logger.Debug("registered with the controller", "broker", l.o.Self, "epoch", epoch)
	// The heartbeat that follows keeps the session while the image is catching up; where the registration is published at
	// once it would be in the way.
	l.due = now.Add(l.o.HeartbeatInterval)
}

// notRegistered tries again, but where nothing can become of it.
func (l *lifecycle) notRegistered(now time.Time, err error) error {
	err = fmt.Errorf("register broker %d: %w", l.o.Self, err)
	starting := l.epoch == notRegistered
	code := kafka.CodeOf(err)
	switch {
	case code == kafka.InconsistentClusterID:
		return err
	case !starting || undecided(err) || code == kafka.DuplicateBrokerRegistration:
	default:
		return err
	}
	if starting && now.Sub(l.began) >= l.o.RegistrationTimeout {
		if code == kafka.DuplicateBrokerRegistration {
			return l.o.isTaken(err)
		}
		return fmt.Errorf("no controller has registered this broker within %v: %w", l.o.RegistrationTimeout, err)
	}
	if code == kafka.DuplicateBrokerRegistration && !l.taken {
		l.taken, l.warned = true, true
		l.logger.Warn("another process is registered as this broker; if it was this node's own and was killed, this one takes its place when its session is over, else each node needs a node.id of its own",
			"broker", l.o.Self, "session", l.o.SessionTimeout.String())
	}
	l.retry(now, err)
	return nil
}

// isTaken says that this node's id has another process, as it was found again and again. The code of err is left out: it stands
// for settings that can be corrected, and the data directory is that node's by now.
func (o *Options) isTaken(err error) error {
	return fmt.Errorf("another process runs as node %d of this cluster, and has for %v; each node needs a node.id and a data directory of its own: %v",
		o.Self, o.RegistrationTimeout, err)
}

// patience is for how long failures are no news: another controller is elected meanwhile, and at a start the other nodes may be
// starting as well.
func (l *lifecycle) patience() time.Duration {
	election := 2*l.o.ElectionTimeout + l.o.HeartbeatInterval
	if l.epoch == notRegistered {
		return 2 * election
	}
	return election
}

// retry makes the next attempt due, later each time, but at once where there is a new controller.
func (l *lifecycle) retry(now time.Time, err error) {
	if l.failures == 0 {
		l.failing = now
	}
	if waited := now.Sub(l.failing); waited >= l.patience() && !l.warned {
		l.warned = true
		l.logger.Warn("no controller has heard this broker for a while", "waited", waited.String(), "error", err)
	}
	l.due = now.Add(backoff(l.failures))
	l.failures++
	if l.turned {
		l.due, l.turned = now, false
	}
}

// answered notes that a controller did what it was asked.
func (l *lifecycle) answered() {
	if l.warned {
		l.logger.Info("a controller hears this broker again")
	}
	l.failures, l.warned, l.turned, l.granted = 0, false, false, l.askedAt
}

// backoff is the pause after so many failures before.
func backoff(failures int) time.Duration {
	return min(firstBackoff<<min(failures, 10), longestPause)
}

func (l *lifecycle) wasGranted(now time.Time, cmd controller.BrokerHeartbeat, reply controller.BrokerHeartbeatReply, index int64, alone bool) {
	l.answered()
	l.setLeaseLost(false)
	for i := range l.dirs {
		l.dirs[i].told = l.dirs[i].told || slices.Contains(cmd.OfflineDirs, l.dirs[i].id)
	}
	pause := l.o.HeartbeatInterval
	switch l.state {
	case Recovery:
		if !reply.Fenced && !cmd.WantFence {
			l.state, l.unfenced = Running, index
			break
		}
		pause = min(firstBackoff, pause)
	case PendingControlledShutdown:
		if reply.ShouldShutDown {
			l.state = ShuttingDown
			return
		}
		if cmd.WantShutDown {
			pause = min(max(firstBackoff, now.Sub(l.pending)), pause)
		}
	}
	if alone && l.state == Running {
		return // nobody waits for the next one
	}
	l.due = sooner(l.due, now.Add(pause))
}

func (l *lifecycle) wasRefused(now time.Time, err error) {
	switch kafka.CodeOf(err) {
	case kafka.StaleBrokerEpoch, kafka.BrokerIDNotRegistered:
		if l.state == PendingControlledShutdown {
			l.state = ShuttingDown // it is out already
			return
		}
		l.logger.Warn("the controller does not know this registration; the broker registers again", "error", err)
		l.registered = false
		l.setLeaseLost(true)
	}
	l.retry(now, err)
}

// newController makes the next command due, now or when the one under way has failed: there is somebody to hear it.
func (l *lifecycle) newController(now time.Time) {
	l.failures = min(l.failures, 1)
	if l.asked != nil {
		l.turned = true
	} else if !l.due.IsZero() {
		l.soon(now)
	}
}

// dirFailed tells the controller of a directory that cannot be used any more.
func (l *lifecycle) dirFailed(now time.Time, id kafka.DirectoryID) {
	for _, d := range l.dirs {
		if d.id == id {
			return
		}
	}
	l.dirs = append(l.dirs, failedDir{id: id, at: now})
	slices.SortFunc(l.dirs, func(a, b failedDir) int { return cmp.Compare(a.id.String(), b.id.String()) })
	l.soon(now)
}

// moved replaces the listeners: the same incarnation registers again, and keeps its epoch.
func (l *lifecycle) moved(now time.Time, listeners []metadata.Endpoint) {
	if slices.Equal(l.registration.Listeners, listeners) {
		return
	}
	l.registration.Listeners = listeners
	if l.state != NotRunning {
		l.registered = false
		l.soon(now)
	}
}

// shutDown begins a controlled shutdown. One that nobody else would notice is over at once.
func (l *lifecycle) shutDown(now time.Time, alone bool) {
	switch {
	case l.state == PendingControlledShutdown || l.state == ShuttingDown:
	case l.state == Running && l.registered && !alone:
		l.state, l.pending = PendingControlledShutdown, now
		l.soon(now)
	default:
		l.state = ShuttingDown
	}
}
