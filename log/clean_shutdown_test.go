package log

import (
	"errors"
	"io/fs"
	"reflect"
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
	run := Run{BootID: "11111111-2222-3333-4444-555555555555", BrokerEpoch: 7, FsyncPolicy: FsyncAck}
	for range 3 {
		run.Incarnations = append(run.Incarnations, kafka.NewUUID())
		must(t, WriteRun(fsys, "/", run))
		got, err := ReadRun(fsys.Crash(vfs.LoseAll()), "/")
		if !reflect.DeepEqual(got, run) || err != nil {
			t.Fatalf("read %+v, %v; want %+v", got, err, run)
		}
	}
	// Of a version that knew one incarnation only.
	must(t, vfs.WriteFileAtomic(fsys, "/"+runFile, []byte(`{"version":0,"bootId":"1","incarnation":"5L6g3nShT-eMCtK--X86sw","brokerEpoch":17}`+"\n"), 0o644, true))
	if got, err := ReadRun(fsys, "/"); err != nil || got.BootID != "1" || got.FsyncPolicy != FsyncBackground || got.BrokerEpoch != 17 || len(got.Incarnations) != 1 ||
		got.Incarnations[0].String() != "5L6g3nShT-eMCtK--X86sw" {
		t.Fatalf("read %+v, %v", got, err)
	}
	for _, content := range []string{"", "{", `{"version":1}`, `{"version":0,"incarnation":"x"}`,
		`{"version":0,"incarnation":"5L6g3nShT-eMCtK--X86sw","earlierIncarnations":["x"]}`} {
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

func TestTheNoteCountsForTheRunThatItIsOf(t *testing.T) {
	a, b := kafka.UUID{1}, kafka.UUID{2}
	note := Run{BootID: "1", BrokerEpoch: 7, Incarnations: []kafka.UUID{a, b}, FsyncPolicy: FsyncBackground}
	acked, durable := note, note
	acked.FsyncPolicy, durable.FsyncPolicy = FsyncAck, ""
	unheard := Run{BootID: "1", BrokerEpoch: -1, Incarnations: []kafka.UUID{a}}
	unknown := Run{BrokerEpoch: -1}
	for name, c := range map[string]struct {
		note Run
		end  ending
		want Run
	}{
		"it was killed":                         {note, ending{epoch: -1, bootID: "1"}, note},
		"the machine went down":                 {note, ending{epoch: -1, bootID: "2"}, unknown},
		"it synced, and the machine went down":  {acked, ending{epoch: -1, bootID: "2"}, durable},
		"it synced, and a log lost records":     {acked, ending{epoch: -1, bootID: "2", lossy: true}, unknown},
		"it synced, and was killed":             {acked, ending{epoch: -1, bootID: "1"}, acked},
		"the machine has no boot id":            {Run{BrokerEpoch: 7}, ending{epoch: -1}, unknown},
		"it was killed, and there is no note":   {Run{}, ending{epoch: -1, bootID: "1"}, unknown},
		"it was killed, and a log lost records": {note, ending{epoch: -1, bootID: "1", lossy: true}, unknown},
		"it stopped":                            {note, ending{epoch: 7, clean: true, bootID: "2"}, durable},
		"it stopped, and a log lost records":    {note, ending{epoch: 7, clean: true, bootID: "1", lossy: true}, unknown},
		"one without a note stopped later":      {note, ending{epoch: 9, clean: true, bootID: "1"}, Run{BrokerEpoch: 9}},
		"it stopped, and there is no note":      {Run{}, ending{epoch: 9, clean: true, bootID: "1"}, Run{BrokerEpoch: 9}},
		"killed before it heard of an epoch":    {unheard, ending{epoch: -1, bootID: "1"}, unheard},
		"it stopped before it heard of one":     {unheard, ending{epoch: -1, clean: true, bootID: "1"}, unheard},
		// The marker may be of a process that found the logs of a power cut and ended before it could note anything.
		"one that had no epoch, either, stopped": {unheard, ending{epoch: -1, clean: true, bootID: "2"}, unknown},
	} {
		if got := c.note.wholeUpTo(c.end); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestANoteIsBounded(t *testing.T) {
	run := Run{BrokerEpoch: 7, Incarnations: []kafka.UUID{{15: 1}}}
	for i := 2; i <= maxIncarnations+2; i++ {
		before := len(run.Incarnations)
		next, dropped := run.Next("1", kafka.UUID{15: byte(i)}, FsyncAck)
		if want := max(0, i-maxIncarnations); dropped != min(want, 1) || len(run.Incarnations) != before {
			t.Fatalf("%d dropped of %d", dropped, i)
		}
		run = next
	}
	if first, last := run.Incarnations[0], run.Incarnations[len(run.Incarnations)-1]; first != (kafka.UUID{15: 3}) || last != (kafka.UUID{15: maxIncarnations + 2}) ||
		run.BrokerEpoch != 7 || run.BootID != "1" {
		t.Errorf("the note is %+v", run)
	}
}

// What a process wrote that did not sync stays in memory when it is killed, whatever the policy of the next one: that must not
// be taken for one whose logs outlive a power cut before they were closed or read from the disk.
func TestANoteHasTheWeakestPolicyOfThoseThatWereKilled(t *testing.T) {
	note, _ := Run{BrokerEpoch: -1}.Next("1", kafka.UUID{1}, FsyncBackground)
	kill := func() Run { return note.wholeUpTo(ending{epoch: -1, bootID: "1"}) }
	note, _ = kill().Next("1", kafka.UUID{2}, FsyncAck)
	if note = note.Registered(7); note.FsyncPolicy != FsyncBackground || note.BrokerEpoch != 7 || !reflect.DeepEqual(note.Incarnations, []kafka.UUID{{2}}) {
		t.Fatalf("the note is %+v", note)
	}
	if got := note.wholeUpTo(ending{epoch: -1, bootID: "2"}); got.BrokerEpoch != -1 {
		t.Errorf("after a power cut it has the logs of %+v", got)
	}
	note, _ = note.wholeUpTo(ending{epoch: 7, clean: true, bootID: "1"}).Next("1", kafka.UUID{3}, FsyncAck)
	if got := note.wholeUpTo(ending{epoch: -1, bootID: "2"}); got.BrokerEpoch != 7 || len(got.Incarnations) != 2 {
		t.Errorf("after a power cut it has the logs of %+v, not of %+v", got, note)
	}
}
