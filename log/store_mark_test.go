package log

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/vfs"
)

// After an unclean election a follower cuts off what it had below its high watermark. What it gets in that place is not
// committed because the checkpoint still says so, however the process or the machine ends.
func TestATruncatedLogForgetsItsHighWatermark(t *testing.T) {
	clk := clock.NewManual(logStart)
	fsys := vfs.NewMem()
	open := func(fsys vfs.FS) *Store {
		return openStore(t, fsys, func(o *StoreOptions) {
			o.Clock, o.Dirs, o.HighWatermarkInterval = clk, []string{"/data"}, time.Second
		})
	}
	s := open(fsys)
	l := createTest(t, s, partition(0))
	for range 5 {
		appendTest(t, l, batchSpec{})
	}
	l.SetHighWatermark(5)
	clk.Advance(2 * time.Second)
	s.StepTasks(clk.Now())
	must(t, fsys.SyncFS("/data"))
	must(t, l.TruncateTo(2))
	for range 4 {
		appendTest(t, l, batchSpec{})
	}
	l.SetHighWatermark(3)
	must(t, l.Sync())
	images := map[string][]*vfs.Mem{"kill": {fsys.Kill()}, "power cut": {fsys.Crash(vfs.LoseAll())}}
	for seed := range uint64(20) {
		const name = "power cut of a random part"
		images[name] = append(images[name], fsys.Crash(vfs.LoseSome(rand.New(rand.NewPCG(seed, 0)))))
	}
	for name := range images {
		for _, image := range images[name] {
			l := open(image).Log(partition(0))
			if hw, end := l.HighWatermark(), l.EndOffset(); hw > 3 || end != 6 {
				t.Errorf("%s: high watermark %d, end %d; want 3 at most, and 6", name, hw, end)
			}
		}
	}
}
