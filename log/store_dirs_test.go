package log

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

// What must be refused, by name and with nothing changed.
func TestRefusedDirectories(t *testing.T) {
	for _, c := range []struct {
		name   string
		setUp  func(t *testing.T, fsys vfs.FS)
		change func(*StoreOptions)
		text   string
		code   kafka.Code
	}{
		{"another process", func(t *testing.T, fsys vfs.FS) {
			must(t, fsys.MkdirAll("/data/b", 0o755))
			_, err := fsys.Lock("/data/b/.lock")
			must(t, err)
		}, nil, "data directory /data/b is in use by another process", kafka.KafkaStorageError},
		{"another cluster", func(t *testing.T, fsys vfs.FS) { must(t, openStore(t, fsys).Close()) },
			func(o *StoreOptions) { o.ClusterID = "other" }, "data directory /data/a belongs to cluster", kafka.InconsistentClusterID},
		{"another node", func(t *testing.T, fsys vfs.FS) { must(t, openStore(t, fsys).Close()) },
			func(o *StoreOptions) { o.NodeID = 7 }, "data directory /data/a belongs to node 1, not 7", kafka.InvalidConfig},
		{"directories of two clusters", func(t *testing.T, fsys vfs.FS) {
			must(t, openStore(t, fsys, func(o *StoreOptions) { o.Dirs = []string{"/data/b"} }).Close())
			must(t, openStore(t, fsys, func(o *StoreOptions) { o.Dirs = []string{"/data/a"} }).Close())
		}, nil, "data directory /data/b belongs to cluster", kafka.InconsistentClusterID},
		{"a copy of a directory", func(t *testing.T, fsys vfs.FS) {
			must(t, openStore(t, fsys).Close())
			content, err := vfs.ReadFile(fsys, "/data/a/"+metaPropertiesFile)
			must(t, err)
			must(t, vfs.WriteFileAtomic(fsys, "/data/b/"+metaPropertiesFile, content, 0o644, true))
		}, nil, "one is a copy of the other", kafka.InvalidConfig},
		{"broken identity", func(t *testing.T, fsys vfs.FS) {
			must(t, openStore(t, fsys).Close())
			must(t, vfs.WriteFileAtomic(fsys, "/data/a/"+metaPropertiesFile, []byte("version=1\n"), 0o644, true))
		}, nil, "/data/a/meta.properties is broken", kafka.KafkaStorageError},
		{"Kafka's metadata", func(t *testing.T, fsys vfs.FS) {
			must(t, fsys.MkdirAll("/data/b/__cluster_metadata-0", 0o755))
			must(t, vfs.WriteFileAtomic(fsys, "/data/b/__cluster_metadata-0/quorum-state", []byte("{}"), 0o644, true))
		}, nil, "/data/b/__cluster_metadata-0 holds the metadata log of an Apache Kafka cluster (there is quorum-state)", kafka.KafkaStorageError},
		{"Kafka's metadata, formatted only", func(t *testing.T, fsys vfs.FS) {
			must(t, fsys.MkdirAll("/data/a/__cluster_metadata-0", 0o755))
			must(t, vfs.WriteFileAtomic(fsys, "/data/a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint", nil, 0o644, true))
		}, nil, "holds the metadata log of an Apache Kafka cluster", kafka.KafkaStorageError},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			c.setUp(t, fsys)
			before := listing(t, fsys, "/")
			changes := []func(*StoreOptions){}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			_, err := tryStore(t, fsys, changes...)
			if err == nil || !strings.Contains(err.Error(), c.text) || kafka.CodeOf(err) != c.code {
				t.Fatalf("opened with %v (%v)", err, kafka.CodeOf(err))
			}
			if strings.HasPrefix(c.name, "Kafka's") {
				if after := listing(t, fsys, "/"); after != before {
					t.Errorf("there was\n%sand now is\n%s", before, after)
				}
			}
		})
	}
}

// Weir's own metadata log is let be.
func TestOwnMetadataIsAccepted(t *testing.T) {
	fsys := vfs.NewMem()
	must(t, openStore(t, fsys).Close())
	must(t, fsys.MkdirAll("/data/a/__cluster_metadata-0", 0o755))
	for _, name := range []string{"raft-state", "00000000000000000007-0000000001.checkpoint", segmentName(0, logSuffix)} {
		must(t, vfs.WriteFileAtomic(fsys, "/data/a/__cluster_metadata-0/"+name, nil, 0o644, true))
	}
	s := openStore(t, fsys)
	if len(s.Logs()) != 0 || s.MetadataDir() != "/data/a" {
		t.Errorf("logs %v, metadata in %s", s.Logs(), s.MetadataDir())
	}
}

// listing is a tree with sizes.
func listing(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	var b strings.Builder
	for _, e := range entries {
		path := strings.TrimSuffix(dir, "/") + "/" + e.Name()
		if e.IsDir() {
			fmt.Fprintf(&b, "%s/\n%s", path, listing(t, fsys, path))
			continue
		}
		fmt.Fprintf(&b, "%s %d\n", path, fileSize(t, fsys, path))
	}
	return b.String()
}

// A directory that cannot be used is offline if it is one of several, and an error if not.
func TestUnusableDirectory(t *testing.T) {
	for _, fault := range []vfs.Fault{
		{Op: vfs.OpMkdir, Path: "/data/b", Err: syscall.EACCES},
		{Op: vfs.OpLock, Path: "/data/b", Err: syscall.EROFS},
		{Op: vfs.OpOpen, Path: "/data/b/meta.properties", Err: syscall.EIO},
		{Op: vfs.OpReadDir, Path: "/data/b", Times: 1, Nth: 2, Err: syscall.EIO},
		{Op: vfs.OpReadDir, Path: "/data/b", Times: 1, Nth: 3, Err: syscall.EIO},
	} {
		mem := vfs.NewMem()
		s := openStore(t, vfs.NewFaulty(mem, fault))
		infos := s.Dirs()
		if infos[0].Offline != nil || !errors.Is(infos[1].Offline, fault.Err) || !strings.Contains(infos[1].Offline.Error(), "/data/b") {
			t.Errorf("%+v: %+v", fault, infos)
		}
		// The log may be in the directory that is offline.
		if _, err := s.Create(partition(0), kafka.TopicID{1}, DefaultConfig()); kafka.CodeOf(err) != kafka.KafkaStorageError {
			t.Errorf("%+v: create: %v", fault, err)
		}
		_ = s.Close() // reports the directory

		_, err := tryStore(t, vfs.NewFaulty(vfs.NewMem(), fault), func(o *StoreOptions) { o.Dirs = []string{"/data/b"} })
		if !errors.Is(err, fault.Err) || !strings.Contains(err.Error(), "/data/b") {
			t.Errorf("%+v, the only directory: %v", fault, err)
		}
		_, err = tryStore(t, vfs.NewFaulty(vfs.NewMem(), fault), func(o *StoreOptions) { o.MetadataDir = "/data/b" })
		if !errors.Is(err, fault.Err) {
			t.Errorf("%+v, the metadata directory: %v", fault, err)
		}
	}
}

// Without its meta.properties nobody knows whose logs a directory has. It is refused as often as one tries, and nothing in
// it is changed.
func TestLogsWithoutMetaPropertiesAreRefused(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem)
	appendTest(t, createTest(t, s, partition(0)), batchSpec{})
	must(t, s.Close())
	dir := "/data/a"
	must(t, mem.Remove(dir+"/"+metaPropertiesFile))
	before := listing(t, mem, dir)
	for range 2 {
		if _, err := tryStore(t, mem); err == nil || !strings.Contains(err.Error(), dir+" holds logs but no meta.properties") {
			t.Fatalf("opened: %v", err)
		}
		if after := listing(t, mem, dir); after != before {
			t.Fatalf("changed from\n%s to\n%s", before, after)
		}
	}
}
