package coordinator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

func TestCallsGoToTheOwnedPartitionOfTheirKey(t *testing.T) {
	f := newFixture(t)
	f.runtime.SetPartitions(0)
	f.wantCode(f.call(balances{}), kafka.NotCoordinator) // there is no topic
	f.runtime.SetPartitions(50)
	p := newPartition()
	f.runtime.Elect(12, 0, p)
	ask := func(submit func(*Call)) answer {
		for {
			answers := make(chan answer, 1)
			submit(&Call{Body: deposit{account: "a", amount: 1}, Done: func(body any, err error) { answers <- answer{body, err} }})
			if a := <-answers; kafka.CodeOf(a.err) != kafka.CoordinatorLoadInProgress {
				return a
			}
		}
	}
	f.wantBody(ask(func(c *Call) { f.runtime.Submit("my-group", c) }), 1) // hashes to 12
	f.wantBody(ask(func(c *Call) { f.runtime.SubmitTo(12, c) }), 2)
	f.wantCode(ask(func(c *Call) { f.runtime.Submit("abc", c) }), kafka.NotCoordinator)
	f.wantCode(ask(func(c *Call) { f.runtime.SubmitTo(11, c) }), kafka.NotCoordinator)
	if got := f.runtime.Owned(); len(got) != 1 || got[0] != 12 {
		t.Fatalf("owned: %v", got)
	}
	f.runtime.Resign(12)
	f.wantCode(ask(func(c *Call) { f.runtime.SubmitTo(12, c) }), kafka.NotCoordinator)
}

// Who had the topic made asks at once.
func TestAnEmptyPartitionIsThereAtOnce(t *testing.T) {
	for range 100 {
		f := newFixture(t)
		f.elect(newPartition())
		f.wantBody(f.call(deposit{account: "a", amount: 1}), 1)
		f.runtime.Close()
	}
}

func TestRepliesWaitForTheCommit(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	p.set(func(p *partition) { p.mu.hold = true })
	watcher := f.ask(watch{"a"})
	first := f.ask(deposit{account: "a", amount: 5})
	read := f.ask(balances{}) // shows what the deposit did: it waits, too
	confirmation := f.ask(deposit{account: "b", amount: 1, confirm: true})
	f.turned()
	for _, answers := range []<-chan answer{watcher, first, read, confirmation} {
		f.unanswered(answers)
	}
	p.commit()
	f.wantBody(<-watcher, 5)
	f.wantBody(<-first, 5)
	f.wantBody(<-confirmation, "confirmed")
	if got := (<-read).body.(map[string]int64)["a"]; got != 5 {
		t.Fatalf("the balance read is %d", got)
	}
	f.wantBody(f.call(deposit{account: "a", amount: 1}), 6) // and now all is committed at once
}

func TestRepliesDoNotWaitForEver(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	p.set(func(p *partition) { p.mu.hold = true })
	first := f.ask(deposit{account: "a", amount: 5})
	confirmation := f.ask(deposit{account: "b", amount: 1, confirm: true})
	for len(p.records()) < 2 {
		time.Sleep(10 * time.Microsecond)
	}
	// The clock moves until the actor, which may just be going to sleep, has seen it.
	advance := func(answers <-chan answer) answer {
		for {
			select {
			case a := <-answers:
				return a
			default:
				f.clock.Advance(commitTimeout)
				time.Sleep(10 * time.Microsecond)
			}
		}
	}
	f.wantCode(advance(first), kafka.CoordinatorNotAvailable)
	f.wantCode(advance(confirmation), kafka.CoordinatorNotAvailable)
	late := f.ask(balances{}) // still behind the same records
	f.wantCode(advance(late), kafka.CoordinatorNotAvailable)
	p.commit()
	if got := f.call(balances{}).body.(map[string]int64); got["a"] != 5 || got["b"] != 1 {
		t.Fatalf("what came true late is not there: %v", got)
	}
}

func TestWhatALoadFoundMustBeCommittedBeforeItIsShown(t *testing.T) {
	p := newPartition()
	p.set(func(p *partition) { p.mu.hold = true })
	p.appendRaw(bankBatch(batch.None, bankRecord(time.UnixMilli(0), "a", 7, 1)))
	f := newFixture(t)
	f.elect(p)
	var read <-chan answer
	for { // until it is loaded: then the answer waits
		read = f.ask(balances{})
		select {
		case a := <-read: // at once, or it was put to the shard
			f.wantCode(a, kafka.CoordinatorLoadInProgress)
			continue
		default:
		}
		break
	}
	f.turned()
	f.unanswered(read)
	p.commit()
	if got := (<-read).body.(map[string]int64)["a"]; got != 7 {
		t.Fatalf("loaded %d", got)
	}
}

func TestAFailedAppendChangesNothing(t *testing.T) {
	for _, c := range []struct {
		code     kafka.Code
		want     kafka.Code
		survives bool
	}{
		{kafka.NotEnoughReplicas, kafka.CoordinatorNotAvailable, true},
		{kafka.UnknownTopicOrPartition, kafka.CoordinatorNotAvailable, true},
		{kafka.RequestTimedOut, kafka.CoordinatorNotAvailable, true},
		{kafka.MessageTooLarge, kafka.UnknownServerError, true},
		{kafka.RecordListTooLarge, kafka.UnknownServerError, true},
		{kafka.CorruptMessage, kafka.UnknownServerError, true},
		{kafka.NotLeaderOrFollower, kafka.NotCoordinator, false},
		{kafka.FencedLeaderEpoch, kafka.NotCoordinator, false},
		{kafka.KafkaStorageError, kafka.NotCoordinator, false},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			p := newPartition()
			f := newFixture(t).started(p)
			f.wantBody(f.call(deposit{account: "a", amount: 1}), 1)
			waiting := f.ask(watch{"b"})
			p.set(func(p *partition) { p.mu.appendErr = kafka.Errorf(c.code, ""); p.mu.checkErr = p.mu.appendErr })
			f.wantCode(f.call(deposit{account: "a", amount: 1}), c.want)
			if c.survives {
				f.wantCode(f.call(deposit{account: "a", amount: 1, confirm: true}), c.want)
			}
			p.set(func(p *partition) { p.mu.appendErr, p.mu.checkErr = nil, nil })
			if !c.survives {
				f.wantCode(<-waiting, kafka.NotCoordinator)
				f.wantCode(f.call(balances{}), kafka.NotCoordinator)
				// Only a disk that failed is worth a line: leaderships come and go.
				if told := strings.Contains(f.log.String(), "takes no appends"); told != (c.code == kafka.KafkaStorageError) {
					t.Errorf("the log says %q", f.log)
				}
				return
			}
			f.wantBody(f.call(deposit{account: "a", amount: 1}), 2) // not 3
			f.wantBody(f.call(deposit{account: "b", amount: 1}), 1)
			f.wantBody(<-waiting, 1) // soft state is as it was
		})
	}
}

func TestRecordsThatFitIntoNoBatchFailAlone(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	p.set(func(p *partition) { p.mu.max = 300 })
	large := deposit{account: strings.Repeat("x", 300), amount: 1}
	answers := f.together(watch{"b"}, deposit{account: "a", amount: 1}, large, balances{}, deposit{account: "b", amount: 1})
	f.wantBody(<-answers[0], 1)
	f.wantBody(<-answers[1], 1)
	f.wantCode(<-answers[2], kafka.UnknownServerError)
	if got := (<-answers[3]).body.(map[string]int64); got["a"] != 1 || len(got) != 1 {
		t.Fatalf("balances %v", got)
	}
	f.wantBody(<-answers[4], 1)
}

func TestWhatIsThereTogetherIsOneAppend(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	var calls []any
	const n = 100
	for i := range n {
		calls = append(calls, deposit{account: "a", amount: 1, id: uint64(i), confirm: i == n/2})
	}
	for i, answers := range f.together(calls...) {
		if i == n/2 {
			f.wantBody(<-answers, "confirmed")
		} else {
			f.wantBody(<-answers, i+1) // each was decided on the balance before
		}
	}
	if n := p.mu.appends; n != 1 {
		t.Errorf("%d appends", n)
	}
	p.set(func(p *partition) { p.mu.max = 500 })
	for _, answers := range f.together(calls...) {
		<-answers
	}
	if got := len(p.records()); got != 2*n {
		t.Errorf("%d records", got)
	}
	for _, b := range p.mu.batches[1:] {
		if len(b) > 500 {
			t.Errorf("a batch of %d bytes", len(b))
		}
	}
}

// Several steps whose one append fails leave hard state ahead of the log: then the log counts.
func TestAnAppendThatFailsAfterItsRecordsWereAppliedStartsOver(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	f.wantBody(f.call(deposit{account: "a", amount: 7}), 7)
	waiting := f.ask(watch{"b"})
	p.set(func(p *partition) { p.mu.appendErr = kafka.Errorf(kafka.NotEnoughReplicas, "") }) // Check does not see it coming
	answers := f.together(deposit{account: "a", amount: 1}, deposit{account: "a", amount: 1, confirm: true}, balances{})
	f.wantCode(<-answers[0], kafka.CoordinatorNotAvailable)
	f.wantCode(<-answers[2], kafka.CoordinatorNotAvailable)
	f.wantCode(<-answers[1], kafka.NotCoordinator) // no shard is left to take the outcome
	f.wantCode(<-waiting, kafka.NotCoordinator)
	p.set(func(p *partition) { p.mu.appendErr = nil })
	f.wantBody(f.eventually(deposit{account: "a", amount: 1}), 8)
	if log := f.log.String(); !strings.Contains(log, "loaded anew") {
		t.Errorf("the log says %s", log)
	}
}

// Where it can be told, nothing is applied that would not be appended, and the shard lives on.
func TestWhatIsThereTogetherFailsOneByOneWhereThatIsKnown(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	waiting := f.ask(watch{"a"})
	p.set(func(p *partition) {
		p.mu.appendErr = kafka.Errorf(kafka.NotEnoughReplicas, "")
		p.mu.checkErr = p.mu.appendErr
	})
	for _, answers := range f.together(deposit{account: "b", amount: 1}, deposit{account: "b", amount: 1, confirm: true}) {
		f.wantCode(<-answers, kafka.CoordinatorNotAvailable)
	}
	f.wantBody(f.call(balances{}), map[string]int64{})
	p.set(func(p *partition) { p.mu.appendErr, p.mu.checkErr = nil, nil })
	f.wantBody(f.call(deposit{account: "a", amount: 1}), 1)
	f.wantBody(<-waiting, 1)
}

func TestTimersFireOnceAndNeverStale(t *testing.T) {
	f := newFixture(t).started(newPartition())
	first := f.ask(remind{"k", time.Second})
	f.call(balances{})
	f.clock.Advance(500 * time.Millisecond)
	second := f.ask(remind{"k", time.Second}) // sets it anew: at 1.5 s both are answered
	other := f.ask(remind{"other", 2 * time.Second})
	f.call(balances{})
	f.clock.Advance(600 * time.Millisecond)
	f.call(balances{})
	f.unanswered(first)
	f.wantBody(f.call(cancel{"other"}), "cancelled")
	f.clock.Advance(time.Second)
	f.wantBody(<-first, "fired")
	f.wantBody(<-second, "fired")
	f.clock.Advance(time.Hour)
	f.call(balances{})
	f.unanswered(other)
	third := f.ask(remind{"k", 0}) // due at once
	f.wantBody(<-third, "fired")
}

// Such a timer is a fault of the shard, or a client's wish that nobody thought of; the others must be served all the same.
func TestATimerThatSetsItselfForNowKeepsNobodyWaiting(t *testing.T) {
	f := newFixture(t).started(newPartition())
	f.wantBody(f.call(repeat{true}), true)
	f.wantBody(f.call(deposit{"a", 1, 1, false}), 1)
	reminded := f.ask(remind{"k", time.Second})
	f.call(balances{})
	f.clock.Advance(time.Second)
	f.wantBody(<-reminded, "fired")
	f.wantBody(f.call(repeat{false}), false)
}

func TestResignAnswersEveryCall(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	p.set(func(p *partition) { p.mu.hold = true })
	calls := []<-chan answer{f.ask(watch{"a"}), f.ask(remind{"k", time.Second}), f.ask(deposit{account: "b", amount: 1}), f.ask(deposit{account: "c", amount: 1, confirm: true})}
	f.runtime.Resign(0)
	for _, answers := range append(calls, f.ask(balances{})) {
		f.wantCode(<-answers, kafka.NotCoordinator)
	}
	f.runtime.Close()
	for _, answers := range calls {
		f.unanswered(answers) // twice
	}
}

func TestADeposedShardCannotWrite(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	f.wantBody(f.call(deposit{account: "a", amount: 1}), 1)
	p.depose(false) // and the runtime does not know yet
	f.wantCode(f.call(deposit{account: "a", amount: 1}), kafka.NotCoordinator)
	if got := len(p.records()); got != 1 {
		t.Fatalf("%d records", got)
	}
	f.wantCode(f.call(balances{}), kafka.NotCoordinator)
	f.elect(p)
	f.wantBody(f.eventually(deposit{account: "a", amount: 1}), 2)
}

func TestAnElectionInANewEpochBeginsAnew(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	f.wantBody(f.call(deposit{account: "a", amount: 1}), 1)
	waiting := f.ask(watch{"a"})
	f.elect(p) // the same epoch again, as when the ISR changes
	f.wantBody(f.call(deposit{account: "a", amount: 1}), 2)
	f.wantBody(<-waiting, 2)
	waiting = f.ask(watch{"a"})
	p.depose(false)
	f.elect(p)
	f.wantCode(<-waiting, kafka.NotCoordinator)
	f.wantBody(f.eventually(deposit{account: "a", amount: 1}), 3)
}

func TestAPanicStartsTheShardOver(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	f.wantBody(f.call(deposit{account: "a", amount: 1}), 1)
	waiting := f.ask(watch{"a"})
	f.wantCode(f.call(crash{}), kafka.UnknownServerError)
	f.wantCode(<-waiting, kafka.NotCoordinator)
	f.wantBody(f.eventually(deposit{account: "a", amount: 1}), 2)
	if log := f.log.String(); !strings.Contains(log, "a crash was asked for") || !strings.Contains(log, "helper_test.go") {
		t.Fatalf("the log does not say what happened: %s", log)
	}
}

func TestLoading(t *testing.T) {
	at := time.UnixMilli(1000)
	var codecs [][]byte
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		codecs = append(codecs, bankBatch(codec, bankRecord(at, codec.String(), 1, 1), bankRecord(at, "gone", 1, 1)))
	}
	f := newFixture(t)
	p := newPartition()
	for _, b := range codecs {
		p.appendRaw(b)
	}
	p.appendRaw(batch.ControlBatch(batch.EndTxnMarker{Type: batch.Commit}, 5, 0, 0, 1000)) // its value is no balance
	p.appendRaw(bankBatch(batch.None, Record{Key: []byte("gone")}))
	p.set(func(p *partition) { p.mu.max = 1 }) // one batch at a time
	f.elect(p)
	got := f.eventually(balances{}).body.(map[string]int64)
	if len(got) != 5 || got["zstd"] != 1 || got["none"] != 1 {
		t.Fatalf("loaded %v", got)
	}
}

func TestWhileLoadingCallsAreRefusedAndInputsWait(t *testing.T) {
	f := newFixture(t)
	f.runtime.loading = make(chan struct{}, 1)
	f.runtime.loading <- struct{}{}
	p := newPartition()
	p.appendRaw(bankBatch(batch.None, bankRecord(time.UnixMilli(0), "a", 7, 1)))
	f.elect(p)
	f.wantCode(f.call(balances{}), kafka.CoordinatorLoadInProgress)
	f.runtime.Each(bonus{1})
	<-f.runtime.loading
	if got := f.eventually(balances{}).body.(map[string]int64)["a"]; got != 8 {
		t.Fatalf("balance %d", got)
	}
}

func TestAwaitLoads(t *testing.T) {
	f := newFixture(t)
	if err := f.runtime.AwaitLoads(t.Context()); err != nil { // there is nothing to load
		t.Fatal(err)
	}
	f.runtime.loading = make(chan struct{}, 1)
	f.runtime.loading <- struct{}{}
	full, broken := newPartition(), newPartition()
	full.appendRaw(bankBatch(batch.None, bankRecord(time.UnixMilli(0), "a", 7, 1)))
	broken.appendRaw(bankBatch(batch.None, Record{Key: []byte("a"), Value: []byte("short")}))
	f.runtime.Elect(0, 0, full)
	f.runtime.Elect(1, 0, broken)
	f.runtime.Elect(2, 0, newPartition())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := f.runtime.AwaitLoads(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("while two partitions wait to be loaded: %v", err)
	}
	<-f.runtime.loading
	if err := f.runtime.AwaitLoads(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.wantBody(f.call(deposit{account: "a", amount: 1}), 8)
}

func TestALoadThatFailsIsNotServedAloud(t *testing.T) {
	good := bankBatch(batch.None, bankRecord(time.UnixMilli(0), "a", 7, 1))
	flipped := bankBatch(batch.None, bankRecord(time.UnixMilli(0), "a", 7, 1))
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		last []byte
		want []string
	}{
		"record":   {last: bankBatch(batch.None, Record{Key: []byte("a"), Value: []byte("short")}), want: []string{"offset 1", "a balance of 5 bytes"}},
		"checksum": {last: flipped, want: []string{"offset 1", "CRC"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			p := newPartition()
			p.appendRaw(good)
			p.appendRaw(c.last)
			f.elect(p)
			f.wantCode(f.eventually(deposit{account: "a", amount: 1}), kafka.NotCoordinator)
			log := f.log.String()
			for _, want := range append(c.want, "__bank-0", "not served") {
				if !strings.Contains(log, want) {
					t.Errorf("the log does not say %q: %s", want, log)
				}
			}
			if got := p.mu.appends; got > 2 {
				t.Errorf("%d batches", got)
			}
		})
	}
}

func TestCloseIsTheEnd(t *testing.T) {
	p := newPartition()
	f := newFixture(t).started(p)
	waiting := f.ask(watch{"a"})
	f.runtime.Close()
	f.wantCode(<-waiting, kafka.NotCoordinator)
	f.elect(p)
	f.wantCode(f.call(balances{}), kafka.NotCoordinator)
}
