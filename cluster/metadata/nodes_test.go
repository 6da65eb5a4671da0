package metadata

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/internal/kafka"
)

func TestNodesRememberIdsAndDirectories(t *testing.T) {
	img := formatted(t)
	a, b := kafka.DirectoryID{15: 200}, kafka.DirectoryID{15: 201}
	with := func(records ...Record) *Image {
		t.Helper()
		next, _, err := img.With(records)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	img = with(NodeRecord{ID: 7}, NodeRecord{ID: 2, Directory: a}, NodeRecord{ID: 2, Directory: b, Removed: true})
	if n, known := img.Nodes.ByDirectory(a); !known || n != (Node{ID: 2, Directory: a}) {
		t.Error(n, known)
	}
	if n, known := img.Nodes.ByDirectory(b); !known || !n.Removed {
		t.Error(n, known)
	}
	if n, known := img.Nodes.ByDirectory(kafka.DirectoryID{}); known {
		t.Error("an id without a directory is found by none:", n)
	}
	for id, want := range map[kafka.BrokerID]bool{0: false, 1: false, 2: true, 3: false, 7: true, 8: false} {
		if img.Nodes.Used(id) != want {
			t.Errorf("node id %d: used is %v", id, !want)
		}
	}
	moved := with(NodeRecord{ID: 3, Directory: a})
	want := []Node{{ID: 2}, {ID: 2, Directory: b, Removed: true}, {ID: 3, Directory: a}, {ID: 7}}
	if got := slices.Collect(moved.Nodes.All()); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, r := range []NodeRecord{{ID: 2, Directory: b}, {ID: 4, Directory: b}, {ID: 4, Directory: b, Removed: true}} {
		if _, _, err := img.With([]Record{r}); err == nil || !strings.Contains(err.Error(), "was removed from the cluster") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestWhatDoesNotApplyToMembersAndKey(t *testing.T) {
	for _, r := range []Record{RemoveQuorumMemberRecord{RaftID: 9}, GossipKeyRecord{}, GossipKeyRecord{make(GossipKey, 31)}} {
		if _, _, err := formatted(t).With([]Record{r}); err == nil {
			t.Errorf("%T applies", r)
		}
	}
}

// Records, commands and images end up in texts of errors and of tests.
func TestGossipKeyIsNeverPrinted(t *testing.T) {
	key := GossipKey(bytes.Repeat([]byte("kK"), GossipKeySize/2))
	r := GossipKeyRecord{key}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		if text := fmt.Sprintf(verb, r); !strings.Contains(text, "(redacted)") || strings.Contains(text, "kK") || strings.Contains(text, "107") {
			t.Errorf("%s: %s", verb, text)
		}
	}
	if text := fmt.Sprint(GossipKey(nil)); text != "(none)" {
		t.Error(text)
	}
}
