package tracker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/internal/kafka"
)

// epochLog is a log as far as truncation is concerned: the epoch of each record, and where each epoch began, in order.
type epochLog struct {
	records []kafka.LeaderEpoch
	starts  []EpochEnd // End is where the epoch begins
}

// newEpochLog has runs of records, by epoch and number.
func newEpochLog(runs ...[2]int) *epochLog {
	l := &epochLog{}
	for _, r := range runs {
		l.lead(kafka.LeaderEpoch(r[0]))
		l.write(kafka.LeaderEpoch(r[0]), r[1])
	}
	return l
}

func (l *epochLog) end() int64 { return int64(len(l.records)) }

// lead begins an epoch at the end of the log. Epochs that began there without a record are dropped.
func (l *epochLog) lead(e kafka.LeaderEpoch) {
	for n := len(l.starts); n > 0 && l.starts[n-1].End >= l.end(); n-- {
		l.starts = l.starts[:n-1]
	}
	l.starts = append(l.starts, EpochEnd{e, l.end()})
}

func (l *epochLog) write(e kafka.LeaderEpoch, n int) {
	for range n {
		l.records = append(l.records, e)
	}
}

func (l *epochLog) latest() kafka.LeaderEpoch {
	if len(l.starts) == 0 {
		return kafka.NoLeaderEpoch
	}
	return l.starts[len(l.starts)-1].Epoch
}

// endOffsetFor is what OffsetForLeaderEpoch answers.
func (l *epochLog) endOffsetFor(e kafka.LeaderEpoch) EpochEnd {
	if e < 0 || e > l.latest() {
		return EpochEnd{kafka.NoLeaderEpoch, -1}
	}
	for i := len(l.starts) - 1; i >= 0; i-- {
		if l.starts[i].Epoch > e {
			continue
		}
		if i == len(l.starts)-1 {
			return EpochEnd{l.starts[i].Epoch, l.end()}
		}
		return EpochEnd{l.starts[i].Epoch, l.starts[i+1].End}
	}
	return EpochEnd{e, l.starts[0].End}
}

func (l *epochLog) truncate(offset int64) {
	l.records = l.records[:offset]
	for n := len(l.starts); n > 0 && l.starts[n-1].End >= offset; n-- {
		l.starts = l.starts[:n-1]
	}
}

// converge brings a follower's log to a prefix of the leader's by what a leader answers to fetches, and returns where it
// was cut.
func converge(t *testing.T, leader, follower *epochLog) (cuts []int64) {
	t.Helper()
	for follower.latest() != kafka.NoLeaderEpoch {
		last := follower.latest()
		answer := leader.endOffsetFor(last)
		if answer.Epoch == last && answer.End >= follower.end() {
			return cuts // no divergence
		}
		offset, _ := TruncationPoint(answer, follower.endOffsetFor(answer.Epoch), follower.end())
		follower.truncate(offset)
		cuts = append(cuts, offset)
		if len(cuts) > 100 {
			t.Fatalf("the follower does not get on: cut at %v", cuts)
		}
	}
	return cuts
}

func TestTruncationPoint(t *testing.T) {
	for _, c := range []struct {
		name        string
		leader, own EpochEnd
		logEnd      int64
		offset      int64
		again       bool
	}{
		{"the leader's epoch ended earlier", EpochEnd{1, 5}, EpochEnd{1, 9}, 9, 5, false},
		{"the follower's epoch ended earlier, and it wrote in later ones", EpochEnd{1, 9}, EpochEnd{1, 5}, 7, 5, false},
		{"both ended beyond the follower's end", EpochEnd{1, 9}, EpochEnd{1, 9}, 7, 7, false},
		{"the follower does not know the leader's epoch", EpochEnd{3, 9}, EpochEnd{1, 5}, 7, 5, true},
		{"the cut of a first round stays in the log", EpochEnd{3, 9}, EpochEnd{1, 8}, 7, 7, true},
		{"the follower knows no epochs", EpochEnd{3, 4}, EpochEnd{kafka.NoLeaderEpoch, -1}, 7, 4, false},
		{"it is behind, too", EpochEnd{3, 9}, EpochEnd{kafka.NoLeaderEpoch, -1}, 7, 7, false},
	} {
		if offset, again := TruncationPoint(c.leader, c.own, c.logEnd); offset != c.offset || again != c.again {
			t.Errorf("%s: cut at %d, again %v; want %d, %v", c.name, offset, again, c.offset, c.again)
		}
	}
}

func TestTruncationScenarios(t *testing.T) {
	for _, c := range []struct {
		name             string
		leader, follower *epochLog
		cuts             []int64
	}{
		// KIP-101, scenario 1: the follower had both records, restarts before it knew of the high watermark, and finds a
		// leader with the same epoch: nothing is cut, although its high watermark is lower.
		{"KIP-101 A: a restart keeps what the leader has", newEpochLog([2]int{0, 2}), newEpochLog([2]int{0, 2}), nil},
		// KIP-101, scenario 2: both wrote offset 1, in different epochs.
		{"KIP-101 B: the same offset of two leaders", newEpochLog([2]int{0, 1}, [2]int{1, 1}), newEpochLog([2]int{0, 2}), []int64{1}},
		// KIP-279: two fast elections, each of which wrote what the other never saw.
		{"KIP-279: fast failover", newEpochLog([2]int{0, 1}, [2]int{2, 2}), newEpochLog([2]int{0, 1}, [2]int{1, 2}), []int64{1}},
		{"KIP-279: a second round", newEpochLog([2]int{0, 10}, [2]int{2, 10}, [2]int{5, 1}), newEpochLog([2]int{0, 15}, [2]int{4, 10}), []int64{15, 10}},
		{"KAFKA-10706: an epoch without records", newEpochLog([2]int{0, 3}, [2]int{4, 0}), newEpochLog([2]int{0, 3}, [2]int{3, 0}), []int64{3}},
		{"a leader that lost everything", newEpochLog([2]int{7, 0}), newEpochLog([2]int{0, 3}, [2]int{2, 2}), []int64{0}},
	} {
		if cuts := converge(t, c.leader, c.follower); fmt.Sprint(cuts) != fmt.Sprint(c.cuts) {
			t.Errorf("%s: cut at %v, want %v", c.name, cuts, c.cuts)
		}
		if got, want := fmt.Sprint(c.follower.records), fmt.Sprint(c.leader.records[:c.follower.end()]); got != want {
			t.Errorf("%s: the follower keeps %s, the leader has %s", c.name, got, want)
		}
	}
}

// TestTruncationKeepsTheLongestCommonPrefix plays elections of three replicas that see some of each other: a follower
// keeps all that it has in common with the leader, and nothing else.
func TestTruncationKeepsTheLongestCommonPrefix(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		replicas := []*epochLog{{}, {}, {}}
		epoch := kafka.LeaderEpoch(0)
		for range 12 {
			epoch += kafka.LeaderEpoch(1 + rng.IntN(2))
			leader := replicas[rng.IntN(3)]
			leader.lead(epoch)
			leader.write(epoch, rng.IntN(4))
			for _, follower := range replicas {
				if follower == leader || rng.IntN(2) == 0 {
					continue
				}
				common := int64(0)
				for common < min(leader.end(), follower.end()) && leader.records[common] == follower.records[common] {
					common++
				}
				converge(t, leader, follower)
				if follower.end() != common {
					t.Fatalf("seed %d: the follower keeps %d records, has %d in common with the leader", seed, follower.end(), common)
				}
				upTo := common + rng.Int64N(leader.end()-common+1)
				for offset := common; offset < upTo; offset++ {
					if e := leader.records[offset]; e != follower.latest() {
						follower.lead(e)
					}
					follower.write(leader.records[offset], 1)
				}
			}
		}
	}
}
