package quorum

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

var rewrite = flag.Bool("rewrite", false, "write the golden bytes anew: never for what is on disks already")

// The bytes of a small log with a snapshot. What is on disks must stay readable: they never change.
func TestGoldenFiles(t *testing.T) {
	fsys := newDisk()
	n := alone(t, options(fsys))
	propose(t, n, newTopic(1)...)
	propose(t, n, producerIDs(1000))
	snap := snapshot{index: n.applied, term: n.term, conf: n.conf, image: n.image}
	if err := n.storage.save(snap, 100, epoch); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	all := files(t, fsys, logDir)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == raftStateFile || strings.HasSuffix(name, ".log") || strings.HasSuffix(name, snapshotSuffix) {
			fmt.Fprintf(&out, "%s\n%s\n", name, hex.Dump([]byte(all[name])))
		}
	}
	const golden = "testdata/files.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s", out.String())
	}
}

// The directory of a node that was alone, as it was written before there were nodes that join, and left by a crash. It goes on with
// what there is now, and with a snapshot of it.
func TestDirectoryFromBeforeNodesJoined(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/alone")); err != nil {
		t.Fatal(err)
	}
	disk, err := kafka.ParseUUID("vXsIGlYST_6DnXfD6Q_RUw")
	if err != nil {
		t.Fatal(err)
	}
	o := options(vfs.OS())
	o.Dir, o.ClusterID = filepath.Join(dir, "__cluster_metadata-0"), "4_IngYkNSeOv6qjjVgNlCA"
	o.Self = metadata.QuorumMember{Node: 1, Directory: disk}
	check := func(n *Node, members int) {
		t.Helper()
		img := n.Image()
		t1, ok1 := img.Topics.ByName("t1")
		t2, ok2 := img.Topics.ByName("t2")
		_, registered := img.Brokers.ByID(1)
		if !ok1 || !ok2 || len(t1.Partitions) != 3 || len(t2.Partitions) != 2 || !registered || img.Quorum.Len() != members {
			t.Errorf("%d topics, %d members, registered %t", img.Topics.Len(), img.Quorum.Len(), registered)
		}
	}
	n := alone(t, o)
	check(n, 1)
	other := metadata.QuorumMember{RaftID: 2, Node: 2, Directory: kafka.UUID{2}, Host: "h", Port: 1, GossipPort: 2, Controller: true}
	propose(t, n, metadata.NodeRecord{ID: 2, Directory: other.Directory}, metadata.QuorumMemberRecord{Member: other},
		metadata.GossipKeyRecord{Key: make([]byte, metadata.GossipKeySize)})
	if err := n.storage.save(snapshot{index: n.applied, term: n.term, conf: n.conf, image: n.image}, 0, epoch); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = alone(t, o)
	check(n, 2)
	if node, known := n.Image().Nodes.ByDirectory(other.Directory); !known || node.ID != 2 || n.Image().GossipKey == nil {
		t.Errorf("node %v, key %v", node, n.Image().GossipKey)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

func entries() []*raftpb.Entry {
	change, err := proto.Marshal(&raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(uint64(2))}}})
	if err != nil {
		panic(err)
	}
	return []*raftpb.Entry{
		{Index: new(uint64(1)), Term: new(uint64(1)), Type: raftpb.EntryNormal.Enum()},
		{Index: new(uint64(2)), Term: new(uint64(1)), Type: raftpb.EntryNormal.Enum(), Data: metadata.AppendEntry(nil, 0, newTopic(1))},
		{Index: new(uint64(3)), Term: new(uint64(2)), Type: raftpb.EntryConfChange.Enum(), Data: change},
		{Index: new(uint64(4)), Term: new(uint64(2)), Type: raftpb.EntryConfChangeV2.Enum(), Data: change},
		{Index: new(uint64(5)), Term: new(uint64(maxTerm)), Type: raftpb.EntryConfChangeV2.Enum(), Data: []byte{}},
	}
}

func TestEntriesRoundTrip(t *testing.T) {
	b := batch.NewBuilder(batch.None, 0)
	for _, e := range entries() {
		encoded, err := appendRecord(nil, b, toRecord(e), 5)
		if err != nil {
			t.Fatal(err)
		}
		r, err := parseRecord(encoded)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.toEntry()
		if err != nil || got.String() != e.String() {
			t.Errorf("%v %v, want %v", got, err, e)
		}
	}
}

func TestUnknownEntriesAreNamed(t *testing.T) {
	_, err := record{offset: 12, kind: 99, value: []byte{1}}.toEntry()
	var unknown *UnknownEntryError
	if !errors.As(err, &unknown) || unknown.Kind != 99 || !strings.Contains(err.Error(), "kind 99 at offset 12") {
		t.Fatal(err)
	}
}

func sampleSnapshot() snapshot {
	image, _, err := metadata.Apply(metadata.Empty(), 0, 0, metadata.AppendEntry(nil, metadata.NoBase, append([]metadata.Record{
		metadata.FormatRecord{FormatVersion: 1, ClusterID: "c1"}, metadata.QuorumMemberRecord{Member: member(1)}, producerIDs(1000),
	}, newTopic(1)...)))
	if err != nil {
		panic(err)
	}
	return snapshot{index: 9, term: 3, image: image, conf: &raftpb.ConfState{
		Voters: []uint64{1, 2}, Learners: []uint64{3}, VotersOutgoing: []uint64{4}, LearnersNext: []uint64{5}, AutoLeave: new(true),
	}}
}

func TestSnapshotRoundTrip(t *testing.T) {
	s := sampleSnapshot()
	content, err := s.encode(0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeSnapshot(content)
	if err != nil {
		t.Fatal(err)
	}
	if got.index != 9 || got.term != 3 || got.conf.String() != s.conf.String() || !reflect.DeepEqual(contents(got.image), contents(s.image)) {
		t.Fatalf("%+v", got)
	}
	for cut := range content { // no prefix of a snapshot is one
		if _, err := decodeSnapshot(content[:cut]); err == nil {
			t.Fatalf("the first %d of %d bytes are a snapshot", cut, len(content))
		}
	}
}

func TestBrokenSnapshots(t *testing.T) {
	s := sampleSnapshot()
	b := batch.NewBuilder(batch.None, 0)
	build := func(records ...record) []byte {
		var out []byte
		for i, r := range records {
			r.offset += int64(i)
			var err error
			if out, err = appendRecord(out, b, r, 0); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	header := record{kind: kindSnapshotHeader, value: s.encodeHeader()}
	body := record{kind: kindMetadata, value: metadata.AppendEntry(nil, metadata.NoBase, []metadata.Record{producerIDs(1)})}
	footer := func(n byte) record { return record{kind: kindSnapshotFooter, value: []byte{n}} }
	if _, err := decodeSnapshot(build(header, body, footer(1))); err != nil {
		t.Fatal(err)
	}
	longer := header
	longer.value = append([]byte{0x81, 0}, header.value[1:]...)
	newer := header
	newer.value = append([]byte{2}, header.value[1:]...)
	for name, content := range map[string][]byte{
		"no header":      build(body, footer(1)),
		"two headers":    build(header, header, footer(0)),
		"no footer":      build(header, body),
		"wrong count":    build(header, body, footer(2)),
		"after the end":  build(header, body, footer(1), body),
		"gap":            build(header, record{offset: 1, kind: body.kind, value: body.value}, footer(1)),
		"foreign kind":   build(header, record{kind: kindEmpty}, footer(0)),
		"long varint":    build(longer, body, footer(1)),
		"newer version":  build(newer, body, footer(1)),
		"broken records": build(header, record{kind: kindMetadata, value: []byte{1, 1, 99, 0, 0}}, footer(1)),
	} {
		if _, err := decodeSnapshot(content); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
}

// raftStateV1 is the file as it was when no node had others.
func raftStateV1(id, term, vote uint64) []byte {
	b := []byte("WRFT\x00\x01\x00\x00")
	for _, v := range []uint64{id, term, vote} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	b = append(b, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func FuzzRaftState(f *testing.F) {
	f.Add(raftState{1, 2, 3, 4}.encode())
	f.Add(raftStateV1(1, 2, 3))
	f.Add(make([]byte, raftStateSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeRaftState(b)
		if err != nil {
			return
		}
		again := s.encode()
		if s.Committed == unknown {
			again = raftStateV1(s.RaftID, s.Term, s.Vote)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %+v", b, s)
		}
	})
}

func FuzzEntry(f *testing.F) {
	b := batch.NewBuilder(batch.None, 0)
	for _, e := range entries() {
		encoded, err := appendRecord(nil, b, toRecord(e), 5)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add(batch.ControlBatch(batch.EndTxnMarker{}, 1, 1, 1, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= batch.HeaderSize { // the CRC would stop the fuzzer
			copy(b[17:], []byte{0, 0, 0, 0})
			if h, err := batch.ParseHeader(b); err == nil && h.Size() <= len(b) {
				b = b[:h.Size()]
				batch.SetMaxTimestamp(b, false, 0)
			}
		}
		r, err := parseRecord(b)
		if err != nil {
			return
		}
		if e, err := r.toEntry(); err == nil {
			if again := toRecord(e); !reflect.DeepEqual(again, r) {
				t.Fatalf("%+v is %+v again", r, again)
			}
		}
	})
}

func FuzzSnapshotHeader(f *testing.F) {
	s := sampleSnapshot()
	f.Add(s.encodeHeader())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeHeader(b); err == nil && !bytes.Equal(s.encodeHeader(), b) {
			t.Fatalf("%x decodes to %+v", b, s)
		}
	})
}

func FuzzSnapshot(f *testing.F) {
	s := sampleSnapshot()
	content, err := s.encode(0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = decodeSnapshot(b) })
}
