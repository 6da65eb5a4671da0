package log

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// model is what a log must hold: the batches in order, and what is known about them. Operations change the log and the
// model alike; after a crash the model is cut to what survived, if that is allowed, and then they must be equal again.
type model struct {
	batches  []modelBatch // those that were deleted from the start too: a crash may bring them back
	start    int64
	deleted  int64 // the highest start there ever was: what lies below may be back after a crash, but its epochs are not
	end      int64
	epoch    kafka.LeaderEpoch
	timeline int             // changes when something is cut off
	seqs     map[int64]int32 // the next sequence of each producer
}

type modelBatch struct {
	bytes      []byte
	base, last int64
	epoch      kafka.LeaderEpoch
	producer   int64
	sequence   int32
	times      []int64 // of its records
}

// cut drops what is at or above offset.
func (m *model) cut(offset int64) {
	for n := len(m.batches); n > 0 && m.batches[n-1].last >= offset; n-- {
		m.batches = m.batches[:n-1]
	}
	m.end = offset
	m.timeline++
	m.start = min(m.start, offset)
	m.seqs = map[int64]int32{}
	for _, b := range m.batches {
		if b.producer >= 0 {
			m.seqs[b.producer] = b.sequence + int32(len(b.times))
		}
	}
}

// world is a Store with a few logs on a file system in memory, driven from one goroutine.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	fs     *vfs.Mem
	clock  *clock.Manual
	policy FsyncPolicy
	config Config
	store  *Store
	models map[kafka.TopicPartition]*model
	acked  map[kafka.TopicPartition]int64 // under the policy "ack": the end of what was acknowledged
	trace  bytes.Buffer
}

func newWorld(t *testing.T, seed uint64, policy FsyncPolicy) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	c := DefaultConfig()
	c.SegmentBytes = int32(500 + rng.IntN(4000))
	c.IndexIntervalBytes = int32(rng.IntN(600))
	if rng.IntN(3) == 0 {
		c.IndexBytes = int32(16 + rng.IntN(100))
	}
	if rng.IntN(3) == 0 {
		c.SegmentMs, c.SegmentJitterMs = int64(1+rng.IntN(3000)), int64(rng.IntN(500))
	}
	w := &world{
		t: t, rng: rng, fs: vfs.NewMem(), clock: clock.NewManual(time.UnixMilli(1_700_000_000_000)), policy: policy, config: c,
		models: map[kafka.TopicPartition]*model{}, acked: map[kafka.TopicPartition]int64{},
	}
	w.open()
	for i := range 2 {
		tp := kafka.TopicPartition{Topic: "t", Partition: int32(i)}
		_, err := w.store.Create(tp, kafka.TopicID{1}, c)
		w.must(err)
		w.models[tp] = &model{seqs: map[int64]int32{}, epoch: 1}
	}
	return w
}

func (w *world) logf(format string, args ...any) { fmt.Fprintf(&w.trace, format+"\n", args...) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.tail())
	}
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf(format+"\n%s", append(args, w.tail())...)
}

// tail is the end of the trace.
func (w *world) tail() string {
	b := w.trace.Bytes()
	return string(b[max(0, len(b)-3000):])
}

func (w *world) open() {
	w.t.Helper()
	s, err := OpenStore(StoreOptions{
		FS: w.fs, Clock: w.clock, Dirs: []string{"/data/a", "/data/b"}, NodeID: 1, FsyncPolicy: w.policy, DefaultConfig: w.config,
		OpenFiles: 1 + w.rng.IntN(4), Recoveries: 1, CheckpointInterval: time.Duration(1+w.rng.IntN(20)) * time.Second,
		Logger: slog.New(slog.NewTextHandler(&w.trace, nil)),
	})
	w.must(err)
	w.store = s
	for tp, err := range s.Broken() {
		w.fatalf("%v is broken: %v", tp, err)
	}
}

func (w *world) log(tp kafka.TopicPartition) *Log {
	w.t.Helper()
	l := w.store.Log(tp)
	if l == nil {
		w.fatalf("log of %v is gone", tp)
	}
	return l
}

// step does one random thing.
func (w *world) step() {
	for _, m := range w.models {
		m.deleted = max(m.deleted, m.start)
	}
	tp := kafka.TopicPartition{Topic: "t", Partition: int32(w.rng.IntN(len(w.models)))}
	m, l := w.models[tp], w.log(tp)
	switch p := w.rng.IntN(100); {
	case p < 55:
		w.append(m, l)
	case p < 65:
		w.appendAsFollower(m, l)
	case p < 75:
		w.clock.Advance(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
		w.store.Tasks().Step(w.clock.Now(), Event{})
		w.logf("tick")
	case p < 80:
		w.must(l.Sync())
		w.logf("sync %v to %d", tp, l.DurableEndOffset())
		if l.DurableEndOffset() != m.end {
			w.fatalf("synced to %d of %d", l.DurableEndOffset(), m.end)
		}
	case p < 84:
		m.epoch += kafka.LeaderEpoch(1 + w.rng.IntN(2))
		w.must(l.AssignEpoch(m.epoch, m.end))
		w.logf("epoch %v %d at %d", tp, m.epoch, m.end)
	case p < 88:
		to := m.start + w.rng.Int64N(m.end-m.start+1)
		w.logf("truncate %v to %d of %d", tp, to, m.end)
		w.must(l.TruncateTo(to))
		m.cut(to)
		last := l.segments.Load().all[0].baseOffset
		if n := len(m.batches); n > 0 {
			last = max(last, m.batches[n-1].last+1)
		}
		m.end = min(m.end, last)
		m.start = min(m.start, m.end)
		m.epoch++
		w.acked[tp] = min(w.acked[tp], m.end)
	case p < 89:
		to := w.rng.Int64N(m.end + 20)
		w.logf("truncate %v fully, start at %d", tp, to)
		w.must(l.TruncateFullyAndStartAt(to))
		*m = model{start: to, end: to, deleted: m.deleted, epoch: m.epoch + 1, timeline: m.timeline + 1, seqs: map[int64]int32{}}
		w.acked[tp] = 0
	case p < 92:
		to := m.start + w.rng.Int64N(m.end-m.start+1)
		w.must(l.AdvanceStartOffset(to))
		m.start = to
		w.logf("start %v at %d", tp, to)
	case p < 94:
		l.SetHighWatermark(m.end)
		n, err := l.DeleteOldSegments(w.clock.Now())
		w.must(err)
		m.start = max(m.start, l.StartOffset())
		w.logf("retention of %v took %d, start %d", tp, n, m.start)
	case p < 96:
		w.verify(tp, 3)
	default:
		w.crash()
	}
}

func (w *world) append(m *model, l *Log) {
	b := w.newBatch(m)
	v := batch.Trusted(bytes.Clone(b.bytes))
	r, err := l.AppendAsLeader(m.epoch, v)
	w.must(err)
	if r.BaseOffset != m.end || r.LastOffset != b.last || r.Duplicate {
		w.fatalf("appended at %+v, not at %d", r, m.end)
	}
	b.bytes = v.Bytes
	m.add(b)
	w.logf("append %v [%d, %d] epoch %d, %d bytes, producer %d", l.TP(), b.base, b.last, b.epoch, len(b.bytes), b.producer)
	if w.policy == FsyncAck {
		if w.store.NeedsCommit(l) && w.rng.IntN(2) == 0 {
			end, timeline := m.end, m.timeline
			w.store.Commit(l, func(err error) {
				w.must(err)
				if m.timeline == timeline {
					w.acked[l.TP()] = end
				}
			})
			if w.rng.IntN(2) == 0 {
				l.home().committer.round()
			}
		}
	}
}

// appendAsFollower appends several batches, perhaps with a gap before them, and perhaps a torn one behind them.
func (w *world) appendAsFollower(m *model, l *Log) {
	var records []byte
	copied := *m
	if w.rng.IntN(4) == 0 {
		copied.end += w.rng.Int64N(5)
	}
	for range 1 + w.rng.IntN(4) {
		b := w.newBatch(&copied)
		batch.SetBaseOffset(b.bytes, b.base)
		batch.SetLeaderEpoch(b.bytes, int32(b.epoch))
		records = append(records, b.bytes...)
		copied.add(b)
	}
	whole := len(records)
	if w.rng.IntN(3) == 0 {
		records = append(records, records[:w.rng.IntN(50)]...)
	}
	r, err := l.AppendAsFollower(records)
	w.must(err)
	if r.LastOffset != copied.end-1 {
		w.fatalf("appended to %+v, not %d", r, copied.end-1)
	}
	*m = copied
	w.logf("follow %v to %d, %d bytes", l.TP(), m.end, whole)
}

func (m *model) add(b modelBatch) {
	m.batches = append(m.batches[:len(m.batches):len(m.batches)], b)
	m.end = b.last + 1
	if b.producer >= 0 {
		m.seqs[b.producer] = b.sequence + int32(len(b.times))
	}
}

func (w *world) newBatch(m *model) modelBatch {
	b := modelBatch{base: m.end, epoch: m.epoch, producer: -1, sequence: -1}
	codec := batch.None
	if w.rng.IntN(5) == 0 {
		codec = batch.LZ4
	}
	builder := batch.NewBuilder(codec, 0)
	if w.rng.IntN(2) == 0 {
		b.producer = w.rng.Int64N(3)
		b.sequence = m.seqs[b.producer]
		builder.SetProducer(b.producer, 0, b.sequence)
	}
	for range 1 + w.rng.IntN(5) {
		at := w.clock.Now().UnixMilli() + w.rng.Int64N(200) - 100
		b.times = append(b.times, at)
		builder.Append(at, []byte("key"), bytes.Repeat([]byte{byte(m.end)}, w.rng.IntN(200)))
	}
	out, err := builder.Build()
	w.must(err)
	b.bytes = bytes.Clone(out)
	b.last = b.base + int64(len(b.times)) - 1
	return b
}

// crash ends the process in one of the ways there are, and checks what is left.
func (w *world) crash() {
	type before struct{ durable, end, start int64 }
	old := map[kafka.TopicPartition]before{}
	for tp := range w.models {
		l := w.log(tp)
		m := w.models[tp]
		m.deleted = max(m.deleted, m.start)
		old[tp] = before{l.DurableEndOffset(), l.EndOffset(), l.StartOffset()}
	}
	kind := "power cut"
	way := w.rng.IntN(4)
	if w.policy == FsyncNever {
		way = w.rng.IntN(2) // it promises nothing else
	}
	switch way {
	case 0:
		kind = "clean stop"
		w.must(w.store.Close())
	case 1:
		kind = "kill"
		w.fs = w.fs.Kill()
	case 2:
		w.fs = w.fs.Crash(vfs.LoseAll())
	default:
		w.fs = w.fs.Crash(vfs.LoseSome(w.rng))
	}
	w.logf("---- %s", kind)
	w.open()
	for _, tp := range w.partitions() {
		if w.store.Log(tp) == nil && old[tp].durable == 0 && w.acked[tp] == 0 {
			// Its directory was never synced.
			_, err := w.store.Create(tp, kafka.TopicID{1}, w.config)
			w.must(err)
		}
		m, l := w.models[tp], w.log(tp)
		least := old[tp].durable
		if w.policy == FsyncAck {
			least = max(least, w.acked[tp])
			if w.acked[tp] > m.end {
				least = old[tp].durable // it was truncated since
			}
		}
		if kind != "power cut" {
			least = m.end
		}
		// After a truncation into a batch, or into a gap, the log ends above its last batch until it is opened again.
		whole := int64(0)
		for _, b := range m.batches {
			if b.last < least {
				whole = b.last + 1
			}
		}
		least = whole
		end := l.EndOffset()
		if end < least || end > m.end {
			w.fatalf("after a %s %v ends at %d; %d was durable, %d written", kind, tp, end, least, m.end)
		}
		w.logf("%v ends at %d of %d, starts at %d of %d", tp, end, m.end, l.StartOffset(), m.start)
		// The start offset may have been forgotten, but not what was deleted with its segments.
		if kind == "clean stop" && l.StartOffset() != m.start {
			w.fatalf("after a clean stop %v starts at %d, not %d", tp, l.StartOffset(), m.start)
		}
		m.cut(end)
		m.start = l.StartOffset()
		m.epoch++
		w.acked[tp] = min(w.acked[tp], end)
		w.verify(tp, 10)
	}
}

func (w *world) partitions() []kafka.TopicPartition {
	return []kafka.TopicPartition{{Topic: "t", Partition: 0}, {Topic: "t", Partition: 1}}
}

// seeds is 1 to n, or what WEIR_SEED (one) or WEIR_SEEDS (so many) say.
func seeds(t *testing.T, n uint64) (first, last uint64) {
	number := func(name string) (value uint64, ok bool) {
		text := os.Getenv(name)
		if text == "" {
			return 0, false
		}
		_, err := fmt.Sscan(text, &value)
		must(t, err)
		return value, true
	}
	if seed, ok := number("WEIR_SEED"); ok {
		return seed, seed + 1
	}
	if many, ok := number("WEIR_SEEDS"); ok {
		n = many
	}
	return 1, 1 + n
}

func TestLogEqualsItsModel(t *testing.T) {
	for _, policy := range []FsyncPolicy{FsyncBackground, FsyncAck, FsyncNever} {
		t.Run(string(policy), func(t *testing.T) {
			first, last := seeds(t, 40/raceSlowdown)
			for seed := first; seed < last; seed++ {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					w := newWorld(t, seed, policy)
					for range 300 {
						w.step()
					}
					w.crash()
				})
			}
		})
	}
}
