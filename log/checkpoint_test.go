package log

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

func TestOffsetCheckpointIsKafkas(t *testing.T) {
	fsys := vfs.NewMem()
	path := "/" + RecoveryPointCheckpoint
	offsets := map[kafka.TopicPartition]int64{
		{Topic: "orders", Partition: 10}: 304,
		{Topic: "orders", Partition: 2}:  594,
		{Topic: "a.b_c-d", Partition: 0}: 1 << 62,
	}
	must(t, WriteOffsetCheckpoint(fsys, path, offsets, true))
	content, err := vfs.ReadFile(fsys, path)
	must(t, err)
	if want := "0\n3\na.b_c-d 0 4611686018427387904\norders 2 594\norders 10 304\n"; string(content) != want {
		t.Fatalf("content %q, want %q", content, want)
	}
	got, err := ReadOffsetCheckpoint(fsys, path)
	must(t, err)
	if !maps.Equal(got, offsets) {
		t.Fatalf("read %v, want %v", got, offsets)
	}
	must(t, WriteOffsetCheckpoint(fsys, path, nil, false))
	if got, err := ReadOffsetCheckpoint(fsys, path); len(got) > 0 || err != nil {
		t.Fatalf("read %v, %v", got, err)
	}
	if got, err := ReadOffsetCheckpoint(fsys.Crash(vfs.LoseAll()), path); !maps.Equal(got, offsets) || err != nil {
		t.Fatalf("after a power cut %v, %v", got, err)
	}
}

func TestOffsetCheckpointsThatAreNone(t *testing.T) {
	for _, c := range []struct {
		content string
		line    int // 0: no error
	}{
		{"", 0}, // as Kafka makes it
		{"0\n0\n", 0},
		{"0\n1\norders 1 304", 3},
		{"0\n1\norders  1\t304\n", 0},
		{"0\n", 2},
		{"1\n0\n", 1},
		{"\x00\x00\x00", 1},
		{"0\n-1\n", 2},
		{"0\n1\norders 1\n", 3},
		{"0\n1\norders 1 2 3\n", 3},
		{"0\n1\norders -1 304\n", 3},
		{"0\n1\norders 2147483648 304\n", 3},
		{"0\n2\norders 1 304\norders 2 x\n", 4},
		{"0\n2\norders 1 304\n", 3},
		{"0\n1\norders 1 304\norders 2 5\n", 4},
		{"0\n2\norders 1 304\n\norders 2 5\n", 4},
	} {
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, "/c", []byte(c.content), 0o644, true))
		_, err := ReadOffsetCheckpoint(fsys, "/c")
		var broken ErrBrokenFile
		switch {
		case c.line == 0 && err != nil:
			t.Errorf("%q: %v", c.content, err)
		case c.line > 0 && (!errors.As(err, &broken) || broken.Line != c.line || broken.Path != "/c"):
			t.Errorf("%q: %v, want an error in line %d of /c", c.content, err, c.line)
		}
	}
	if got, err := ReadOffsetCheckpoint(vfs.NewMem(), "/missing"); len(got) > 0 || err != nil {
		t.Errorf("a missing checkpoint: %v, %v", got, err)
	}
	faulty := vfs.NewFaulty(vfs.NewMem(), vfs.Fault{Op: vfs.OpOpen, Err: syscall.EIO})
	if _, err := ReadOffsetCheckpoint(faulty, "/c"); !errors.Is(err, syscall.EIO) || errors.As(err, new(ErrBrokenFile)) {
		t.Errorf("a disk that fails: %v", err)
	}
}

func FuzzOffsetCheckpoint(f *testing.F) {
	f.Add("0\n2\norders 1 304\n__consumer_offsets 32 3\n")
	f.Add("0\n0\n")
	f.Fuzz(func(t *testing.T, content string) {
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, "/c", []byte(content), 0o644, false))
		offsets, err := ReadOffsetCheckpoint(fsys, "/c")
		if err != nil {
			return
		}
		must(t, WriteOffsetCheckpoint(fsys, "/c", offsets, false))
		again, err := ReadOffsetCheckpoint(fsys, "/c")
		if err != nil || !maps.Equal(again, offsets) {
			t.Fatalf("%q: %v, written and read again %v, %v", content, offsets, again, err)
		}
	})
}

func BenchmarkWriteOffsetCheckpoint(b *testing.B) {
	offsets := map[kafka.TopicPartition]int64{}
	for i := range int32(10_000) {
		offsets[kafka.TopicPartition{Topic: fmt.Sprint("topic-", i/10), Partition: i % 10}] = 1_000_000
	}
	path := b.TempDir() + "/c"
	for b.Loop() {
		if err := WriteOffsetCheckpoint(vfs.OS(), path, offsets, false); err != nil {
			b.Fatal(err)
		}
	}
}
