package quorum

import (
	"bytes"
	"errors"
	"fmt"
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
		b, err := vfs.ReadFile(fsys, zero)
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
		{"no log", func(f vfs.FS, _ *Options) { remove(t, f, "00000000000000000000.log") }, "it is empty, and this node has had it up to term 1"},
		{"empty log", func(f vfs.FS, _ *Options) { putFile(t, f, zero, nil) }, "it is empty, and this node has had it up to term 1"},
		{"broken offset 0", func(f vfs.FS, _ *Options) { b := segment(f); b[70]++; putFile(t, f, zero, b) }, "its first entry cannot be read"},
		{"log without its beginning", func(f vfs.FS, _ *Options) {
			if err := f.Rename(zero, logDir+"/00000000000000000005.log"); err != nil {
				t.Fatal(err)
			}
		}, "there is no snapshot"},
		{"another raft id's", func(_ vfs.FS, o *Options) { o.Self.RaftID, o.Self.Directory[0] = 8, 8 }, "it is that of raft id 0x0000000000000007"},
		{"committed entries lost", func(f vfs.FS, _ *Options) {
			if err := writeRaftState(f, logDir, raftState{RaftID: 7, Term: 1, Committed: 9}); err != nil {
				t.Fatal(err)
			}
		}, "entries are lost: it ends at offset 2, and was committed up to 8"},
		{"another's name for it", func(f vfs.FS, _ *Options) {
			putFile(t, f, "/data/"+memberFile, []byte("7"))
			remove(t, f, raftStateFile)
			remove(t, f, "00000000000000000000.log")
		}, "whether it was there before cannot be told"},
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
	b, err := vfs.ReadFile(fsys, zero)
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

// A crash while the log is founded may leave anything at offset 0; nothing depends on it yet. Older versions had written
// raft-state by then.
func TestFoundingBeginsAgain(t *testing.T) {
	other := options(newDisk())
	other.ClusterID = "c0"
	whole := files(t, alone(t, other).o.FS, logDir)["00000000000000000000.log"]
	h, err := batch.ParseHeader([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"nothing": "", "zeros": string(make([]byte, 300)), "torn": "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x63\x00",
		"half": whole[:h.Size()-20], "another founding": whole[:h.Size()],
	} {
		for _, older := range []bool{false, true} {
			if older && name == "another founding" {
				continue // then the log is there
			}
			t.Run(fmt.Sprintf("%s, older version %v", name, older), func(t *testing.T) {
				fsys := newDisk()
				if err := fsys.MkdirAll(logDir, 0o755); err != nil {
					t.Fatal(err)
				}
				if older {
					putFile(t, fsys, logDir+"/"+raftStateFile, raftStateV1(9, 0, 0))
				}
				putFile(t, fsys, logDir+"/00000000000000000000.log", []byte(content))
				o := options(fsys)
				n := alone(t, o)
				propose(t, n, producerIDs(1000))
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
				if n = alone(t, o); n.Image().NextProducerID != 1000 || n.Image().ClusterID != "c1" || n.RaftID() == 9 != older {
					t.Fatalf("raft id %d, %v", n.RaftID(), contents(n.Image()))
				}
			})
		}
	}
}

// A Raft id is the directory's, the same at every start.
func TestRaftIDIsTheDirectorys(t *testing.T) {
	fsys := newDisk()
	o := options(fsys)
	o.Self.RaftID = 0
	n := alone(t, o)
	const want = 0x4cbbd8ca5215b8d1 // SHA-256 of 01 and fifteen 00 begins so: on disks, it never changes
	if m, ok := n.Image().Quorum.ByRaftID(want); n.RaftID() != want || !ok || m.Node != 1 || m.Directory != o.Self.Directory {
		t.Fatalf("%x: %+v", n.RaftID(), m)
	}
	if got := file(t, fsys, "/data/"+memberFile); got != "4cbbd8ca5215b8d1\n" {
		t.Errorf("%s has %q", memberFile, got)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if again := alone(t, o).RaftID(); again != want {
		t.Fatalf("%x, then %x", n.RaftID(), again)
	}
}

// Neither 0 nor what Raft calls itself by.
func TestReservedRaftIDs(t *testing.T) {
	sum := append(make([]byte, 8), bytes.Repeat([]byte{0xff}, 8)...)
	sum = append(sum, bytes.Repeat([]byte{0xff}, 7)...)
	sum = append(sum, 0xfe)
	if id := firstRaftID(append(sum, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd)); id != 1<<64-3 {
		t.Fatalf("%x", id)
	}
}

// A log of an older version has an id that was drawn. It stays, in the directory that it was drawn for, and only there.
func TestDrawnRaftIDStays(t *testing.T) {
	fsys := newDisk()
	o := options(fsys) // its id, 7, is not that of its directory
	n := alone(t, o)
	state := n.storage.state
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	putFile(t, fsys, logDir+"/"+raftStateFile, raftStateV1(state.RaftID, state.Term, state.Vote))
	remove(t, fsys, "../"+memberFile)
	o.Self.RaftID = 0
	n = alone(t, o)
	propose(t, n, producerIDs(1000))
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if id := n.RaftID(); id != 7 || file(t, fsys, "/data/"+memberFile) != "0000000000000007\n" {
		t.Fatalf("raft id %d", id)
	}
	o.Self.Directory[5]++
	if _, err := Open(o, epoch); !errors.As(err, new(*RefusedError)) || !strings.Contains(err.Error(), "raft id 0x0000000000000007, which is not this directory's") {
		t.Fatal(err)
	}
}
