package quorum

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"weir/internal/vfs"
	"weir/protocol/batch"
)

// storageOn opens a log without Raft above it.
func storageOn(t *testing.T, fsys vfs.FS) *storage {
	t.Helper()
	l, err := openLog(fsys, nil, logDir, defaultSegmentBytes, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return &storage{fs: fsys, dir: logDir, log: l, builder: batch.NewBuilder(batch.None, 0), snap: snapshot{conf: &raftpb.ConfState{}}}
}

// entryData makes a batch of two pages of the disk, so that a power cut can take one entry and leave the next.
const entryData = 8192 - 72

// termEntries are entries from index first on, one for each term.
func termEntries(first uint64, terms ...uint64) (out []*raftpb.Entry) {
	for i, term := range terms {
		index := first + uint64(i)
		data := append([]byte{byte(term), byte(index)}, make([]byte, entryData-2)...)
		out = append(out, &raftpb.Entry{Index: new(index), Term: new(term), Type: raftpb.EntryNormal.Enum(), Data: data})
	}
	return out
}

func terms(t *testing.T, s *storage) (out []uint64) {
	t.Helper()
	for lo := s.first(); lo <= s.last(); {
		entries, err := s.Entries(lo, s.last()+1, entryData)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			term, err := s.Term(e.GetIndex())
			if err != nil || term != e.GetTerm() || e.GetIndex() != lo || e.GetData()[0] != byte(term) || e.GetData()[1] != byte(lo) {
				t.Fatalf("entry %d: index %d, term %d, Term says %d, %v", lo, e.GetIndex(), e.GetTerm(), term, err)
			}
			out = append(out, term)
			lo++
		}
	}
	return out
}

// Entries that conflict give way, in the file and in memory; and a power cut in between brings none of them back behind
// what took their place.
func TestConflictingEntriesGiveWay(t *testing.T) {
	mem := newDisk()
	fsys := &hookFS{FS: mem, before: func() {}}
	s := storageOn(t, fsys)
	if err := s.append(termEntries(0, 1, 1, 1, 1, 1, 1), epoch); err != nil {
		t.Fatal(err)
	}
	if s.log.Size() != 6*8192 {
		t.Fatalf("six entries have %d bytes", s.log.Size())
	}
	moments := 0
	fsys.before = func() {
		for seed := range uint64(30) {
			moments++
			after := storageOn(t, mem.Crash(vfs.LoseSome(rand.New(rand.NewPCG(seed, 5)))))
			got := terms(t, after)
			for i := 1; i < len(got); i++ {
				if got[i] < got[i-1] {
					t.Fatalf("terms after a power cut: %v", got)
				}
			}
		}
	}
	if err := s.append(termEntries(3, 2), epoch); err != nil {
		t.Fatal(err)
	}
	fsys.before = func() {}
	if moments < 100 {
		t.Fatalf("%d power cuts", moments)
	}
	want := []uint64{1, 1, 2}
	if got := terms(t, s); !slices.Equal(got, want) {
		t.Fatalf("terms %v, want %v", got, want)
	}
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	if got := terms(t, storageOn(t, fsys)); !slices.Equal(got, want) {
		t.Fatalf("terms %v after opening again, want %v", got, want)
	}
}

// What is not in memory any more comes from the file.
func TestEntriesBeyondTheCache(t *testing.T) {
	s := storageOn(t, newDisk())
	for i := range uint64(2000) {
		if err := s.append(termEntries(i, 1+i/100), epoch); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.tail) == 0 || len(s.tail) > cacheBytes/entryData {
		t.Fatalf("%d entries in memory", len(s.tail))
	}
	if got := len(terms(t, s)); got != 1999 {
		t.Fatalf("%d entries", got)
	}
}

// The metadata has the cluster's secrets, as the key of its gossip.
func TestNobodyElseReadsTheMetadata(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "__cluster_metadata-0")
	check := func(what string) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if perm := info.Mode().Perm(); perm&0o077 != 0 {
			t.Errorf("%s: %v", what, perm)
		}
	}
	l, err := openLog(vfs.OS(), nil, dir, defaultSegmentBytes, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	check("founded")
	if err := prepare(vfs.OS(), dir, &snapshot{}, nil, 1); err != nil {
		t.Fatal(err)
	}
	check("recovered")
}
