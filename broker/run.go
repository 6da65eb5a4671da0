package broker

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"

	"weir/internal/kafka"
	"weir/log"
)

// runNote is what the next process is to find of this one if it does not stop in good order: so long as the machine stays up,
// the kernel has all that was written, and that process has the logs of this one whole.
type runNote struct {
	sync.Mutex
	void bool // a disk failed: nobody knows any more what the logs have
}

// noteRun writes the note down.
func (b *Broker) noteRun(incarnation kafka.UUID, epoch kafka.BrokerEpoch) error {
	b.run.Lock()
	defer b.run.Unlock()
	for _, dir := range b.store.Dirs() {
		b.run.void = b.run.void || dir.Offline != nil
	}
	if b.run.void {
		b.removeNoteLocked()
		return nil
	}
	return log.WriteRun(b.FS, b.store.MetadataDir(), log.Run{BootID: log.MachineBootID(), Incarnation: incarnation, BrokerEpoch: epoch})
}

// voidRun takes the note back when a disk failed. After a write or a sync that did not succeed the kernel may have dropped what
// it had, and that a later process reads without an error proves nothing.
func (b *Broker) voidRun() {
	b.run.Lock()
	defer b.run.Unlock()
	b.run.void = true
	b.removeNoteLocked()
}

// removeNoteLocked need not be durable: a note that is back after the end of the machine has another boot id.
func (b *Broker) removeNoteLocked() {
	if err := log.RemoveRun(b.FS, filepath.Clean(b.Config.MetadataDir)); err != nil {
		b.Logger.Error("the note of this run cannot be removed: should this process be killed, the next one may take its logs for whole", "error", err)
	}
}

// previous is the incarnation before, by its epoch and by its process, if its logs are known to be whole: it stopped in good
// order, or was killed while the machine stayed up; else -1 and zero. The epoch alone would not do: a process may have
// registered and never have heard of it. What a log had lost when it was opened counts more than any note.
func (b *Broker) previous() (kafka.BrokerEpoch, kafka.UUID) {
	run, err := log.ReadRun(b.FS, b.store.MetadataDir())
	noted := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.Logger.Warn("the note of the last run cannot be read, and the logs count as not whole unless it stopped cleanly", "error", err)
	}
	epoch, clean := b.store.CleanShutdown()
	switch {
	case b.store.Lossy():
	case clean && noted && run.BrokerEpoch == epoch: // else the note is an earlier process's
		return epoch, run.Incarnation
	case clean:
		return epoch, kafka.UUID{}
	case noted && run.BootID != "" && run.BootID == log.MachineBootID():
		return run.BrokerEpoch, run.Incarnation
	}
	return -1, kafka.UUID{}
}
