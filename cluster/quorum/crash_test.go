package quorum

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"testing/cryptotest"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
	"weir/internal/vfs"
)

// hookFS calls before ahead of everything that changes the disk or makes it durable.
type hookFS struct {
	vfs.FS
	before func()
}

func (h *hookFS) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		h.before()
	}
	f, err := h.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return hookFile{f, h}, nil
}

func (h *hookFS) Rename(a, b string) error  { h.before(); return h.FS.Rename(a, b) }
func (h *hookFS) Remove(name string) error  { h.before(); return h.FS.Remove(name) }
func (h *hookFS) SyncDir(name string) error { h.before(); return h.FS.SyncDir(name) }
func (h *hookFS) MkdirAll(name string, m os.FileMode) error {
	h.before()
	return h.FS.MkdirAll(name, m)
}

type hookFile struct {
	vfs.File
	h *hookFS
}

func (f hookFile) WriteAt(p []byte, off int64) (int, error) {
	f.h.before()
	return f.File.WriteAt(p, off)
}
func (f hookFile) Truncate(size int64) error { f.h.before(); return f.File.Truncate(size) }
func (f hookFile) Sync() error               { f.h.before(); return f.File.Sync() }
func (f hookFile) Datasync() error           { f.h.before(); return f.File.Datasync() }

// losses are the power cuts that are tried at each moment.
func losses(seed uint64) []vfs.Loss {
	return []vfs.Loss{vfs.LoseAll(), vfs.LoseNone(), vfs.LoseSome(rand.New(rand.NewPCG(seed, 1))), vfs.LoseSome(rand.New(rand.NewPCG(seed, 2)))}
}

// At whatever moment the power goes, a node that is alone opens again and has all that it acknowledged, and no term twice.
func TestPowerCutAlone(t *testing.T) {
	for _, snapshots := range []bool{false, true} {
		t.Run(fmt.Sprintf("snapshots=%v", snapshots), func(t *testing.T) {
			var acked int64
			var term int32
			moment, tried := uint64(0), 0
			mem := newDisk()
			fsys := &hookFS{FS: mem}
			set := func(o Options) Options {
				if snapshots {
					o.SnapshotBytes, o.SegmentBytes, o.KeepEntries = 300, 400, 2
				}
				return o
			}
			fsys.before = func() {
				if moment++; moment > 60 && moment%5 != 0 {
					return
				}
				for i, loss := range losses(moment) {
					tried++
					image := mem.Crash(loss)
					n, err := Open(set(options(image)), epoch)
					if err == nil {
						_, err = n.Step(epoch, Tick{})
					}
					if err != nil {
						t.Fatalf("moment %d, loss %d: %v", moment, i, err)
					}
					if got := n.Image().NextProducerID; got < acked {
						t.Fatalf("moment %d, loss %d: producer ids from %d, acknowledged was %d", moment, i, got, acked)
					}
					if n.Leadership().Term <= term {
						t.Fatalf("moment %d, loss %d: leads term %d, led %d before", moment, i, n.Leadership().Term, term)
					}
				}
			}
			for range 3 {
				n := alone(t, set(options(fsys)))
				term = n.Leadership().Term
				for range 12 {
					propose(t, n, producerIDs(acked+1000))
					acked += 1000
				}
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if tried < 150 {
				t.Fatalf("only %d power cuts", tried)
			}
		})
	}
}

// What a node finds when only its process ended is kept from then on: Raft takes it for kept.
func TestPowerCutAfterTheProcessEnded(t *testing.T) {
	mem := newDisk()
	fsys := &hookFS{FS: mem}
	moments := 0
	fsys.before = func() {
		moments++
		left := mem.Kill()
		n, err := Open(options(left), epoch)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Open(options(left.Crash(vfs.LoseAll())), epoch)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := n.storage, again.storage; a.state != b.state || a.last() != b.last() || a.snap.index != b.snap.index {
			t.Fatalf("moment %d: %+v with a log up to %d was found, and after a power cut %+v up to %d", moments, a.state, a.last(), b.state, b.last())
		}
	}
	o := options(fsys)
	o.SnapshotBytes, o.SegmentBytes, o.KeepEntries = 100, 300, 2
	n := alone(t, o)
	for i := range int64(6) {
		propose(t, n, producerIDs(i+1))
	}
	if moments < 50 {
		t.Errorf("%d moments", moments)
	}
}

// Every node of three may lose power at any moment, one at a time: what was committed stays, and they agree again. Cut off
// leaders leave entries that conflict, slow followers are given snapshots.
func TestPowerCutAmongThree(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			rng := rand.New(rand.NewPCG(seed, 99))
			w, opts := cluster(t, 3, func(o *Options) { o.SnapshotBytes, o.SegmentBytes, o.KeepEntries = 600, 700, 3 })
			var committed int64
			for range 60 {
				w.tick(1 + rng.IntN(15))
				switch id := 1 + rng.Uint64N(3); rng.IntN(6) {
				case 0:
					clear(w.cut)
					w.cut[id] = true
				case 1:
					clear(w.cut)
				case 2: // the power goes
					mem := w.nodes[id].o.FS.(*vfs.Mem)
					o := opts(id)
					o.FS = mem.Crash(losses(rng.Uint64())[rng.IntN(4)])
					n, err := Open(o, epoch)
					if err != nil {
						t.Fatal(err)
					}
					w.nodes[id] = n
					clear(w.cut)
				default:
					committed = max(committed, w.proposeNext(t))
				}
			}
			clear(w.cut)
			w.tick(60)
			leader := w.leader()
			if leader == nil {
				t.Fatal("nobody leads when all is well again")
			}
			if got := leader.Image().NextProducerID; got < committed {
				t.Fatalf("producer ids from %d, committed was %d", got, committed)
			}
			for id, n := range w.nodes {
				if !reflect.DeepEqual(contents(n.Image()), contents(leader.Image())) {
					t.Fatalf("node %d differs from the leader", id)
				}
			}
		})
	}
}

// proposeNext takes the next producer id and returns what is committed then, as far as the leader knows.
func (w *net) proposeNext(t *testing.T) int64 {
	n := w.leader()
	if n == nil {
		return 0
	}
	if !w.propose(metadata.ProducerIDsRecord{Next: n.Image().NextProducerID + 1}) {
		return 0
	}
	return n.Image().NextProducerID
}

// At whatever moment the power goes at a voter while the members change, the log that it finds again has one change at most
// that it does not know to be committed. Else it might count votes by members that are two changes old.
func TestPowerCutWhileMembersChange(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	var fsys *hookFS
	var mem *vfs.Mem
	w, opts := cluster(t, 3, func(o *Options) {
		if o.Self.RaftID == 3 {
			mem = o.FS.(*vfs.Mem)
			fsys = &hookFS{FS: mem, before: func() {}}
			o.FS = fsys
		}
	})
	w.tick(40)
	w.join(4, opts)
	w.join(5, opts)
	moments := 0
	fsys.before = func() {
		for _, loss := range losses(uint64(moments)) {
			moments++
			o := options(mem.Crash(loss))
			o.Self = member(3)
			n, err := Open(o, epoch)
			if err != nil {
				t.Fatal(err)
			}
			if got := changesBeyond(t, n.storage); len(got) > 1 {
				t.Fatalf("moment %d: changes at %v, and the log is known to be committed up to %d", moments, got, n.storage.state.Committed)
			}
		}
	}
	// What follows comes to node 3 in one message, and all changes but the last are committed by then.
	w.cut[3] = true
	w.change(ChangeMembers{Learn: []uint64{4, 5}})
	w.change(ChangeMembers{Promote: []uint64{4, 5}})
	w.change(ChangeMembers{Remove: []uint64{4}})
	delete(w.nodes, 4)
	clear(w.cut)
	w.proposeAll(1000)
	w.change(ChangeMembers{Remove: []uint64{5}})
	delete(w.nodes, 5)
	w.proposeAll(2000)
	if moments < 100 {
		t.Errorf("%d moments", moments)
	}
}

// changesBeyond are the changes of members in a log behind what it knows to be committed.
func changesBeyond(t testing.TB, s *storage) (changes []uint64) {
	for i := max(s.first(), uint64(s.state.Committed)); i <= s.last(); i++ {
		e, err := s.Entries(i, i+1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if e[0].GetType() != raftpb.EntryNormal {
			changes = append(changes, i)
		}
	}
	return changes
}
