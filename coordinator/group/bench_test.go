package group

import (
	"fmt"
	"testing"
	"time"

	"weir/coordinator"
)

// manyOffsets are the records of n commits: groups of ten topics with ten partitions, or as many groups of one partition.
func manyOffsets(n int, alone bool) []coordinator.Record {
	records := make([]coordinator.Record, n)
	for i := range records {
		group, topic, partition := i/100, i/10%10, i%10
		if alone {
			group, topic, partition = i, 0, 0
		}
		records[i] = offsetRecord(begin, fmt.Sprintf("group-%06d", group), fmt.Sprintf("topic-%06d", topic), int32(partition),
			committed{offset: int64(i), timestamp: begin.UnixMilli(), expires: -1, leaderEpoch: 3})
	}
	return records
}

const many = 100_000

func BenchmarkApply(b *testing.B) {
	for name, alone := range map[string]bool{"100 a group": false, "1 a group": true} {
		records := manyOffsets(many, alone)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := newOffsetShard()
				for _, r := range records {
					if err := s.Apply(r); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run("again "+name, func(b *testing.B) {
			s := newOffsetShard()
			for i := range records {
				if err := s.Apply(records[i]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := s.Apply(records[i%many]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkExpire looks for expired offsets where there are none.
func BenchmarkExpire(b *testing.B) {
	for name, alone := range map[string]bool{"100 a group": false, "1 a group": true} {
		s := replay(testSettings(), 1, manyOffsets(many, alone))
		s.Step(begin, coordinator.Loaded{})
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if out := s.expire(begin.Add(time.Hour)); len(out.Records) > 0 {
					b.Fatal("something expired")
				}
			}
		})
	}
}

func BenchmarkCommit(b *testing.B) {
	s := replay(testSettings(), 1, manyOffsets(many, false))
	s.Step(begin, coordinator.Loaded{})
	req := commitRequest(9, "group-000500", "topic-000005", 5, 7)
	c := &coordinator.Call{Body: req}
	b.ReportAllocs()
	for b.Loop() {
		out := s.Step(begin, c)
		for _, r := range out.Records {
			if err := s.Apply(r); err != nil {
				b.Fatal(err)
			}
		}
	}
}
