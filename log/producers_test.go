package log

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

var testTP = kafka.TopicPartition{Topic: "p", Partition: 0}

const (
	transactionalAttribute = batch.Attributes(0x10)
	testExpirationMs       = 1000
)

func header(args scriptArgs) *batch.Header {
	count := args.int("count", 1)
	h := &batch.Header{
		BaseOffset: args.int("at", 0), ProducerID: args.int("pid", 1), ProducerEpoch: int16(args.int("epoch", 0)),
		BaseSequence: int32(args.int("seq", -1)), LastOffsetDelta: int32(count - 1), Count: int32(count), MaxTimestamp: args.int("time", 0),
	}
	if args.has("txn") {
		h.Attributes = transactionalAttribute
	}
	return h
}

func answer(err error) string { return fmt.Sprintf("%v: %v", kafka.CodeOf(err), err) }

func TestProducerScripts(t *testing.T) {
	for _, name := range []string{"idempotent", "transactions"} {
		t.Run(name, func(t *testing.T) {
			s := NewProducerStates(testTP, testExpirationMs)
			runScript(t, "testdata/producers-"+name+".txt", func(word string, args scriptArgs) string {
				return producerCommand(&s, word, args)
			})
		})
	}
}

func producerCommand(s **ProducerStates, word string, args scriptArgs) string {
	p := *s
	h := header(args)
	switch word {
	case "new":
		*s = NewProducerStates(testTP, testExpirationMs)
	case "batch": // as a leader does it
		previous, err := p.Check(h)
		if err != nil {
			return answer(err)
		}
		if previous != nil {
			return fmt.Sprintf("duplicate of %d to %d, time %d", previous.BaseOffset, previous.LastOffset, previous.Timestamp)
		}
		p.Update(h)
		return "appended"
	case "replicate": // as a follower or recovery does it
		p.Update(h)
	case "marker":
		if err := p.CheckMarker(h, int32(args.int("coordinator", 0)), int16(args.int("tv", 0))); err != nil {
			return answer(err)
		}
		txn, aborted := p.UpdateMarker(h, args.has("commit"), int32(args.int("coordinator", 0)))
		if aborted {
			return fmt.Sprintf("aborted: producer %d, %d to %d, then stable to %d", txn.ProducerID, txn.FirstOffset, txn.LastOffset, txn.LastStableOffset)
		}
		return "appended"
	case "hw":
		p.Stabilize(args.int("at", 0))
		return unstable(p)
	case "unstable":
		return unstable(p)
	case "expire":
		p.Expire(args.int("now", 0))
		return fmt.Sprintf("%d left", p.Len())
	case "restart": // from a snapshot
		b := p.AppendSnapshot(nil)
		*s = NewProducerStates(testTP, testExpirationMs)
		if err := (*s).LoadSnapshot("snapshot", b, p.EndOffset(), args.int("now", 0)); err != nil {
			return answer(err)
		}
		return fmt.Sprintf("%d left", (*s).Len())
	case "show":
		var b strings.Builder
		for _, a := range p.Active() {
			fmt.Fprintf(&b, "producer %d epoch %d last sequence %d time %d coordinator %d transaction %d\n",
				a.ProducerID, a.Epoch, a.LastSequence, a.LastTimestamp, a.CoordinatorEpoch, a.TxnStartOffset)
		}
		return b.String()
	default:
		args.t.Fatalf("%s: no such command", args.line)
	}
	return ""
}

func unstable(s *ProducerStates) string {
	if offset, ok := s.FirstUnstableOffset(); ok {
		return fmt.Sprintf("unstable from %d", offset)
	}
	return "stable"
}

// TestAnyInFlightWindowIsRecognised sends batches of random sizes, some of the last five again, from a random start.
func TestAnyInFlightWindowIsRecognised(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := NewProducerStates(testTP, 0)
		sequence := rapid.OneOf(rapid.Int32Range(0, 10), rapid.Int32Range(math.MaxInt32-10, math.MaxInt32)).Draw(rt, "start")
		offset := rapid.Int64Range(0, 1<<40).Draw(rt, "offset")
		var sent []batch.Header
		for range rapid.IntRange(1, 30).Draw(rt, "batches") {
			if len(sent) > 0 && rapid.Bool().Draw(rt, "again") {
				old := sent[rapid.IntRange(max(0, len(sent)-batchesPerProducer), len(sent)-1).Draw(rt, "which")]
				again := old
				again.BaseOffset = offset
				previous, err := s.Check(&again)
				if err != nil || previous == nil || previous.BaseOffset != old.BaseOffset || previous.LastOffset != old.LastOffset() {
					rt.Fatalf("batch at %d sent again: %+v, %v", old.BaseOffset, previous, err)
				}
				continue
			}
			h := batch.Header{BaseOffset: offset, ProducerID: 1, BaseSequence: sequence, LastOffsetDelta: rapid.Int32Range(0, 5).Draw(rt, "delta")}
			if len(sent) > 0 {
				skipping := h
				skipping.BaseSequence = batch.AddSequence(sequence, 1)
				if _, err := s.Check(&skipping); kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
					rt.Fatalf("a gap before sequence %d: %v", skipping.BaseSequence, err)
				}
			}
			if previous, err := s.Check(&h); err != nil || previous != nil {
				rt.Fatalf("sequence %d: %v, %v", sequence, previous, err)
			}
			s.Update(&h)
			sent = append(sent, h)
			offset, sequence = h.NextOffset(), batch.AddSequence(h.LastSequence(), 1)
		}
	})
}

// TestUnstableOffsetOfRandomTransactions compares with a plain list of all transactions.
func TestUnstableOffsetOfRandomTransactions(t *testing.T) {
	type txn struct{ producer, first, last int64 }
	rapid.Check(t, func(rt *rapid.T) {
		s := NewProducerStates(testTP, 0)
		open, ended := map[int64]int64{}, []txn{}
		hw := int64(0)
		for offset := range rapid.Int64Range(1, 40).Draw(rt, "steps") {
			h := batch.Header{BaseOffset: offset, ProducerID: rapid.Int64Range(1, 4).Draw(rt, "producer"), BaseSequence: batch.NoSequence}
			first, isOpen := open[h.ProducerID]
			if isOpen && rapid.Bool().Draw(rt, "end") {
				delete(open, h.ProducerID)
				stable := offset + 1
				for _, o := range open {
					stable = min(stable, o)
				}
				abort := rapid.Bool().Draw(rt, "abort")
				got, aborted := s.UpdateMarker(&h, !abort, 0)
				want := AbortedTxn{ProducerID: h.ProducerID, FirstOffset: first, LastOffset: offset, LastStableOffset: stable}
				if aborted != abort || abort && got != want {
					rt.Fatalf("marker at %d: %+v, want %+v", offset, got, want)
				}
				ended = append(ended, txn{h.ProducerID, first, offset})
			} else {
				h.Attributes = transactionalAttribute
				s.Update(&h)
				if !isOpen {
					open[h.ProducerID] = offset
				}
			}
			hw = rapid.Int64Range(hw, offset+1).Draw(rt, "hw")
			s.Stabilize(hw)
			want := int64(math.MaxInt64)
			for _, o := range open {
				want = min(want, o)
			}
			for _, e := range ended {
				if e.last >= hw {
					want = min(want, e.first)
				}
			}
			if got, ok := s.FirstUnstableOffset(); got != want || ok != (want != math.MaxInt64) {
				rt.Fatalf("after offset %d, high watermark %d: unstable from %d (%v), want %d", offset, hw, got, ok, want)
			}
		}
	})
}

func TestProducerPathAllocatesNothing(t *testing.T) {
	s := NewProducerStates(testTP, 0)
	h := batch.Header{ProducerID: 1, LastOffsetDelta: 9}
	s.Update(&h)
	allocs := testing.AllocsPerRun(100, func() {
		h.BaseOffset, h.BaseSequence = h.NextOffset(), batch.AddSequence(h.LastSequence(), 1)
		if _, err := s.Check(&h); err != nil {
			t.Fatal(err)
		}
		s.Update(&h)
	})
	if allocs != 0 {
		t.Fatalf("%v allocations a batch", allocs)
	}
}

func BenchmarkProducerBatch(b *testing.B) {
	s := NewProducerStates(testTP, 0)
	h := batch.Header{ProducerID: 1, LastOffsetDelta: 9}
	s.Update(&h)
	for b.Loop() {
		h.BaseOffset, h.BaseSequence = h.NextOffset(), batch.AddSequence(h.LastSequence(), 1)
		if _, err := s.Check(&h); err != nil {
			b.Fatal(err)
		}
		s.Update(&h)
	}
}
