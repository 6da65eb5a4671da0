package log

import (
	"cmp"
	"errors"
	"os"
	"strings"
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

// A node that waits for the others is known to them by its directory's id, which must be the same after a crash; and the
// cluster that they found is not asked for again once its metadata log is there.
func TestDirectoryIDOutlivesTheWaitForACluster(t *testing.T) {
	waits := errors.New("still waiting")
	var asked []kafka.DirectoryID
	found := func(id string, err error) func(*StoreOptions) {
		return func(o *StoreOptions) {
			o.Found = func(dir kafka.DirectoryID, known Identity) (Identity, error) {
				asked = append(asked, dir)
				known.ClusterID = cmp.Or(known.ClusterID, id)
				return known, err
			}
		}
	}
	mem := vfs.NewMem()
	if _, err := tryStore(t, mem, found("", waits)); !errors.Is(err, waits) {
		t.Fatal(err)
	}
	mem = mem.Crash(vfs.LoseAll())
	s := openStore(t, mem, found("c1", nil))
	if s.ClusterID() != "c1" || s.DirectoryIDs()["/data/a"] != asked[0] {
		t.Errorf("cluster %q, directory %v", s.ClusterID(), s.DirectoryIDs())
	}
	must(t, s.Close())
	s = openStore(t, mem, found("c2", nil)) // it had come so far as to know the cluster, and no further
	must(t, s.Close())
	if s.ClusterID() != "c1" || len(asked) != 3 || asked[0] != asked[1] || asked[1] != asked[2] || asked[0].IsZero() {
		t.Errorf("cluster %q, asked by %v", s.ClusterID(), asked)
	}
	must(t, mem.MkdirAll("/data/a/__cluster_metadata-0", 0o755))
	f, err := mem.OpenFile("/data/a/__cluster_metadata-0/raft-state", os.O_CREATE|os.O_RDWR, 0o644)
	must(t, err)
	must(t, f.Close())
	must(t, openStore(t, mem, found("c3", nil)).Close())
	if len(asked) != 3 {
		t.Error("a node of a cluster asked for one")
	}
}

// A node that joins may not know which one it is before it is told. It is told once, and is that node from then on.
func TestNodeIDComesWithTheCluster(t *testing.T) {
	joins := func(configured kafka.BrokerID, given Identity, err error) func(*StoreOptions) {
		return func(o *StoreOptions) {
			o.NodeID = configured
			o.Found = func(_ kafka.DirectoryID, known Identity) (Identity, error) {
				if known.ClusterID != "" {
					given = known
				}
				return given, err
			}
		}
	}
	killed := errors.New("killed")
	mem := vfs.NewMem()
	if _, err := tryStore(t, mem, joins(kafka.NoBroker, Identity{}, killed)); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	for _, given := range []kafka.BrokerID{3, 4} { // the second time it knows
		s := openStore(t, mem, joins(kafka.NoBroker, Identity{ClusterID: "c", NodeID: given, Joined: true}, nil))
		if s.identity != (Identity{ClusterID: "c", NodeID: 3, Joined: true}) {
			t.Errorf("%+v", s.identity)
		}
		must(t, s.Close())
		mem = mem.Crash(vfs.LoseAll())
	}
	must(t, openStore(t, mem, joins(3, Identity{}, nil)).Close())
	_, err := tryStore(t, mem, joins(5, Identity{}, nil))
	if kafka.CodeOf(err) != kafka.InvalidConfig || !strings.Contains(err.Error(), "belongs to node 3, not 5") {
		t.Errorf("another node.id: %v", err)
	}
	_, err = tryStore(t, vfs.NewMem(), func(o *StoreOptions) { o.NodeID = kafka.NoBroker })
	if kafka.CodeOf(err) != kafka.InvalidConfig {
		t.Errorf("without any id: %v", err)
	}
}
