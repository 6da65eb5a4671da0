package coordinator

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
	"weir/protocol/batch"
)

// bank is a shard of accounts. A record is an account's new balance and the id of the deposit that made it, so that one
// decided on an old balance shows.
type bank struct {
	hard map[string]int64
	wait map[string][]*Call // soft: for the account's next deposit
	late []*Call            // soft: for their timer

	repeating bool // soft: sets the timer of repeat when it fires
}

type (
	deposit struct {
		account string
		amount  int64
		id      uint64
		confirm bool // answer by After
	}
	balances struct{}                 // answered with a copy of hard
	watch    struct{ account string } // answered at the next deposit to it
	remind   struct {                 // answered when the timer fires; other calls with the key set it anew or cancel it
		key   string
		after time.Duration
	}
	cancel struct{ key string }
	repeat struct{ on bool }   // a timer fires at once, again and again
	bonus  struct{ id uint64 } // an input that nobody waits for: one to every account
	crash  struct{}            // Step panics
	gate   struct{ entered, leave chan struct{} }
)

// confirmed is the After of a deposit.
type confirmed struct{ call *Call }

func newBank() Shard {
	return &bank{hard: make(map[string]int64), wait: make(map[string][]*Call)}
}

func (b *bank) Step(now time.Time, in Input) (out Output) {
	switch in := in.(type) {
	case Loaded:
	case bonus:
		for _, account := range slices.Sorted(maps.Keys(b.hard)) {
			out.Records = append(out.Records, bankRecord(now, account, b.hard[account]+1, in.id))
		}
	case Fired:
		if in.Key == (repeat{}) && b.repeating {
			return Output{Timers: []Timer{{Key: repeat{}, At: now}}}
		}
		b.late = slices.DeleteFunc(b.late, func(c *Call) bool {
			due := c.Body.(remind).key == in.Key
			if due {
				out.Replies = append(out.Replies, Reply{c, "fired"})
			}
			return due
		})
	case Outcome:
		call := in.Of.(confirmed).call
		if in.Err != nil {
			return Output{Replies: []Reply{{call, in.Err}}}
		}
		return Output{Replies: []Reply{{call, "confirmed"}}}
	case *Call:
		return b.call(now, in)
	default:
		panic(fmt.Sprintf("a bank knows no %T", in))
	}
	return out
}

func (b *bank) call(now time.Time, c *Call) (out Output) {
	switch body := c.Body.(type) {
	case deposit:
		balance := b.hard[body.account] + body.amount
		out.Records = []Record{bankRecord(now, body.account, balance, body.id)}
		if body.confirm {
			out.After = confirmed{c}
		} else {
			out.Replies = []Reply{{c, balance}}
		}
		for _, w := range b.wait[body.account] {
			out.Replies = append(out.Replies, Reply{w, balance})
		}
		delete(b.wait, body.account)
	case balances:
		out.Replies = []Reply{{c, maps.Clone(b.hard)}}
	case watch:
		b.wait[body.account] = append(b.wait[body.account], c)
	case remind:
		b.late = append(b.late, c)
		out.Timers = []Timer{{Key: body.key, At: now.Add(body.after)}}
	case cancel:
		out.Timers = []Timer{{Key: body.key}}
		out.Replies = []Reply{{c, "cancelled"}}
	case repeat:
		b.repeating = body.on
		out.Timers = []Timer{{Key: repeat{}, At: now}}
		out.Replies = []Reply{{c, body.on}}
	case gate: // no shard may wait; this one does, so that calls gather in the mailbox
		close(body.entered)
		<-body.leave
		out.Replies = []Reply{{c, "passed"}}
	case crash:
		panic("a crash was asked for")
	}
	return out
}

func bankRecord(now time.Time, account string, balance int64, id uint64) Record {
	value := binary.BigEndian.AppendUint64(nil, uint64(balance))
	return Record{Key: []byte(account), Value: binary.BigEndian.AppendUint64(value, id), Timestamp: now.UnixMilli()}
}

func (b *bank) Apply(r Record) error {
	switch {
	case r.Value == nil:
		delete(b.hard, string(r.Key))
	case len(r.Value) < 16:
		return fmt.Errorf("a balance of %d bytes", len(r.Value))
	default:
		b.hard[string(r.Key)] = int64(binary.BigEndian.Uint64(r.Value))
	}
	return nil
}

// partition is a log in memory that commits at once unless it is told to hold.
type partition struct {
	mu struct {
		sync.Mutex
		epoch     kafka.LeaderEpoch
		batches   [][]byte
		end       int64
		committed int64
		waits     []commitWait
		hold      bool
		appendErr error // of Append
		checkErr  error // of Check
		readErr   error
		max       int
		appends   int
	}
}

type commitWait struct {
	end  int64
	done func(error)
}

func newPartition() *partition {
	p := &partition{}
	p.mu.max = 1 << 20
	return p
}

var errNotLeader = kafka.Errorf(kafka.NotLeaderOrFollower, "")

func (p *partition) Check(epoch kafka.LeaderEpoch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch != p.mu.epoch {
		return errNotLeader
	}
	return p.mu.checkErr
}

func (p *partition) Append(epoch kafka.LeaderEpoch, b []byte, committed func(error)) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch != p.mu.epoch {
		return false, errNotLeader
	}
	if p.mu.appendErr != nil {
		return false, p.mu.appendErr
	}
	b = bytes.Clone(b)
	batch.SetBaseOffset(b, p.mu.end)
	h, err := batch.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	p.mu.batches = append(p.mu.batches, b)
	p.mu.appends++
	p.mu.end = h.NextOffset()
	return p.awaitLocked(p.mu.end, committed), nil
}

func (p *partition) Await(epoch kafka.LeaderEpoch, end int64, committed func(error)) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch != p.mu.epoch {
		return false, errNotLeader
	}
	return p.awaitLocked(end, committed), nil
}

func (p *partition) awaitLocked(end int64, committed func(error)) bool {
	if !p.mu.hold {
		p.mu.committed = p.mu.end
	}
	if p.mu.committed >= end {
		return true
	}
	p.mu.waits = append(p.mu.waits, commitWait{end, committed})
	return false
}

func (p *partition) MaxBatchBytes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.max
}

func (p *partition) Offsets() (int64, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 0, p.mu.end
}

func (p *partition) Read(buf []byte, offset, end int64) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.readErr != nil {
		return nil, p.mu.readErr
	}
	for _, b := range p.mu.batches {
		h, _ := batch.ParseHeader(b)
		if h.LastOffset() < offset || h.BaseOffset >= end {
			continue
		}
		if len(buf) > 0 && len(buf)+len(b) > cap(buf) {
			break
		}
		buf = append(buf, b...)
	}
	return buf, nil
}

// set changes the partition under its lock.
func (p *partition) set(f func(p *partition)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// commit lets all that was appended be committed, and what is appended from now on.
func (p *partition) commit() {
	p.mu.Lock()
	p.mu.hold = false
	p.mu.committed = p.mu.end
	due := p.mu.waits
	p.mu.waits = nil
	p.mu.Unlock()
	for _, w := range due {
		w.done(nil)
	}
}

// commitBelow lets only what lies below end be committed.
func (p *partition) commitBelow(end int64) {
	p.mu.Lock()
	p.mu.committed = end
	var due []commitWait
	p.mu.waits = slices.DeleteFunc(p.mu.waits, func(w commitWait) bool {
		if w.end <= end {
			due = append(due, w)
		}
		return w.end <= end
	})
	p.mu.Unlock()
	for _, w := range due {
		w.done(nil)
	}
}

// depose begins another epoch, as when another broker leads for a while that has only what is committed.
func (p *partition) depose(truncate bool) kafka.LeaderEpoch {
	p.mu.Lock()
	p.mu.epoch++
	epoch := p.mu.epoch
	due := p.mu.waits
	p.mu.waits = nil
	for truncate && p.mu.end > p.mu.committed {
		last := len(p.mu.batches) - 1
		h, _ := batch.ParseHeader(p.mu.batches[last])
		p.mu.end = h.BaseOffset
		p.mu.batches = p.mu.batches[:last]
	}
	p.mu.Unlock()
	for _, w := range due {
		w.done(errNotLeader)
	}
	return epoch
}

// appendRaw puts a batch into the log as another leader would have.
func (p *partition) appendRaw(b []byte) {
	p.mu.Lock()
	epoch := p.mu.epoch
	p.mu.Unlock()
	if _, err := p.Append(epoch, b, func(error) {}); err != nil {
		panic(err)
	}
}

// records are what the log holds.
func (p *partition) records() (all []Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.mu.batches {
		for r, err := range batch.Records(b) {
			if err != nil {
				panic(err)
			}
			all = append(all, Record{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)})
		}
	}
	return all
}

// fixture is a runtime with a clock that stands still.
type fixture struct {
	t       testing.TB
	clock   *clock.Manual
	runtime *Runtime
	metrics *metrics.Registry
	log     *logText
}

type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const commitTimeout = 5 * time.Second

func newFixture(t testing.TB) *fixture {
	f := &fixture{t: t, clock: clock.NewManual(time.UnixMilli(1_700_000_000_000)), metrics: metrics.NewRegistry(), log: &logText{}}
	f.runtime = New(Options{Topic: "__bank", New: newBank, CommitTimeout: commitTimeout, Clock: f.clock, Logger: slog.New(slog.NewTextHandler(f.log, nil)), Metrics: f.metrics})
	f.runtime.SetPartitions(1)
	t.Cleanup(func() { f.runtime.Close() })
	return f
}

// elect makes the runtime coordinate partition 0.
func (f *fixture) elect(p *partition) {
	p.mu.Lock()
	epoch := p.mu.epoch
	p.mu.Unlock()
	f.runtime.Elect(0, epoch, p)
}

// started is elect that waits until the shard answers.
func (f *fixture) started(p *partition) *fixture {
	f.t.Helper()
	f.elect(p)
	f.eventually(balances{})
	return f
}

type answer struct {
	body any
	err  error
}

// ask submits a call.
func (f *fixture) ask(body any) <-chan answer {
	answers := make(chan answer, 2) // a second answer is a fault that a test can see
	f.runtime.Submit("key", &Call{Body: body, Done: func(body any, err error) { answers <- answer{body, err} }})
	return answers
}

// call submits a call and waits for its answer.
func (f *fixture) call(body any) answer { return <-f.ask(body) }

// eventually asks until the partition is loaded.
func (f *fixture) eventually(body any) answer {
	f.t.Helper()
	for {
		a := f.call(body)
		if kafka.CodeOf(a.err) != kafka.CoordinatorLoadInProgress {
			return a
		}
		time.Sleep(10 * time.Microsecond) // what is loaded is in memory
	}
}

func (f *fixture) wantBody(a answer, want any) {
	f.t.Helper()
	if a.err != nil || fmt.Sprint(a.body) != fmt.Sprint(want) {
		f.t.Fatalf("answered %v, %v; want %v", a.body, a.err, want)
	}
}

func (f *fixture) wantCode(a answer, want kafka.Code) {
	f.t.Helper()
	if a.body != nil || kafka.CodeOf(a.err) != want {
		f.t.Fatalf("answered %v, %v; want %v", a.body, a.err, want)
	}
}

// together submits calls so that the actor finds them all at once.
func (f *fixture) together(bodies ...any) (answers []<-chan answer) {
	g := gate{make(chan struct{}), make(chan struct{})}
	passed := f.ask(g)
	<-g.entered
	for _, body := range bodies {
		answers = append(answers, f.ask(body))
	}
	close(g.leave)
	<-passed
	return answers
}

// turned returns when the actor has done all that it was asked before, up to the appends.
func (f *fixture) turned() {
	last, next := gate{make(chan struct{}), make(chan struct{})}, gate{make(chan struct{}), make(chan struct{})}
	f.ask(last)
	<-last.entered
	f.ask(next) // comes in the turn after
	close(last.leave)
	<-next.entered
	close(next.leave)
}

// unanswered fails if an answer is there. What leads up to it was waited for by other means.
func (f *fixture) unanswered(answers <-chan answer) {
	f.t.Helper()
	select {
	case a := <-answers:
		f.t.Fatalf("answered too early: %v, %v", a.body, a.err)
	default:
	}
}

// bankBatch is a batch with one account's balance.
func bankBatch(codec batch.Codec, records ...Record) []byte {
	b := batch.NewBuilder(codec, 0)
	for _, r := range records {
		b.Append(r.Timestamp, r.Key, r.Value)
	}
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}
