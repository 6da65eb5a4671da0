package log

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// Everything at once, on the machine's file system: appends with commits, reads, truncations, retention, flushes, and
// topics that are deleted and created again. Nothing may fail but for the reasons that this allows, above all no log may go
// offline because another goroutine took a file away.
func TestStoreUnderLoad(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenStore(StoreOptions{
		FS: vfs.OS(), Dirs: []string{dir + "/a", dir + "/b"}, NodeID: 1, Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
		FsyncPolicy: FsyncAck, FlushInterval: 2 * time.Millisecond, CheckpointInterval: 3 * time.Millisecond,
		HighWatermarkInterval: time.Millisecond, RetentionCheckInterval: 5 * time.Millisecond, OpenFiles: 4,
		DirFailed: func(dir string, err error) { t.Errorf("%s failed: %v", dir, err) },
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.RetentionBytes, c.FileDeleteDelayMs = 4000, 200, 20_000, 1
	var wg sync.WaitGroup
	for i := range int32(6) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			tp := partition(i)
			l, err := s.Create(tp, kafka.TopicID{1}, c)
			must(t, err)
			epoch := kafka.LeaderEpoch(0)
			var commits sync.WaitGroup
			for range 600 / raceSlowdown {
				switch p := rng.IntN(40); {
				case p == 0:
					must(t, l.TruncateTo(l.EndOffset()-rng.Int64N(l.EndOffset()-l.StartOffset()+1)))
					epoch++
				case p == 1:
					must(t, s.Delete(tp))
					if l, err = s.Create(tp, kafka.TopicID{1}, c); err != nil {
						t.Error(err)
						return
					}
					epoch = 0
				case p < 30:
					if _, err := l.AppendAsLeader(epoch, batchSpec{records: 1 + rng.IntN(3), size: rng.IntN(300)}.build()); err != nil {
						t.Error(err)
						return
					}
					l.SetHighWatermark(l.EndOffset())
					commits.Add(1)
					s.Commit(l, func(err error) {
						if err != nil && kafka.CodeOf(err) != kafka.NotLeaderOrFollower {
							t.Errorf("commit: %v", err)
						}
						commits.Done()
					})
				default:
					readSome(t, s, rng)
				}
			}
			commits.Wait()
		})
	}
	wg.Wait()
	cancel()
	must(t, <-ended)
	ends := map[kafka.TopicPartition]int64{}
	for _, l := range s.Logs() {
		ends[l.TP()] = l.EndOffset()
	}
	must(t, s.Close())
	s = openStore(t, vfs.OS(), func(o *StoreOptions) { o.Dirs = []string{dir + "/a", dir + "/b"} })
	for tp, end := range ends {
		if l := s.Log(tp); l == nil || l.EndOffset() != end {
			t.Errorf("%v does not end at %d: %v", tp, end, s.Broken())
		}
	}
	must(t, s.Close())
}

// readSome reads from a random log at a random place.
func readSome(t *testing.T, s *Store, rng *rand.Rand) {
	logs := s.Logs()
	l := logs[rng.IntN(len(logs))]
	start, end := l.StartOffset(), l.EndOffset()
	r, err := l.Read(ReadRequest{Offset: start + rng.Int64N(max(end-start, 0)+1), MaxBytes: 2000, EndOffset: end, AtLeastOne: true})
	switch kafka.CodeOf(err) {
	case kafka.None:
	case kafka.OffsetOutOfRange, kafka.NotLeaderOrFollower:
		return // retention, a truncation or a deletion was faster
	default:
		t.Errorf("read: %v", err)
		return
	}
	defer r.Release()
	p := make([]byte, r.Len())
	if _, err := r.ReadAt(p, 0); err != nil {
		return // a truncation was faster
	}
	for b, err := range batch.Batches(p) {
		if err == nil {
			_, err = batch.CheckStored(b)
		}
		if err != nil && l.truncations.Load() == 0 {
			t.Errorf("read of [%d, %d): %v", start, end, err)
		}
	}
	if _, _, err := l.OffsetForTimestamp(logStart.UnixMilli(), end); err != nil && kafka.CodeOf(err) != kafka.NotLeaderOrFollower && l.truncations.Load() == 0 {
		t.Errorf("look-up of a time: %v", err)
	}
}
