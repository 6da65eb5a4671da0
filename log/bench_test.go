package log

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

func benchLog(b *testing.B, change ...func(*Options)) *Log {
	b.Helper()
	l := openTest(quiet{b}, vfs.OS(), append(change, func(o *Options) { o.Dir = b.TempDir() + "/orders-3" })...)
	b.Cleanup(func() { _ = l.Close() })
	return l
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			l := benchLog(b, withConfig(func(c *Config) { c.RetentionBytes = 256 << 20; c.SegmentBytes = 64 << 20 }))
			v := batchSpec{size: size - 80}.build()
			b.SetBytes(int64(len(v.Bytes)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := l.AppendAsLeader(0, v); err != nil {
					b.Fatal(err)
				}
				if i%1024 == 0 {
					l.SetHighWatermark(l.EndOffset())
					_, err := l.DeleteOldSegments(logStart) // bounds what the disk holds
					must(b, err)
				}
			}
		})
	}
}

func BenchmarkAppendIdempotent1KiB(b *testing.B) {
	l := benchLog(b)
	v := batchSpec{size: 1 << 10, producer: 9}.build()
	b.SetBytes(int64(len(v.Bytes)))
	b.ReportAllocs()
	for i := int32(0); b.Loop(); i++ {
		v.Header.BaseSequence = i
		if _, err := l.AppendAsLeader(0, v); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead reads where consumers do: at the tail, catching up in the active segment, and in a sealed one.
func BenchmarkRead(b *testing.B) {
	for _, place := range []string{"tail", "active", "sealed"} {
		for _, maxBytes := range []int{1 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKiB", place, maxBytes>>10), func(b *testing.B) {
				l := benchLog(b, withConfig(func(c *Config) { c.SegmentBytes = 32 << 20 }))
				for range 50_000 {
					appendTest(b, l, batchSpec{size: 1 << 10})
				}
				set := l.segments.Load()
				from, to := set.all[0].baseOffset, set.all[1].baseOffset
				switch place {
				case "tail":
					from, to = l.EndOffset()-1, l.EndOffset()
				case "active":
					from, to = set.active().baseOffset, l.EndOffset()
				}
				p := make([]byte, maxBytes)
				offset := from
				b.ReportAllocs()
				for b.Loop() {
					r, err := l.Read(ReadRequest{Offset: offset, MaxBytes: maxBytes, EndOffset: l.EndOffset(), AtLeastOne: true})
					if err != nil {
						b.Fatal(err)
					}
					n, err := r.ReadAt(p[:min(r.Len(), len(p))], 0)
					if err != nil {
						b.Fatal(err)
					}
					r.Release()
					b.SetBytes(int64(n))
					if offset += max(int64(n)/1100, 1); offset >= to {
						offset = from
					}
				}
			})
		}
	}
}

// BenchmarkOpenStore opens many small logs, after a good end and after kill -9.
func BenchmarkOpenStore(b *testing.B) {
	const logs = 2000
	for _, clean := range []bool{true, false} {
		b.Run(map[bool]string{true: "clean", false: "killed"}[clean], func(b *testing.B) {
			dir := b.TempDir()
			open := func() *Store {
				return openStore(quiet{b}, vfs.OS(), func(o *StoreOptions) { o.Dirs = []string{dir}; o.Recoveries = 4 })
			}
			s := open()
			for i := range int32(logs) {
				l := createTest(b, s, kafka.TopicPartition{Topic: "orders", Partition: i})
				for range 10 {
					appendTest(b, l, batchSpec{size: 100})
				}
			}
			for b.Loop() {
				b.StopTimer()
				if clean {
					must(b, s.Close())
				} else {
					s.release() // the locks, as a killed process does
				}
				b.StartTimer()
				began := time.Now()
				s = open()
				b.ReportMetric(float64(time.Since(began).Microseconds())/logs, "µs/log")
			}
			must(b, s.Close())
		})
	}
}
