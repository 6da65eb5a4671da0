package replica

import (
	"os"
	"slices"
	"strings"
	"testing"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
)

// A record that removes a topic is evidence. A snapshot that says nothing of one is less than that: its log is set aside.
func TestAbsenceFromASnapshotDeletesNothing(t *testing.T) {
	for snapshot, suffix := range map[bool]string{false: "-delete", true: "-stray"} {
		disk := vfs.NewMem()
		f := newFixtureOn(t, log.FsyncBackground, disk)
		id := kafka.NewUUID()
		produce(t, f.create("t", id, self), AcksLeader, nil)
		next, delta, err := f.image.With([]metadata.Record{metadata.RemoveTopicRecord{ID: id}})
		if err != nil {
			t.Fatal(err)
		}
		if snapshot {
			delta = metadata.Diff(f.image, next)
		}
		f.manager.Apply(delta, next)
		if f.manager.Partition(kafka.TopicPartition{Topic: "t"}) != nil {
			t.Error("the partition is served still")
		}
		names, err := disk.ReadDir("/data")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(names, func(e os.DirEntry) bool {
			return strings.HasPrefix(e.Name(), "t-0.") && strings.HasSuffix(e.Name(), suffix)
		}) {
			t.Errorf("snapshot %t: there is nothing with the suffix %s: %v", snapshot, suffix, names)
		}
	}
}
