package log

import (
	"errors"
	"io/fs"
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

func TestCleanShutdownIsKafkas(t *testing.T) {
	epoch, clean, err := ReadCleanShutdown(vfs.OS(), "testdata/kafka-4.4")
	must(t, err)
	if epoch != 1715 || !clean {
		t.Fatalf("Kafka's marker: %d, %v", epoch, clean)
	}
	fsys := vfs.NewMem()
	must(t, WriteCleanShutdown(fsys, "/", 818))
	fsys = fsys.Crash(vfs.LoseAll())
	if got, err := vfs.ReadFile(fsys, "/"+cleanShutdownFile); string(got) != `{"version":0,"brokerEpoch":818}` || err != nil {
		t.Fatalf("written %q, %v", got, err)
	}
	must(t, RemoveCleanShutdown(fsys, "/"))
	fsys = fsys.Crash(vfs.LoseAll())
	if epoch, clean, err := ReadCleanShutdown(fsys, "/"); epoch != -1 || clean || err != nil {
		t.Fatalf("a removed marker came back after a power cut: %d, %v, %v", epoch, clean, err)
	}
	must(t, RemoveCleanShutdown(fsys, "/"))
	for _, content := range []string{"", "x", `{"version":0}`} { // of an older Kafka; torn
		must(t, vfs.WriteFileAtomic(fsys, "/"+cleanShutdownFile, []byte(content), 0o644, true))
		if epoch, clean, err := ReadCleanShutdown(fsys, "/"); epoch != -1 || !clean || err != nil {
			t.Fatalf("marker %q: %d, %v, %v", content, epoch, clean, err)
		}
	}
}

func TestRunTellsHowTheLastOneEnded(t *testing.T) {
	fsys := vfs.NewMem()
	if _, err := ReadRun(fsys, "/"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a missing file: %v", err)
	}
	run := Run{BootID: "11111111-2222-3333-4444-555555555555", Incarnation: kafka.NewUUID(), BrokerEpoch: 7}
	must(t, WriteRun(fsys, "/", run))
	got, err := ReadRun(fsys.Crash(vfs.LoseAll()), "/")
	if got != run || err != nil {
		t.Fatalf("read %+v, %v; want %+v", got, err, run)
	}
	for _, content := range []string{"", "{", `{"version":1}`, `{"version":0,"incarnation":"x"}`} {
		must(t, vfs.WriteFileAtomic(fsys, "/"+runFile, []byte(content), 0o644, true))
		if _, err := ReadRun(fsys, "/"); !errors.As(err, new(ErrBrokenFile)) {
			t.Errorf("%q: %v", content, err)
		}
	}
	t.Setenv("WEIR_BOOT_ID", "another boot")
	if got := MachineBootID(); got != "another boot" {
		t.Errorf("boot id %q", got)
	}
	t.Setenv("WEIR_BOOT_ID", "")
	if a, b := MachineBootID(), MachineBootID(); a != b {
		t.Errorf("boot ids %q and %q of one boot", a, b)
	}
}
