package vfs_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"weir/internal/vfs"
)

func TestCrashKeepsWhatWasSyncedAndOnlyWrittenBytes(t *testing.T) {
	fs, dir := memWithDir(t)
	f := open(t, fs, dir+"/f", os.O_RDWR|os.O_CREATE)
	must(t, fs.SyncDir(dir))
	_, err := f.WriteAt(bytes.Repeat([]byte{'s'}, 10_000), 0)
	must(t, err)
	must(t, f.Datasync())
	_, err = f.WriteAt(bytes.Repeat([]byte{'u'}, 30_000), 10_000)
	must(t, err)

	kinds := map[string]bool{}
	for seed := range uint64(200) {
		got := read(t, fs.Crash(vfs.LoseSome(newRand(seed))), dir+"/f")
		if again := read(t, fs.Crash(vfs.LoseSome(newRand(seed))), dir+"/f"); again != got {
			t.Fatalf("seed %d: two different images", seed)
		}
		if len(got) < 10_000 || strings.Trim(got[:10_000], "s") != "" {
			t.Fatalf("seed %d: synced bytes are lost", seed)
		}
		tail := got[10_000:]
		if strings.Trim(tail, "u\x00") != "" {
			t.Fatalf("seed %d: bytes that nobody wrote", seed)
		}
		switch {
		case tail == "":
			kinds["nothing more"] = true
		case len(tail) == 30_000 && strings.Trim(tail, "u") == "":
			kinds["all"] = true
		case strings.Trim(tail, "u") == "":
			kinds["shorter"] = true
		case strings.Trim(tail, "\x00") == "":
			kinds["zeros"] = true
		case strings.Contains(strings.TrimRight(tail, "\x00"), "\x00"):
			kinds["holes"] = true
		default:
			kinds["prefix, then zeros"] = true
		}
	}
	if len(kinds) != 6 {
		t.Fatalf("200 crashes gave only %v", kinds)
	}
}

func TestCrashTearsOverwrittenPages(t *testing.T) {
	fs, dir := memWithDir(t)
	f := open(t, fs, dir+"/f", os.O_RDWR|os.O_CREATE)
	must(t, fs.SyncDir(dir))
	_, err := f.WriteAt(bytes.Repeat([]byte{'a'}, 4096), 0)
	must(t, err)
	must(t, f.Sync())
	_, err = f.WriteAt(bytes.Repeat([]byte{'b'}, 4096), 0)
	must(t, err)
	torn := 0
	for seed := range uint64(50) {
		got := read(t, fs.Crash(vfs.LoseSome(newRand(seed))), dir+"/f")
		if len(got) != 4096 || strings.Trim(got, "ab") != "" {
			t.Fatalf("seed %d: neither old nor new bytes", seed)
		}
		if strings.Contains(got, "a") && strings.Contains(got, "b") {
			torn++
		}
	}
	if torn == 0 {
		t.Fatal("no crash tore the page")
	}
}

func TestCrashLosesNamesInOrder(t *testing.T) {
	fs, dir := memWithDir(t)
	for _, name := range []string{"/1", "/2", "/3"} {
		must(t, open(t, fs, dir+name, os.O_RDWR|os.O_CREATE).Sync()) // the content is durable, the name is not
	}
	must(t, fs.Rename(dir+"/2", dir+"/4"))
	must(t, fs.Remove(dir+"/1"))

	if got := names(t, fs.Crash(vfs.LoseAll()), dir); got != "" {
		t.Fatalf("names without a SyncDir: %s", got)
	}
	seen := map[string]bool{}
	for seed := range uint64(300) {
		seen[names(t, fs.Crash(vfs.LoseSome(newRand(seed))), dir)] = true
	}
	for _, prefix := range []string{"", "1", "1 2", "1 2 3", "1 3 4", "3 4"} {
		if !seen[prefix] {
			t.Errorf("no crash left %q", prefix)
		}
		delete(seen, prefix)
	}
	if len(seen) > 0 {
		t.Errorf("names out of order: %v", seen)
	}
	must(t, fs.SyncDir(dir))
	if got := names(t, fs.Crash(vfs.LoseAll()), dir); got != "3 4" {
		t.Fatalf("names after SyncDir: %s", got)
	}
}

func TestCrashMovesAFileOnceOrNotAtAll(t *testing.T) {
	fs, dir := memWithDir(t)
	must(t, fs.MkdirAll(dir+"/a", 0o755))
	must(t, fs.MkdirAll(dir+"/b", 0o755))
	open(t, fs, dir+"/a/f", os.O_RDWR|os.O_CREATE)
	must(t, fs.SyncFS(dir))
	must(t, fs.Rename(dir+"/a/f", dir+"/b/f"))
	seen := map[string]bool{}
	for seed := range uint64(100) {
		image := fs.Crash(vfs.LoseSome(newRand(seed)))
		seen[names(t, image, dir+"/a")+"|"+names(t, image, dir+"/b")] = true
	}
	if len(seen) != 2 || !seen["f|"] || !seen["|f"] {
		t.Fatalf("crashes left %v", seen)
	}
	must(t, fs.SyncDir(dir+"/b"))
	if image := fs.Crash(vfs.LoseAll()); names(t, image, dir+"/a") != "" || names(t, image, dir+"/b") != "f" {
		t.Fatal("the rename is not durable in both directories")
	}
}

func TestCrashForgetsADirectoryWhoseNameIsNotDurable(t *testing.T) {
	fs, dir := memWithDir(t)
	must(t, fs.MkdirAll(dir+"/t-0", 0o755))
	must(t, vfs.WriteFileAtomic(fs, dir+"/t-0/f", []byte("x"), 0o644, true))
	if got := names(t, fs.Crash(vfs.LoseAll()), dir); got != "" {
		t.Fatalf("names %s", got)
	}
}

func TestImagesAreIndependent(t *testing.T) {
	fs, dir := memWithDir(t)
	f := open(t, fs, dir+"/f", os.O_RDWR|os.O_CREATE)
	_, err := f.WriteAt([]byte("before"), 0)
	must(t, err)
	_, err = fs.Lock(dir + "/.lock")
	must(t, err)
	killed, crashed := fs.Kill(), fs.Crash(vfs.LoseNone())
	_, err = f.WriteAt([]byte("after!"), 0)
	must(t, err)
	must(t, fs.Remove(dir+"/.lock"))
	for _, image := range []*vfs.Mem{killed, crashed} {
		if got := read(t, image, dir+"/f"); got != "before" {
			t.Fatalf("an image changed to %q", got)
		}
		l, err := image.Lock(dir + "/.lock")
		must(t, err)
		must(t, l.Close())
	}
	must(t, killed.SyncFS("/"))
	if got := names(t, killed.Crash(vfs.LoseAll()), dir); got != ".lock f" {
		t.Fatalf("names %s after a kill and SyncFS", got)
	}
}

// TestWriteFileAtomicSurvivesEveryCrash takes images after every operation of a replacement.
func TestWriteFileAtomicSurvivesEveryCrash(t *testing.T) {
	for _, durable := range []bool{true, false} {
		for nth := 1; ; nth++ {
			mem, dir := memWithDir(t)
			must(t, vfs.WriteFileAtomic(mem, dir+"/f", []byte("old"), 0o644, true))
			fs := vfs.NewFaulty(mem)
			for _, op := range []vfs.Op{vfs.OpOpen, vfs.OpWrite, vfs.OpSync, vfs.OpClose, vfs.OpRename, vfs.OpSyncDir}[nth-1:] {
				fs.Inject(vfs.Fault{Op: op, Err: syscall.EIO, Short: 1})
			}
			err := vfs.WriteFileAtomic(fs, dir+"/f", []byte("new"), 0o644, durable)
			if got := read(t, mem.Kill(), dir+"/f"); got != "old" && got != "new" || err == nil && got != "new" {
				t.Fatalf("killed after %v: %q", err, got)
			}
			for seed := range uint64(20) {
				got := read(t, mem.Crash(vfs.LoseSome(newRand(seed))), dir+"/f")
				if durable && got != "old" && got != "new" || durable && err == nil && got != "new" {
					t.Fatalf("crashed after %v: %q", err, got)
				}
			}
			if err == nil {
				break
			}
			if !errors.Is(err, syscall.EIO) {
				t.Fatalf("error %v", err)
			}
		}
	}
}

func names(t *testing.T, fs vfs.FS, dir string) string {
	t.Helper()
	entries, err := fs.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}
