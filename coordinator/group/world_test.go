package group

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// runtime is what package coordinator is to a shard, without a goroutine: one partition's log, a clock that is moved, and
// commits that may be held back or fail.
type runtime struct {
	shard    *Shard
	settings Settings
	seed     uint64
	now      time.Time
	log      []coordinator.Record
	timers   map[any]*setTimer
	lastSet  int

	hold   bool          // commits wait
	waits  []uncommitted // in the order of the log
	refuse error         // what the next append fails with

	before func()                                              // is called before every Step
	seen   func(in coordinator.Input, out *coordinator.Output) // is told what came of it, before the records are applied
}

type setTimer struct {
	at    time.Time
	order int
}

// uncommitted are answers, and what comes after records, of one step.
type uncommitted struct {
	replies []coordinator.Reply
	after   coordinator.Input
}

func newRuntime(settings Settings, seed uint64) *runtime {
	rt := &runtime{settings: settings, seed: seed, now: time.UnixMilli(1_700_000_000_000)}
	rt.reload()
	return rt
}

// reload replaces the shard by one that reads the log: what another broker would start with. Calls that wait are gone.
func (rt *runtime) reload() {
	rt.seed++
	rt.shard = replay(rt.settings, rt.seed, rt.log)
	rt.timers, rt.waits = make(map[any]*setTimer), nil
	rt.step(coordinator.Loaded{})
}

func replay(settings Settings, seed uint64, log []coordinator.Record) *Shard {
	s := New(settings, rand.New(rand.NewPCG(seed, 0)))
	for _, r := range log {
		must(s.Apply(r))
	}
	return s
}

func (rt *runtime) step(in coordinator.Input) {
	if rt.before != nil {
		rt.before()
	}
	out := rt.shard.Step(rt.now, in)
	if rt.seen != nil {
		rt.seen(in, &out)
	}
	if len(out.Records) > 0 && rt.refuse != nil {
		err := rt.refuse
		rt.refuse = nil
		rt.setTimers(out.Timers)
		for _, r := range out.Replies {
			r.To.Done(nil, err)
		}
		if out.After != nil {
			rt.step(coordinator.Outcome{Of: out.After, Err: err})
		}
		return
	}
	for _, r := range out.Records {
		must(rt.shard.Apply(r))
	}
	rt.log = append(rt.log, out.Records...)
	rt.setTimers(out.Timers)
	rt.waits = append(rt.waits, uncommitted{out.Replies, out.After})
	if !rt.hold {
		rt.commit(nil)
	}
}

func (rt *runtime) setTimers(timers []coordinator.Timer) {
	for _, t := range timers {
		delete(rt.timers, t.Key)
		if !t.At.IsZero() {
			rt.lastSet++
			rt.timers[t.Key] = &setTimer{t.At, rt.lastSet}
		}
	}
}

// commit ends the wait of everything that waits, with an error where its records were not committed.
func (rt *runtime) commit(err error) {
	for len(rt.waits) > 0 {
		w := rt.waits[0]
		rt.waits = rt.waits[1:]
		for _, r := range w.replies {
			if err != nil {
				r.To.Done(nil, err)
				continue
			}
			r.To.Done(r.Body, nil)
		}
		if w.after != nil {
			rt.step(coordinator.Outcome{Of: w.after, Err: err})
		}
	}
}

// next returns the timer that is due first, and nil where none is set.
func (rt *runtime) next() (key any, at time.Time) {
	var first *setTimer
	for k, t := range rt.timers {
		if first == nil || t.at.Before(first.at) || t.at.Equal(first.at) && t.order < first.order {
			key, first = k, t
		}
	}
	if first == nil {
		return nil, time.Time{}
	}
	return key, first.at
}

// advance moves the clock, and fires what comes due on the way.
func (rt *runtime) advance(d time.Duration) {
	end := rt.now.Add(d)
	for {
		key, at := rt.next()
		if key == nil || at.After(end) {
			break
		}
		if at.After(rt.now) {
			rt.now = at
		}
		delete(rt.timers, key)
		rt.step(coordinator.Fired{Key: key})
	}
	rt.now = end
}

func testSettings() Settings {
	return Settings{
		InitialRebalanceDelay: 3 * time.Second, MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute, MaxSize: 1000,
		OffsetsRetention: 7 * 24 * time.Hour, OffsetsRetentionCheck: 10 * time.Minute, OffsetMetadataMax: 4096,
	}
}

// subscriptionBytes is what a consumer says in its protocol.
func subscriptionBytes(version int16, topics ...string) []byte {
	s := kmsg.NewConsumerMemberMetadata()
	s.Version, s.Topics = version, topics
	return s.AppendTo(nil)
}

func codeName(code int16) string { return kafka.Code(code).String() }

func errorText(err error) string {
	var coder kafka.Coder
	if errors.As(err, &coder) {
		return "error " + coder.Code().String()
	}
	return "error " + err.Error()
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// words are a line of a script: a name or two, and key=value.
type words struct {
	names []string
	kv    map[string]string
}

func parseWords(line string) words {
	ws := words{kv: make(map[string]string)}
	for _, w := range strings.Fields(line) {
		if key, value, found := strings.Cut(w, "="); found {
			ws.kv[key] = value
			continue
		}
		ws.names = append(ws.names, strings.Trim(w, `"`)) // so that a name may be empty
	}
	return ws
}

func (ws words) name(i int) string {
	if i >= len(ws.names) {
		return ""
	}
	return ws.names[i]
}

func (ws words) get(key, otherwise string) string {
	if v, ok := ws.kv[key]; ok {
		return v
	}
	return otherwise
}

func (ws words) optional(key string) *string {
	if v, ok := ws.kv[key]; ok && v != "NULL" {
		return &v
	}
	return nil
}

func (ws words) number(key string, otherwise int) int {
	n := otherwise
	if v, ok := ws.kv[key]; ok {
		_, err := fmt.Sscan(v, &n)
		must(err)
	}
	return n
}

func (ws words) milliseconds(key string, otherwise time.Duration) int32 {
	if v, ok := ws.kv[key]; ok {
		d, err := time.ParseDuration(v)
		must(err)
		otherwise = d
	}
	return int32(otherwise.Milliseconds())
}

func split(list, sep string) []string {
	return slices.DeleteFunc(strings.Split(list, sep), func(s string) bool { return s == "" })
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
