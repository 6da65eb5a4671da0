package broker

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"weir/broker/config"
	"weir/cluster"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
	"weir/internal/vfs"
	"weir/log"
)

// nextRegistration is what a broker would say of itself that is started on a disk now. It goes no further than that.
func nextRegistration(t *testing.T, fs vfs.FS, settings *config.Server) cluster.Registration {
	t.Helper()
	b := &Broker{Options: Options{Config: settings, FS: fs, Clock: clock.System(), Logger: slog.New(slog.DiscardHandler), Metrics: metrics.NewRegistry()},
		failed: make(chan error, 1)}
	if err := b.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.stopTasks()
		b.tasks.Wait()
		_ = b.store.Close()
	})
	r, err := b.registration()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestABrokerNamesTheProcessWhoseLogsItHas(t *testing.T) {
	settings := load(t, anyPort, "", "log.dirs=/a,/b", "metadata.log.dir=/a")
	synced := load(t, anyPort, "", "log.dirs=/a,/b", "metadata.log.dir=/a", "weir.fsync.policy=ack")
	cut := func(disk *vfs.Mem) { // a log of which an older copy was put back
		path := filepath.Join("/b", "t-0", "00000000000000000000.log")
		f, err := disk.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	for name, c := range map[string]struct {
		boot     string
		settings *config.Server
		end      func(r *running, disk *vfs.Mem, faults *vfs.Faulty) *vfs.Mem // returns the disk after the end of the process
		want     bool
	}{
		"stopped": {"1", settings, func(r *running, disk *vfs.Mem, _ *vfs.Faulty) *vfs.Mem { r.mustStop(); return disk }, true},
		"stopped, and the machine is started anew": {"2", settings, func(r *running, disk *vfs.Mem, _ *vfs.Faulty) *vfs.Mem { r.mustStop(); return disk }, true},
		"stopped, and an older copy was put back": {"1", settings, func(r *running, disk *vfs.Mem, _ *vfs.Faulty) *vfs.Mem {
			r.mustStop()
			cut(disk)
			return disk
		}, false},
		"killed":    {"1", settings, func(_ *running, disk *vfs.Mem, _ *vfs.Faulty) *vfs.Mem { return disk.Kill() }, true},
		"power cut": {"2", settings, func(_ *running, disk *vfs.Mem, _ *vfs.Faulty) *vfs.Mem { return disk.Crash(vfs.LoseAll()) }, false},
		"power cut, and what counts was synced": {"2", synced, func(_ *running, disk *vfs.Mem, _ *vfs.Faulty) *vfs.Mem {
			return disk.Crash(vfs.LoseAll())
		}, true},
		"killed, no boot": {"", settings, func(_ *running, disk *vfs.Mem, _ *vfs.Faulty) *vfs.Mem { return disk.Kill() }, true},
		"a disk failed before it was killed": {"1", settings, func(r *running, disk *vfs.Mem, faults *vfs.Faulty) *vfs.Mem {
			failDisk(r, faults)
			return disk.Kill()
		}, false},
		"a disk failed before it stopped": {"1", settings, func(r *running, disk *vfs.Mem, faults *vfs.Faulty) *vfs.Mem {
			failDisk(r, faults)
			_ = r.mayFail()
			return disk
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WEIR_BOOT_ID", "1")
			disk := vfs.NewMem()
			faults := vfs.NewFaulty(disk)
			r := start(t, faults, c.settings)
			c1 := r.dial()
			c1.createTopic("s") // in /a
			c1.createTopic("t") // in /b
			c1.produce("t", "value")
			own, _ := r.node.Image().Brokers.ByID(1)
			disk = c.end(r, disk, faults)
			if c.boot != "" {
				t.Setenv("WEIR_BOOT_ID", c.boot)
			}
			next := nextRegistration(t, disk, c.settings)
			if whole := next.PreviousEpoch == own.Epoch && slices.Equal(next.PreviousIncarnations, []kafka.UUID{own.Incarnation}); whole != c.want {
				t.Errorf("it has the logs of epoch %d, processes %v; the registered is %d, %v; want whole: %t", next.PreviousEpoch, next.PreviousIncarnations, own.Epoch, own.Incarnation, c.want)
			}
		})
	}
}

// failDisk has the second directory fail, and waits until that is noticed.
func failDisk(r *running, faults *vfs.Faulty) {
	r.t.Helper()
	faults.Inject(vfs.Fault{Op: vfs.OpWrite, Path: "/b/", Err: syscall.EIO})
	if row := r.dial().produce("t", "value"); kafka.Code(row.ErrorCode) != kafka.KafkaStorageError {
		r.t.Fatalf("produce to a failed disk: %v", kafka.Code(row.ErrorCode))
	}
}

// A process that recovers logs after a power cut, and fails before it can note that, must not be taken for the one before it.
func TestTheNoteOfAnEarlierProcessIsNotTheMarkers(t *testing.T) {
	settings := load(t, anyPort, "/data")
	t.Setenv("WEIR_BOOT_ID", "1")
	disk := vfs.NewMem()
	r := start(t, disk, settings)
	r.dial().createTopic("t")
	own, _ := r.node.Image().Brokers.ByID(1)
	disk = disk.Crash(vfs.LoseAll())
	t.Setenv("WEIR_BOOT_ID", "2")
	b := &Broker{Options: Options{Config: settings, FS: disk, Clock: clock.System(), Logger: slog.New(slog.DiscardHandler)}, failed: make(chan error, 1)}
	if err := b.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.stopTasks()
	b.tasks.Wait()
	if err := b.store.Close(); err != nil { // with a marker
		t.Fatal(err)
	}
	next := nextRegistration(t, disk, settings)
	if next.PreviousEpoch == own.Epoch || len(next.PreviousIncarnations) > 0 {
		t.Errorf("it has the logs of epoch %d, processes %v, which lost some", next.PreviousEpoch, next.PreviousIncarnations)
	}
	if run, err := log.ReadRun(disk, "/data"); err != nil || run.BootID != "2" {
		t.Errorf("the note of this run: %+v, %v", run, err)
	}
}

// A process that is killed before it heard of its registration may be the registered one all the same, and so may each before it.
func TestABrokerNamesAllWhoseRegistrationMayBeTrue(t *testing.T) {
	settings := load(t, anyPort, "/data")
	t.Setenv("WEIR_BOOT_ID", "1")
	disk := vfs.NewMem()
	r := start(t, disk, settings)
	own, _ := r.node.Image().Brokers.ByID(1)
	want := []kafka.UUID{own.Incarnation}
	for range 3 {
		disk = disk.Kill()
		next := nextRegistration(t, disk, settings)
		if next.PreviousEpoch != own.Epoch || !slices.Equal(next.PreviousIncarnations, want) {
			t.Fatalf("it has the logs of epoch %d, processes %v; want %d, %v", next.PreviousEpoch, next.PreviousIncarnations, own.Epoch, want)
		}
		want = append(want, next.Incarnation)
	}
	t.Setenv("WEIR_BOOT_ID", "2")
	if next := nextRegistration(t, disk.Crash(vfs.LoseAll()), settings); next.PreviousEpoch != -1 || len(next.PreviousIncarnations) > 0 {
		t.Errorf("after a power cut it has the logs of epoch %d, processes %v", next.PreviousEpoch, next.PreviousIncarnations)
	}
}
