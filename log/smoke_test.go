package log

import (
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

func TestSmoke(t *testing.T) {
	fs := vfs.NewMem()
	s, err := OpenStore(StoreOptions{FS: fs, Dirs: []string{"/d"}, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	tp := kafka.TopicPartition{Topic: "t"}
	l, err := s.Create(tp, kafka.NewUUID(), DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		b := batch.NewBuilder(batch.None, 0)
		b.Append(int64(1000+i), []byte("k"), make([]byte, 200))
		p, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.AppendAsLeader(3, batch.Trusted(p))
		if err != nil || r.BaseOffset != int64(i) {
			t.Fatal(r, err)
		}
	}
	l.SetHighWatermark(200)
	for i := range 200 {
		r, err := l.Read(ReadRequest{Offset: int64(i), MaxBytes: 1000, EndOffset: 200, AtLeastOne: true})
		if err != nil || r.Len() == 0 {
			t.Fatal(i, r, err)
		}
		p := make([]byte, r.Len())
		if _, err := r.ReadAt(p, 0); err != nil {
			t.Fatal(err)
		}
		for b, err := range batch.Batches(p) {
			if err != nil {
				t.Fatal(i, err)
			}
			h, _ := batch.ParseHeader(b)
			if h.BaseOffset != int64(i) {
				t.Fatal(i, h)
			}
			break
		}
		r.Release()
		at, ok, err := l.OffsetForTimestamp(int64(1000+i), 200)
		if err != nil || !ok || at.Offset != int64(i) || at.LeaderEpoch != 3 {
			t.Fatal(at, ok, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = OpenStore(StoreOptions{FS: fs, Dirs: []string{"/d"}, NodeID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if l = s.Log(tp); l == nil || l.EndOffset() != 200 {
		t.Fatal(s.Broken(), l)
	}
	if _, clean := s.CleanShutdown(); !clean {
		t.Fatal("not clean")
	}
}
