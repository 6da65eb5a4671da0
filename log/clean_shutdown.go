package log

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
// synced is lost. Where acknowledgements wait for the disk (FsyncAck), nothing that counts is lost with that.
type Run struct {
	BootID      string            // of the machine's kernel; "" if it has none
	BrokerEpoch kafka.BrokerEpoch // of the last registration that was heard of; -1 for none
	// Incarnations are the processes that had these logs, one after the other and whole, from the one that was registered in
	// BrokerEpoch on; the last is the one that notes this. Any of them may be the one that the controller knows.
	Incarnations []kafka.UUID
	// FsyncPolicy is what acknowledgements waited for: the process's own, but the weaker one of a process before it that was
	// killed, since what that one wrote may be in memory only all the while. "" where all that there was is durable.
	FsyncPolicy FsyncPolicy
}

// maxIncarnations bounds a note: so many processes in a row do not die before they hear of their registration.
const maxIncarnations = 100

// Next is the note of a process that has the logs of r's whole and has heard of no registration yet. The oldest incarnations
// that are more than a note holds are dropped.
func (r Run) Next(bootID string, incarnation kafka.UUID, policy FsyncPolicy) (next Run, dropped int) {
	dropped = max(0, len(r.Incarnations)+1-maxIncarnations)
	if r.FsyncPolicy != "" && r.FsyncPolicy != FsyncAck {
		policy = r.FsyncPolicy
	}
	incarnations := append(slices.Clone(r.Incarnations[dropped:]), incarnation)
	return Run{BootID: bootID, BrokerEpoch: r.BrokerEpoch, Incarnations: incarnations, FsyncPolicy: policy}, dropped
}

// Registered is the note of the same process once it has heard of its registration: who was before it is of no more interest.
func (r Run) Registered(epoch kafka.BrokerEpoch) Run {
	r.BrokerEpoch, r.Incarnations = epoch, r.Incarnations[len(r.Incarnations)-1:]
	return r
}

// PreviousRun is the run before, as far as its logs are known to be whole: it stopped in good order, was killed while the
// machine, whose boot id now is given, stayed up, or acknowledged nothing that was not durable. Else its epoch is -1 and it has
// no incarnations. The epoch alone would not
// do: a process may have registered and never have heard of it.
func (s *Store) PreviousRun(bootID string) Run {
	note, err := ReadRun(s.fs, s.MetadataDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.logger.Warn("the note of the last run cannot be read, and the logs count as not whole unless it stopped cleanly", "err", err)
	}
	epoch, clean := s.CleanShutdown()
	return note.wholeUpTo(ending{epoch: epoch, clean: clean, lossy: s.Lossy(), bootID: bootID})
}

// ending is what the next process finds out about the end of a run.
type ending struct {
	epoch  kafka.BrokerEpoch // of the marker; -1 if that does not tell
	clean  bool              // there is a marker
	lossy  bool              // a log had lost something when it was opened
	bootID string            // of the machine now
}

// wholeUpTo is PreviousRun for a note, the zero Run if there is none. What a log had lost when it was opened counts more than
// any note. A marker is of the process that noted this if it has the same epoch. Without an epoch it is that of any process which
// ended before it noted anything, too, but if the machine stayed up such a one found whole logs.
func (r Run) wholeUpTo(e ending) Run {
	stayedUp := r.BootID != "" && r.BootID == e.bootID
	durable := r
	durable.FsyncPolicy = "" // what is read after the end of the machine, or was closed in good order, is on the disk
	switch {
	case e.lossy:
	case e.clean && e.epoch == r.BrokerEpoch && (e.epoch != noBrokerEpoch || stayedUp):
		return durable
	case e.clean:
		return Run{BrokerEpoch: e.epoch}
	case stayedUp:
		return r
	case r.FsyncPolicy == FsyncAck:
		return durable
	}
	return Run{BrokerEpoch: noBrokerEpoch}
}

// runContent has the incarnations apart: the last one alone is what earlier versions knew.
type runContent struct {
	Version     int               `json:"version"`
	BootID      string            `json:"bootId"`
	Incarnation string            `json:"incarnation"`
	Earlier     []string          `json:"earlierIncarnations,omitempty"` // oldest first
	BrokerEpoch kafka.BrokerEpoch `json:"brokerEpoch"`
	FsyncPolicy FsyncPolicy       `json:"fsyncPolicy"`
}

// ReadRun reads what the process before noted. Errors are an ErrBrokenFile, one that wraps fs.ErrNotExist, or the disk's.
func ReadRun(fsys vfs.FS, dir string) (Run, error) {
	path := filepath.Join(dir, runFile)
	content, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return Run{}, err
	}
	c := runContent{BrokerEpoch: noBrokerEpoch, FsyncPolicy: FsyncBackground} // earlier versions did not say
	if err := json.Unmarshal(content, &c); err != nil {
		return Run{}, brokenLine(path, 1, "%v", err)
	}
	if c.Version != runFileVersion {
		return Run{}, brokenLine(path, 1, "version %d, not %d", c.Version, runFileVersion)
	}
	run := Run{BootID: c.BootID, BrokerEpoch: c.BrokerEpoch, FsyncPolicy: c.FsyncPolicy}
	for _, text := range append(c.Earlier, c.Incarnation) {
		incarnation, err := kafka.ParseUUID(text)
		if err != nil {
			return Run{}, brokenLine(path, 1, "incarnation: %v", err)
		}
		run.Incarnations = append(run.Incarnations, incarnation)
	}
	return run, nil
}

// WriteRun notes a run durably. It has an incarnation at least.
func WriteRun(fsys vfs.FS, dir string, r Run) error {
	c := runContent{Version: runFileVersion, BootID: r.BootID, BrokerEpoch: r.BrokerEpoch, FsyncPolicy: r.FsyncPolicy}
	for _, incarnation := range r.Incarnations {
		c.Earlier = append(c.Earlier, incarnation.String())
	}
	last := len(c.Earlier) - 1
	c.Incarnation, c.Earlier = c.Earlier[last], c.Earlier[:last]
	content, err := json.Marshal(c)
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
