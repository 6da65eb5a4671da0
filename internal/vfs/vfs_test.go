package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/vfs"
)

// systems are the implementations that must behave alike as long as nothing crashes or fails.
func systems(t *testing.T) map[string]func() (vfs.FS, string) {
	return map[string]func() (vfs.FS, string){
		"os":     func() (vfs.FS, string) { return vfs.OS(), t.TempDir() },
		"mem":    func() (vfs.FS, string) { return memWithDir(t) },
		"faulty": func() (vfs.FS, string) { fs, dir := memWithDir(t); return vfs.NewFaulty(fs), dir },
	}
}

func memWithDir(t testing.TB) (*vfs.Mem, string) {
	fs := vfs.NewMem()
	must(t, fs.MkdirAll("/data", 0o755))
	must(t, fs.SyncFS("/"))
	return fs, "/data"
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, fs vfs.FS, name string, flag int) vfs.File {
	t.Helper()
	f, err := fs.OpenFile(name, flag, 0o644)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func read(t testing.TB, fs vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fs, name)
	must(t, err)
	return string(b)
}

func TestSystemsBehaveAlike(t *testing.T) {
	for name, make := range systems(t) {
		t.Run(name, func(t *testing.T) {
			t.Run("files", func(t *testing.T) { fs, dir := make(); checkFiles(t, fs, dir) })
			t.Run("names", func(t *testing.T) { fs, dir := make(); checkNames(t, fs, dir) })
			t.Run("lock", func(t *testing.T) { fs, dir := make(); checkLock(t, fs, dir) })
		})
	}
}

func checkFiles(t *testing.T, fs vfs.FS, dir string) {
	name := filepath.Join(dir, "f")
	if _, err := fs.OpenFile(name, os.O_RDWR, 0); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("open of a missing file: %v", err)
	}
	f := open(t, fs, name, os.O_RDWR|os.O_CREATE)
	if n, err := f.WriteAt([]byte("end"), 5000); n != 3 || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
	if size, err := f.Size(); size != 5003 || err != nil {
		t.Fatalf("size %d, %v; want 5003", size, err)
	}
	p := make([]byte, 6)
	if n, err := f.ReadAt(p, 4999); n != 4 || err != io.EOF || string(p[:4]) != "\x00end" {
		t.Fatalf("read at the end: %d, %v, %q", n, err, p[:4])
	}
	if n, err := f.ReadAt(p, 9000); n != 0 || err != io.EOF {
		t.Fatalf("read beyond the end: %d, %v", n, err)
	}
	must(t, f.Truncate(5001))
	must(t, f.Truncate(5003))
	if n, err := f.ReadAt(p[:3], 5000); n != 3 || err != nil || string(p[:3]) != "e\x00\x00" {
		t.Fatalf("what was cut off came back: %d, %v, %q", n, err, p[:3])
	}
	must(t, f.Preallocate(0, 1<<16))
	must(t, f.Sync())
	must(t, f.Datasync())
	if size, err := f.Size(); size != 5003 || err != nil {
		t.Fatalf("size %d, %v after Preallocate; want 5003", size, err)
	}
	ro := open(t, fs, name, os.O_RDONLY)
	if _, err := ro.WriteAt([]byte("x"), 0); err == nil {
		t.Fatal("wrote to a file that was opened to read")
	}
	must(t, ro.Close())
	if _, err := ro.ReadAt(p, 0); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("read of a closed file: %v", err)
	}
	if err := ro.Close(); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("second close: %v", err)
	}
	open(t, fs, name, os.O_RDWR|os.O_TRUNC)
	if got := read(t, fs, name); got != "" {
		t.Fatalf("O_TRUNC left %q", got)
	}
	if _, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); !errors.Is(err, os.ErrExist) {
		t.Fatalf("O_EXCL of an existing file: %v", err)
	}
}

func checkNames(t *testing.T, fs vfs.FS, dir string) {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must(t, fs.MkdirAll(filepath.Join(a, "x", "y"), 0o755))
	must(t, fs.MkdirAll(filepath.Join(a, "x", "y"), 0o755))
	f := open(t, fs, filepath.Join(a, "f"), os.O_RDWR|os.O_CREATE)
	if _, err := f.WriteAt([]byte("content"), 0); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove(a); err == nil {
		t.Fatal("removed a directory that is not empty")
	}
	must(t, fs.Rename(a, b))
	if _, err := fs.Stat(a); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("stat of the old name: %v", err)
	}
	entries, err := fs.ReadDir(b)
	must(t, err)
	if len(entries) != 2 || entries[0].Name() != "f" || entries[0].IsDir() || entries[1].Name() != "x" || !entries[1].IsDir() {
		t.Fatalf("entries %v", entries)
	}
	info, err := fs.Stat(filepath.Join(b, "f"))
	must(t, err)
	if info.Size() != 7 || info.IsDir() || info.Name() != "f" || info.ModTime().IsZero() {
		t.Fatalf("stat: %v", info)
	}
	must(t, vfs.WriteFileAtomic(fs, filepath.Join(b, "g"), []byte("new"), 0o644, true))
	must(t, fs.Rename(filepath.Join(b, "g"), filepath.Join(b, "f")))
	if got := read(t, fs, filepath.Join(b, "f")); got != "new" {
		t.Fatalf("renamed over: %q", got)
	}
	p := make([]byte, 7)
	if _, err := f.ReadAt(p, 0); err != nil || string(p) != "content" {
		t.Fatalf("a file that lost its name reads %q, %v", p, err)
	}
	must(t, fs.SyncDir(b))
	if err := fs.SyncFS(dir); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	must(t, fs.RemoveAll(b))
	must(t, fs.RemoveAll(b))
	if err := fs.Remove(b); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("remove of a missing name: %v", err)
	}
	if err := fs.Rename(b, a); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("rename of a missing name: %v", err)
	}
	if u, err := fs.Usage(dir); err != nil || u.Total <= 0 || u.Usable <= 0 || u.Usable > u.Total {
		t.Fatalf("usage %+v, %v", u, err)
	}
}

func checkLock(t *testing.T, fs vfs.FS, dir string) {
	name := filepath.Join(dir, ".lock")
	l, err := fs.Lock(name)
	must(t, err)
	_, err = fs.Lock(name)
	var locked vfs.ErrLocked
	if !errors.As(err, &locked) || locked.Path != name {
		t.Fatalf("second lock: %v", err)
	}
	must(t, l.Close())
	l, err = fs.Lock(name)
	must(t, err)
	must(t, l.Close())
}

func TestLockExcludesOtherProcesses(t *testing.T) {
	if name := os.Getenv("WEIR_TEST_LOCK"); name != "" { // the other process
		_, err := vfs.OS().Lock(name)
		if !errors.As(err, new(vfs.ErrLocked)) {
			t.Fatalf("lock of a locked file: %v", err)
		}
		return
	}
	name := filepath.Join(t.TempDir(), ".lock")
	l, err := vfs.OS().Lock(name)
	must(t, err)
	defer l.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockExcludesOtherProcesses$")
	cmd.Env = append(os.Environ(), "WEIR_TEST_LOCK="+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestOSFilesCanBeSentFrom(t *testing.T) {
	f := open(t, vfs.OS(), filepath.Join(t.TempDir(), "f"), os.O_RDWR|os.O_CREATE)
	if f.(vfs.OSFile).OSFile().Name() != f.Name() {
		t.Fatal("another file")
	}
	mem, dir := memWithDir(t)
	if _, ok := open(t, vfs.NewFaulty(vfs.OS()), filepath.Join(t.TempDir(), "f"), os.O_RDWR|os.O_CREATE).(vfs.OSFile); ok {
		t.Fatal("a file with faults can be sent from, past them")
	}
	if _, ok := open(t, mem, dir+"/f", os.O_RDWR|os.O_CREATE).(vfs.OSFile); ok {
		t.Fatal("a file in memory has no descriptor")
	}
}

// TestMemKeepsContentAsAByteSlice compares page arithmetic with a plain slice over random writes, truncations and syncs.
func TestMemKeepsContentAsAByteSlice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		f, err := fs.OpenFile("/f", os.O_RDWR|os.O_CREATE, 0o644)
		must(t, err)
		must(t, fs.SyncDir("/"))
		var want, durable []byte
		offset := rapid.Int64Range(0, 3*4096)
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0, 1:
				p := bytes.Repeat([]byte{byte(rapid.IntRange(1, 255).Draw(rt, "byte"))}, rapid.IntRange(1, 9000).Draw(rt, "length"))
				off := offset.Draw(rt, "offset")
				_, err = f.WriteAt(p, off)
				if grow := int(off) + len(p) - len(want); grow > 0 {
					want = append(want, make([]byte, grow)...)
				}
				copy(want[off:], p)
			case 2:
				size := int(offset.Draw(rt, "size"))
				err = f.Truncate(int64(size))
				want = append(want[:min(size, len(want))], make([]byte, max(0, size-len(want)))...)
			case 3:
				err = f.Sync()
				durable = bytes.Clone(want)
			}
			must(t, err)
			for _, image := range []struct {
				fs   vfs.FS
				want []byte
			}{{fs, want}, {fs.Kill(), want}, {fs.Kill().Crash(vfs.LoseAll()), durable}, {fs.Crash(vfs.LoseNone()), want}, {fs.Crash(vfs.LoseAll()), durable}} {
				if got := read(t, image.fs, "/f"); got != string(image.want) {
					rt.Fatalf("read %d bytes, want %d", len(got), len(image.want))
				}
			}
		}
	})
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
