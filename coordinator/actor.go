package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
)

// How long an actor waits before it tries again to load what could not be read: a disk, or a process that has no file
// descriptor left, may recover.
const (
	firstRest   = time.Second
	longestRest = 30 * time.Second
)

// actor owns the shard of one partition for one leader epoch. All but the mailbox belongs to its goroutine.
type actor struct {
	runtime   *Runtime
	tp        kafka.TopicPartition
	epoch     kafka.LeaderEpoch
	partition Partition
	mailbox   *mailbox

	shard    Shard
	inbox    []any // taken out of the mailbox; before read it has been handled
	read     int
	current  *Call            // is being given to the shard
	held     map[*Call]uint64 // the shard answers them later; the number tells their order
	holds    uint64
	outcomes []Outcome // to be given to the shard
	timers   timers
	appends  appends
	loaded   bool      // this life is past its beginning
	ended    bool      // it was the last one; only where it is stepped
	unread   int       // lives in a row that ended because the partition could not be read
	resumeAt time.Time // when the next one begins; zero for at once

	alarm   clock.Timer // wakes the actor at alarmAt; nil where none is set
	alarmAt time.Time
}

func newActor(r *Runtime, tp kafka.TopicPartition, epoch kafka.LeaderEpoch, p Partition) *actor {
	a := &actor{runtime: r, tp: tp, epoch: epoch, partition: p, mailbox: newMailbox()}
	if start, end := p.Offsets(); start == end {
		// Nothing is to be loaded: calls may wait for that. So whoever had the topic made is not told to come again.
		a.mailbox.set(active)
	}
	return a
}

// submit asks the shard. It may be called of nil, which coordinates nothing.
func (a *actor) submit(c *Call) {
	err := error(errNotCoordinator)
	if a != nil {
		err = a.mailbox.put(c)
	}
	if err != nil {
		c.Done(nil, err)
	}
}

// run is the actor's goroutine: one life of a shard and, where its state cannot be trusted any more, another one.
func (a *actor) run() {
	defer a.runtime.running.Done()
	for again := true; again; {
		a.rest()
		err := a.caught(a.begin)
		for err == nil {
			if err = a.caught(a.turn); err == nil {
				a.sleep()
			}
		}
		again = a.end(err)
	}
	a.silence()
}

// rest waits until the next life begins, unless there is none. What comes meanwhile waits in the mailbox.
func (a *actor) rest() {
	for !a.mailbox.isOver() {
		left := a.resumeAt.Sub(a.runtime.Clock.Now())
		if a.resumeAt.IsZero() || left <= 0 {
			return
		}
		timer := a.runtime.Clock.NewTimer(left)
		select {
		case <-a.mailbox.wake:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// end ends a life, for the reason of err, and reports whether there is another one.
func (a *actor) end(err error) (again bool) {
	a.logEnd(err)
	a.loaded, a.resumeAt = false, time.Time{}
	if errors.Is(err, errUnread) {
		a.resumeAt = a.runtime.Clock.Now().Add(min(firstRest<<min(a.unread, 10), longestRest))
		a.unread++
		a.mailbox.settle()
	}
	again = errors.Is(err, errStartOver) || errors.Is(err, errUnread)
	if again {
		a.mailbox.set(loading)
	} else {
		a.mailbox.set(over)
	}
	a.answerAll()
	return again
}

// caught turns a panic of f, of which the caller is told, into the end of a life. One that was loaded begins anew.
func (a *actor) caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			if a.loaded {
				err = fmt.Errorf("%w: %w", errStartOver, err)
			}
			a.answerCurrent(errUnexpected)
		}
	}()
	return f()
}

// begin is the beginning of a life: loading. After it come turns, until one of them says why the life ends.
func (a *actor) begin() error {
	a.held, a.timers, a.outcomes = make(map[*Call]uint64), timers{}, nil
	a.appends.begin(a.runtime.Codec)
	if err := a.load(); err != nil {
		return err
	}
	if err := a.give(Loaded{}); err != nil {
		return err
	}
	if err := a.settleAll(); err != nil {
		return err
	}
	a.loaded, a.unread = true, 0
	a.mailbox.set(active)
	return nil
}

// turn handles all that has come: first what others said, so that a heartbeat that is there counts, then the timers. Those
// that are set meanwhile are left to the next turn, so that one that sets itself for now keeps nobody waiting.
func (a *actor) turn() error {
	var isOver bool
	if a.inbox, isOver = a.mailbox.take(a.inbox); isOver {
		a.read = 0
		return errStopped
	}
	for a.read = 0; a.read < len(a.inbox); {
		item := a.inbox[a.read]
		a.read++
		if err := a.handle(item); err != nil {
			return err
		}
	}
	a.expire()
	for sets := a.timers.sets; ; {
		key, ok := a.timers.due(a.runtime.Clock.Now(), sets)
		if !ok {
			return a.settleAll()
		}
		if err := a.give(Fired{key}); err != nil {
			return err
		}
	}
}

func (a *actor) handle(item any) error {
	if c, ok := item.(commitment); ok {
		if c.err != nil {
			return fmt.Errorf("%w: %w", errDeposed, c.err)
		}
		a.commit(c.sequence)
	} else if err := a.give(item); err != nil {
		return err
	}
	return a.giveOutcomes()
}

func (a *actor) giveOutcomes() error {
	for len(a.outcomes) > 0 {
		next := a.outcomes[0]
		a.outcomes = a.outcomes[1:]
		if err := a.give(next); err != nil {
			return err
		}
	}
	return nil
}

// give has the shard decide on an input, and takes what it decides.
func (a *actor) give(in Input) error {
	a.current, _ = in.(*Call)
	if err := a.settle(); err != nil {
		return err
	}
	out := a.shard.Step(a.runtime.Clock.Now(), in)
	for _, t := range out.Timers {
		a.timers.set(t)
	}
	return a.add(&out)
}

// next is when a turn is due even if nothing comes.
func (a *actor) next() (at time.Time, ok bool) {
	at, ok = a.timers.next()
	if len(a.appends.waiting) > 0 {
		if deadline := a.appends.waiting[0].deadline; !ok || deadline.Before(at) {
			at, ok = deadline, true
		}
	}
	return at, ok
}

// sleep waits until something is in the mailbox, a timer is due or an append has waited too long.
func (a *actor) sleep() {
	at, ok := a.next()
	if !ok {
		a.silence()
		<-a.mailbox.wake
		return
	}
	if a.alarm == nil || at.Before(a.alarmAt) { // else it wakes too early, which costs less than a new one each time
		a.silence()
		a.alarm, a.alarmAt = a.runtime.Clock.NewTimer(at.Sub(a.runtime.Clock.Now())), at
	}
	select {
	case <-a.mailbox.wake:
	case <-a.alarm.C():
		a.alarm = nil
	}
}

func (a *actor) silence() {
	if a.alarm != nil {
		a.alarm.Stop()
		a.alarm = nil
	}
}

// answerAll ends a life: whoever waits is told to look for the coordinator, and inputs that nobody waits for are left to
// the next life.
func (a *actor) answerAll() {
	a.answerCurrent(errNotCoordinator)
	for _, c := range slices.SortedFunc(maps.Keys(a.held), func(x, y *Call) int { return cmp.Compare(a.held[x], a.held[y]) }) {
		c.Done(nil, errNotCoordinator)
	}
	a.appends.abandon(errNotCoordinator)
	rest := append([]any(nil), a.inbox[a.read:]...)
	a.inbox, a.read = nil, 0
	more, _ := a.mailbox.take(nil)
	for _, item := range append(rest, more...) {
		if c, ok := item.(*Call); ok {
			c.Done(nil, errNotCoordinator)
		} else {
			_ = a.mailbox.put(item) // refused where there is no next life
		}
	}
}

func (a *actor) answerCurrent(err error) {
	if c := a.current; c != nil {
		a.current = nil
		c.Done(nil, err)
	}
}

func (a *actor) logEnd(err error) {
	l := a.runtime.Logger.With("partition", a.tp, "leader_epoch", a.epoch)
	switch {
	case errors.Is(err, errStopped), errors.Is(err, errDeposed) && kafka.CodeOf(err) != kafka.KafkaStorageError: // it goes on elsewhere
		l.Debug("a coordinator's partition is no longer coordinated here", "reason", err)
	case errors.Is(err, errDeposed):
		l.Warn("a coordinator's partition takes no appends any more", "error", err)
	case errors.Is(err, errStartOver):
		a.runtime.metrics.restarts.Inc()
		l.Error("a coordinator's partition is loaded anew", "error", err)
	default:
		a.runtime.metrics.failures.Inc()
		l.Error("a coordinator's partition cannot be loaded and is not served", "error", err)
	}
}
