package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	"weir/internal/vfs"
)

func TestMetaPropertiesAreKafkas(t *testing.T) {
	m, err := ReadMetaProperties(vfs.OS(), "testdata/kafka-4.4")
	must(t, err)
	if m.ClusterID != "436hpYaPTByQxRZYY521wQ" || m.NodeID != 1 || m.DirectoryID.String() != "wCwlvg8bQAi2wlgOYWH_uQ" || m.Other != nil {
		t.Fatalf("read %+v", m)
	}
	fsys := vfs.NewMem()
	must(t, WriteMetaProperties(fsys, "/", m, time.Date(2026, 12, 1, 6, 53, 55, 0, time.UTC)))
	got, err := vfs.ReadFile(fsys.Crash(vfs.LoseAll()), "/"+metaPropertiesFile)
	must(t, err)
	want, err := os.ReadFile("testdata/kafka-4.4/" + metaPropertiesFile)
	must(t, err)
	if string(got) != string(want) {
		t.Fatalf("written\n%s\nKafka's\n%s", got, want)
	}
}

func TestMetaPropertiesOfOthers(t *testing.T) {
	for content, want := range map[string]string{
		"version=1\ncluster.id=c\nnode.id=2":                        "{c 2 AAAAAAAAAAAAAAAAAAAAAA false []}",
		"broker.id=3\nversion=0\ncluster.id=c\n":                    "{c 3 AAAAAAAAAAAAAAAAAAAAAA false []}",
		"! old\r\n broker.id : 3\r\n\tcluster.id c\r\n":             "{c 3 AAAAAAAAAAAAAAAAAAAAAA false []}",
		"version=1\nnode.id=2\ncluster.id=a\\:b\\u0041\\\n  c\nx\n": "{a:bAc 2 AAAAAAAAAAAAAAAAAAAAAA false [{x }]}",
		"version=1\nnode.id=2\ncluster.id=c\\\\\nz=1\ny=a=b \n":     "{c\\ 2 AAAAAAAAAAAAAAAAAAAAAA false [{z 1} {y a=b }]}",
		"version=1\nnode.id=2\ncluster.id=c\n=empty\na\\ b\\==\\ c": "{c 2 AAAAAAAAAAAAAAAAAAAAAA false [{ empty} {a b=  c}]}",
		"version=1\ncluster.id=c\n":                                 "line 3: node.id is missing",
		"weir.cluster.pending=true\nnode.id=2":                      "{ 2 AAAAAAAAAAAAAAAAAAAAAA false []}",
		"weir.cluster.pending=true":                                 "{ -1 AAAAAAAAAAAAAAAAAAAAAA false []}",
		"cluster.id=c\nnode.id=2\nweir.cluster.joined=true":         "{c 2 AAAAAAAAAAAAAAAAAAAAAA true []}",
		"version=1\nnode.id=2\n":                                    "line 3: cluster.id is missing",
		"version=2\nnode.id=2\ncluster.id=c":                        "line 3: version 2 is not known",
		"version=1\nnode.id=-2\ncluster.id=c":                       `line 2: node.id: "-2" is not a number of 31 bits`,
		"version=1\nnode.id=2\ndirectory.id=x\ncluster.id=c":        `line 3: directory.id: "x" is not a 22-letter base64 id`,
		"version=1\n\n\\\n\ncluster.id=c\\u12":                      `line 5: \u is not followed by four hexadecimal digits`,
		"":                                                          "line 1: cluster.id is missing",
	} {
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, "/"+metaPropertiesFile, []byte(content), 0o644, true))
		m, err := ReadMetaProperties(fsys, "/")
		got := fmt.Sprint(m)
		var broken ErrBrokenFile
		if errors.As(err, &broken) {
			got = fmt.Sprintf("line %d: %s", broken.Line, broken.Reason)
		}
		if got != want {
			t.Errorf("%q:\n got %s\nwant %s", content, got, want)
		}
	}
	if _, err := ReadMetaProperties(vfs.NewMem(), "/"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func FuzzMetaProperties(f *testing.F) {
	f.Add("#\n#Tue Dec 01 06:53:55 UTC 2026\nnode.id=1\ndirectory.id=wCwlvg8bQAi2wlgOYWH_uQ\nversion=1\ncluster.id=436hpYaPTByQxRZYY521wQ\n")
	f.Add("version=1\nnode.id=2\ncluster.id=a\\:b\\u0041\\\n  c\nx\n= \\ y\\t\n#\n\\#a=1")
	f.Fuzz(func(t *testing.T, content string) {
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, "/"+metaPropertiesFile, []byte(content), 0o644, false))
		m, err := ReadMetaProperties(fsys, "/")
		if err != nil {
			return
		}
		must(t, WriteMetaProperties(fsys, "/", m, time.Unix(0, 0)))
		again, err := ReadMetaProperties(fsys, "/")
		if err != nil || again.ClusterID != m.ClusterID || again.NodeID != m.NodeID || !slices.Equal(again.Other, m.Other) {
			t.Fatalf("%q: %+v, written and read again %+v, %v", content, m, again, err)
		}
	})
}
