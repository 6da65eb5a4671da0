package log

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// What the checkpoints said of a log that was deleted is not taken for true of the one that comes after it, whenever the
// process or the machine ends.
func TestRecreatedLogInheritsNothing(t *testing.T) {
	tp := partition(0)
	for _, restart := range []bool{false, true} { // between the deletion and the new log
		clk := clock.NewManual(logStart)
		fsys := vfs.NewMem()
		open := func(fsys vfs.FS) *Store {
			return openStore(t, fsys, func(o *StoreOptions) {
				o.Clock, o.Dirs, o.CheckpointInterval, o.HighWatermarkInterval = clk, []string{"/data"}, time.Second, time.Second
			})
		}
		s := open(fsys)
		l := createTest(t, s, tp)
		for range 5 {
			appendTest(t, l, batchSpec{})
		}
		l.SetHighWatermark(5)
		must(t, l.AdvanceStartOffset(3))
		clk.Advance(2 * time.Second)
		s.StepTasks(clk.Now())
		must(t, fsys.SyncFS("/data"))
		must(t, s.Delete(tp))
		if restart {
			must(t, fsys.SyncFS("/data"))
			fsys = fsys.Kill()
			s = open(fsys)
		}
		l, err := s.Create(tp, kafka.TopicID{2}, DefaultConfig())
		must(t, err)
		for range 4 {
			appendTest(t, l, batchSpec{})
		}
		images := map[string][]*vfs.Mem{"kill": {fsys.Kill()}, "power cut": {fsys.Crash(vfs.LoseAll())}}
		for seed := range uint64(50) {
			const name = "power cut of a random part"
			images[name] = append(images[name], fsys.Crash(vfs.LoseSome(rand.New(rand.NewPCG(seed, 0)))))
		}
		for name := range images {
			for _, image := range images[name] {
				s := open(image)
				if s.Lossy() {
					t.Errorf("%s: the store counts as lossy, broken logs: %v", name, s.Broken())
				}
				l := s.Log(tp)
				if l == nil || l.TopicID() != (kafka.TopicID{2}) {
					continue // the new one was lost, or what tells whose it is
				}
				if l.HighWatermark() > 0 || l.StartOffset() > 0 {
					t.Errorf("%s: the high watermark is %d and the start %d", name, l.HighWatermark(), l.StartOffset())
				}
				if name == "kill" && l.EndOffset() != 4 {
					t.Errorf("%s: the log ends at %d", name, l.EndOffset())
				}
			}
		}
	}
}
