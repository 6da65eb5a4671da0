package quorum

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

const logDir = "/data/__cluster_metadata-0"

var (
	epoch = time.Unix(1_700_000_000, 0)
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
)

func options(fsys vfs.FS) Options {
	return Options{
		FS: fsys, Clock: clock.NewManual(epoch), Dir: logDir, ClusterID: "c1", Logger: quiet,
		Self: metadata.QuorumMember{RaftID: 7, Node: 1, Directory: kafka.UUID{1}},
		Rand: rand.New(rand.NewPCG(7, 1)),
	}
}

// newDisk is a disk whose data directory is there for good.
func newDisk() *vfs.Mem {
	m := vfs.NewMem()
	if err := errors.Join(m.MkdirAll("/data", 0o755), m.SyncDir("/")); err != nil {
		panic(err)
	}
	return m
}

// alone opens a node that has nobody else and takes its first step.
func alone(t testing.TB, o Options) *Node {
	t.Helper()
	n, err := Open(o, epoch)
	if err != nil {
		t.Fatal(err)
	}
	step(t, n, Tick{})
	if lead := n.Leadership(); !lead.Ready || lead.Leader != n.RaftID() {
		t.Fatalf("a node that is alone does not lead after its first step: %+v", lead)
	}
	return n
}

func step(t testing.TB, n *Node, e Event) Output {
	t.Helper()
	out, err := n.Step(epoch, e)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// propose has records committed by a node that leads and is alone.
func propose(t testing.TB, n *Node, records ...metadata.Record) Applied {
	t.Helper()
	out := step(t, n, Propose{metadata.AppendEntry(nil, n.Image().Index, records)})
	if out.Dropped || len(out.Applied) != 1 || out.Applied[0].Delta == nil {
		t.Fatalf("proposed %v: %+v", records, out)
	}
	return out.Applied[0]
}

func producerIDs(next int64) metadata.Record { return metadata.ProducerIDsRecord{Next: next} }

// newTopic is a topic with one partition.
func newTopic(i int) []metadata.Record {
	id := kafka.UUID{0: byte(i), 1: byte(i >> 8), 15: 200}
	return []metadata.Record{
		metadata.TopicRecord{ID: id, Name: fmt.Sprintf("topic-%d", i)},
		metadata.PartitionRecord{TopicID: id, PartitionRegistration: metadata.PartitionRegistration{Replicas: []kafka.BrokerID{1}, Leader: 1}},
	}
}

// files lists the content of a directory.
func files(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		out[e.Name()] = file(t, fsys, dir+"/"+e.Name())
	}
	return out
}

func file(t testing.TB, fsys vfs.FS, path string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func putFile(t testing.TB, fsys vfs.FS, path string, content []byte) {
	t.Helper()
	f, err := fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// net is a network of nodes that is driven by hand: one message, tick or command after the other.
type net struct {
	t     testing.TB
	nodes map[uint64]*Node
	queue []*raftpb.Message
	cut   map[uint64]bool            // nobody hears from them, they hear from nobody
	lose  func(*raftpb.Message) bool // what gets lost; nil: nothing
}

func (w *net) Send(messages []*raftpb.Message) { w.queue = append(w.queue, messages...) }

// run delivers until nothing is on its way.
func (w *net) run() {
	w.t.Helper()
	for len(w.queue) > 0 {
		m := w.queue[0]
		w.queue = w.queue[1:]
		n := w.nodes[m.GetTo()]
		lost := n == nil || w.cut[m.GetTo()] || w.cut[m.GetFrom()] || w.lose != nil && w.lose(m)
		if m.GetType() == raftpb.MsgSnap && w.nodes[m.GetFrom()] != nil {
			step(w.t, w.nodes[m.GetFrom()], SnapshotSent{m.GetTo(), !lost})
		}
		if !lost {
			step(w.t, n, Receive{[]*raftpb.Message{m}})
		}
	}
}

// tick lets n ticks pass, of which each is followed by all that it leads to.
func (w *net) tick(ticks int) {
	w.t.Helper()
	for range ticks {
		for _, n := range w.sorted() {
			step(w.t, n, Tick{})
			w.run()
		}
	}
}

// leader returns the node that is ready to decide, or nil.
func (w *net) leader() *Node {
	for _, n := range w.sorted() {
		if n.Leadership().Ready && !w.cut[n.RaftID()] {
			return n
		}
	}
	return nil
}

// sorted are the nodes in order of their Raft ids.
func (w *net) sorted() (out []*Node) {
	for _, id := range slices.Sorted(maps.Keys(w.nodes)) {
		out = append(out, w.nodes[id])
	}
	return out
}
