package log

import (
	"errors"
	"os"
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
			o.Found = func(dir kafka.DirectoryID, known string) (string, error) {
				asked = append(asked, dir)
				if known != "" {
					id = known
				}
				return id, err
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
