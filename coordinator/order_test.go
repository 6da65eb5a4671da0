package coordinator

import (
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

// awaitNextLife returns when the shard answers again after a crash.
func (f *fixture) awaitNextLife() {
	for {
		g := gate{make(chan struct{}), make(chan struct{})}
		close(g.leave)
		select {
		case <-f.ask(g): // refused
		case <-g.entered:
			return
		}
	}
}

// What was asked before an append that fails has nothing to do with it.
func TestAReadIsNotAnsweredWithTheErrorOfALaterAppend(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	p.set(func(p *partition) { p.mu.appendErr = kafka.Errorf(kafka.NotEnoughReplicas, "") })
	answers := f.together(balances{}, deposit{account: "a", amount: 1})
	f.wantBody(<-answers[0], map[string]int64{})
	f.wantCode(<-answers[1], kafka.CoordinatorNotAvailable)
}

// A shard that is loaded anew waits for all that the log holds, whatever is told of appends of its life before.
func TestALifeDoesNotTakeCommitsOfTheOneBeforeForItsOwn(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	p.set(func(p *partition) { p.mu.hold = true })
	for range 3 {
		f.ask(deposit{account: "a", amount: 1})
		f.turned()
	}
	f.wantCode(f.call(crash{}), kafka.UnknownServerError)
	f.awaitNextLife()
	read := f.ask(balances{})
	f.turned()
	p.commitBelow(2)
	f.turned()
	f.unanswered(read)
	p.commit()
	f.wantBody(<-read, map[string]int64{"a": 3})
}

// An append may be committed at once while the actor has yet to hear of the one before.
func TestCommitsThatComeLateChangeNothing(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	p.set(func(p *partition) { p.mu.hold = true })
	first := f.ask(deposit{account: "a", amount: 1})
	f.turned()
	turn := gate{make(chan struct{}), make(chan struct{})}
	second := f.ask(deposit{account: "a", amount: 1})
	f.ask(turn)
	<-turn.entered // the second is decided, and not appended
	p.commit()
	close(turn.leave)
	f.wantBody(<-first, 1)
	f.wantBody(<-second, 2)
	f.turned()
	f.wantBody(f.call(balances{}), map[string]int64{"a": 2})
}

func TestWaitingEndsInTimeWhateverTimersAreSet(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	f.ask(remind{"later", time.Hour})
	p.set(func(p *partition) { p.mu.hold = true })
	waiting := f.ask(deposit{account: "a", amount: 1})
	f.turned()
	for len(waiting) == 0 { // the actor may only be going to sleep
		f.clock.Advance(commitTimeout)
		time.Sleep(10 * time.Microsecond)
		if f.clock.Now().Sub(time.UnixMilli(1_700_000_000_000)) > time.Hour/2 {
			t.Fatal("it waits for the timer")
		}
	}
	f.wantCode(<-waiting, kafka.CoordinatorNotAvailable)
}

func TestAnEarlierTimerWakesTheActorEarlier(t *testing.T) {
	f := newFixture(t).started(newPartition())
	f.ask(remind{"late", time.Hour})
	f.turned()
	early := f.ask(remind{"early", time.Second})
	f.turned()
	for range 100 {
		f.clock.Advance(time.Second)
		time.Sleep(10 * time.Microsecond)
	}
	f.wantBody(<-early, "fired")
}

// Nobody waits for such an input, and nobody gives it again.
func TestInputsOutliveAShard(t *testing.T) {
	f := newFixture(t).started(newPartition())
	f.wantBody(f.call(deposit{account: "a", amount: 1}), 1)
	turn := gate{make(chan struct{}), make(chan struct{})}
	f.ask(turn)
	<-turn.entered
	crashed := f.ask(crash{})
	f.runtime.Each(bonus{1})
	close(turn.leave)
	f.wantCode(<-crashed, kafka.UnknownServerError)
	f.runtime.Each(bonus{2})
	f.awaitNextLife()
	f.wantBody(f.call(balances{}), map[string]int64{"a": 3})
}

// A partition that is lost just when it is loaded is not taken up again.
func TestResignWhileLoading(t *testing.T) {
	f := newFixture(t)
	p := &slowPartition{partition: newPartition(), awaits: make(chan struct{}), goOn: make(chan struct{})}
	p.appendRaw(bankBatch(batch.None, bankRecord(time.UnixMilli(0), "a", 7, 1)))
	f.runtime.Elect(0, 0, p)
	<-p.awaits
	f.runtime.Resign(0)
	close(p.goOn)
	f.runtime.Close() // waits for the actor
}

// slowPartition tells when its records are read, and waits.
type slowPartition struct {
	*partition
	awaits, goOn chan struct{}
}

func (p *slowPartition) Await(epoch kafka.LeaderEpoch, end int64, committed func(error)) (bool, error) {
	close(p.awaits)
	<-p.goOn
	return p.partition.Await(epoch, end, committed)
}
