package broker

import (
	"encoding/json"
	"testing"

	"weir/cluster"
	"weir/internal/vfs"
)

// Who joins a cluster knows only whom it is told of: whoever answers names all members, also when it has been started again and
// does not remember who founded it.
func TestANodeNamesTheMembersOfItsCluster(t *testing.T) {
	disk, settings := vfs.NewMem(), load(t, anyPort, "/data")
	start(t, disk, settings).mustStop()
	b := start(t, disk, settings)
	body, err := b.founding.answer(nil)
	if err != nil {
		t.Fatal(err)
	}
	var h cluster.Hello
	if err := json.Unmarshal(body, &h); err != nil {
		t.Fatal(err)
	}
	if !h.Founded || len(h.Members) != 1 || h.Members[0].Node != 1 || h.Members[0].RaftID != b.raftID() {
		t.Errorf("%+v", h)
	}
}
