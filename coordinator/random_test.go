package coordinator

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"weir/internal/kafka"
)

// tellers deposit from several goroutines and note what they were told.
type tellers struct {
	f     *fixture
	ids   uint64
	mu    sync.Mutex
	acked map[uint64]int64 // id → the balance that was answered
	asked map[uint64]deposit
	open  sync.WaitGroup
}

func (s *tellers) deposit(r *rand.Rand) {
	s.ids++
	d := deposit{account: string(rune('a' + r.IntN(5))), amount: int64(1 + r.IntN(9)), id: s.ids, confirm: r.IntN(4) == 0}
	s.mu.Lock()
	s.asked[d.id] = d
	s.mu.Unlock()
	s.open.Add(1)
	s.f.runtime.Submit("key", &Call{Body: d, Done: func(body any, err error) {
		defer s.open.Done()
		if err == nil {
			balance, _ := body.(int64)
			s.mu.Lock()
			s.acked[d.id] = balance
			s.mu.Unlock()
		}
	}})
}

// check holds the log against what was asked and told.
func (s *tellers) check(t *testing.T, p *partition) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	replayed := newBank().(*bank)
	written := make(map[uint64]bool)
	for i, r := range p.records() {
		id := binary.BigEndian.Uint64(r.Value[8:])
		balance := int64(binary.BigEndian.Uint64(r.Value))
		d, account := s.asked[id], string(r.Key)
		if written[id] || d.account != account {
			t.Fatalf("record %d: deposit %d is there twice, or was never asked for", i, id)
		}
		written[id] = true
		if want := replayed.hard[account] + d.amount; balance != want {
			t.Fatalf("record %d: balance of %s is %d, decided on a state that was not applied; want %d", i, account, balance, want)
		}
		if told, ok := s.acked[id]; ok && told != 0 && told != balance {
			t.Fatalf("record %d: told %d and wrote %d", i, told, balance)
		}
		_ = replayed.Apply(r)
	}
	for id := range s.acked {
		if !written[id] {
			t.Fatalf("deposit %d was acknowledged and is lost", id)
		}
	}
	live := s.f.eventually(balances{})
	if live.err != nil || !maps.Equal(live.body.(map[string]int64), replayed.hard) {
		t.Fatalf("live: %v, %v; replayed: %v", live.body, live.err, replayed.hard)
	}
}

// Whatever happens to the broker, its partition and its role: what was acknowledged stays, every decision was made on all
// that came before it, replaying gives what the live shard has, and every call is answered once.
func TestReplayIsLive(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		f := newFixture(t)
		p := newPartition()
		f.elect(p)
		s := &tellers{f: f, acked: make(map[uint64]int64), asked: make(map[uint64]deposit)}
		for range 600 {
			switch n := r.IntN(100); {
			case n < 70:
				s.deposit(r)
			case n < 75:
				time.Sleep(time.Duration(r.IntN(50)) * time.Microsecond)
			case n < 79:
				p.set(func(p *partition) { p.mu.hold = true })
			case n < 84:
				p.commit()
			case n < 87:
				f.clock.Advance(commitTimeout / 2)
			case n < 90:
				failure := kafka.Errorf(kafka.NotEnoughReplicas, "")
				p.set(func(p *partition) {
					p.mu.appendErr = failure
					if r.IntN(2) == 0 {
						p.mu.checkErr = failure
					}
				})
			case n < 94:
				p.set(func(p *partition) { p.mu.appendErr, p.mu.checkErr, p.mu.max = nil, nil, 100+r.IntN(1000) })
			case n < 95:
				f.runtime.Submit("key", &Call{Body: crash{}, Done: func(any, error) {}})
			case n < 97: // another broker led for a while, which had what was committed
				p.depose(true)
				f.runtime.Resign(0)
				f.elect(p)
			case n < 98: // the runtime learns it late
				p.depose(true)
			case n < 99:
				f.elect(p)
			default: // the broker is killed: what it did not write is gone, what it did not answer is not known
				p.depose(r.IntN(2) == 0)
				f.runtime.Close()
				log := f.log
				f = newFixture(t)
				f.log, s.f = log, f
				f.elect(p)
			}
		}
		p.set(func(p *partition) { p.mu.appendErr, p.mu.checkErr, p.mu.max = nil, nil, 1<<20 })
		p.commit()
		f.elect(p)
		s.open.Wait()
		s.check(t, p)
		f.runtime.Close()
	}
}

// BenchmarkLoad loads what a broker of 100,000 committed offsets has, each written twice.
func BenchmarkLoad(b *testing.B) {
	p := newPartition()
	var records []Record
	for i := range 200_000 {
		key := binary.BigEndian.AppendUint64(nil, uint64(i%100_000))
		records = append(records, bankRecord(time.UnixMilli(0), string(key)+"a-group-of-consumers a-topic-of-orders", int64(i), 0))
		if len(records) == 10 {
			p.appendRaw(bankBatch(0, records...))
			records = records[:0]
		}
	}
	for b.Loop() {
		f := newFixture(b)
		p.depose(false)
		f.elect(p)
		if a := f.eventually(deposit{account: "a", amount: 1}); a.err != nil {
			b.Fatal(a.err)
		}
		f.runtime.Close()
	}
}

// BenchmarkSubmit is a commit from its call to its answer, alone and among many.
func BenchmarkSubmit(b *testing.B) {
	for name, n := range map[string]int{"alone": 1, "storm": 100} {
		b.Run(name, func(b *testing.B) {
			p := newPartition()
			f := newFixture(b).started(p)
			done := make(chan struct{}, n)
			call := &Call{Body: deposit{account: "a", amount: 1}, Done: func(any, error) { done <- struct{}{} }}
			b.ReportAllocs()
			for b.Loop() {
				for range n {
					f.runtime.Submit("key", call)
				}
				for range n {
					<-done
				}
				p.set(func(p *partition) { p.mu.batches = p.mu.batches[:0] })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/call")
		})
	}
}
