package vfs_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"weir/internal/vfs"
)

func TestFaultsHitTheNthCallOfAnOperationOnAPath(t *testing.T) {
	mem, dir := memWithDir(t)
	fs := vfs.NewFaulty(mem, vfs.Fault{Op: vfs.OpSync, Path: ".log", Nth: 2, Times: 1, Err: syscall.EIO})
	f := open(t, fs, dir+"/0.log", os.O_RDWR|os.O_CREATE)
	other := open(t, fs, dir+"/0.index", os.O_RDWR|os.O_CREATE)
	must(t, f.Sync())
	must(t, other.Sync())
	err := f.Datasync()
	var pathErr *os.PathError
	if !errors.As(err, &pathErr) || pathErr.Path != dir+"/0.log" || !errors.Is(err, syscall.EIO) {
		t.Fatalf("second sync: %v", err)
	}
	must(t, f.Sync())
	if got := fs.Calls(vfs.OpSync, ".log"); got != 3 {
		t.Fatalf("%d calls, want 3", got)
	}
	if got := fs.Calls(vfs.OpSync, ""); got != 4 {
		t.Fatalf("%d calls on all paths, want 4", got)
	}
}

func TestFaultyWritesShort(t *testing.T) {
	mem, dir := memWithDir(t)
	fs := vfs.NewFaulty(mem)
	f := open(t, fs, dir+"/f", os.O_RDWR|os.O_CREATE)
	fs.Inject(vfs.Fault{Op: vfs.OpWrite, Err: syscall.ENOSPC, Short: 3})
	for range 2 { // without Times a fault stays
		if n, err := f.WriteAt([]byte("content"), 0); n != 3 || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("write: %d, %v", n, err)
		}
	}
	if got := read(t, mem, dir+"/f"); got != "con" {
		t.Fatalf("content %q", got)
	}
	fs.Heal()
	if n, err := f.WriteAt([]byte("content"), 0); n != 7 || err != nil {
		t.Fatalf("write after Heal: %d, %v", n, err)
	}
}

func TestEveryOperationCanFail(t *testing.T) {
	operations := map[vfs.Op]func(vfs.FS, vfs.File) error{
		vfs.OpOpen:        func(fs vfs.FS, _ vfs.File) error { _, err := fs.OpenFile("/f", os.O_RDONLY, 0); return err },
		vfs.OpMkdir:       func(fs vfs.FS, _ vfs.File) error { return fs.MkdirAll("/d", 0o755) },
		vfs.OpRemove:      func(fs vfs.FS, _ vfs.File) error { return errors.Join(fs.Remove("/f"), fs.RemoveAll("/f")) },
		vfs.OpRename:      func(fs vfs.FS, _ vfs.File) error { return fs.Rename("/f", "/g") },
		vfs.OpStat:        func(fs vfs.FS, _ vfs.File) error { _, err := fs.Stat("/f"); return err },
		vfs.OpReadDir:     func(fs vfs.FS, _ vfs.File) error { _, err := fs.ReadDir("/"); return err },
		vfs.OpSyncDir:     func(fs vfs.FS, _ vfs.File) error { return fs.SyncDir("/") },
		vfs.OpSyncFS:      func(fs vfs.FS, _ vfs.File) error { return fs.SyncFS("/") },
		vfs.OpLock:        func(fs vfs.FS, _ vfs.File) error { _, err := fs.Lock("/f"); return err },
		vfs.OpUsage:       func(fs vfs.FS, _ vfs.File) error { _, err := fs.Usage("/"); return err },
		vfs.OpRead:        func(_ vfs.FS, f vfs.File) error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		vfs.OpWrite:       func(_ vfs.FS, f vfs.File) error { _, err := f.WriteAt(make([]byte, 1), 0); return err },
		vfs.OpSize:        func(_ vfs.FS, f vfs.File) error { _, err := f.Size(); return err },
		vfs.OpTruncate:    func(_ vfs.FS, f vfs.File) error { return f.Truncate(0) },
		vfs.OpSync:        func(_ vfs.FS, f vfs.File) error { return errors.Join(f.Sync(), f.Datasync()) },
		vfs.OpPreallocate: func(_ vfs.FS, f vfs.File) error { return f.Preallocate(0, 1) },
		vfs.OpClose:       func(_ vfs.FS, f vfs.File) error { return f.Close() },
	}
	for op, call := range operations {
		fs := vfs.NewFaulty(vfs.NewMem())
		f := open(t, fs, "/f", os.O_RDWR|os.O_CREATE)
		_, err := f.WriteAt([]byte("x"), 0)
		must(t, err)
		fs.Inject(vfs.Fault{Op: op, Err: syscall.EIO})
		if err := call(fs, f); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v, want EIO", op, err)
		}
	}
}
