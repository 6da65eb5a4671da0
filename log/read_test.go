package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// K009, K010 and K071, as far as the log decides them. Batches of 3 records lie at 0, 3, 6 …
func TestRead(t *testing.T) {
	l := openTest(t, vfs.NewMem(), withConfig(func(c *Config) { c.IndexIntervalBytes, c.SegmentBytes = 200, 1500 }))
	var stored [][]byte
	for range 40 {
		stored = append(stored, appendTest(t, l, batchSpec{records: 3, size: 20}))
	}
	size := len(stored[0])
	must(t, l.AdvanceStartOffset(4))
	for _, c := range []struct {
		name       string
		r          ReadRequest
		first, end int // batches
		code       kafka.Code
	}{
		{"inside of a batch", ReadRequest{Offset: 31, MaxBytes: 10 * size, EndOffset: 39}, 10, 13, kafka.None},
		{"a batch that ends above the limit is left out", ReadRequest{Offset: 30, MaxBytes: 10 * size, EndOffset: 38}, 10, 12, kafka.None},
		{"the limit is inside of the first batch", ReadRequest{Offset: 30, MaxBytes: 10 * size, EndOffset: 32, AtLeastOne: true}, 0, 0, kafka.None},
		{"one byte, at least one", ReadRequest{Offset: 30, MaxBytes: 1, EndOffset: 120, AtLeastOne: true}, 10, 11, kafka.None},
		{"no bytes, at least one", ReadRequest{Offset: 30, MaxBytes: 0, EndOffset: 120, AtLeastOne: true}, 10, 11, kafka.None},
		{"a negative size", ReadRequest{Offset: 30, MaxBytes: -5, EndOffset: 120}, 0, 0, kafka.None},
		{"one byte too few", ReadRequest{Offset: 30, MaxBytes: size - 1, EndOffset: 120}, 0, 0, kafka.None},
		{"whole batches only", ReadRequest{Offset: 30, MaxBytes: 2*size - 1, EndOffset: 120}, 10, 11, kafka.None},
		{"exactly two", ReadRequest{Offset: 30, MaxBytes: 2 * size, EndOffset: 120}, 10, 12, kafka.None},
		{"the tail", ReadRequest{Offset: 117, MaxBytes: 10 * size, EndOffset: 120}, 39, 40, kafka.None},
		{"the start, inside of a batch", ReadRequest{Offset: 4, MaxBytes: size, EndOffset: 120}, 1, 2, kafka.None},
		{"the end", ReadRequest{Offset: 120, MaxBytes: 100, EndOffset: 120, AtLeastOne: true}, 0, 0, kafka.None},
		{"between the limit and the end", ReadRequest{Offset: 50, MaxBytes: 100, EndOffset: 45, AtLeastOne: true}, 0, 0, kafka.None},
		{"a limit above the end", ReadRequest{Offset: 117, MaxBytes: 10 * size, EndOffset: math.MaxInt64}, 39, 40, kafka.None},
		{"above the end", ReadRequest{Offset: 121, MaxBytes: 100, EndOffset: 120}, 0, 0, kafka.OffsetOutOfRange},
		{"below the start", ReadRequest{Offset: 3, MaxBytes: 100, EndOffset: 120}, 0, 0, kafka.OffsetOutOfRange},
	} {
		r, err := l.Read(c.r)
		if kafka.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var want []byte
		for _, b := range stored[c.first:c.end] {
			want = append(want, b...)
		}
		got := make([]byte, r.Len())
		if _, err := r.ReadAt(got, 0); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		r.Release()
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, not %d", c.name, len(got), len(want))
		}
	}
	_, err := l.Read(ReadRequest{Offset: 121})
	if want := (ErrOffsetOutOfRange{logTP, 121, 4, 120}); !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

func TestRecordsReadAt(t *testing.T) {
	l := openTest(t, vfs.NewMem())
	stored := appendTest(t, l, batchSpec{size: 100})
	appendTest(t, l, batchSpec{size: 100})
	r, err := l.Read(ReadRequest{MaxBytes: len(stored), EndOffset: 2})
	must(t, err)
	defer r.Release()
	for _, c := range []struct {
		off, len, want int
		err            error
	}{
		{0, len(stored), len(stored), nil},
		{0, len(stored) + 1, len(stored), io.EOF},
		{10, 20, 20, nil},
		{len(stored) - 5, 10, 5, io.EOF},
		{len(stored), 1, 0, io.EOF},
		{-1, 1, 0, io.EOF},
		{len(stored), 0, 0, nil},
	} {
		p := make([]byte, c.len)
		n, err := r.ReadAt(p, int64(c.off))
		if n != c.want || err != c.err || n > 0 && !bytes.Equal(p[:n], stored[c.off:c.off+n]) {
			t.Errorf("ReadAt(%d bytes, %d) = %d, %v", c.len, c.off, n, err)
		}
	}
	if _, _, ok := r.OSFile(); ok {
		t.Error("a file in memory can be sent by the kernel")
	}
	var none Records
	if _, _, ok := none.OSFile(); ok || none.Len() != 0 {
		t.Error("no records have a file")
	}
	none.Release()
}

func TestRecordsNameTheirFile(t *testing.T) {
	l := openTest(t, vfs.OS(), func(o *Options) { o.Dir = t.TempDir() + "/orders-3" })
	defer l.Close()
	appendTest(t, l, batchSpec{})
	stored := appendTest(t, l, batchSpec{size: 50})
	r, err := l.Read(ReadRequest{Offset: 1, MaxBytes: 1000, EndOffset: 2})
	must(t, err)
	defer r.Release()
	f, pos, ok := r.OSFile()
	if !ok {
		t.Fatal("no file")
	}
	p := make([]byte, r.Len())
	_, err = f.ReadAt(p, pos)
	must(t, err)
	if !bytes.Equal(p, stored) {
		t.Error("the file has something else there")
	}
}

// What was read stays readable when retention, or the topic's end, removes the files.
func TestRecordsOutliveTheirSegment(t *testing.T) {
	dir := t.TempDir() + "/orders-3"
	l := openTest(t, vfs.OS(), func(o *Options) { o.Dir = dir }, withConfig(func(c *Config) { c.SegmentBytes, c.RetentionBytes = 100, 0 }))
	stored := appendTest(t, l, batchSpec{size: 100})
	appendTest(t, l, batchSpec{size: 100})
	l.SetHighWatermark(2)
	r, err := l.Read(ReadRequest{MaxBytes: 1000, EndOffset: 2})
	must(t, err)
	n, err := l.DeleteOldSegments(logStart)
	must(t, err)
	if n != 2 || l.StartOffset() != 2 || l.Size() != 0 {
		t.Fatalf("%d segments deleted, start %d, %d bytes left", n, l.StartOffset(), l.Size())
	}
	must(t, l.Close())
	p := make([]byte, r.Len())
	_, err = r.ReadAt(p, 0)
	must(t, err)
	if !bytes.Equal(p, stored) {
		t.Error("the records have changed")
	}
	file := r.file
	r.Release()
	if _, err := file.ReadAt(p, 0); err == nil {
		t.Error("the file is still open")
	}
	if _, err := l.Read(ReadRequest{Offset: 2}); kafka.CodeOf(err) != kafka.NotLeaderOrFollower {
		t.Errorf("read of a closed log: %v", err)
	}
}

// Readers, one appender and retention at once. Each reader must see whole batches in order and nothing beyond the end
// that it asked for.
func TestConcurrentReads(t *testing.T) {
	l := openTest(t, vfs.OS(), func(o *Options) { o.Dir = t.TempDir() + "/orders-3"; o.files = newFileCache(o.FS, 2) },
		withConfig(func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes, c.RetentionBytes = 8<<10, 300, 30<<10 }))
	defer l.Close()
	var done atomic.Bool
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			next := int64(0)
			for !done.Load() {
				end := l.EndOffset()
				if i%2 == 0 || next >= end {
					next = max(next, end-rng.Int64N(30)) // a consumer at the tail
				}
				next = max(next, l.StartOffset())
				r, err := l.Read(ReadRequest{Offset: next, MaxBytes: 1 + rng.IntN(4000), EndOffset: end, AtLeastOne: true})
				if kafka.CodeOf(err) == kafka.OffsetOutOfRange && next < l.StartOffset() {
					continue // retention was faster
				}
				if err != nil {
					t.Error(err)
					return
				}
				p := make([]byte, r.Len())
				if _, err := r.ReadAt(p, 0); err != nil {
					t.Error(err)
				}
				r.Release()
				for b, err := range batch.Batches(p) {
					h, checkErr := batch.CheckStored(b)
					if err != nil || checkErr != nil || h.LastOffset() < next || h.BaseOffset > next || h.NextOffset() > end {
						t.Errorf("read from %d below %d gives %+v: %v, %v", next, end, h, err, checkErr)
						return
					}
					next = h.NextOffset()
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 / raceSlowdown {
		appendTest(t, l, batchSpec{records: 1 + rng.IntN(3), size: rng.IntN(200)})
		if rng.IntN(3) > 0 {
			l.SetHighWatermark(l.EndOffset())
		}
		if rng.IntN(50) == 0 {
			_, err := l.DeleteOldSegments(logStart)
			must(t, err)
		}
		if rng.IntN(100) == 0 {
			must(t, l.Sync())
		}
	}
	done.Store(true)
	wg.Wait()
}

func TestTailIsNeverWrong(t *testing.T) {
	// Boundaries at (10n, 100n), added while others look them up.
	const boundaries = 200_000 / raceSlowdown
	tail := newTail(0, 0)
	var done atomic.Bool
	var wg sync.WaitGroup
	hits := atomic.Int64{}
	for range 3 {
		wg.Go(func() {
			for i := int64(0); !done.Load(); i++ {
				count := tail.count.Load()
				offset := max((count-i%(tailBoundaries+10))*10-5, 0)
				if b, ok := tail.at(offset); ok {
					hits.Add(1)
					if b.offset != offset/10*10 || b.pos != b.offset*10 {
						t.Errorf("at(%d) = %+v", offset, b)
						return
					}
				}
				if b, ok := tail.before(offset * 10); ok && (b.offset != offset/10*10 || b.pos != b.offset*10) {
					t.Errorf("before(%d) = %+v", offset*10, b)
					return
				}
			}
		})
	}
	for i := int64(1); i < boundaries; i++ {
		tail.add(10*i, 100*i)
	}
	done.Store(true)
	wg.Wait()
	if b, ok := tail.at(10 * (boundaries - 1)); !ok || b.offset != 10*(boundaries-1) {
		t.Errorf("the last boundary: %+v, %v", b, ok)
	}
	if _, ok := tail.at(10 * (boundaries - tailBoundaries - 2)); ok {
		t.Error("a boundary is known that fell out of the window")
	}
}

func TestFileCacheKeepsTheUsedOpen(t *testing.T) {
	fsys := vfs.NewMem()
	cache := newFileCache(fsys, 3)
	var files []*segmentFile
	for _, name := range []string{"/a", "/b", "/c", "/d", "/e"} {
		f := &segmentFile{cache: cache, path: name}
		must(t, f.create())
		files = append(files, f)
	}
	open := func() (names string) {
		for _, f := range files {
			if f.open.Load() != nil {
				names += f.path[1:]
			}
		}
		return names
	}
	if len(open()) != 3 {
		t.Fatalf("open: %s", open())
	}
	// One that a reader holds stays, whatever the others do.
	held, err := files[0].acquire()
	must(t, err)
	for range 5 {
		for _, f := range files[1:] {
			h, err := f.acquire()
			must(t, err)
			h.release()
			if len(open()) > 3 || files[0].open.Load() != held {
				t.Fatalf("open: %s", open())
			}
		}
	}
	must(t, files[0].remove())
	if _, err := held.ReadAt(make([]byte, 0), 0); err != nil {
		t.Errorf("read of a removed file that is held: %v", err)
	}
	held.release()
	if _, err := files[0].acquire(); err == nil {
		t.Error("a removed file can be opened")
	}
}

// Files that are opened, evicted and retired by several at once: each is closed when the last has let go of it, and the cache
// never holds more than its limit and what is in use.
func TestFileCacheUnderLoad(t *testing.T) {
	fsys := vfs.NewMem()
	cache := newFileCache(fsys, 4)
	var slots [16]atomic.Pointer[segmentFile]
	var names atomic.Int64
	replace := func(i int) {
		f := &segmentFile{cache: cache, path: fmt.Sprintf("/%d", names.Add(1))}
		must(t, f.create())
		if old := slots[i].Swap(f); old != nil {
			must(t, old.remove())
		}
	}
	for i := range slots {
		replace(i)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			for range 5000 / raceSlowdown {
				i := rng.IntN(len(slots))
				if rng.IntN(20) == 0 {
					replace(i)
					continue
				}
				f := slots[i].Load()
				h, err := f.acquire()
				if errors.Is(err, fs.ErrNotExist) {
					continue // replaced meanwhile
				}
				must(t, err)
				if _, err := h.Size(); err != nil {
					t.Errorf("a file that is held is closed: %v", err)
				}
				h.release()
			}
		})
	}
	wg.Wait()
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if len(cache.mu.files) > 4+1 {
		t.Errorf("%d files are open", len(cache.mu.files))
	}
	for i, h := range cache.mu.files {
		if h.slot != i || h.refs.Load() != 1 || h.owner.gone {
			t.Errorf("file %d of the cache has slot %d, %d references, gone %v", i, h.slot, h.refs.Load(), h.owner.gone)
		}
	}
}
