package quorum

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/internal/vfs"
	"weir/protocol/batch"
)

// What is not this node's, or not whole, is refused by name and left as it is.
func TestRefusals(t *testing.T) {
	const zero = logDir + "/00000000000000000000.log"
	segment := func(fsys vfs.FS) []byte {
		b, err := readFile(fsys, zero)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	kafkas := batch.ControlBatch(batch.EndTxnMarker{}, -1, -1, 1, 0) // a control batch: Kafka's log begins with one
	for _, c := range []struct {
		name   string
		damage func(fsys vfs.FS, o *Options)
		want   string
	}{
		{"another cluster", func(_ vfs.FS, o *Options) { o.ClusterID = "c2" }, "it belongs to cluster c1, and this node to cluster c2"},
		{"Kafka's own", func(f vfs.FS, _ *Options) { putFile(t, f, zero, kafkas) }, "was it written by Apache Kafka?"},
		{"no raft-state", func(f vfs.FS, _ *Options) { remove(t, f, raftStateFile) }, "term and vote are gone"},
		{"broken raft-state", func(f vfs.FS, _ *Options) { putFile(t, f, logDir+"/raft-state", make([]byte, 40)) }, "term and vote cannot be read"},
		{"no log", func(f vfs.FS, _ *Options) { remove(t, f, "00000000000000000000.log") }, "it is empty, and this node has taken part in term 1 already"},
		{"empty log", func(f vfs.FS, _ *Options) { putFile(t, f, zero, nil) }, "it is empty, and this node has taken part in term 1 already"},
		{"broken offset 0", func(f vfs.FS, _ *Options) { b := segment(f); b[70]++; putFile(t, f, zero, b) }, "its first entry cannot be read"},
		{"log without its beginning", func(f vfs.FS, _ *Options) {
			if err := f.Rename(zero, logDir+"/00000000000000000005.log"); err != nil {
				t.Fatal(err)
			}
		}, "there is no snapshot"},
		{"broken snapshot", func(f vfs.FS, _ *Options) {
			putFile(t, f, logDir+"/"+snapshotName(3, 1), segment(f))
		}, "its newest snapshot cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := newDisk()
			o := options(fsys)
			n := alone(t, o)
			propose(t, n, producerIDs(1000))
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			c.damage(fsys, &o)
			before := files(t, fsys, logDir)
			_, err := Open(o, epoch)
			var refused *RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), logDir) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if after := files(t, fsys, logDir); !maps.Equal(before, after) {
				t.Fatalf("files were %v, are %v", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
		})
	}
}

func remove(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	if err := fsys.Remove(logDir + "/" + name); err != nil {
		t.Fatal(err)
	}
}

// Entries that were durable and are not there any more: a voter must not go on with less than it acknowledged.
func TestLostEntriesAreNoticed(t *testing.T) {
	fsys := newDisk()
	n := alone(t, options(fsys))
	for i := range 50 {
		propose(t, n, newTopic(i)...)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	const zero = logDir + "/00000000000000000000.log"
	b, err := readFile(fsys, zero)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2]++
	putFile(t, fsys, zero, b)
	if _, err := Open(options(fsys), epoch); err == nil {
		t.Fatal("a log with a hole was opened")
	} else {
		t.Log(err)
	}
}

// A crash while the log is founded may leave anything at offset 0; nothing depends on it yet.
func TestFoundingBeginsAgain(t *testing.T) {
	for name, content := range map[string][]byte{"nothing": nil, "zeros": make([]byte, 300), "torn": {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99, 0}} {
		t.Run(name, func(t *testing.T) {
			fsys := newDisk()
			if err := fsys.MkdirAll(logDir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := writeRaftState(fsys, logDir, raftState{RaftID: 7}); err != nil {
				t.Fatal(err)
			}
			putFile(t, fsys, logDir+"/00000000000000000000.log", content)
			n := alone(t, options(fsys))
			propose(t, n, producerIDs(1000))
		})
	}
}

func TestRaftIDIsDrawnOnce(t *testing.T) {
	fsys := newDisk()
	o := options(fsys)
	o.Self.RaftID = 0
	n := alone(t, o)
	id := n.RaftID()
	if m, ok := n.Image().Quorum.ByRaftID(id); id == 0 || !ok || m.Node != 1 || m.Directory != o.Self.Directory {
		t.Fatalf("%d: %+v", id, m)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if again := alone(t, o).RaftID(); again != id {
		t.Fatalf("%d, then %d", id, again)
	}
}
