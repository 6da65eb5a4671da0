package log

import (
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

// A client sends again what it has no answer for, up to five batches, and a stop may come at any time. After each kind of
// stop, and with the batches in one segment or in several, it must be told where each of them is.
func TestRetriesAreKnownAfterARestart(t *testing.T) {
	for name, stop := range map[string]func(*testing.T, *Store, *vfs.Mem) *vfs.Mem{
		"clean": func(t *testing.T, s *Store, mem *vfs.Mem) *vfs.Mem { must(t, s.Close()); return mem },
		"kill":  func(_ *testing.T, _ *Store, mem *vfs.Mem) *vfs.Mem { return mem.Kill() },
	} {
		for segments, segmentBytes := range map[string]int32{"one segment": 1 << 20, "many segments": 100} {
			t.Run(name+", "+segments, func(t *testing.T) {
				mem := vfs.NewMem()
				s := openStore(t, mem)
				l := createTest(t, s, partition(0))
				config := DefaultConfig()
				config.SegmentBytes = segmentBytes
				l.SetConfig(config)
				const sent = 8
				for i := range int32(sent) {
					appendTest(t, l, batchSpec{producer: 7, sequence: i})
					appendTest(t, l, batchSpec{producer: 8, sequence: i}) // somebody else between
				}
				mem = stop(t, s, mem)
				l = openStore(t, mem).Log(partition(0))
				again := func(sequence int32) (AppendResult, error) {
					return l.AppendAsLeader(max(l.LatestEpoch(), 0), batchSpec{producer: 7, sequence: sequence}.build())
				}
				for _, sequence := range []int32{3, 4, 5, 6, 7, 3} {
					r, err := again(sequence)
					if err != nil || !r.Duplicate || r.BaseOffset != int64(2*sequence) {
						t.Errorf("batch %d again: %+v, %v; it lies at %d", sequence, r, err, 2*sequence)
					}
				}
				for _, sequence := range []int32{0, 2, 9} {
					if _, err := again(sequence); kafka.CodeOf(err) != kafka.OutOfOrderSequenceNumber {
						t.Errorf("batch %d, which is none of the last five nor the next: %v", sequence, err)
					}
				}
				if r, err := again(sent); err != nil || r.Duplicate || r.BaseOffset != 2*sent {
					t.Errorf("the next batch: %+v, %v", r, err)
				}
			})
		}
	}
}
