package log

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/vfs"
)

// hanging is a disk that does not answer a sync, once it hangs, until it is let go on.
type hanging struct {
	vfs.FS
	hangs   atomic.Bool
	syncs   chan struct{} // is told of each sync
	release chan struct{} // closed when they may go on
}

type hangingFile struct {
	vfs.File
	fs *hanging
}

func (h *hanging) OpenFile(path string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := h.FS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return hangingFile{f, h}, nil
}

func (f hangingFile) Datasync() error {
	if f.fs.hangs.Load() {
		select {
		case f.fs.syncs <- struct{}{}:
		default:
		}
		<-f.fs.release
	}
	return f.File.Datasync()
}

func TestADiskThatHangsIsNoticed(t *testing.T) {
	clk := clock.NewManual(logStart)
	disk := &hanging{FS: vfs.NewMem(), syncs: make(chan struct{}, 1), release: make(chan struct{})}
	s := openStore(t, disk, func(o *StoreOptions) { o.Clock, o.Dirs, o.FsyncPolicy = clk, []string{"/data"}, FsyncAck })
	l := createTest(t, s, partition(0))
	appendTest(t, l, batchSpec{})
	must(t, l.Sync()) // the names, which are synced with the file system
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(ctx)
	}()
	disk.hangs.Store(true)
	appendTest(t, l, batchSpec{})
	durable := make(chan error, 1)
	s.Commit(l, func(err error) { durable <- err })
	<-disk.syncs
	clk.Advance(40 * time.Second)
	if waited := s.Stalled(); waited < 30*time.Second || waited > 40*time.Second { // what began meanwhile, or the commit itself
		t.Errorf("waited %v", waited)
	}
	close(disk.release)
	must(t, <-durable)
	cancel()
	<-ended
	if waited := s.Stalled(); waited != 0 {
		t.Errorf("waited %v after the end", waited)
	}
}
