package log

import (
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

func TestExpired(t *testing.T) {
	forever := retentionLimits{highWatermark: 100, nowMs: 1000, retentionMs: -1, retentionSize: -1, byAge: true, bySize: true}
	with := func(change func(*retentionLimits)) retentionLimits {
		r := forever
		change(&r)
		return r
	}
	// Four segments of 10 bytes and offsets; the last is the active one.
	segments := []segmentInfo{{10, 10, 100}, {20, 10, 500}, {30, 10, 300}, {40, 10, 900}}
	for _, c := range []struct {
		name string
		r    retentionLimits
		want int
	}{
		{"without limits", forever, 0},
		{"age", with(func(r *retentionLimits) { r.retentionMs = 600 }), 1},
		{"exactly as old as allowed", with(func(r *retentionLimits) { r.retentionMs = 900 }), 0},
		{"a newer segment keeps older ones behind it", with(func(r *retentionLimits) { r.retentionMs = 550 }), 1},
		{"all but the active one", with(func(r *retentionLimits) { r.retentionMs = 200 }), 3},
		{"all", with(func(r *retentionLimits) { r.retentionMs = 0 }), 4},
		{"size", with(func(r *retentionLimits) { r.retentionSize = 20 }), 2},
		{"size, not exceeded by a whole segment", with(func(r *retentionLimits) { r.retentionSize = 31 }), 0},
		{"size 0", with(func(r *retentionLimits) { r.retentionSize = 0 }), 4},
		{"start offset", with(func(r *retentionLimits) { r.startOffset = 29 }), 2},
		{"start offset at the end", with(func(r *retentionLimits) { r.startOffset = 40 }), 3},
		{"not above the high watermark", with(func(r *retentionLimits) { r.retentionMs, r.highWatermark = 0, 29 }), 2},
		{"compaction only", with(func(r *retentionLimits) { r.retentionMs, r.retentionSize, r.byAge, r.bySize = 0, 0, false, false }), 0},
		{"compaction only, below the start", with(func(r *retentionLimits) { r.byAge, r.bySize, r.startOffset = false, false, 10 }), 1},
		{"age and size together", with(func(r *retentionLimits) { r.retentionMs, r.retentionSize = 600, 10 }), 3},
	} {
		if got := expired(segments, c.r); got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
	}
	empty := []segmentInfo{{10, 0, 0}}
	if got := expired(empty, with(func(r *retentionLimits) { r.retentionMs, r.retentionSize = 0, 0 })); got != 0 {
		t.Errorf("an empty log: %d", got)
	}
}

// K070: a record with a time far ahead, times by segment, an active segment that expires; the end never moves.
func TestRetentionByTime(t *testing.T) {
	clk := clock.NewManual(logStart)
	now := logStart.UnixMilli()
	fsys := vfs.NewMem()
	config := withConfig(func(c *Config) { c.SegmentBytes, c.RetentionMs = 100, 1000 })
	l := openTest(t, fsys, config, func(o *Options) { o.Clock = clk })
	for _, at := range []int64{now - 5000, now, now + 3_600_000, now} {
		appendTest(t, l, batchSpec{size: 100, timestamp: at})
	}
	check := func(start int64) {
		t.Helper()
		_, err := l.DeleteOldSegments(clk.Now())
		must(t, err)
		if l.StartOffset() != start || l.EndOffset() != 4 {
			t.Errorf("the log is [%d, %d), not [%d, 4)", l.StartOffset(), l.EndOffset(), start)
		}
	}
	check(0) // nothing is below the high watermark
	l.SetHighWatermark(4)
	check(1)
	clk.Advance(time.Minute)
	check(2)
	clk.Advance(2 * time.Hour)
	check(4)
	if l.Size() != 0 || len(l.segments.Load().all) != 1 {
		t.Errorf("%d bytes in %d segments", l.Size(), len(l.segments.Load().all))
	}
	appendTest(t, l, batchSpec{timestamp: clk.Now().UnixMilli()})
	must(t, l.Close())
	if again := openTest(t, fsys, config); again.StartOffset() != 4 || again.EndOffset() != 5 {
		t.Errorf("opened again, the log is [%d, %d)", again.StartOffset(), again.EndOffset())
	}
	names, err := fsys.ReadDir(logDir)
	must(t, err)
	for _, e := range names {
		if base, _, ok := parseSegmentName(e.Name()); ok && base < 4 {
			t.Errorf("%s is still there", e.Name())
		}
	}
}

// K055, as far as the log decides it.
func TestAdvanceStartOffset(t *testing.T) {
	fsys := vfs.NewMem()
	own := func(o *Options) { o.OwnCheckpoints = true }
	l := openTest(t, fsys, own)
	for range 3 {
		appendTest(t, l, batchSpec{records: 2})
	}
	l.SetHighWatermark(6)
	for _, c := range []struct {
		to, start int64
		code      kafka.Code
	}{{7, 0, kafka.OffsetOutOfRange}, {3, 3, kafka.None}, {1, 3, kafka.None}, {0, 3, kafka.None}} {
		if err := l.AdvanceStartOffset(c.to); kafka.CodeOf(err) != c.code || l.StartOffset() != c.start {
			t.Errorf("to %d: %v, start %d", c.to, err, l.StartOffset())
		}
	}
	if l.EpochForOffset(2) != kafka.NoLeaderEpoch || l.EpochForOffset(3) != 0 {
		t.Errorf("epochs %d, %d", l.EpochForOffset(2), l.EpochForOffset(3))
	}
	l = openTest(t, fsys.Kill(), own)
	if l.StartOffset() != 3 {
		t.Errorf("after kill -9 the log starts at %d", l.StartOffset())
	}
	at, found, err := l.OffsetForTimestamp(0, 6)
	must(t, err)
	if !found || at.Offset != 3 {
		t.Errorf("the first time is found %v at %+v", found, at)
	}
}

func TestHighWatermark(t *testing.T) {
	l := openTest(t, vfs.NewMem())
	for range 5 {
		appendTest(t, l, batchSpec{})
	}
	for _, c := range []struct{ to, want int64 }{{3, 3}, {2, 3}, {-1, 3}, {9, 5}} {
		if got := l.SetHighWatermark(c.to); got != c.want || l.HighWatermark() != c.want || l.LastStableOffset() != c.want {
			t.Errorf("to %d: %d, %d, stable %d", c.to, got, l.HighWatermark(), l.LastStableOffset())
		}
	}
	must(t, l.TruncateTo(2))
	if l.HighWatermark() != 2 {
		t.Errorf("after truncation it is %d", l.HighWatermark())
	}
}
