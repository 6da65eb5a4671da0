package log

import (
	"errors"
	"io/fs"
	"testing"

	"weir/internal/vfs"
)

func TestPartitionMetadataIsKafkas(t *testing.T) {
	id, err := ReadPartitionMetadata(vfs.OS(), "testdata/kafka-4.4")
	must(t, err)
	if id.String() != "m9zk_eJnSNuA2TPZUKYh4A" {
		t.Fatalf("topic id %v", id)
	}
	fsys := vfs.NewMem()
	must(t, WritePartitionMetadata(fsys, "/", id, true))
	got, err := vfs.ReadFile(fsys.Crash(vfs.LoseAll()), "/"+partitionMetadataFile)
	must(t, err)
	if want := "version: 0\ntopic_id: m9zk_eJnSNuA2TPZUKYh4A"; string(got) != want {
		t.Fatalf("written %q, want %q", got, want)
	}
}

func TestPartitionMetadataOfOthers(t *testing.T) {
	for content, line := range map[string]int{
		"version: 0\ntopic_id: m9zk_eJnSNuA2TPZUKYh4A\n":       0,
		"version:  0\r\ntopic_id:\tm9zk_eJnSNuA2TPZUKYh4A\r\n": 0,
		"": 1,
		"version: 1\ntopic_id: m9zk_eJnSNuA2TPZUKYh4A": 1,
		"version: 0": 2,
		"version: 0\ntopic: m9zk_eJnSNuA2TPZUKYh4A":    2,
		"version: 0\ntopic_id: m9zk_eJnSNuA":           2,
		"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA": 2,
	} {
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, "/"+partitionMetadataFile, []byte(content), 0o644, true))
		_, err := ReadPartitionMetadata(fsys, "/")
		var broken ErrBrokenFile
		if line == 0 && err != nil || line > 0 && (!errors.As(err, &broken) || broken.Line != line) {
			t.Errorf("%q: %v, want an error in line %d", content, err, line)
		}
	}
	if _, err := ReadPartitionMetadata(vfs.NewMem(), "/"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func FuzzPartitionMetadata(f *testing.F) {
	f.Add("version: 0\ntopic_id: m9zk_eJnSNuA2TPZUKYh4A")
	f.Fuzz(func(t *testing.T, content string) {
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, "/"+partitionMetadataFile, []byte(content), 0o644, false))
		id, err := ReadPartitionMetadata(fsys, "/")
		if err != nil {
			return
		}
		must(t, WritePartitionMetadata(fsys, "/", id, false))
		if again, err := ReadPartitionMetadata(fsys, "/"); again != id || id.IsZero() || err != nil {
			t.Fatalf("%q: %v, written and read again %v, %v", content, id, again, err)
		}
	})
}
