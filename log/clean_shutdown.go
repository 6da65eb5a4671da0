package log

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

const (
	cleanShutdownFile    = ".kafka_cleanshutdown" // Kafka's, in each data directory
	cleanShutdownVersion = 0                      // on disk
	runFile              = "weir-run.json"        // in the metadata directory
	runFileVersion       = 0                      // on disk
	noBrokerEpoch        = kafka.BrokerEpoch(-1)  // as the protocol has it
)

type cleanShutdown struct {
	Version     int               `json:"version"`
	BrokerEpoch kafka.BrokerEpoch `json:"brokerEpoch"`
}

// ReadCleanShutdown reports whether the process that had the data directory before stopped in good order, with
// everything durable, and in which broker epoch, -1 if that is not told (KIP-966). Like Kafka it takes any marker, even an
// empty one, for a good end: the marker is the last thing written. The error is the disk's.
func ReadCleanShutdown(fsys vfs.FS, dir string) (epoch kafka.BrokerEpoch, clean bool, err error) {
	content, err := vfs.ReadFile(fsys, filepath.Join(dir, cleanShutdownFile))
	if errors.Is(err, fs.ErrNotExist) {
		return noBrokerEpoch, false, nil
	}
	if err != nil {
		return noBrokerEpoch, false, err
	}
	marker := cleanShutdown{BrokerEpoch: noBrokerEpoch}
	if json.Unmarshal(content, &marker) != nil {
		return noBrokerEpoch, true, nil
	}
	return marker.BrokerEpoch, true, nil
}

// WriteCleanShutdown is the last thing that a process does with a data directory, when all else in it is durable.
func WriteCleanShutdown(fsys vfs.FS, dir string, epoch kafka.BrokerEpoch) error {
	content, err := json.Marshal(cleanShutdown{Version: cleanShutdownVersion, BrokerEpoch: epoch})
	if err != nil {
		return err
	}
	// A crash leaves the marker or none: a machine that goes down now is treated as if it had not stopped in good order.
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, cleanShutdownFile), content, sideFilePerm, true)
}

// RemoveCleanShutdown removes the marker durably, before anything in the directory may change: otherwise a power cut
// would leave a marker over logs that it is not true of. A missing marker is no error.
func RemoveCleanShutdown(fsys vfs.FS, dir string) error {
	err := fsys.Remove(filepath.Join(dir, cleanShutdownFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir)
}

// Run is what a process notes of itself when it starts, for the next one to tell how it ended: with the same boot id, only
// the process died and the kernel still had all that was written; with another, the machine went down and what was not
// synced is lost.
type Run struct {
	BootID      string // of the machine's kernel; "" if it has none
	Incarnation kafka.UUID
	BrokerEpoch kafka.BrokerEpoch // -1 until the broker is registered
}

type runContent struct {
	Version     int               `json:"version"`
	BootID      string            `json:"bootId"`
	Incarnation string            `json:"incarnation"`
	BrokerEpoch kafka.BrokerEpoch `json:"brokerEpoch"`
}

// ReadRun reads what the process before noted. Errors are an ErrBrokenFile, one that wraps fs.ErrNotExist, or the disk's.
func ReadRun(fsys vfs.FS, dir string) (Run, error) {
	path := filepath.Join(dir, runFile)
	content, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return Run{}, err
	}
	c := runContent{BrokerEpoch: noBrokerEpoch}
	if err := json.Unmarshal(content, &c); err != nil {
		return Run{}, brokenLine(path, 1, "%v", err)
	}
	if c.Version != runFileVersion {
		return Run{}, brokenLine(path, 1, "version %d, not %d", c.Version, runFileVersion)
	}
	incarnation, err := kafka.ParseUUID(c.Incarnation)
	if err != nil {
		return Run{}, brokenLine(path, 1, "incarnation: %v", err)
	}
	return Run{BootID: c.BootID, Incarnation: incarnation, BrokerEpoch: c.BrokerEpoch}, nil
}

// WriteRun notes a run durably.
func WriteRun(fsys vfs.FS, dir string, r Run) error {
	content, err := json.Marshal(runContent{
		Version: runFileVersion, BootID: r.BootID, Incarnation: r.Incarnation.String(), BrokerEpoch: r.BrokerEpoch,
	})
	if err != nil {
		return err
	}
	// A crash leaves the old note or the new one. The old one makes the next start cautious at worst.
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, runFile), append(content, '\n'), sideFilePerm, true)
}

// RemoveRun takes a note back, without a sync; that none is there is no error.
func RemoveRun(fsys vfs.FS, dir string) error {
	if err := fsys.Remove(filepath.Join(dir, runFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// MachineBootID is an id that changes whenever the machine boots; "" where it has none (only Linux does), which the next
// start takes for a machine that went down. WEIR_BOOT_ID in the environment overrides it, for tests.
func MachineBootID() string {
	if id := os.Getenv("WEIR_BOOT_ID"); id != "" {
		return id
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
